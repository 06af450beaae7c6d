//! Which axes an op reduces, as its attributes say.

use super::super::{Lowering, Outcome, Var, host};

/// The axes of a tensor that an op reduces.
pub(super) struct Reduced {
    pub(super) is_reduced: Vec<bool>,
    /// The tensor's dimensions, with 1 where it is reduced.
    pub(super) kept: Vec<usize>,
    /// How many elements make one result.
    pub(super) count: usize,
}

impl Reduced {
    /// Those that attribute `attr` lists; all when it lists none, or the op says so.
    pub(super) fn of(l: &Lowering<'_>, attr: &str, x: &Var) -> Outcome<Reduced> {
        let (axes, rank) = (l.op.longs(attr)?, x.dims.len());
        if l.op.bool("reduce_all")? || axes.is_empty() {
            return Ok(Reduced::new(x, vec![true; rank]));
        }
        let mut is_reduced = vec![false; rank];
        for axis in axes {
            let positive = if axis < 0 { axis + rank as i64 } else { axis };
            match usize::try_from(positive).ok().and_then(|axis| is_reduced.get_mut(axis)) {
                Some(is_reduced) => *is_reduced = true,
                // A scalar takes axis 0 or -1.
                None if rank == 0 && [0, -1].contains(&axis) => {}
                None => return host(),
            }
        }
        Ok(Reduced::new(x, is_reduced))
    }

    /// One axis, which counts from the end when it is negative; nothing of a scalar.
    pub(super) fn one(axis: i64, x: &Var) -> Outcome<Reduced> {
        let rank = x.dims.len();
        let mut is_reduced = vec![false; rank];
        let positive = if axis < 0 { axis + rank as i64 } else { axis };
        match usize::try_from(positive).ok().and_then(|axis| is_reduced.get_mut(axis)) {
            Some(is_reduced) => *is_reduced = true,
            None if rank == 0 => {}
            None => return host(),
        }
        Ok(Reduced::new(x, is_reduced))
    }

    /// All of them.
    pub(super) fn all(x: &Var) -> Reduced {
        Reduced::new(x, vec![true; x.dims.len()])
    }

    fn new(x: &Var, is_reduced: Vec<bool>) -> Reduced {
        let (mut kept, mut count) = (x.dims.clone(), 1);
        for (dim, _) in kept.iter_mut().zip(&is_reduced).filter(|(_, is_reduced)| **is_reduced) {
            count *= *dim;
            *dim = 1;
        }
        Reduced { is_reduced, kept, count }
    }
}
