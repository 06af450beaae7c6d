//! Whole records of keyed tables: what a trainer takes over for a pass, and what it gives back.

use bireme_comm::{Body, Lane};
use bireme_engine::remote::{RowSpread, TableRef};

use super::Worker;
use super::link::{Ask, Links, check_done, unexpected};
use crate::message::{Answer, Request};
use crate::{Error, Result};

/// Requests that are under way at a time: more would only fill memory.
const AT_ONCE: usize = 8;

/// Bytes of records in one request at most: small enough that several are under way.
const BYTES: usize = 8 << 20;

/// The keys of one server, and where each stands among all.
#[derive(Default)]
struct Share {
    keys: Vec<u64>,
    places: Vec<usize>,
}

impl Worker {
    /// The records of `keys` (distinct, of `width` numbers each) as the servers have them; those of
    /// keys without a row as they would be made, which they are not.
    ///
    /// # Errors
    /// When a server is lost, or its records have another width.
    pub fn pull_records(
        &self,
        table: &TableRef,
        width: usize,
        keys: &[u64],
        out: &mut [f32],
    ) -> Result<()> {
        self.open()?;
        check(table, width, keys, out.len())?;
        let shares = shares(table, keys)?;
        let requests = requests(&self.links, table, width, &shares)?;
        for window in requests.chunks(AT_ONCE) {
            let asks = window.iter().map(|(at, server, part)| Ask {
                server: *server,
                lane: Lane::Prefetch,
                what: format!("pull of {} records of `{}`", part.keys.len(), table.name),
                request: Request::PullRecords { table: &table.names[*at], keys: part.keys },
            });
            let bodies = self.links.ask_each(&asks.collect::<Vec<_>>())?;
            for (body, (at, _, part)) in bodies.iter().zip(window) {
                let records = records_in(table, *at, width, part.keys.len(), body)?;
                for (record, place) in records.chunks_exact(width).zip(part.places) {
                    out[place * width..][..width].copy_from_slice(record);
                }
            }
        }
        Ok(())
    }

    /// Gives the servers the records of `keys`, as they are after `step` steps of this trainer.
    ///
    /// # Errors
    /// When a server is lost, or its records have another width.
    pub fn push_records(
        &self,
        table: &TableRef,
        width: usize,
        keys: &[u64],
        records: &[f32],
        step: u64,
    ) -> Result<()> {
        self.open()?;
        check(table, width, keys, records.len())?;
        let shares = shares(table, keys)?;
        let requests = requests(&self.links, table, width, &shares)?;
        for window in requests.chunks(AT_ONCE) {
            let gathered: Vec<Vec<f32>> = window
                .iter()
                .map(|(.., part)| {
                    let record = |place: &usize| &records[place * width..][..width];
                    part.places.iter().flat_map(record).copied().collect()
                })
                .collect();
            let asks = window.iter().zip(&gathered).map(|((at, server, part), records)| Ask {
                server: *server,
                lane: Lane::Send,
                what: format!("push of {} records of `{}`", part.keys.len(), table.name),
                request: Request::PushRecords {
                    trainer: self.links.trainer,
                    table: &table.names[*at],
                    step,
                    keys: part.keys,
                    records,
                },
            });
            for body in self.links.ask_each(&asks.collect::<Vec<_>>())? {
                check_done(&body)?;
            }
        }
        Ok(())
    }
}

/// Some keys of one server.
struct Part<'a> {
    keys: &'a [u64],
    places: &'a [usize],
}

/// The requests for all shares: the server's place in the table, its number, and its keys.
fn requests<'a>(
    links: &Links,
    table: &TableRef,
    width: usize,
    shares: &'a [Share],
) -> Result<Vec<(usize, usize, Part<'a>)>> {
    let most = (BYTES.min(links.max_bytes) / (width * 4 + 8)).max(1);
    let mut requests = Vec::new();
    for (at, share) in shares.iter().enumerate() {
        let server = links.server(&table.endpoints[at])?;
        let parts = share.keys.chunks(most).zip(share.places.chunks(most));
        requests.extend(parts.map(|(keys, places)| (at, server, Part { keys, places })));
    }
    Ok(requests)
}

fn shares(table: &TableRef, keys: &[u64]) -> Result<Vec<Share>> {
    let servers = table.endpoints.len();
    let RowSpread::Keys { shards } = table.spread else {
        let problem = format!("table `{}` has no records by key", table.name);
        return Err(Error::Request(problem));
    };
    let per_server = shards.div_ceil((servers as u64).max(1)).max(1);
    let mut shares: Vec<Share> = (0..servers).map(|_| Share::default()).collect();
    for (place, key) in keys.iter().enumerate() {
        let server = if servers == 1 { 0 } else { (key % shards.max(1) / per_server) as usize };
        let share = &mut shares[server];
        share.keys.push(*key);
        share.places.push(place);
    }
    Ok(shares)
}

fn check(table: &TableRef, width: usize, keys: &[u64], numbers: usize) -> Result<()> {
    if width > 0 && keys.len() * width == numbers && table.names.len() == table.endpoints.len() {
        return Ok(());
    }
    Err(Error::Request(format!(
        "{} keys of table `{}` have not {width} numbers each, but {numbers} in all",
        keys.len(),
        table.name
    )))
}

fn records_in<'a>(
    table: &TableRef,
    at: usize,
    width: usize,
    rows: usize,
    body: &'a Body,
) -> Result<&'a [f32]> {
    match Answer::decode(body)? {
        Answer::Rows { values } if values.len() == rows * width => Ok(values),
        Answer::Rows { values } => Err(Error::Request(format!(
            "server {} sent {} numbers for {rows} records of table `{}`, which should have {width} \
             each: were the trainer's and the server's programs made together?",
            table.endpoints[at],
            values.len(),
            table.name
        ))),
        other => Err(unexpected("a pull of records", &other)),
    }
}
