//! `uniform_random`, `gaussian_random`, `truncated_gaussian_random`, `bernoulli`.

use super::draw::Draw;
use crate::ops::prelude::*;
use crate::ops::shape::dims::{ranked, sized};
use crate::ops::shape::given::Given;
use crate::random::Philox;

const SHAPE: [Slot; 2] = [Slot::maybe("ShapeTensor"), Slot::any("ShapeTensorList")];

/// Slices of a variable, on parameter servers, name the whole one and where they start in it.
const INIT_NAME: AttrSpec = attr::str("init_name", "");
const INIT_OFFSET: AttrSpec = attr::long("init_offset", 0);

pub(super) const UNIFORM: OpDef = OpDef::new("uniform_random", uniform)
    .inputs(&SHAPE)
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::longs("shape", &[]),
        attr::int("dtype", DType::F32.code()),
        attr::float("min", -1.0),
        attr::float("max", 1.0),
        attr::int("seed", 0),
        attr::int("diag_num", 0),
        attr::int("diag_step", 0),
        attr::float("diag_val", 1.0),
        INIT_NAME,
        INIT_OFFSET,
    ])
    .infer(infer);

pub(super) const GAUSSIAN: OpDef = OpDef::new("gaussian_random", |op| {
    let (mean, std) = (op.f64("mean")?, op.f64("std")?);
    kernel(op, Given::shape_of(op)?, move |draw, i| mean + std * f64::from(draw.normal(i)))
})
.inputs(&SHAPE)
.outputs(&[Slot::one("Out")])
.attrs(&[
    attr::longs("shape", &[]),
    attr::float("mean", 0.0),
    attr::float("std", 1.0),
    attr::int("seed", 0),
    attr::int("dtype", DType::F32.code()),
    INIT_NAME,
    INIT_OFFSET,
])
.infer(infer);

pub(super) const TRUNCATED_GAUSSIAN: OpDef = OpDef::new("truncated_gaussian_random", |op| {
    let (mean, std) = (op.f64("mean")?, op.f64("std")?);
    kernel(op, Given::attr(op, "shape")?, move |draw, i| mean + std * draw.truncated_normal(i))
})
.outputs(&[Slot::one("Out")])
.attrs(&[
    attr::required("shape", AttrKind::Ints),
    attr::float("mean", 0.0),
    attr::float("std", 1.0),
    attr::int("seed", 0),
    attr::int("dtype", DType::F32.code()),
    INIT_NAME,
    INIT_OFFSET,
])
.infer(|cx: &mut Infer<'_>| {
    let out = Meta::new(cx.op().dtype("dtype")?, ranked(cx.op().longs("shape")?)?);
    cx.set("Out", out);
    Ok(())
});

pub(super) const BERNOULLI: OpDef = OpDef::new("bernoulli", bernoulli)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .like(&[("Out", "X")])
    .lod_from("X")
    .split(SplitRule::RowWise);

impl Given {
    fn shape_of(op: &OpView<'_>) -> Result<Given> {
        Given::new(op, "shape", "ShapeTensor", "ShapeTensorList")
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let dims = Given::shape_of(cx.op())?.guess(cx)?;
    let out = Meta::new(cx.op().dtype("dtype")?, ranked(dims)?);
    cx.set("Out", out);
    Ok(())
}

fn kernel(
    op: &OpView<'_>,
    mut shape: Given,
    element: impl Fn(&Philox, u64) -> f64 + Send + 'static,
) -> Result<Kernel> {
    let (mut out, draw, dtype) = (op.output("Out")?, Draw::new(op)?, op.dtype("dtype")?);
    let first = Draw::offset(op)?;
    Ok(Box::new(move |run| {
        let (out, draw) = (run.out(&mut out)?, draw.step(run.step));
        out.resize(dtype, sized(shape.read(run)?)?);
        each(out, |index| element(&draw, first.wrapping_add(index)))
    }))
}

fn each(out: &mut Tensor, element: impl Fn(u64) -> f64) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16] => {
        for (index, out) in (0..).zip(out.as_mut_slice::<T>()?) {
            *out = T::from_f64(element(index));
        }
        Ok(())
    }, else => Err(Error::kernel(format!("random numbers are real, not {}", out.dtype()))))
}

fn uniform(op: &OpView<'_>) -> Result<Kernel> {
    let (mut out, draw, dtype) = (op.output("Out")?, Draw::new(op)?, op.dtype("dtype")?);
    let (low, high, mut shape) = (op.f32("min")?, op.f32("max")?, Given::shape_of(op)?);
    let (count, step) = (op.i64("diag_num")?.max(0) as usize, op.i64("diag_step")?.max(0) as usize);
    let (value, first) = (op.f64("diag_val")?, Draw::offset(op)?);
    Ok(Box::new(move |run| {
        let (out, draw) = (run.out(&mut out)?, draw.step(run.step));
        out.resize(dtype, sized(shape.read(run)?)?);
        if dtype == DType::F32 {
            draw.fill_uniform(first, low, high, out.as_mut_slice()?);
        } else {
            each(out, |i| f64::from(low + (high - low) * draw.uniform(first.wrapping_add(i))))?;
        }
        // Paddle's `diag_*`: every `diag_step + 1`-th element, `diag_num` times.
        dispatch!(dtype, T in [f32, f64, f16, bf16] => {
            let diagonal = out.as_mut_slice::<T>()?.iter_mut().step_by(step + 1);
            diagonal.take(count).for_each(|out| *out = T::from_f64(value));
            Ok(())
        }, else => Err(Error::kernel(format!("random numbers are real, not {dtype}"))))
    }))
}

