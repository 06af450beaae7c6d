//! A walk over the elements of a shape in which some operands repeat along some axes.
//!
//! Neighbouring axes along which every operand does the same are joined, and axes of length one
//! left out. What remains is a few outer loops around *runs*, in which each operand either moves
//! along contiguous memory or stands still. So a kernel needs no cases for a bias row, a number
//! per row or equal shapes: they are walks with one or two loops.

use crate::ops::prelude::*;

/// A walk over a full shape with `N` operands that may repeat.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct BroadcastWalk<const N: usize> {
    outer: [Loop<N>; MAX_RANK],
    depth: usize,
    /// Elements of one run.
    pub(in crate::ops) run: usize,
    /// Whether each operand moves inside a run.
    pub(in crate::ops) moves: [bool; N],
    /// Whether each operand is visited more than once.
    pub(in crate::ops) repeats: [bool; N],
}

/// One outer loop: its length, and how far each operand moves in a step.
#[derive(Clone, Copy, Debug)]
struct Loop<const N: usize> {
    len: usize,
    steps: [usize; N],
}

impl<const N: usize> BroadcastWalk<N> {
    /// A walk over `full`; each operand has the same rank, with 1 where it repeats.
    ///
    /// # Errors
    /// When an operand's dimension is neither 1 nor that of `full`.
    pub(in crate::ops) fn new(full: &[usize], operands: [&[usize]; N]) -> Result<BroadcastWalk<N>> {
        let fits = |dims: &&[usize]| {
            dims.len() == full.len()
                && dims.iter().zip(full).all(|(dim, all)| [1, *all].contains(dim))
        };
        if let Some(dims) = operands.iter().find(|dims| !fits(dims)) {
            return Err(Error::kernel(format!("shape {dims:?} does not repeat over {full:?}")));
        }
        // Innermost first; the innermost group becomes the run.
        let mut groups = [Loop { len: 1, steps: [0; N] }; MAX_RANK];
        let mut patterns = [[true; N]; MAX_RANK];
        let (mut count, mut strides) = (0, [1usize; N]);
        for axis in (0..full.len()).rev().filter(|axis| full[*axis] != 1) {
            let moves = operands.map(|dims| dims[axis] != 1);
            if count == 0 || patterns[count - 1] != moves {
                let mut steps = strides;
                steps.iter_mut().zip(moves).for_each(|(step, moves)| *step *= usize::from(moves));
                groups[count] = Loop { len: 1, steps };
                patterns[count] = moves;
                count += 1;
            }
            groups[count - 1].len *= full[axis];
            for (stride, dims) in strides.iter_mut().zip(operands) {
                *stride *= dims[axis];
            }
        }
        let repeats = std::array::from_fn(|i| patterns[..count].iter().any(|moves| !moves[i]));
        let (run, moves) = (groups[0].len, patterns[0]);
        let depth = count.saturating_sub(1);
        let mut outer = groups;
        outer[..=depth].reverse();
        Ok(BroadcastWalk { outer, depth, run, moves, repeats })
    }

    /// Calls `f` for every run with the positions at which the full shape and the operands begin.
    #[inline(always)]
    pub(in crate::ops) fn for_each(&self, mut f: impl FnMut(usize, [usize; N])) {
        let loops = &self.outer[..self.depth];
        let runs: usize = loops.iter().map(|level| level.len).product();
        if self.run == 0 {
            return;
        }
        let mut index = [0; MAX_RANK];
        let mut starts = [0; N];
        for run in 0..runs {
            f(run * self.run, starts);
            for (level, index) in loops.iter().zip(&mut index).rev() {
                *index += 1;
                starts.iter_mut().zip(level.steps).for_each(|(start, step)| *start += step);
                if *index < level.len {
                    break;
                }
                *index = 0;
                starts
                    .iter_mut()
                    .zip(level.steps)
                    .for_each(|(start, step)| *start -= step * level.len);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs<const N: usize>(full: &[usize], operands: [&[usize]; N]) -> Vec<(usize, [usize; N])> {
        let mut runs = Vec::new();
        BroadcastWalk::new(full, operands).unwrap().for_each(|at, starts| runs.push((at, starts)));
        runs
    }

    #[test]
    fn equal_shapes_are_one_run() {
        let walk = BroadcastWalk::new(&[2, 3, 4], [&[2, 3, 4], &[2, 3, 4]]).unwrap();
        assert_eq!((walk.run, walk.moves, walk.repeats), (24, [true; 2], [false; 2]));
        assert_eq!(runs(&[2, 3, 4], [&[2, 3, 4]]), [(0, [0])]);
    }

    #[test]
    fn middle_axes_repeat() {
        assert_eq!(
            runs(&[2, 3, 4], [&[2, 3, 4], &[1, 3, 1]]),
            [(0, [0, 0]), (4, [4, 1]), (8, [8, 2]), (12, [12, 0]), (16, [16, 1]), (20, [20, 2])]
        );
        assert_eq!(runs(&[2, 3], [&[2, 1], &[1, 3]]), [(0, [0, 0]), (3, [1, 0])]);
    }

    #[test]
    fn scalars_and_nothing() {
        assert_eq!(runs(&[], [&[], &[]]), [(0, [0, 0])]);
        assert_eq!(runs(&[0, 3], [&[0, 3], &[1, 3]]), []);
        assert_eq!(runs(&[3, 0], [&[3, 0], &[1, 1]]), []);
        assert!(BroadcastWalk::new(&[2, 3], [&[2, 2]]).is_err());
    }
}
