//! `one_hot_v2` (and the older `one_hot`, whose last dimension is 1): each id as a row with a
//! single 1.

use super::positions;
use crate::ops::prelude::*;
use crate::ops::shape::dims::{ranked, signed, sized};
use crate::ops::shape::given::{extend_integers, integer};

pub(super) const DEF: OpDef = OpDef::new("one_hot_v2", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("depth_tensor")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::int("depth", -1),
        attr::int("dtype", DType::F32.code()),
        attr::bool("allow_out_of_range", false),
    ])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::RowWise);

pub(super) const OLD: OpDef = OpDef::new("one_hot", kernel)
    .inputs(DEF.signature.inputs)
    .outputs(DEF.signature.outputs)
    .attrs(DEF.signature.attrs)
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::RowWise);

fn shape(op_name: &str, x: &[i64], depth: i64) -> Result<Vec<i64>> {
    let mut dims = x.to_vec();
    if op_name == "one_hot" {
        match dims.pop() {
            Some(1 | -1) => {}
            _ => return Err(Error::kernel(format!("the last dimension of `X` {x:?} must be 1"))),
        }
    }
    dims.push(depth);
    ranked(dims)
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, mut depth) = (cx.input("X")?, cx.op().i64("depth")?);
    if cx.maybe_input("depth_tensor").is_some() {
        depth = -1;
    }
    let out = x.with_dims(shape(cx.op().def.name, &x.dims, depth)?);
    let out = out.with_dtype(cx.op().dtype("dtype")?);
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, depth) = (op.input("X")?, op.output("Out")?, op.i64("depth")?);
    let (dtype, lenient) = (op.dtype("dtype")?, op.bool("allow_out_of_range")?);
    let (by_tensor, name): (Option<In>, _) = (op.maybe_input("depth_tensor"), op.def.name);
    let (mut ids, mut last): (Vec<i64>, Option<(Dims, Dims)>) = (Vec::new(), None);
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let depth = by_tensor.map_or(Ok(depth), |tensor| integer(run.tensor(tensor)?))?;
        if by_tensor.is_some() || last != Some((x.dims(), out.dims())) {
            out.resize(dtype, sized(&shape(name, &signed(&x.dims()), depth)?)?);
            last = Some((x.dims(), out.dims()));
        }
        ids.clear();
        extend_integers(&mut ids, x)?;
        out.as_mut_bytes().fill(0);
        let depth = depth as usize;
        dispatch!(dtype, T in [f32, f64, i32, i64, u8, half::f16, half::bf16] => {
            let one = T::from_f64(1.0);
            let out = out.as_mut_slice::<T>()?;
            for (row, id) in ids.iter().enumerate() {
                match usize::try_from(*id) {
                    Ok(id) if id < depth => out[row * depth + id] = one,
                    // Paddle's older releases leave the row at 0; 2.6 always refuses.
                    _ if lenient => {}
                    _ => return Err(positions::outside(*id, depth)),
                }
            }
            Ok(())
        }, else => Err(Error::kernel(format!("cannot write 1 as {dtype}"))))
    }))
}
