//! `multinomial`: categories drawn by weight, for each row of weights.

use super::draw::Draw;
use crate::ops::prelude::*;
use crate::random::Philox;

pub(super) const DEF: OpDef = OpDef::new("multinomial", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("num_samples", 1), attr::bool("replacement", false)])
    .infer(infer);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, samples) = (cx.input("X")?, cx.op().i64("num_samples")?);
    if !(1..=2).contains(&x.rank()) || samples < 1 {
        let problem = format!("draws {samples} times from weights of shape {:?}", x.dims);
        return Err(Error::kernel(format!("{problem}: expected rank 1 or 2, and once or more")));
    }
    let mut out = x.with_dtype(DType::I64);
    *out.dims.last_mut().expect("of rank 1 or 2") = samples;
    out.lod_level = 0;
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, draw) = (op.input("X")?, op.output("Out")?, Draw::new(op)?);
    let (samples, replacement) = (op.i64("num_samples")? as usize, op.bool("replacement")?);
    let (mut weights, mut order) = (Vec::new(), Vec::new());
    Ok(Box::new(move |run| {
        let (x, draw) = (run.tensor(x)?, draw.step(run.step));
        let (width, out) = (x.dims().last().copied().unwrap_or(0), run.set::<i64>(&mut out)?);
        for (row, out) in out.chunks_exact_mut(samples).enumerate() {
            weights.clear();
            dispatch!(x.dtype(), T in [f32, f64] => {
                let x = &x.as_slice::<T>()?[row * width..(row + 1) * width];
                weights.extend(x.iter().map(|weight| weight.to_f64()));
            }, else => return Err(not_float("X", x.dtype())));
            check(&weights, samples, replacement)?;
            let first = (row * width.max(samples)) as u64;
            if replacement {
                with_replacement(&mut weights, out, draw, first);
            } else {
                without_replacement(&weights, &mut order, out, draw, first);
            }
        }
        Ok(())
    }))
}

fn check(weights: &[f64], samples: usize, replacement: bool) -> Result<()> {
    if let Some(bad) = weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
        return Err(Error::kernel(format!("weights must be numbers from 0 on, not {bad}")));
    }
    let possible = weights.iter().filter(|weight| **weight > 0.0).count();
    if possible == 0 || (!replacement && possible < samples) {
        return Err(Error::kernel(format!(
            "cannot draw {samples} times from {possible} categories with a weight above 0"
        )));
    }
    Ok(())
}

/// `weights` become sums of all weights up to each one, which a uniform number is looked up in.
fn with_replacement(weights: &mut [f64], out: &mut [i64], draw: Philox, first: u64) {
    let mut total = 0.0;
    for weight in weights.iter_mut() {
        total += *weight;
        *weight = total;
    }
    let last = weights.partition_point(|sum| *sum < total);
    for (index, out) in (first..).zip(out) {
        let at = f64::from(draw.uniform(index)) * total;
        *out = weights.partition_point(|sum| *sum <= at).min(last) as i64;
    }
}

/// Each category waits for a time that is exponential with its weight; the first to arrive win.
fn without_replacement(
    weights: &[f64],
    order: &mut Vec<(f64, i64)>,
    out: &mut [i64],
    draw: Philox,
    first: u64,
) {
    order.clear();
    for ((index, category), weight) in (first..).zip(0..).zip(weights) {
        if *weight > 0.0 {
            let time = -(1.0 - f64::from(draw.uniform(index))).ln() / weight;
            order.push((time, category));
        }
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    out.iter_mut().zip(order).for_each(|(out, (_, category))| *out = *category);
}

#[cfg(test)]
mod tests {
    use crate::Result;
    use crate::ops::testing::*;

    fn run(weights: &[f32], samples: i32, replacement: bool) -> Result<Vec<i64>> {
        let op = Op::new("multinomial").input("X", ["x"]).output("Out", ["out"]);
        let op = op.attr("num_samples", samples).attr("replacement", replacement);
        let mut values = HashMap::new();
        let x = Tensor::from_slice([1, weights.len()], weights)?;
        values.insert("x".to_owned(), x.into());
        run_once(&op, &mut values)?;
        Ok(values["out"].tensor()?.as_slice::<i64>()?.to_vec())
    }

    #[test]
    fn categories_come_as_often_as_their_weights_say() {
        let drawn = run(&[1.0, 0.0, 3.0], 8000, true).unwrap();
        let count = |category| drawn.iter().filter(|drawn| **drawn == category).count();
        assert!((1800..2200).contains(&count(0)), "{}", count(0));
        assert_eq!(count(1), 0);
        assert_eq!(count(0) + count(2), 8000);
    }

    #[test]
    fn without_replacement_each_comes_once() {
        let mut drawn = run(&[1.0, 0.0, 3.0, 2.0], 3, false).unwrap();
        drawn.sort_unstable();
        assert_eq!(drawn, [0, 2, 3]);
        let error = run(&[1.0, 0.0], 2, false).unwrap_err().to_string();
        assert!(error.contains("from 1 categories"), "{error}");
        assert!(run(&[1.0, -1.0], 1, true).is_err());
        assert!(run(&[0.0, 0.0], 1, true).is_err());
    }
}
