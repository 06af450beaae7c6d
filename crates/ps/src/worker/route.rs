//! Which server has which row: the ids of a batch become distinct keys, grouped by server, and every
//! occurrence knows its place among them. Replies are scattered and gradients gathered through
//! those places.
//!
//! A route holds what was asked (the ids) beside the answer, so that the push of a step can take
//! over the route of its pull.

use bireme_engine::remote::{RowSpread, TableRef};

use super::distinct::Distinct;
use crate::{Error, Result};

/// Where the row of one occurrence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The server, or [`NOWHERE`] for padding.
    server: u32,
    /// The row among those of that server.
    row: u32,
}

/// The server of the padding id.
const NOWHERE: u32 = u32::MAX;

/// The ids of a batch, spread over the servers of a table.
#[derive(Default)]
pub(crate) struct Route {
    /// The ids of all slots, one after the other.
    ids: Vec<i64>,
    /// Where each occurrence's row is.
    places: Vec<Place>,
    /// Distinct keys (row numbers within their piece for sliced tables), grouped by server.
    keys: Vec<u64>,
    /// Where the keys of each server start, and the end.
    starts: Vec<usize>,
}

/// Makes routes; keeps what can be reused between batches.
#[derive(Default)]
pub(crate) struct Router {
    distinct: Distinct,
    /// Server of each distinct key.
    servers: Vec<u32>,
    /// Place of each distinct key.
    homes: Vec<Place>,
    /// First row of each server's section.
    firsts: Vec<u64>,
    /// Server of each shard, for keyed tables.
    shards: Vec<u32>,
}

/// Tables with more shards compute the server of a shard rather than look it up.
const MAX_LISTED: u64 = 1 << 16;

impl Router {
    /// Spreads `ids` over the servers of `table`.
    ///
    /// # Errors
    /// When an id lies outside a sliced table, or the table's description makes no sense.
    pub(crate) fn fill(
        &mut self,
        route: &mut Route,
        table: &TableRef,
        ids: &[&[i64]],
    ) -> Result<()> {
        let total = ids.iter().map(|slot| slot.len()).sum();
        route.ids.clear();
        route.ids.reserve(total);
        route.places.clear();
        route.places.reserve(total);
        self.distinct.reset(total);
        // Signed ids and unsigned keys are the same 64 bits; an id cannot be both padding and a key.
        for slot in ids {
            for &id in *slot {
                let row = if Some(id) == table.padding {
                    NOWHERE
                } else {
                    self.distinct.number(id as u64)
                };
                route.places.push(Place { server: NOWHERE, row });
            }
            route.ids.extend_from_slice(slot);
        }
        self.choose_servers(table, ids)?;
        self.group(route, table.endpoints.len());
        Ok(())
    }

    /// The server of every distinct key.
    fn choose_servers(&mut self, table: &TableRef, ids: &[&[i64]]) -> Result<()> {
        let servers = table.endpoints.len();
        self.servers.clear();
        let keys = self.distinct.keys();
        match &table.spread {
            RowSpread::Keys { shards } => {
                let per_server = shards.div_ceil(servers as u64);
                if per_server == 0 || table.names.len() != servers {
                    return Err(bad_table(table));
                }
                if servers == 1 {
                    self.servers.resize(keys.len(), 0);
                } else if *shards <= MAX_LISTED {
                    // One division a key rather than two.
                    let last = ((shards - 1) / per_server) as u32;
                    if self.shards.len() as u64 != *shards || self.shards.last() != Some(&last) {
                        self.shards.clear();
                        self.shards.extend((0..*shards).map(|shard| (shard / per_server) as u32));
                    }
                    let of = |key: &u64| self.shards[(key % shards) as usize];
                    self.servers.extend(keys.iter().map(of));
                } else {
                    self.servers.extend(keys.iter().map(|key| (key % shards / per_server) as u32));
                }
            }
            RowSpread::Sections(sections) => {
                if sections.len() != servers || table.names.len() != servers {
                    return Err(bad_table(table));
                }
                self.firsts.clear();
                let mut height = 0;
                for rows in sections {
                    self.firsts.push(height);
                    height += rows;
                }
                for key in keys {
                    if *key >= height {
                        return Err(outside(table, ids, *key as i64, height));
                    }
                    let after = self.firsts.partition_point(|first| first <= key);
                    self.servers.push(after as u32 - 1);
                }
            }
        }
        Ok(())
    }

    /// Sorts the distinct keys by server, and turns numbers of keys into places.
    fn group(&mut self, route: &mut Route, servers: usize) {
        let keys = self.distinct.keys();
        route.starts.clear();
        route.starts.resize(servers + 1, 0);
        self.homes.clear();
        for &server in &self.servers {
            let count = &mut route.starts[server as usize + 1];
            self.homes.push(Place { server, row: *count as u32 });
            *count += 1;
        }
        for server in 0..servers {
            route.starts[server + 1] += route.starts[server];
        }
        route.keys.clear();
        route.keys.resize(keys.len(), 0);
        let sliced = !self.firsts.is_empty();
        for (home, key) in self.homes.iter().zip(keys) {
            let at = route.starts[home.server as usize] + home.row as usize;
            let first = if sliced { self.firsts[home.server as usize] } else { 0 };
            route.keys[at] = key - first;
        }
        for place in &mut route.places {
            if place.row != NOWHERE {
                *place = self.homes[place.row as usize];
            }
        }
        self.firsts.clear();
    }
}

