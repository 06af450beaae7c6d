//! `argsort`: the elements along an axis in order, and where they came from. Equal elements keep
//! their order, both ways up.

use super::lanes::{self, Lanes, axis_of, order};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("argsort", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out"), Slot::one("Indices")])
    .attrs(&[attr::int("axis", -1), attr::bool("descending", false)])
    .infer(|cx: &mut Infer<'_>| {
        let x = cx.input("X")?;
        axis_of(cx.op().i64("axis")?, x.rank())?;
        cx.set("Out", x.clone());
        cx.set("Indices", x.with_dtype(DType::I64));
        Ok(())
    })
    .lod_from("X")
    .split(SplitRule::Fn(lanes::split))
    .gradient(
        Gradient::new(&["X"], lanes::grad_kernel).reads(&["X", "Indices"]).second(lanes::second),
    );

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, mut indices) = (op.input("X")?, op.output("Out")?, op.output("Indices")?);
    let (axis, descending) = (op.i64("axis")?, op.bool("descending")?);
    let mut order: Vec<u32> = Vec::new();
    Ok(Box::new(move |run| {
        let (x, out, indices) = (run.tensor(x)?, run.out(&mut out)?, run.out(&mut indices)?);
        let lanes = Lanes::new(x.dims(), axis_of(axis, x.dims().len())?);
        out.resize(x.dtype(), x.dims());
        indices.resize(DType::I64, x.dims());
        let indices = indices.as_mut_slice::<i64>()?;
        dispatch!(x.dtype(), T in [f32, f64, i32, i64, u8] => {
            sort(&mut order, x.as_slice::<T>()?, lanes, descending, out.as_mut_slice()?, indices);
            Ok(())
        }, else => Err(Error::kernel(format!("cannot order {} elements", x.dtype()))))
    }))
}

fn sort<T: Element>(
    indices: &mut Vec<u32>,
    x: &[T],
    lanes: Lanes,
    descending: bool,
    out: &mut [T],
    from: &mut [i64],
) {
    for start in lanes.starts(lanes.len) {
        let at = |index: u32| start + index as usize * lanes.inner;
        indices.clear();
        indices.extend(0..lanes.len as u32);
        indices.sort_unstable_by(|a, b| {
            let by_value = order(&x[at(*a)], &x[at(*b)]);
            (if descending { by_value.reverse() } else { by_value }).then(a.cmp(b))
        });
        for (i, index) in indices.iter().enumerate() {
            out[at(i as u32)] = x[at(*index)];
            from[at(i as u32)] = i64::from(*index);
        }
    }
}
