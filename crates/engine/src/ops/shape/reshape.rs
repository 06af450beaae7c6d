//! `reshape2` and the older `reshape`: the same elements under a given shape, in which 0 copies a
//! dimension of `X` and one -1 stands for what remains.

use super::dims::product;
use super::given::Given;
use super::relabel;
use crate::ops::prelude::*;

const INPUTS: &[Slot] = &[Slot::one("X"), Slot::maybe("Shape"), Slot::any("ShapeTensor")];

pub(super) const DEF: OpDef = OpDef::new("reshape2", kernel)
    .inputs(INPUTS)
    .outputs(&[Slot::one("Out"), Slot::maybe("XShape")])
    .attrs(&[attr::ints("shape", &[])])
    .infer(infer)
    .gradient(relabel::BY_SHAPE)
    .split(SplitRule::Fn(relabel::split));

pub(super) const OLD: OpDef = OpDef::new("reshape", kernel)
    .inputs(INPUTS)
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::ints("shape", &[])])
    .infer(infer)
    .gradient(relabel::BY_X.accepts(&["Shape", "ShapeTensor", "Out"]))
    .split(SplitRule::Fn(relabel::split));

fn given(op: &OpView<'_>) -> Result<Given> {
    Given::new(op, "shape", "Shape", "ShapeTensor")
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    relabel::kernel(op, given(op)?, shape)
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let given = given(cx.op())?;
    match given.known() {
        Some(want) => relabel::infer(cx, want, shape),
        None => {
            let dims = given.guess(cx)?;
            relabel::infer_as(cx, dims)
        }
    }
}

/// The dimensions of `Out`. A copied unknown dimension cancels out, so that `[0, 2, -1]` of
/// `[-1, 4]` is `[-1, 2, 2]`.
fn shape(x: &[i64], want: &[i64]) -> Result<Vec<i64>> {
    let refuse = |why: &str| Err(Error::kernel(format!("cannot reshape {x:?} to {want:?}: {why}")));
    let mut out = want.to_vec();
    let mut rest = x.to_vec();
    for (axis, dim) in out.iter_mut().enumerate() {
        if *dim == 0 {
            let Some(copied) = x.get(axis) else { return refuse("0 copies a dimension not there") };
            *dim = *copied;
            if *copied == -1 {
                rest[axis] = 1;
            }
        }
    }
    if want.iter().any(|dim| *dim < -1) || want.iter().filter(|dim| **dim == -1).count() > 1 {
        return refuse("one dimension may be -1, the others must be positive or 0");
    }
    let total = product(&rest);
    let hole = want.iter().position(|dim| *dim == -1);
    // Copied unknown dimensions were taken out of `rest`, so they are left out here too.
    let known = (out.iter().enumerate())
        .filter(|(axis, dim)| Some(*axis) != hole && **dim != -1)
        .fold(1i64, |known, (_, dim)| known.saturating_mul(*dim));
    match hole {
        _ if total == -1 => {}
        Some(hole) if known == 0 && total == 0 => out[hole] = 0,
        Some(hole) if known > 0 && total % known == 0 => out[hole] = total / known,
        None if total == known => {}
        _ => return refuse("the numbers of elements differ"),
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn zero_copies_and_minus_one_fills() {
        let check = |x: &[i64], want: &[i64], out: &[i64]| assert_eq!(shape(x, want).unwrap(), out);
        check(&[-1, 4], &[0, 2, -1], &[-1, 2, 2]);
        check(&[-1, 4], &[-1, 2, 2], &[-1, 2, 2]);
        check(&[6, 4], &[-1, 2, 2], &[6, 2, 2]);
        check(&[6, 4], &[0, -1], &[6, 4]);
        check(&[-1, 4], &[6, 4], &[6, 4]);
        check(&[0, 4], &[-1, 2, 2], &[0, 2, 2]);
        check(&[], &[1], &[1]);
        check(&[1, 1], &[], &[]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for want in [&[5, -1][..], &[-1, -1], &[0, 0, 0], &[24, -2], &[23]] {
            assert!(shape(&[6, 4], want).is_err(), "{want:?}");
        }
        assert_eq!(
            shape(&[6, 4], &[5, 5]).unwrap_err().to_string(),
            "cannot reshape [6, 4] to [5, 5]: the numbers of elements differ"
        );
    }
}
