//! `pow`, `square` and `reciprocal`: `X` to the power of `factor`, 2 or -1.

use crate::ops::activation::unary;
use crate::ops::prelude::*;
use crate::ops::shape::given::first_number;

pub(super) const POW: OpDef = unary::def("pow", pow)
    .inputs(&[Slot::one("X"), Slot::maybe("FactorTensor")])
    .attrs(&[attr::float("factor", 1.0)])
    .gradient(unary::from_x(pow_grad).reads(&["X", "FactorTensor"]).formula(pow_formula));

pub(super) const SQUARE: OpDef = unary::def("square", square).gradient(
    unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| 2.0 * x * dout))
        .formula(|f| unary::formula(f, "X", |f, x| f.affine(x, 2.0, 0.0))),
);

pub(super) const RECIPROCAL: OpDef = unary::def("reciprocal", |op| unary::map!(op, |x, T| 1.0 / x))
    .gradient(
        unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| -dout * out * out))
            .formula(|f| {
                unary::formula(f, "Out", |f, out| {
                    let square = f.mul(out, out);
                    f.affine(&square, -1.0, 0.0)
                })
            }),
    );

/// The gradient as other ops: `factor * X ^ (factor - 1)`.
fn pow_formula(f: &mut Formula<'_>) -> Result<()> {
    if f.has("FactorTensor") {
        return Err(Error::kernel(
            "there is no gradient of a gradient for `pow` with its factor in a tensor: give a number",
        ));
    }
    let (x, dout, factor) = (f.input("X")?, f.input("Out@GRAD")?, f.op().f64("factor")?);
    let power = match factor - 1.0 {
        // A power of 0 or 1 has no slope to speak of, and no trouble at zero.
        0.0 => f.filled_like(&x, 1.0),
        1.0 => f.affine(&x, 1.0, 0.0),
        rest => f.pow(&x, rest),
    };
    let slope = f.affine(&power, factor, 0.0);
    let dx = f.mul(&dout, &slope);
    f.give("X@GRAD", &dx);
    Ok(())
}

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
