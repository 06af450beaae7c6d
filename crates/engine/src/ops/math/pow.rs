//! `pow`, `square` and `reciprocal`: `X` to the power of `factor`, 2 or -1.

use crate::ops::activation::unary;
use crate::ops::prelude::*;
use crate::ops::shape::given::first_number;

pub(super) const POW: OpDef = unary::def("pow", pow)
    .inputs(&[Slot::one("X"), Slot::maybe("FactorTensor")])
    .attrs(&[attr::float("factor", 1.0)])
    .gradient(unary::from_x(pow_grad).reads(&["X", "FactorTensor"]));

pub(super) const SQUARE: OpDef = unary::def("square", square)
    .gradient(unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| 2.0 * x * dout)));

pub(super) const RECIPROCAL: OpDef = unary::def("reciprocal", |op| unary::map!(op, |x, T| 1.0 / x))
    .gradient(unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| -dout * out * out)));

fn square(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            unary::each(run.get::<T>(x)?, run.set::<T>(&mut out)?, |x: T| x.times(x));
            Ok(())
        }, else => Err(Error::kernel(format!("cannot square {dtype} elements"))))
    }))
}

fn factor(run: &Run<'_>, tensor: Option<In>, attribute: f64) -> Result<f64> {
    let Some(tensor) = tensor else { return Ok(attribute) };
    first_number(run.tensor(tensor)?).ok_or_else(|| Error::kernel("`FactorTensor` is empty"))
}

fn pow(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let (tensor, attribute) = (op.maybe_input("FactorTensor"), op.f64("factor")?);
    Ok(Box::new(move |run| {
        let factor = factor(run, tensor, attribute)?;
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
            if factor == 2.0 {
                unary::each(x, out, |x: T| x.times(x));
            } else {
                unary::each(x, out, |x: T| T::from_f64(x.to_f64().powf(factor)));
            }
            Ok(())
        }, else => Err(Error::kernel(format!("cannot raise {dtype} elements to a power"))))
    }))
}

fn pow_grad(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dout, mut dx) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let (tensor, attribute) = (op.maybe_input("FactorTensor"), op.f64("factor")?);
    float_kernel!(op, "X", |run, T| {
        let factor = factor(run, tensor, attribute)?;
        let (x, dout, dx) = (run.get::<T>(x)?, run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        let (factor, less) = (T::from_f64(factor), T::from_f64(factor - 1.0));
        unary::each_grad(x, dout, dx, |x, dout| dout * factor * Real::powf(x, less));
    })
}
