//! `logical_and`, `logical_or`, `logical_xor` and `logical_not`: any number but zero is true.

use crate::ops::activation::unary;
use crate::ops::elementwise::{binary, broadcast};
use crate::ops::prelude::*;

pub(super) const AND: OpDef = def("logical_and", |op| kernel(op, |x, y| x & y));
pub(super) const OR: OpDef = def("logical_or", |op| kernel(op, |x, y| x | y));
pub(super) const XOR: OpDef = def("logical_xor", |op| kernel(op, |x, y| x ^ y));

/// Paddle's have no `axis`; it stands here for the broadcasting that they share with others.
const fn def(name: &'static str, kernel: fn(&OpView<'_>) -> Result<Kernel>) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("X"), Slot::one("Y")] })
        .outputs(const { &[Slot::one("Out")] })
        .attrs(const { &[attr::int("axis", -1)] })
        .infer(infer)
        .lod_from("X")
        .split(SplitRule::Fn(broadcast::split))
}

pub(super) const NOT: OpDef = OpDef::new("logical_not", not)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .infer(infer_one)
    .lod_from("X")
    .split(SplitRule::RowWise);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (cx.input("X")?, cx.input("Y")?);
    let dims = broadcast::result_dims(x, y, cx.op().i64("axis")?)?;
    let out = x.with_dims(dims).with_dtype(DType::Bool);
    cx.set("Out", out);
    Ok(())
}

/// Truth values in the shape of `X`.
pub(super) fn infer_one(cx: &mut Infer<'_>) -> Result<()> {
    let out = cx.input("X")?.with_dtype(DType::Bool);
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>, f: impl Fn(bool, bool) -> bool + Send + 'static) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    let axis = op.i64("axis")?;
    Ok(Box::new(move |run| {
        let walk = broadcast::walk(&run.dims(x)?, &run.dims(y)?, axis)?;
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [u8, f32, f64, i32, i64] => {
            let (x, y) = (run.get::<T>(x)?, run.get::<T>(y)?);
            let zero = T::default();
            binary::apply(&walk, x, y, run.set::<u8>(&mut out)?, |x, y| u8::from(f(x != zero, y != zero)))
        }, else => Err(Error::kernel(format!("{dtype} elements have no truth value"))))
    }))
}

fn not(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [u8, f32, f64, i32, i64] => {
            let zero = T::default();
            unary::each(run.get::<T>(x)?, run.set::<u8>(&mut out)?, |x| u8::from(x == zero));
            Ok(())
        }, else => Err(Error::kernel(format!("{dtype} elements have no truth value"))))
    }))
}
