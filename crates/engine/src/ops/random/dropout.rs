//! `dropout`: sets a random part of the elements to 0 while training.
//!
//! Whether an element is dropped depends on seed, output variable, step and the element's position
//! in the whole batch, so a split of the batch does not change the mask.

use crate::ops::prelude::*;
use crate::random::Philox;

const ATTRS: &[AttrSpec] = &[
    attr::float("dropout_prob", 0.5),
    attr::bool("is_test", false),
    attr::str("dropout_implementation", "downgrade_in_infer"),
    attr::bool("fix_seed", false),
    attr::int("seed", 0),
];

pub(super) const DEF: OpDef = OpDef::new("dropout", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("Seed")])
    .outputs(&[Slot::one("Out"), Slot::maybe("Mask")])
    .attrs(ATTRS)
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::batch(&["X"]))
    .gradient(
        Gradient::new(&["X"], grad_kernel)
            .reads(&["Mask"])
            .optional(&["Mask"])
            .like("Out@GRAD")
            .second(second::self_adjoint)
            .split(SplitRule::RowWise),
    );

/// Random numbers drawn at a time; they stay in the first-level cache.
const BLOCK: usize = 256;

/// What a kept and a dropped element are multiplied by.
#[derive(Clone, Copy)]
enum Mode {
    /// Inference: every element by this factor.
    Fixed(f64),
    /// Training: drop with probability `drop`, multiply the others by `scale`.
    Random { drop: f32, scale: f64 },
}

impl Mode {
    fn of(op: &OpView<'_>) -> Result<Mode> {
        let drop = op.f32("dropout_prob")?;
        if !(0.0..=1.0).contains(&drop) {
            return Err(Error::kernel(format!("`dropout_prob` must lie in [0, 1], not {drop}")));
        }
        let upscale = match op.string("dropout_implementation")?.as_str() {
            "upscale_in_train" => true,
            "downgrade_in_infer" => false,
            other => {
                return Err(Error::kernel(format!(
                    "`dropout_implementation` must be upscale_in_train or downgrade_in_infer, \
                     not `{other}`"
                )));
            }
        };
        let keep = 1.0 - f64::from(drop);
        Ok(if op.bool("is_test")? {
            Mode::Fixed(if upscale { 1.0 } else { keep })
        } else {
            // With probability 1 nothing is kept; the factor must only not be infinite.
            Mode::Random { drop, scale: if upscale && keep > 0.0 { 1.0 / keep } else { 1.0 } }
        })
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    cx.set("Mask", x.with_dtype(DType::U8));
    cx.set("Out", x.clone());
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, seed_input) = (op.input("X")?, op.maybe_input("Seed"));
    let (mut out, mut mask) = (op.output("Out")?, op.maybe_output("Mask"));
    let (mode, name) = (Mode::of(op)?, op.output_key("Out"));
    let own = Philox::new(op.seed, &name);
    let given = match op.i64("seed")? {
        0 => None,
        seed => Some(Philox::new(seed as u64, &name)),
    };
    let fixed = op.bool("fix_seed")?;
    float_kernel!(op, "X", |run, T| {
        let seed = seed_input.map_or(Ok(0), |input| run.first::<i32>(input))?;
        let stream = match given {
            // A seed that says which mask is meant gives the same one every step, as in Paddle.
            _ if seed != 0 => Philox::new(u64::from(seed.cast_unsigned()), &name),
            Some(given) if fixed => given,
            _ => given.unwrap_or(own).stream(run.step),
        };
        let mask = mask.as_mut().map(|mask| run.set::<u8>(mask)).transpose()?;
        let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
        let first = run.share.first * (x.len() / run.share.rows.max(1));
        match mode {
            Mode::Fixed(factor) => {
                multiply(x, factor as T, out);
                // Paddle leaves the mask of an inference run unset; ours says what happened.
                mask.into_iter().for_each(|mask| mask.fill(1));
            }
            Mode::Random { drop, scale } => {
                draw(stream, first as u64, drop, scale as T, x, out, mask);
            }
        }
    })
}

fn multiply<T: Real>(x: &[T], factor: T, out: &mut [T]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = *x * factor;
    }
}

