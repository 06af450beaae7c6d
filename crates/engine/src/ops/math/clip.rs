//! `clip`: `Out = X`, kept between `min` and `max`, which may come as tensors. Of selected rows,
//! equal ones are added up first, because a bound holds for their sum.

use bireme_ir::VarKind;

use crate::ops::activation::unary;
use crate::ops::norm::merged_rows::merge;
use crate::ops::prelude::*;
use crate::optimizer::RowMergers;

pub(super) const DEF: OpDef = OpDef::new("clip", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("Min"), Slot::maybe("Max")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::absent("min", AttrKind::Float), attr::absent("max", AttrKind::Float)])
    .like(&[("Out", "X")])
    .lod_from("X")
    .split(SplitRule::Fn(|view| split(view, true)))
    .gradient(
        Gradient::new(&["X"], grad_kernel)
            .reads(&["X", "Min", "Max"])
            .second(second::self_adjoint)
            .split(SplitRule::Fn(|view| split(view, view.spread("Out@GRAD") == Spread::Rows))),
    );

fn split(view: &SplitView<'_>, gradient_fits: bool) -> Option<Vec<Spread>> {
    let dense = view.meta("X")?.kind == VarKind::LodTensor;
    let bounds = view.spread("Min") == Spread::Whole && view.spread("Max") == Spread::Whole;
    let rows = view.spread("X") == Spread::Rows && gradient_fits;
    (dense && bounds && rows).then(|| vec![Spread::Rows])
}

/// Where a bound comes from.
#[derive(Clone, Copy)]
enum Bound {
    Tensor(In),
    Given(f64),
}

impl Bound {
    fn of(op: &OpView<'_>, slot: &str, name: &str) -> Result<Bound> {
        match op.maybe_input(slot) {
            Some(tensor) => Ok(Bound::Tensor(tensor)),
            None => op.f64(name).map(Bound::Given),
        }
    }

    fn value(self, run: &Run<'_>) -> Result<f64> {
        match self {
            Bound::Given(value) => Ok(value),
            Bound::Tensor(input) => {
                let tensor = run.tensor(input)?;
                dispatch!(tensor.dtype(), T in [f32, f64, i32, i64] => {
                    Ok(run.first::<T>(input)?.to_f64())
                }, else => Err(Error::kernel(format!("a bound cannot be {}", tensor.dtype()))))
            }
        }
    }
}

fn bounds(op: &OpView<'_>) -> Result<(Bound, Bound)> {
    Ok((Bound::of(op, "Min", "min")?, Bound::of(op, "Max", "max")?))
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let (min, max) = bounds(op)?;
    let mut mergers = RowMergers::default();
    Ok(Box::new(move |run| {
        let (min, max) = (min.value(run)?, max.value(run)?);
        if min > max {
            return Err(Error::kernel(format!("`min` {min} exceeds `max` {max}")));
        }
        match run.value(x) {
            Value::Tensor(x) => {
                let out = run.out(&mut out)?;
                dispatch!(x.dtype(), T in [f32, f64, i32, i64] => {
                    let (min, max) = (T::from_f64(min), T::from_f64(max));
                    unary::each(x.as_slice()?, out.as_mut_slice()?, |x: T| within(x, min, max));
                    Ok(())
                }, else => Err(Error::kernel(format!("cannot clip {} elements", x.dtype()))))
            }
            Value::Rows(x) => {
                let out = run.out_rows(&mut out, x.value.dtype());
                dispatch!(x.value.dtype(), T in [f32, f64] => {
                    merge::<T>(&mut mergers, x, out)?;
                    let (min, max) = (T::from_f64(min), T::from_f64(max));
                    let values = out.value.as_mut_slice::<T>()?;
                    values.iter_mut().for_each(|x| *x = within(*x, min, max));
                    Ok(())
                }, else => Err(Error::kernel(format!("cannot clip {} rows", x.value.dtype()))))
            }
        }
    }))
}

#[inline(always)]
fn within<T: PartialOrd>(x: T, min: T, max: T) -> T {
    let x = if x < min { min } else { x };
    if x > max { max } else { x }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dout, mut dx) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let (min, max) = bounds(op)?;
    float_kernel!(op, "X", |run, T| {
        let (min, max) = (min.value(run)?, max.value(run)?);
        let (min, max) = (T::from_f64(min), T::from_f64(max));
        let dx = run.set::<T>(&mut dx)?;
        unary::each_grad(run.get::<T>(x)?, run.get::<T>(dout)?, dx, |x, dout| {
            if x > min && x < max { dout } else { 0.0 }
        });
    })
}