impl Route {
    /// Whether this is the route of these ids.
    pub(crate) fn is_of(&self, ids: &[&[i64]]) -> bool {
        let mut rest = self.ids.as_slice();
        for slot in ids {
            match rest.split_at_checked(slot.len()) {
                Some((mine, after)) if mine == *slot => rest = after,
                _ => return false,
            }
        }
        rest.is_empty()
    }

    /// The number of servers.
    pub(crate) fn servers(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// The distinct keys of one server.
    pub(crate) fn keys(&self, server: usize) -> &[u64] {
        &self.keys[self.range(server)]
    }

    /// Which of all distinct keys are those of one server.
    pub(crate) fn range(&self, server: usize) -> std::ops::Range<usize> {
        self.starts[server]..self.starts[server + 1]
    }

    /// Copies every occurrence's row from the servers' replies to the slots' outputs; zeros for
    /// padding.
    ///
    /// # Panics
    /// When a reply has not a row for each key, or an output not one for each id; both are checked
    /// by the caller.
    pub(crate) fn scatter(&self, width: usize, replies: &[&[f32]], outs: &mut [&mut [f32]]) {
        // A copy of a known length is a few instructions; one of any length is a call.
        match width {
            8 => self.scatter_of(&mut Fixed::<8>, replies, outs),
            9 => self.scatter_of(&mut Fixed::<9>, replies, outs),
            10 => self.scatter_of(&mut Fixed::<10>, replies, outs),
            16 => self.scatter_of(&mut Fixed::<16>, replies, outs),
            32 => self.scatter_of(&mut Fixed::<32>, replies, outs),
            _ => self.scatter_of(&mut Any(width), replies, outs),
        }
    }

    fn scatter_of(&self, width: &mut impl Width, replies: &[&[f32]], outs: &mut [&mut [f32]]) {
        let mut places = self.places.iter();
        for out in outs {
            for (to, place) in out.chunks_exact_mut(width.get()).zip(&mut places) {
                if place.server == NOWHERE {
                    to.fill(0.0);
                } else {
                    let at = place.row as usize * width.get();
                    width.copy(to, &replies[place.server as usize][at..]);
                }
            }
        }
    }

    /// Adds up the gradients of every distinct key, in the order of the keys.
    ///
    /// # Panics
    /// When a slot has not a gradient for each of its ids; checked by the caller.
    pub(crate) fn gather(&self, width: usize, grads: &[&[f32]], sums: &mut Vec<f32>) {
        sums.clear();
        sums.resize(self.keys.len() * width, 0.0);
        match width {
            8 => self.gather_of(&mut Fixed::<8>, grads, sums),
            9 => self.gather_of(&mut Fixed::<9>, grads, sums),
            10 => self.gather_of(&mut Fixed::<10>, grads, sums),
            16 => self.gather_of(&mut Fixed::<16>, grads, sums),
            32 => self.gather_of(&mut Fixed::<32>, grads, sums),
            _ => self.gather_of(&mut Any(width), grads, sums),
        }
    }

    fn gather_of(&self, width: &mut impl Width, grads: &[&[f32]], sums: &mut [f32]) {
        let mut places = self.places.iter();
        for slot in grads {
            for (grad, place) in slot.chunks_exact(width.get()).zip(&mut places) {
                if place.server != NOWHERE {
                    let at = self.starts[place.server as usize] + place.row as usize;
                    width.add(&mut sums[at * width.get()..], grad);
                }
            }
        }
    }

    /// Adds up show and click of every distinct key; `counts` has one entry for each occurrence.
    pub(crate) fn gather_counts(&self, counts: &[[f32; 2]], sums: &mut Vec<[f32; 2]>) {
        sums.clear();
        sums.resize(self.keys.len(), [0.0; 2]);
        for (place, [show, click]) in self.places.iter().zip(counts) {
            if place.server != NOWHERE {
                let sum = &mut sums[self.starts[place.server as usize] + place.row as usize];
                sum[0] += show;
                sum[1] += click;
            }
        }
    }
}

/// A number of columns, known when the program is compiled or not.
trait Width {
    fn get(&self) -> usize;

    /// Copies one row.
    fn copy(&self, to: &mut [f32], from: &[f32]) {
        let width = self.get();
        to[..width].copy_from_slice(&from[..width]);
    }

