//! `bce_loss`: binary cross-entropy of probabilities, `-(y ln x + (1 - y) ln(1 - x))`.

use std::fmt::Display;

use super::pairwise;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("bce_loss", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Label")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::RowWise)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Label"]).formula(formula));

/// The gradient as other ops: `dout * (x - label) / (x * (1 - x))`.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let (x, label, dout) = (f.input("X")?, f.input("Label")?, f.input("Out@GRAD")?);
    let rest = f.affine(&x, -1.0, 1.0);
    let product = f.mul(&x, &rest);
    let least = f.filled_like(&x, 1e-12);
    let below = f.binary("elementwise_max", &product, &least);
    let miss = f.sub(&x, &label);
    let slope = f.div(&miss, &below);
    let dx = f.mul(&dout, &slope);
    f.give("X@GRAD", &dx);
    Ok(())
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    pairwise::same_shape(cx, "X", "Label")?;
    cx.like(&[("Out", "X")])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, label, mut out) = (op.input("X")?, op.input("Label")?, op.output("Out")?);
    float_kernel!(op, "X", |run, T| {
        let x = run.get::<T>(x)?;
        probabilities(x)?;
        pairwise::each(x, run.get(label)?, run.set(&mut out)?, loss)?;
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    float_kernel!(op, "X", |run, T| {
        let (x, label, dout) = (run.get::<T>(x)?, run.get(label)?, run.get(dout)?);
        pairwise::each_grad(x, label, dout, run.set(&mut dx)?, slope)?;
    })
}

/// The logarithms below stop at a limit, which would hide NaN and what is no probability.
fn probabilities<T: Real + Display>(x: &[T]) -> Result<()> {
    let inside = |x: &T| (T::ZERO..=T::ONE).contains(x);
    match x.iter().enumerate().find(|(_, x)| !inside(x)) {
        None => Ok(()),
        Some((index, x)) => Err(Error::kernel(format!(
            "`X` must hold probabilities, but element {index} is {x}: is a `sigmoid` missing, \
             or did the training diverge?"
        ))),
    }
}

/// Logarithms stop at -100, as Paddle's do, so that a sure but wrong prediction costs a finite
/// amount.
fn loss<T: Real>(x: T, label: T) -> T {
    let floor = T::from_f64(-100.0);
    let miss = label - T::ONE;
    miss * (-x).ln_1p().max(floor) - label * x.ln().max(floor)
}

fn slope<T: Real>(x: T, label: T) -> T {
    (x - label) / ((T::ONE - x) * x).max(T::from_f64(1e-12))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn run(x: &[f32]) -> Result<Vec<f64>, String> {
        let op = Op::new("bce_loss").input("X", ["x"]).input("Label", ["y"]).output("Out", ["out"]);
        let tensor = |elements: &[f32]| Tensor::from_slice([elements.len()], elements).unwrap();
        let mut values = HashMap::from([
            ("x".to_owned(), tensor(x).into()),
            ("y".to_owned(), tensor(&vec![1.0; x.len()]).into()),
        ]);
        run_once(&op, &mut values).map_err(|error| error.to_string())?;
        Ok(values["out"].tensor().unwrap().to_f64_vec())
    }

    #[test]
    fn what_is_no_probability_is_an_error_and_not_the_limit() {
        assert_eq!(run(&[1.0, 0.0]).unwrap(), [0.0, 100.0]);
        for (bad, written) in [(f32::NAN, "NaN"), (2.0, "2"), (-0.5, "-0.5")] {
            let message = run(&[0.5, bad]).unwrap_err();
            assert!(message.contains(&format!("element 1 is {written}")), "{message}");
        }
    }
}
