//! Which pieces of recorded work may run side by side.
//!
//! A step is recorded in the order of its program, but much of it does not depend on what comes before:
//! ids can be sorted while the net runs forward, and gradients of weights are needed only at the end. What a piece
//! reads and writes says whom it must wait for; pieces are put on lanes (streams while they are recorded) so that
//! the recording has these dependencies and few others.

/// Memory that a piece of work reads, or reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) writes: bool,
}

impl Access {
    pub(crate) fn conflicts(&self, other: &Access) -> bool {
        (self.writes || other.writes)
            && self.start < other.start + other.bytes
            && other.start < self.start + self.bytes
    }
}

/// Where a piece of work runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) lane: usize,
    /// Pieces of other lanes that it waits for.
    pub(crate) waits: Vec<usize>,
}

/// Lanes that a recording has at most.
const MAX_LANES: usize = 32;

/// Places pieces of work that are given in an order in which they could run one after the other.
pub(crate) fn place(work: &[Vec<Access>]) -> Vec<Placed> {
    let words = work.len().div_ceil(64);
    // For each piece, all that must be done before it.
    let mut before: Vec<Vec<u64>> = Vec::with_capacity(work.len());
    let mut tails: Vec<usize> = Vec::new();
    let mut placed = Vec::with_capacity(work.len());
    for (at, accesses) in work.iter().enumerate() {
        let mut mine = vec![0u64; words];
        let mut direct = Vec::new();
        // The latest first: most of what comes earlier is then known to be done.
        for earlier in (0..at).rev() {
            let is_known = mine[earlier / 64] >> (earlier % 64) & 1 == 1;
            if !is_known && meets(&work[earlier], accesses) {
                direct.push(earlier);
                mine[earlier / 64] |= 1 << (earlier % 64);
                for (mine, theirs) in mine.iter_mut().zip(&before[earlier]) {
                    *mine |= theirs;
                }
            }
        }
        let is_done = |tail: &usize| mine[tail / 64] >> (tail % 64) & 1 == 1;
        let behind = (0..tails.len()).filter(|lane| is_done(&tails[*lane]));
        let lane = match behind.max_by_key(|lane| tails[*lane]) {
            Some(lane) => lane,
            None if tails.len() < MAX_LANES => {
                tails.push(at);
                tails.len() - 1
            }
            // No lane is free: behind the piece that is likely done first, which then counts as before.
            None => {
                let lane = (0..tails.len()).min_by_key(|lane| tails[*lane]).unwrap_or(0);
                let tail = tails[lane];
                mine[tail / 64] |= 1 << (tail % 64);
                for (mine, theirs) in mine.iter_mut().zip(&before[tail]) {
                    *mine |= theirs;
                }
                lane
            }
        };
        let tail = tails[lane];
        direct.retain(|earlier| *earlier != tail);
        tails[lane] = at;
        before.push(mine);
        placed.push(Placed { lane, waits: direct });
    }
    placed
}

/// Whether one of two pieces writes what the other reads or writes.
pub(crate) fn meets(a: &[Access], b: &[Access]) -> bool {
    a.iter().any(|a| b.iter().any(|b| a.conflicts(b)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn access(start: u64, writes: bool) -> Access {
        Access { start, bytes: 1, writes }
    }

    fn piece(reads: &[u64], writes: &[u64]) -> Vec<Access> {
        let reads = reads.iter().map(|at| access(*at, false));
        reads.chain(writes.iter().map(|at| access(*at, true))).collect()
    }

    #[test]
    fn what_does_not_depend_runs_beside() {
        // Forward, forward, a sort of the ids, an update that needs both.
        let work = [
            piece(&[0], &[1]),
            piece(&[1], &[2]),
            piece(&[0], &[3]),
            piece(&[3], &[4]),
            piece(&[2, 4], &[5]),
        ];
        let placed = place(&work);
        let lanes: Vec<usize> = placed.iter().map(|placed| placed.lane).collect();
        assert_eq!(lanes, [0, 0, 1, 1, 1]);
        assert_eq!(placed[4].waits, [1]);
        assert!(placed[..4].iter().all(|placed| placed.waits.is_empty()));
    }

    proptest! {
        /// Whatever the lanes run in, pieces that meet keep their order.
        #[test]
        fn pieces_that_meet_keep_their_order(
            work in prop::collection::vec(
                (prop::collection::vec(0u64..12, 0..3), prop::collection::vec(0u64..12, 1..3)),
                1..80,
            )
        ) {
            let work: Vec<_> = work.iter().map(|(r, w)| piece(r, w)).collect();
            let placed = place(&work);
            let mut before: Vec<Vec<bool>> = Vec::new();
            for at in 0..work.len() {
                let mut mine = vec![false; work.len()];
                let same_lane = (0..at).rev().find(|other| placed[*other].lane == placed[at].lane);
                for other in placed[at].waits.iter().copied().chain(same_lane) {
                    mine[other] = true;
                    (0..work.len()).for_each(|i| mine[i] |= before.get(other).is_some_and(|b: &Vec<bool>| b[i]));
                }
                for other in 0..at {
                    prop_assert!(!meets(&work[other], &work[at]) || mine[other], "{other} before {at}");
                }
                before.push(mine);
            }
        }
    }
}