    /// Adds one row.
    fn add(&self, to: &mut [f32], from: &[f32]) {
        let width = self.get();
        for (sum, value) in to[..width].iter_mut().zip(&from[..width]) {
            *sum += value;
        }
    }
}

struct Fixed<const N: usize>;

impl<const N: usize> Width for Fixed<N> {
    #[inline]
    fn get(&self) -> usize {
        N
    }
}

struct Any(usize);

impl Width for Any {
    fn get(&self) -> usize {
        self.0
    }
}

fn bad_table(table: &TableRef) -> Error {
    Error::Config(format!(
        "table `{}` has {} servers, {} piece names and is spread as {:?}: these must be one for \
         each server",
        table.name,
        table.endpoints.len(),
        table.names.len(),
        table.spread
    ))
}

fn outside(table: &TableRef, ids: &[&[i64]], id: i64, height: u64) -> Error {
    let slot = ids.iter().position(|slot| slot.contains(&id)).unwrap_or(0);
    Error::Request(format!(
        "id {id} in slot {slot} lies outside table `{}`, which has rows 0 to {}",
        table.name,
        height.saturating_sub(1)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(spread: RowSpread, servers: usize) -> TableRef {
        TableRef {
            name: "emb".into(),
            width: 2,
            padding: Some(-1),
            spread,
            endpoints: (0..servers).map(|i| format!("s:{i}")).collect(),
            names: (0..servers).map(|i| format!("emb.block{i}")).collect(),
        }
    }

    #[test]
    fn sections_give_rows_within_their_piece() {
        let table = table(RowSpread::Sections(vec![3, 0, 4]), 3);
        let mut route = Route::default();
        Router::default().fill(&mut route, &table, &[&[5, 1, -1], &[1, 3, 5]]).unwrap();
        assert_eq!(route.keys(0), [1]);
        assert_eq!(route.keys(1), [0u64; 0]);
        assert_eq!(route.keys(2), [2, 0]);
        assert_eq!(route.servers(), 3);

        let replies: [&[f32]; 3] = [&[10., 11.], &[], &[50., 51., 30., 31.]];
        let (mut a, mut b) = ([9.0; 6], [9.0; 6]);
        route.scatter(2, &replies, &mut [&mut a, &mut b]);
        assert_eq!(a, [50., 51., 10., 11., 0., 0.]);
        assert_eq!(b, [10., 11., 30., 31., 50., 51.]);

        let mut sums = Vec::new();
        route.gather(2, &[&[1., 2., 3., 4., 5., 6.], &[7., 8., 9., 10., 11., 12.]], &mut sums);
        assert_eq!(sums, [10., 12., 12., 14., 9., 10.]);
        let mut counts = Vec::new();
        let each = [[1., 0.], [1., 1.], [1., 1.], [1., 0.], [1., 0.], [1., 1.]];
        route.gather_counts(&each, &mut counts);
        assert_eq!(counts, [[2., 1.], [2., 1.], [1., 0.]]);
    }

    #[test]
    fn keys_go_by_paddles_shard_rule() {
        // 7 shards on 3 servers: 3 a server, so shards 0-2, 3-5 and 6.
        let mut router = Router::default();
        for shards in [5, 7, 1 << 20] {
            let mut route = Route::default();
            let table = table(RowSpread::Keys { shards }, 3);
            router.fill(&mut route, &table, &[&[0, 11, 1 << 60]]).unwrap();
            for server in 0..3u64 {
                let mine = |key: &u64| key % shards / shards.div_ceil(3) == server;
                assert!(route.keys(server as usize).iter().all(mine), "{shards} shards");
            }
        }
        let table = table(RowSpread::Keys { shards: 7 }, 3);
        let mut route = Route::default();
        let ids: Vec<i64> = (0..8).chain([-2]).collect();
        Router::default().fill(&mut route, &table, &[&ids]).unwrap();
        assert_eq!(route.keys(0)[..4], [0, 1, 2, 7]);
        assert_eq!(route.keys(1), [3, 4, 5]);
        let negative = (-2i64) as u64;
        assert_eq!(negative % 7, 0, "a negative id is a large key");
        assert_eq!(route.keys(0)[4], negative);
        assert_eq!(route.keys(2), [6]);
    }

    #[test]
    fn a_route_knows_its_ids() {
        let table = table(RowSpread::Keys { shards: 10 }, 1);
        let mut route = Route::default();
        Router::default().fill(&mut route, &table, &[&[1, 2], &[3]]).unwrap();
        assert!(route.is_of(&[&[1, 2], &[3]]) && route.is_of(&[&[1], &[2, 3]]));
        assert!(!route.is_of(&[&[1, 2]]) && !route.is_of(&[&[1, 2], &[4]]));
        assert!(!route.is_of(&[&[1, 2], &[3, 3]]));
    }

    #[test]
    fn an_id_outside_is_named() {
        let table = table(RowSpread::Sections(vec![3, 4]), 2);
        let mut route = Route::default();
        let error = Router::default().fill(&mut route, &table, &[&[1], &[2, 7]]).unwrap_err();
        let error = error.to_string();
        assert_eq!(error, "id 7 in slot 1 lies outside table `emb`, which has rows 0 to 6");
        let negative = Router::default().fill(&mut route, &table, &[&[-3]]).unwrap_err();
        assert!(negative.to_string().starts_with("id -3 in slot 0"), "{negative}");
    }
}
