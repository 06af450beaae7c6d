//! `top_k_v2` (and the older `top_k`): the largest or smallest elements along an axis.

use super::lanes::{self, Lanes, axis_of, order};
use crate::ops::prelude::*;
use crate::ops::shape::given::integer;

pub(super) const DEF: OpDef = OpDef::new("top_k_v2", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("K")])
    .outputs(&[Slot::one("Out"), Slot::one("Indices")])
    .attrs(&[
        attr::int("k", 1),
        attr::int("axis", -1),
        attr::bool("largest", true),
        attr::bool("sorted", true),
    ])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::Fn(lanes::split))
    .gradient(
        Gradient::new(&["X"], lanes::grad_kernel)
            .reads(&["X", "Indices"])
            .second(lanes::second)
            .accepts(&["K"]),
    );

pub(super) const OLD: OpDef = OpDef::new("top_k", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("K")])
    .outputs(&[Slot::one("Out"), Slot::one("Indices")])
    .attrs(&[attr::int("k", 1)])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::Fn(lanes::split))
    .gradient(
        Gradient::new(&["X"], lanes::grad_kernel).reads(&["X", "Indices"]).second(lanes::second),
    );

/// What the older op has no attributes for.
fn options(op: &OpView<'_>) -> Result<(i64, bool)> {
    if op.def.name == "top_k" { Ok((-1, true)) } else { Ok((op.i64("axis")?, op.bool("largest")?)) }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, k) = (cx.input("X")?, cx.op().i64("k")?);
    let axis = axis_of(options(cx.op())?.0, x.rank())?;
    let mut out = x.clone();
    if let Some(dim) = out.dims.get_mut(axis) {
        let by_tensor = cx.maybe_input("K").is_some();
        if !by_tensor && (k < 1 || (*dim != -1 && k > *dim)) {
            return Err(Error::kernel(format!("cannot take {k} of {dim} elements")));
        }
        *dim = if by_tensor { -1 } else { k };
    }
    cx.set("Indices", out.with_dtype(DType::I64));
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, by_tensor, k) = (op.input("X")?, op.maybe_input("K"), op.i64("k")?);
    let (mut out, mut indices) = (op.output("Out")?, op.output("Indices")?);
    let (axis, largest) = options(op)?;
    let mut scratch = Scratch::default();
    Ok(Box::new(move |run| {
        let (x, out, indices) = (run.tensor(x)?, run.out(&mut out)?, run.out(&mut indices)?);
        let axis = axis_of(axis, x.dims().len())?;
        let k = by_tensor.map_or(Ok(k), |tensor| integer(run.tensor(tensor)?))?;
        let lanes = Lanes::new(x.dims(), axis);
        let k = usize::try_from(k)
            .ok()
            .filter(|k| (1..=lanes.len).contains(k))
            .ok_or_else(|| Error::kernel(format!("cannot take {k} of {} elements", lanes.len)))?;
        let mut dims = [0; MAX_RANK];
        dims[..x.dims().len()].copy_from_slice(&x.dims());
        dims[axis] = k;
        let dims = Dims::new(&dims[..x.dims().len()]);
        out.resize(x.dtype(), dims);
        indices.resize(DType::I64, dims);
        let indices = indices.as_mut_slice::<i64>()?;
        scratch.choose(x, lanes, k, largest, out, indices)
    }))
}

#[derive(Default)]
struct Scratch {
    f32: Vec<(f32, u32)>,
    f64: Vec<(f64, u32)>,
    i32: Vec<(i32, u32)>,
    i64: Vec<(i64, u32)>,
}

impl Scratch {
    fn choose(
        &mut self,
        x: &Tensor,
        lanes: Lanes,
        k: usize,
        largest: bool,
        out: &mut Tensor,
        indices: &mut [i64],
    ) -> Result<()> {
        let how = (lanes, k, largest);
        match x.dtype() {
            DType::F32 => top(&mut self.f32, x.as_slice()?, how, out.as_mut_slice()?, indices),
            DType::F64 => top(&mut self.f64, x.as_slice()?, how, out.as_mut_slice()?, indices),
            DType::I32 => top(&mut self.i32, x.as_slice()?, how, out.as_mut_slice()?, indices),
            DType::I64 => top(&mut self.i64, x.as_slice()?, how, out.as_mut_slice()?, indices),
            other => return Err(Error::kernel(format!("cannot order {other} elements"))),
        }
        Ok(())
    }
}

fn top<T: Element>(
    scratch: &mut Vec<(T, u32)>,
    x: &[T],
    (lanes, k, largest): (Lanes, usize, bool),
    out: &mut [T],
    indices: &mut [i64],
) {
    let rank = |a: &(T, u32), b: &(T, u32)| {
        let by_value = if largest { order(&b.0, &a.0) } else { order(&a.0, &b.0) };
        by_value.then(a.1.cmp(&b.1))
    };
    for (from, to) in lanes.starts(lanes.len).zip(lanes.starts(k)) {
        lanes::load(scratch, x, from, lanes);
        if k < scratch.len() {
            scratch.select_nth_unstable_by(k - 1, rank);
        }
        scratch[..k].sort_unstable_by(rank);
        for (i, (value, index)) in scratch[..k].iter().enumerate() {
            out[to + i * lanes.inner] = *value;
            indices[to + i * lanes.inner] = i64::from(*index);
        }
    }
}