/// Drops elements; `first` is the position of `x[0]` in the whole batch.
fn draw<T: Real>(
    stream: Philox,
    first: u64,
    drop: f32,
    scale: T,
    x: &[T],
    out: &mut [T],
    mut mask: Option<&mut [u8]>,
) {
    let mut numbers = [0.0; BLOCK];
    for (block, (x, out)) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).enumerate() {
        let start = block * BLOCK;
        let numbers = &mut numbers[..x.len()];
        stream.fill_uniform(first + start as u64, 0.0, 1.0, numbers);
        for ((out, x), number) in out.iter_mut().zip(x).zip(&*numbers) {
            *out = if *number < drop { T::ZERO } else { *x * scale };
        }
        if let Some(mask) = &mut mask {
            for (mask, number) in mask[start..][..x.len()].iter_mut().zip(&*numbers) {
                *mask = u8::from(*number >= drop);
            }
        }
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mask, dout) = (op.maybe_input("Mask"), op.input("Out@GRAD")?);
    let (mode, mut dx) = (Mode::of(op)?, op.output("X@GRAD")?);
    float_kernel!(op, "Out@GRAD", |run, T| {
        let (dout, dx) = (run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        match (mode, mask) {
            (Mode::Fixed(factor), _) => multiply(dout, factor as T, dx),
            (Mode::Random { scale, .. }, Some(mask)) => {
                for ((dx, dout), mask) in dx.iter_mut().zip(dout).zip(run.get::<u8>(mask)?) {
                    *dx = T::from(*mask) * dout * scale as T;
                }
            }
            (Mode::Random { .. }, None) => {
                return Err(Error::kernel("input slot `Mask` is empty"));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn run(mode: &str) -> HashMap<String, Value> {
        let op = Op::new("dropout")
            .input("X", ["x"])
            .output("Out", ["out"])
            .output("Mask", ["mask"])
            .attr("dropout_implementation", mode)
            .attr("dropout_prob", 0.25f32)
            .attr("seed", 5);
        let x = Tensor::from_slice([40, 50], &[3.0f32; 2000]).unwrap();
        let mut values = HashMap::from([("x".to_owned(), Value::from(x.clone()))]);
        run_once(&op, &mut values).unwrap();
        values.insert("out@GRAD".to_owned(), x.into());
        let grad = Op::new("dropout_grad")
            .input("Mask", ["mask"])
            .input("Out@GRAD", ["out@GRAD"])
            .output("X@GRAD", ["x@GRAD"]);
        run_once(&Op { attrs: op.attrs, ..grad }, &mut values).unwrap();
        values
    }

    #[test]
    fn a_fixed_seed_repeats_its_mask() {
        for fixed in [true, false] {
            let mut program = bireme_ir::Program::new();
            let block = program.global_mut();
            for name in ["x", "out"] {
                block.add_var(bireme_ir::Var::tensor(name, bireme_ir::DType::F32, [-1, 50]));
            }
            let op = Op::new("dropout").input("X", ["x"]).output("Out", ["out"]);
            block.ops.push(op.attr("seed", 5).attr("fix_seed", fixed));
            let mut executor = crate::Executor::new(crate::Place::Cpu).unwrap();
            let x = Tensor::from_slice([40, 50], &[3.0f32; 2000]).unwrap();
            let mut step = || executor.run(&program, &[("x", &x)], &["out"]).unwrap();
            assert_eq!(step() == step(), fixed);
        }
    }

    #[test]
    fn drops_the_asked_share_and_scales_the_rest() {
        for (mode, kept) in [("upscale_in_train", 4.0), ("downgrade_in_infer", 3.0)] {
            let values = run(mode);
            let floats = |name: &str| values[name].tensor().unwrap().as_slice::<f32>().unwrap();
            let mask = values["mask"].tensor().unwrap().as_slice::<u8>().unwrap();
            for (out, mask) in floats("out").iter().zip(mask) {
                assert_eq!(*out, if *mask == 1 { kept } else { 0.0 });
            }
            // The gradient of `out` is `x`, so it must pass through the same mask.
            assert_eq!(floats("x@GRAD"), floats("out"));
            let share = mask.iter().filter(|mask| **mask == 0).count() as f64 / 2000.0;
            assert!((share - 0.25).abs() < 0.03, "{share}");
        }
    }
}
