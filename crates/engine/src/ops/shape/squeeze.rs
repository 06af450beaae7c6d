//! `squeeze2` (and the older `squeeze`): drops dimensions of size 1, the given ones or all.

use super::dims::axis_in;
use super::given::Given;
use super::relabel;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("squeeze2", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out"), Slot::maybe("XShape")])
    .attrs(&[attr::ints("axes", &[])])
    .infer(infer)
    .split(SplitRule::Fn(relabel::split))
    .gradient(relabel::BY_SHAPE);

pub(super) const OLD: OpDef = OpDef::new("squeeze", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::ints("axes", &[])])
    .infer(infer)
    .split(SplitRule::Fn(relabel::split))
    .gradient(relabel::BY_X);

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    relabel::kernel(op, Given::attr(op, "axes")?, shape)
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let axes = cx.op().longs("axes")?;
    relabel::infer(cx, &axes, shape)
}

/// A named dimension that is not 1 stays, as in Paddle; one that is not known yet (-1) is taken
/// for 1 when it is named, or what follows would be built for a dimension too many.
fn shape(x: &[i64], axes: &[i64]) -> Result<Vec<i64>> {
    let mut named = vec![false; x.len()];
    for axis in axes {
        named[axis_in(*axis, x.len())?] = true;
    }
    let dropped = |dim: i64, named: bool| match dim {
        1 => named || axes.is_empty(),
        -1 => named,
        _ => false,
    };
    Ok(x.iter()
        .zip(named)
        .filter(|(dim, named)| !dropped(**dim, *named))
        .map(|(d, _)| *d)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn a_named_dimension_that_is_not_known_yet_is_dropped() {
        assert_eq!(shape(&[-1, -1, 1], &[1]).unwrap(), [-1, 1]);
        assert_eq!(shape(&[-1, -1, 1], &[-2]).unwrap(), [-1, 1]);
        assert_eq!(shape(&[-1, 3, 1], &[1]).unwrap(), [-1, 3, 1]);
        assert_eq!(shape(&[-1, 3, 1], &[]).unwrap(), [-1, 3]);
    }
}
