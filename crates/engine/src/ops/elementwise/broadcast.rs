//! How the shapes of two operands meet: Paddle's `axis`, and numpy's rule when it is -1.
//!
//! The operand of lower rank is laid along the other from `axis` on (-1: so that the last
//! dimensions meet); after that, dimensions of length 1 repeat.

use std::fmt::Debug;

use bireme_ir::VarKind;

use super::broadcast_walk::BroadcastWalk;
use crate::ops::prelude::*;

/// Two shapes brought to the same rank.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Aligned<D> {
    x: [D; MAX_RANK],
    y: [D; MAX_RANK],
    rank: usize,
}

impl<D: Copy + PartialEq + From<u8> + Debug> Aligned<D> {
    /// Lays the shapes along each other.
    ///
    /// # Errors
    /// When `axis` does not leave room for the smaller one.
    pub(in crate::ops) fn new(x: &[D], y: &[D], axis: i64) -> Result<Aligned<D>> {
        let (x_dims, y_dims) = (pad(x, y.len(), axis), pad(y, x.len(), axis));
        match (x_dims, y_dims) {
            (Some(x_dims), Some(y_dims)) => {
                let rank = x.len().max(y.len());
                Ok(Aligned { x: x_dims, y: y_dims, rank })
            }
            _ => Err(Error::kernel(format!(
                "cannot lay shapes {x:?} and {y:?} along each other at axis {axis}"
            ))),
        }
    }

    /// The dimensions of `X`.
    pub(in crate::ops) fn x(&self) -> &[D] {
        &self.x[..self.rank]
    }

    /// The dimensions of `Y`.
    pub(in crate::ops) fn y(&self) -> &[D] {
        &self.y[..self.rank]
    }
}

/// `dims` with ones around them to the rank of the other operand, if there is room.
fn pad<D: Copy + PartialEq + From<u8>>(
    mut dims: &[D],
    other: usize,
    axis: i64,
) -> Option<[D; MAX_RANK]> {
    let one = D::from(1);
    let mut padded = [one; MAX_RANK];
    let rank = dims.len().max(other);
    let first = match usize::try_from(axis) {
        _ if dims.len() >= other => 0,
        Ok(axis) => axis,
        Err(_) => rank - dims.len(),
    };
    // Old programs write [C, 1] for a vector laid along the last axis.
    while first + dims.len() > rank && dims.last() == Some(&one) {
        dims = &dims[..dims.len() - 1];
    }
    padded.get_mut(first..first + dims.len())?.copy_from_slice(dims);
    (first + dims.len() <= rank).then_some(padded)
}

impl Aligned<usize> {
    /// The walk over both operands.
    ///
    /// # Errors
    /// When a dimension of one is neither 1 nor that of the other.
    pub(in crate::ops) fn walk(&self) -> Result<BroadcastWalk<2>> {
        let mut full = [1; MAX_RANK];
        for ((full, x), y) in full.iter_mut().zip(self.x()).zip(self.y()) {
            *full = if *x == 1 { *y } else { *x };
        }
        BroadcastWalk::new(&full[..self.rank], [self.x(), self.y()])
    }
}

/// The walk over shapes `x` and `y` laid at `axis`.
///
/// # Errors
/// When they do not fit.
pub(in crate::ops) fn walk(x: &[usize], y: &[usize], axis: i64) -> Result<BroadcastWalk<2>> {
    Aligned::new(x, y, axis)?.walk()
}

/// The shape of the result of `X` and `Y`.
///
/// # Errors
/// When they do not fit.
pub(in crate::ops) fn result_dims(x: &Meta, y: &Meta, axis: i64) -> Result<Vec<i64>> {
    let aligned = Aligned::new(&x.dims, &y.dims, axis)?;
    let joined = aligned.x().iter().zip(aligned.y()).map(|(x, y)| join(*x, *y));
    joined.collect::<Option<Vec<_>>>().ok_or_else(|| {
        Error::kernel(format!(
            "shapes {:?} of `X` and {:?} of `Y` do not fit at axis {axis}",
            x.dims, y.dims
        ))
    })
}

fn join(x: i64, y: i64) -> Option<i64> {
    match (x, y) {
        (x, y) if x == y => Some(x),
        (1, other) | (other, 1) => Some(other),
        // An open dimension may still turn out to be 1.
        (-1, known) | (known, -1) => Some(known),
        _ => None,
    }
}

/// The shape rule of ops on two operands.
pub(in crate::ops) fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (cx.input("X")?, cx.input("Y")?);
    let out = x.with_dims(result_dims(x, y, cx.op().i64("axis")?)?);
    cx.set("Out", out);
    Ok(())
}

/// How the operands of an op take part in a batch split, if the result is split by rows: each is
/// itself split along the first dimension, or does not have that dimension.
pub(in crate::ops) fn rows_of_operands(view: &SplitView<'_>) -> Option<(Spread, Spread)> {
    let (x, y) = (view.meta("X")?, view.meta("Y")?);
    let dense = x.kind == VarKind::LodTensor && y.kind == VarKind::LodTensor;
    let aligned = Aligned::new(&x.dims, &y.dims, view.op.i64("axis").ok()?).ok()?;
    let (x_first, y_first) = (*aligned.x().first()?, *aligned.y().first()?);
    let full = join(x_first, y_first)?;
    let fits = |spread, first: i64, rank: usize| match spread {
        Spread::Rows => first == full && rank == aligned.rank,
        Spread::Whole => first == 1,
        Spread::Partial => false,
    };
    let (xs, ys) = (view.spread("X"), view.spread("Y"));
    let fits = dense && fits(xs, x_first, x.rank()) && fits(ys, y_first, y.rank());
    (fits && (xs == Spread::Rows || ys == Spread::Rows)).then_some((xs, ys))
}

