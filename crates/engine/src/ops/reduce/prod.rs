//! `reduce_prod`: the product along some axes. Its gradient divides by the element, as Paddle's
//! does, so a zero among the factors gives NaN.

use super::axes::{self, Axes, FROM_BOTH};
use crate::op::{Kernel, OpDef, OpView};
use crate::ops::math::number::Number;
use crate::{Error, Result, dispatch};

pub(super) const DEF: OpDef = axes::def("reduce_prod", kernel).grad(FROM_BOTH);
pub(super) const GRAD: OpDef = axes::grad_from_both("reduce_prod_grad", grad_kernel);

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, out) = (op.input("X")?, op.output("Out")?);
    let axes = Axes::of(op)?;
    Ok(Box::new(move |run| {
        let (walk, _) = axes.walk(run.dims(x)?)?;
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            let (x, out) = (run.get::<T>(x)?, run.set::<T>(out)?);
            let run = |product: T, x: &[T]| x.iter().fold(product, |product, x| product.times(*x));
            axes::reduce(&walk, x, out, T::ONE, T::times, run);
            Ok(())
        }, else => Err(Error::kernel(format!("cannot multiply {dtype} elements"))))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, out) = (op.input("X")?, op.input("Out")?);
    let (dout, dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let axes = Axes::of(op)?;
    Ok(Box::new(move |run| {
        let (walk, _) = axes.walk(run.dims(x)?)?;
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64] => {
            let (x, out, dout) = (run.get::<T>(x)?, run.get::<T>(out)?, run.get::<T>(dout)?);
            let dx = run.set::<T>(dx)?;
            axes::spread(&walk, x, out, dout, dx, |x, out, dout| dout * out / x);
            Ok(())
        }, else => Err(Error::kernel(format!("gradients are float32 or float64, not {dtype}"))))
    }))
}