fn bernoulli(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, draw) = (op.input("X")?, op.output("Out")?, Draw::new(op)?);
    Ok(Box::new(move |run| {
        let (x, out, draw) = (run.tensor(x)?, run.out(&mut out)?, draw.step(run.step));
        // The same coins fall for a row whichever worker has it. A row of the batch may be several
        // of the tensor.
        let first = (run.share.first * (x.numel() / run.share.rows.max(1))) as u64;
        out.resize(x.dtype(), x.dims());
        dispatch!(x.dtype(), T in [f32, f64] => {
            let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?);
            for (index, (out, x)) in (first..).zip(out.iter_mut().zip(x)) {
                let p = x.to_f64();
                if !(0.0..=1.0).contains(&p) {
                    return Err(Error::kernel(format!("{p} is no probability")));
                }
                *out = T::from_f64(f64::from(u8::from(f64::from(draw.uniform(index)) < p)));
            }
            Ok(())
        }, else => Err(Error::kernel(format!("probabilities are real, not {}", x.dtype()))))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::*;

    fn run(kind: &str, name: &str, seed: i32, attrs: &[(&str, f32)]) -> Vec<f32> {
        let mut op = Op::new(kind).output("Out", [name]).attr("shape", vec![100i64, 100]);
        op = op.attr("seed", seed);
        for (name, value) in attrs {
            op = op.attr(name, *value);
        }
        let mut values = HashMap::new();
        run_once(&op, &mut values).unwrap();
        values[name].tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
    }

    fn moments(values: &[f32]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
        let square = values.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>();
        (mean, (square / n).sqrt())
    }

    #[test]
    fn numbers_depend_on_seed_and_name() {
        let uniform = |name, seed| run("uniform_random", name, seed, &[]);
        assert_eq!(uniform("w", 7), uniform("w", 7));
        assert_ne!(uniform("w", 7), uniform("b", 7));
        assert_ne!(uniform("w", 7), uniform("w", 8));
    }

    #[test]
    fn a_slice_draws_what_the_whole_variable_draws_there() {
        for kind in ["uniform_random", "gaussian_random", "truncated_gaussian_random"] {
            let op = Op::new(kind).attr("seed", 3);
            let mut values = HashMap::new();
            let whole = op.clone().output("Out", ["w"]).attr("shape", vec![4i64, 5]);
            run_once(&whole, &mut values).unwrap();
            let slice = op.output("Out", ["w.block1"]).attr("shape", vec![2i64, 5]);
            let slice = slice.attr("init_name", "w").attr("init_offset", 10i64);
            run_once(&slice, &mut values).unwrap();
            let of = |name: &str| values[name].tensor().unwrap().to_f64_vec();
            assert_eq!(of("w.block1"), of("w")[10..], "{kind}");
        }
    }

    #[test]
    fn distributions_have_their_moments() {
        let (mean, std) = moments(&run("uniform_random", "w", 1, &[("min", 0.0), ("max", 2.0)]));
        assert!((mean - 1.0).abs() < 0.02 && (std - 2.0 / 12f64.sqrt()).abs() < 0.02);
        let (mean, std) = moments(&run("gaussian_random", "w", 1, &[("mean", 3.0), ("std", 2.0)]));
        assert!((mean - 3.0).abs() < 0.06 && (std - 2.0).abs() < 0.06, "{mean} {std}");
        let inside = run("truncated_gaussian_random", "w", 1, &[("std", 0.5)]);
        assert!(inside.iter().all(|x| x.abs() <= 1.0));
        // A normal cut at two deviations keeps 0.8796 of its deviation.
        let (mean, std) = moments(&inside);
        assert!(mean.abs() < 0.02 && (std / 0.5 - 0.8796).abs() < 0.02, "{mean} {std}");
    }

    #[test]
    fn coins_follow_their_probabilities() {
        let mut values = HashMap::new();
        values.insert(
            "p".to_owned(),
            Tensor::from_slice([2, 5000], &[0.25f32; 10_000]).unwrap().into(),
        );
        let op = Op::new("bernoulli").input("X", ["p"]).output("Out", ["coins"]);
        run_once(&op, &mut values).unwrap();
        let coins = values["coins"].tensor().unwrap().to_f64_vec();
        assert!(coins.iter().all(|coin| *coin == 0.0 || *coin == 1.0));
        assert!((coins.iter().sum::<f64>() / 10_000.0 - 0.25).abs() < 0.02);
        values.insert("p".to_owned(), Tensor::from_slice([1], &[1.5f32]).unwrap().into());
        assert!(run_once(&op, &mut values).is_err());
    }
}
