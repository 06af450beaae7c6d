//! `smooth_l1_loss` of Paddle 1.x: the sum over each row of a loss that is quadratic near 0 and
//! linear beyond `1 / sigma²`. `Diff` keeps the weighted differences for the gradient.

use super::pairwise::{same_len, same_shape};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("smooth_l1_loss", kernel)
    .inputs(&[
        Slot::one("X"),
        Slot::one("Y"),
        Slot::maybe("InsideWeight"),
        Slot::maybe("OutsideWeight"),
    ])
    .outputs(&[Slot::one("Diff"), Slot::one("Out")])
    .attrs(&[attr::float("sigma", 1.0)])
    .infer(infer)
    .split(SplitRule::RowWise)
    .gradient(
        Gradient::new(&["X", "Y"], grad_kernel)
            .reads(&["InsideWeight", "OutsideWeight", "Diff"])
            .from(&["Out"])
            .like("Diff"),
    );

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    same_shape(cx, "X", "Y")?;
    for slot in ["InsideWeight", "OutsideWeight"] {
        if cx.maybe_input(slot).is_some() {
            same_shape(cx, "X", slot)?;
        }
    }
    let rows = x.dims.first().copied().unwrap_or(1);
    cx.set("Out", x.with_dims([rows, 1]));
    cx.like(&[("Diff", "X")])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let weights = [op.maybe_input("InsideWeight"), op.maybe_input("OutsideWeight")];
    let (mut diff, mut out) = (op.output("Diff")?, op.output("Out")?);
    let squared = op.f64("sigma")?.powi(2);
    float_kernel!(op, "X", |run, T| {
        let (x, y) = (run.get::<T>(x)?, run.get::<T>(y)?);
        let (diff, out) = (run.set::<T>(&mut diff)?, run.set::<T>(&mut out)?);
        let [inside, outside] = weights.map(|weight| weight.map(|weight| run.get::<T>(weight)));
        let (inside, outside) = (inside.transpose()?, outside.transpose()?);
        let lens = [y.len(), diff.len()].into_iter();
        let weights = inside.iter().chain(&outside).map(|weights| weights.len());
        lens.chain(weights).try_for_each(|len| same_len(x.len(), len))?;
        let width = x.len() / out.len().max(1);
        for (i, diff) in diff.iter_mut().enumerate() {
            *diff = (x[i] - y[i]) * inside.map_or(1.0, |weights| weights[i]);
        }
        for (row, out) in out.iter_mut().enumerate() {
            let elements = row * width..(row + 1) * width;
            let weight = |i: usize| outside.map_or(1.0, |weights| weights[i]);
            *out = elements.map(|i| weight(i) * loss(diff[i], squared as T)).sum();
        }
    })
}

fn loss<T: Real>(diff: T, squared: T) -> T {
    let (size, half) = (diff.abs(), T::from_f64(0.5));
    if size < T::ONE / squared { half * squared * size * size } else { size - half / squared }
}

fn slope<T: Real>(diff: T, squared: T) -> T {
    if diff.abs() < T::ONE / squared {
        squared * diff
    } else if diff > T::ZERO {
        T::ONE
    } else {
        -T::ONE
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (diff, dout) = (op.input("Diff")?, op.input("Out@GRAD")?);
    let weights = [op.maybe_input("InsideWeight"), op.maybe_input("OutsideWeight")];
    let mut sides = [(op.maybe_output("X@GRAD"), 1.0), (op.maybe_output("Y@GRAD"), -1.0)];
    let squared = op.f64("sigma")?.powi(2);
    float_kernel!(op, "Diff", |run, T| {
        let (diff, dout) = (run.get::<T>(diff)?, run.get::<T>(dout)?);
        let width = diff.len() / dout.len().max(1);
        same_len(diff.len(), width * dout.len())?;
        let [inside, outside] = weights.map(|weight| weight.map(|weight| run.get::<T>(weight)));
        let (inside, outside) = (inside.transpose()?, outside.transpose()?);
        let lens = inside.iter().chain(&outside).map(|weights| weights.len());
        lens.into_iter().try_for_each(|len| same_len(diff.len(), len))?;
        for (side, sign) in &mut sides {
            let Some(side) = side else { continue };
            for (i, d) in run.set::<T>(side)?.iter_mut().enumerate() {
                let weight = inside.map_or(1.0, |weights| weights[i])
                    * outside.map_or(1.0, |weights| weights[i]);
                *d = *sign as T * weight * dout[i / width] * slope(diff[i], squared as T);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn values_and_gradients_follow_the_definition() {
        let op = Op::new("smooth_l1_loss").input("X", ["x"]).input("Y", ["y"]);
        let op = op.input("InsideWeight", ["in"]).input("OutsideWeight", ["out_w"]);
        let op = op.output("Diff", ["diff"]).output("Out", ["out"]).attr("sigma", 2.0f32);
        let mut values = HashMap::new();
        let mut set = |name: &str, dims: [usize; 2], elements: &[f64]| {
            values.insert(name.to_owned(), Tensor::from_slice(dims, elements).unwrap().into());
        };
        set("x", [2, 2], &[0.1, 2.0, -1.0, 0.5]);
        set("y", [2, 2], &[0.0, 0.0, 0.0, 0.5]);
        set("in", [2, 2], &[1.0, 0.5, 1.0, 1.0]);
        set("out_w", [2, 2], &[1.0, 3.0, 2.0, 1.0]);
        set("out@GRAD", [2, 1], &[1.0, 10.0]);
        run_once(&op, &mut values).unwrap();
        run_gradient(&op, &mut values);
        let near = |name: &str, expected: &[f64]| {
            let got = values[name].tensor().unwrap().to_f64_vec();
            assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{name} {got:?}");
        };
        // Quadratic below 1 / 4: 0.5 * 4 * 0.1²; linear beyond: 3 * (1 - 0.125), 2 * (1 - 0.125).
        near("out", &[0.02 + 2.625, 1.75]);
        near("diff", &[0.1, 1.0, -1.0, 0.0]);
        near("x@GRAD", &[0.4, 1.5, -20.0, 0.0]);
        near("y@GRAD", &[-0.4, -1.5, 20.0, 0.0]);
    }
}
