//! The calls over sockets: which algorithm for which size, and how data is cut into messages.
//! The choice depends on size and number of ranks alone, so all ranks and all runs make the same.

mod doubling;
mod exchange;
mod ring;
mod tree;

use std::ops::Range;

use crate::group::Turn;
use crate::{Element, Reduce, Result};

/// Up to this many bytes rounds cost more than bytes: all data goes in each round.
const SMALL: usize = 16 << 10;
/// Up to this many bytes halving-doubling is used, with fewer rounds than the ring.
const MIDDLE: usize = 512 << 10;
/// Bytes of one message at most; a multiple of every element. Headers cost 1/13000 of it.
const PIECE: usize = 512 << 10;

impl Turn<'_> {
    pub(crate) fn wire_all_reduce<T: Element>(&self, data: &mut [T], op: Reduce) -> Result<()> {
        match size_of_val(data) {
            bytes if bytes <= SMALL => self.doubling_all_reduce(data, op),
            bytes if bytes <= MIDDLE => self.halving_all_reduce(data, op),
            _ => self.ring_all_reduce(data, op),
        }
    }

    pub(crate) fn wire_reduce<T: Element>(
        &self,
        data: &mut [T],
        op: Reduce,
        root: usize,
    ) -> Result<()> {
        match size_of_val(data) {
            0..=SMALL => self.tree_reduce(data, op, root),
            _ => self.ring_reduce(data, op, root),
        }
    }

    pub(crate) fn wire_reduce_scatter<T: Element>(
        &self,
        data: &[T],
        out: &mut [T],
        op: Reduce,
    ) -> Result<()> {
        let mut all = data.to_vec();
        let part = self.ring_reduce_scatter(&mut all, op)?;
        out.copy_from_slice(&all[part]);
        Ok(())
    }

    pub(crate) fn wire_broadcast(&self, data: &mut [u8], root: usize) -> Result<()> {
        match data.len() {
            0..=MIDDLE => self.tree_broadcast(data, root),
            _ if self.size() == 2 => self.tree_broadcast(data, root),
            _ => self.spread_broadcast(data, root),
        }
    }
}

/// Cuts `length` elements into one part per rank, whose sizes differ by at most one.
fn part(length: usize, parts: usize, at: usize) -> Range<usize> {
    let (size, more) = (length / parts, length % parts);
    let start = at * size + at.min(more);
    start..start + size + usize::from(at < more)
}

/// Cuts a range into pieces that fit into messages; at least one, so that an empty range is one
/// message too.
fn pieces<T>(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let step = (PIECE / size_of::<T>()).max(1);
    let count = range.len().div_ceil(step).max(1);
    (0..count).map(move |piece| {
        let start = range.start + piece * step;
        start..range.end.min(start + step)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_once() {
        for length in [0, 1, 5, 7, 100] {
            for parts in 1..9 {
                let all: Vec<_> = (0..parts).flat_map(|at| part(length, parts, at)).collect();
                assert_eq!(all, (0..length).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn pieces_cover_all_once() {
        assert_eq!(pieces::<f32>(3..3).collect::<Vec<_>>(), Vec::from_iter(Some(3..3)));
        let step = PIECE / 8;
        let all: Vec<_> = pieces::<f64>(1..2 * step + 2).collect();
        assert_eq!(all, [1..step + 1, step + 1..2 * step + 1, 2 * step + 1..2 * step + 2]);
    }
}
