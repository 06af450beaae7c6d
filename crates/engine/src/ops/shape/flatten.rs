//! `flatten_contiguous_range`, `flatten2` (and the older `flatten`): dimensions made one.

use super::dims::{axis_in, product};
use super::given::Given;
use super::relabel;
use crate::ops::prelude::*;

const X: &[Slot] = &[Slot::one("X")];
const AXIS: &[AttrSpec] = &[attr::int("axis", 1)];

pub(super) const RANGE: OpDef = OpDef::new("flatten_contiguous_range", |op| {
    relabel::kernel(op, Given::fixed(ends(op)?), range_shape)
})
.inputs(&[Slot::one("X")])
.outputs(&[Slot::one("Out"), Slot::maybe("XShape")])
.attrs(&[attr::int("start_axis", 1), attr::int("stop_axis", 1)])
.infer(|cx: &mut Infer<'_>| {
    let ends = ends(cx.op())?;
    relabel::infer(cx, &ends, range_shape)
})
.split(SplitRule::Fn(relabel::split))
.gradient(relabel::BY_SHAPE);

pub(super) const DEF: OpDef = matrix("flatten2")
    .outputs(&[Slot::one("Out"), Slot::maybe("XShape")])
    .gradient(relabel::BY_SHAPE);

pub(super) const OLD: OpDef =
    matrix("flatten").outputs(&[Slot::one("Out")]).gradient(relabel::BY_X);

const fn matrix(name: &'static str) -> OpDef {
    OpDef::new(name, |op| relabel::kernel(op, Given::attr(op, "axis")?, matrix_shape))
        .inputs(X)
        .attrs(AXIS)
        .infer(|cx: &mut Infer<'_>| {
            let axis = cx.op().longs("axis")?;
            relabel::infer(cx, &axis, matrix_shape)
        })
        .split(SplitRule::Fn(relabel::split))
}

fn ends(op: &OpView<'_>) -> Result<Vec<i64>> {
    Ok(vec![op.i64("start_axis")?, op.i64("stop_axis")?])
}

fn range_shape(x: &[i64], ends: &[i64]) -> Result<Vec<i64>> {
    if x.is_empty() {
        return Ok(vec![1]);
    }
    let (start, stop) = (axis_in(ends[0], x.len())?, axis_in(ends[1], x.len())?);
    if start > stop {
        return Err(Error::kernel(format!("the axes to flatten end at {stop}, before {start}")));
    }
    Ok([&x[..start], &[product(&x[start..=stop])], &x[stop + 1..]].concat())
}

fn matrix_shape(x: &[i64], axis: &[i64]) -> Result<Vec<i64>> {
    let rank = x.len() as i64;
    let at = if axis[0] < 0 { axis[0] + rank } else { axis[0] };
    if !(0..=rank).contains(&at) {
        return Err(Error::kernel(format!(
            "axis {} lies outside a tensor of rank {rank}",
            axis[0]
        )));
    }
    let (rows, columns) = x.split_at(at as usize);
    Ok(vec![product(rows), product(columns)])
}