/// The split rule of ops on two operands.
pub(in crate::ops) fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    rows_of_operands(view).map(|_| vec![Spread::Rows])
}

/// The split rule of their gradients: an operand that repeats over the batch collects a sum.
pub(in crate::ops) fn split_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let (x, y) = rows_of_operands(view)?;
    if view.spread("Out@GRAD") != Spread::Rows {
        return None;
    }
    let of = |spread| if spread == Spread::Rows { Spread::Rows } else { Spread::Partial };
    view.outputs_by_slot(|slot| if slot == "X@GRAD" { of(x) } else { of(y) })
}

#[cfg(test)]
mod tests {
    use bireme_ir::Op;

    use super::*;
    use crate::op::{OpView, SplitRule};

    fn joined(x: &[i64], y: &[i64], axis: i64) -> Result<Vec<i64>> {
        let meta = |dims: &[i64]| Meta::new(DType::F32, dims);
        result_dims(&meta(x), &meta(y), axis)
    }

    #[test]
    fn shapes_meet() {
        assert_eq!(joined(&[2, 3, 4], &[4], -1).unwrap(), [2, 3, 4]);
        assert_eq!(joined(&[2, 3, 4], &[3], 1).unwrap(), [2, 3, 4]);
        assert_eq!(joined(&[2, 3, 4], &[4, 1], 2).unwrap(), [2, 3, 4]);
        assert_eq!(joined(&[4], &[2, 3, 4], -1).unwrap(), [2, 3, 4]);
        assert_eq!(joined(&[2, 1], &[1, 3], -1).unwrap(), [2, 3]);
        assert_eq!(joined(&[-1, 1], &[-1, 3], -1).unwrap(), [-1, 3]);
        assert_eq!(joined(&[2, 3], &[], -1).unwrap(), [2, 3]);
        assert_eq!(joined(&[0, 3], &[1, 3], -1).unwrap(), [0, 3]);
    }

    fn spreads(
        rule: SplitRule,
        op: &Op,
        shapes: &[&[i64]],
        given: &[Spread],
    ) -> Option<Vec<Spread>> {
        let op = OpView::new(op).unwrap();
        let inputs: Vec<Meta> = shapes.iter().map(|dims| Meta::new(DType::F32, *dims)).collect();
        let outputs = Infer::run(&op, &inputs).unwrap();
        let view = SplitView {
            op: &op,
            spreads: given,
            inputs: &inputs,
            outputs: &outputs,
            batch: 4,
            shares: 2,
        };
        rule.apply(&view)
    }

    #[test]
    fn a_bias_as_long_as_the_batch_is_no_row() {
        use Spread::{Partial, Rows, Whole};
        let op = Op::new("elementwise_add").input("X", ["x"]).input("Y", ["y"]);
        let op = op.output("Out", ["out"]);
        let of =
            |shapes: &[&[i64]], given: &[Spread]| spreads(SplitRule::Fn(split), &op, shapes, given);
        assert_eq!(of(&[&[4, 4], &[4]], &[Rows, Whole]), Some(vec![Rows]));
        assert_eq!(of(&[&[4, 3], &[4, 3]], &[Rows, Rows]), Some(vec![Rows]));
        assert_eq!(of(&[&[4, 3], &[4, 3]], &[Rows, Whole]), None);
        assert_eq!(of(&[&[4, 4], &[4]], &[Whole, Rows]), None);
        assert_eq!(of(&[&[1, 3], &[4, 3]], &[Whole, Rows]), Some(vec![Rows]));
        assert_eq!(of(&[&[4, 4], &[4]], &[Rows, Partial]), None);
    }

    #[test]
    fn what_repeats_over_the_batch_gathers_pieces() {
        use Spread::{Partial, Rows, Whole};
        let op = Op::new("elementwise_add_grad").input("X", ["x"]).input("Y", ["y"]);
        let op = op.input("Out@GRAD", ["d"]).output("X@GRAD", ["dx"]).output("Y@GRAD", ["dy"]);
        let rule = SplitRule::Fn(split_grad);
        let shapes: [&[i64]; 3] = [&[4, 4], &[4], &[4, 4]];
        assert_eq!(spreads(rule, &op, &shapes, &[Rows, Whole, Rows]), Some(vec![Rows, Partial]));
        assert_eq!(spreads(rule, &op, &shapes, &[Rows, Whole, Whole]), None);
        let shapes: [&[i64]; 3] = [&[4, 2], &[4, 2], &[4, 2]];
        assert_eq!(spreads(rule, &op, &shapes, &[Rows, Rows, Rows]), Some(vec![Rows, Rows]));
    }

    #[test]
    fn misfits_are_named() {
        let message = joined(&[2, 3], &[4], -1).unwrap_err().to_string();
        assert_eq!(message, "shapes [2, 3] of `X` and [4] of `Y` do not fit at axis -1");
        assert!(joined(&[2, 3], &[3], 2).is_err());
        assert!(joined(&[2, 3], &[2], 7).is_err());
    }
}
