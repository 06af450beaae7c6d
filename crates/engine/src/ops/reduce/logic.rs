//! `reduce_any` and `reduce_all`: whether some, or all, of the elements are true; any number but
//! zero is.

use super::axes::{self, Axes};
use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const ANY: OpDef = axes::def("reduce_any", |op| kernel(op, false)).infer(infer);
pub(super) const ALL: OpDef = axes::def("reduce_all", |op| kernel(op, true)).infer(infer);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let out = axes::result(cx)?.with_dtype(DType::Bool);
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>, all: bool) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let axes = Axes::of(op)?;
    let mut truth = Vec::new();
    Ok(Box::new(move |run| {
        let (walk, _) = axes.walk(run.dims(x)?)?;
        let dtype = run.tensor(x)?.dtype();
        truth.resize(run.tensor(x)?.numel(), 0);
        dispatch!(dtype, T in [u8, f32, f64, i32, i64] => {
            unary::each(run.get::<T>(x)?, &mut truth, |x: T| u8::from(x != T::default()));
        }, else => return Err(Error::kernel(format!("{dtype} elements have no truth value"))));
        let (x, out) = (truth.as_slice(), run.set::<u8>(&mut out)?);
        if all {
            let run = |so_far: u8, x: &[u8]| so_far & u8::from(!x.contains(&0));
            axes::reduce(&walk, x, out, 1, |so_far, x| so_far & x, run);
        } else {
            let run = |so_far: u8, x: &[u8]| so_far | u8::from(x.contains(&1));
            axes::reduce(&walk, x, out, 0, |so_far, x| so_far | x, run);
        }
        Ok(())
    }))
}
