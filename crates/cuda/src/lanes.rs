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

/// Work on lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) pieces: Vec<Placed>,
    /// Whether each lane is of pieces that the end waits for; those of others fill what they leave idle.
    pub(crate) is_urgent: Vec<bool>,
}

/// Lanes that a recording has at most.
const MAX_LANES: usize = 32;

/// What pieces wait for: each for those before it, in the order in which they were given.
struct Dependencies {
    /// The latest of them, without what those wait for themselves.
    direct: Vec<Vec<usize>>,
    /// All of them, a bit each.
    all: Vec<Vec<u64>>,
}

impl Dependencies {
    fn of(work: &[Vec<Access>]) -> Dependencies {
        let words = work.len().div_ceil(64);
        let mut found = Dependencies { direct: Vec::new(), all: Vec::new() };
        for (at, accesses) in work.iter().enumerate() {
            let (mut direct, mut all) = (Vec::new(), vec![0; words]);
            // The latest first: most of what comes earlier is then known to be done.
            for earlier in (0..at).rev() {
                if !has(&all, earlier) && meets(&work[earlier], accesses) {
                    direct.push(earlier);
                    add(&mut all, earlier, &found.all[earlier]);
                }
            }
            found.direct.push(direct);
            found.all.push(all);
        }
        found
    }

    /// Which pieces lie on a longest way from the beginning to the end.
    fn urgent(&self) -> Vec<bool> {
        let count = self.direct.len();
        let (mut to, mut from) = (vec![0; count], vec![0; count]);
        for at in 0..count {
            to[at] = 1 + self.direct[at].iter().map(|earlier| to[*earlier]).max().unwrap_or(0);
        }
        for at in (0..count).rev() {
            for earlier in &self.direct[at] {
                from[*earlier] = from[*earlier].max(from[at] + 1);
            }
        }
        let longest = to.iter().max().copied().unwrap_or(0);
        to.iter().zip(&from).map(|(to, from)| to + from == longest).collect()
    }
}

fn has(bits: &[u64], at: usize) -> bool {
    bits[at / 64] >> (at % 64) & 1 == 1
}

/// Adds a piece, and all that is before it.
fn add(bits: &mut [u64], piece: usize, before: &[u64]) {
    bits[piece / 64] |= 1 << (piece % 64);
    bits.iter_mut().zip(before).for_each(|(mine, theirs)| *mine |= theirs);
}

/// Places pieces of work that are given in an order in which they could run one after the other.
pub(crate) fn place(work: &[Vec<Access>]) -> Placement {
    let Dependencies { direct, mut all } = Dependencies::of(work);
    let urgent = Dependencies { direct: direct.clone(), all: Vec::new() }.urgent();
    let (mut tails, mut is_urgent): (Vec<usize>, Vec<bool>) = (Vec::new(), Vec::new());
    let mut pieces = Vec::with_capacity(work.len());
    for (at, mut waits) in direct.into_iter().enumerate() {
        let alike = || (0..tails.len()).filter(|lane| is_urgent[*lane] == urgent[at]);
        let behind = alike().filter(|lane| has(&all[at], tails[*lane]));
        let lane = match behind.max_by_key(|lane| tails[*lane]) {
            Some(lane) => lane,
            None if tails.len() < MAX_LANES => {
                tails.push(at);
                is_urgent.push(urgent[at]);
                tails.len() - 1
            }
            // No lane is free: behind the piece that is likely done first, which then counts as before.
            None => {
                let lane = (0..tails.len()).min_by_key(|lane| tails[*lane]).unwrap_or(0);
                let before = all[tails[lane]].clone();
                add(&mut all[at], tails[lane], &before);
                lane
            }
        };
        let tail = tails[lane];
        waits.retain(|earlier| *earlier != tail);
        tails[lane] = at;
        pieces.push(Placed { lane, waits });
    }
    Placement { pieces, is_urgent }
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
        let Placement { pieces, is_urgent } = place(&work);
        let lanes: Vec<usize> = pieces.iter().map(|placed| placed.lane).collect();
        assert_eq!(lanes, [0, 0, 1, 1, 1]);
        assert_eq!(pieces[4].waits, [1]);
        assert!(pieces[..4].iter().all(|placed| placed.waits.is_empty()));
        assert_eq!(is_urgent, [true, true]);
    }

    #[test]
    fn what_nothing_waits_for_is_less_urgent() {
        // Forward, backward, the gradient of weights beside it, backward, an update.
        let work = [
            piece(&[0], &[1]),
            piece(&[1], &[2]),
            piece(&[1], &[9]),
            piece(&[2], &[3]),
            piece(&[3], &[4]),
        ];
        let Placement { pieces, is_urgent } = place(&work);
        let is_urgent: Vec<bool> = pieces.iter().map(|piece| is_urgent[piece.lane]).collect();
        assert_eq!(is_urgent, [true, true, false, true, true]);
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
            let placed = place(&work).pieces;
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
