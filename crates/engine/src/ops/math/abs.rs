//! `abs` and `sign`: the two halves of a number.

use bireme_ir::Op;

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const ABS: OpDef = unary::def("abs", abs).gradient(
    unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| dout * Real::sign(x)))
        .second(second::self_adjoint),
);

pub(super) const SIGN: OpDef =
    unary::def("sign", |op| unary::map!(op, |x, T| Real::sign(x))).grad(GradRule::Fn(zero));

/// The gradient of a step function, written as Paddle writes it: a scale by 0.
fn zero(view: &OpView<'_>) -> Result<Vec<Op>> {
    let op = Op::new("scale")
        .input("X", view.op.outputs_of("Out").iter().map(|out| bireme_ir::grad_name(out)))
        .output("Out", view.op.inputs_of("X").iter().map(|x| bireme_ir::grad_name(x)))
        .attr("scale", 0.0f32);
    Ok(vec![op])
}

fn abs(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            unary::each(run.get::<T>(x)?, run.set::<T>(&mut out)?, <T as Number>::magnitude);
            Ok(())
        }, else => Err(Error::kernel(format!("`X` must hold signed numbers, not {dtype}"))))
    }))
}

#[cfg(test)]
mod tests {
    use super::Real;

    #[test]
    fn the_sign_of_nan_stays_nan() {
        assert_eq!([-3.0f32, 0.0, 3.0].map(Real::sign), [-1.0, 0.0, 1.0]);
        assert!(Real::sign(f32::NAN).is_nan());
    }
}
