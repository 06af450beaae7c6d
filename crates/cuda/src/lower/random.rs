//! Ops that draw random numbers: the same that the host draws, keyed by seed, name and step.

use bireme_engine::random::{Philox, hash_of};
use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::constant::bits;
use super::index::{Indices, put_rows, take_slices};
use super::lowering::{Launch, Lowering, THREADS, invalid};
use super::walk::Path;
use super::{Lower, Outcome, Var, host};
use crate::work::{Base, Ref};

/// The ops of this family that the card runs.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("uniform_random", uniform),
    ("gaussian_random", |l| normal(l, "gaussian")),
    ("truncated_gaussian_random", |l| normal(l, "truncated")),
    ("bernoulli", bernoulli),
    ("randint", randint),
    ("randperm", randperm),
    ("dropout", dropout),
    ("dropout_grad", dropout_grad),
    ("shuffle_batch", shuffle_batch),
    ("shuffle_batch_grad", shuffle_batch_grad),
];

/// What cannot be known now.
const SHAPES: &[&str] = &["ShapeTensor", "ShapeTensorList"];

/// The longest list that one block shuffles in shared memory: the kernels' number.
const MOST_SHUFFLED: usize = 11_264;

/// What an op draws from, as kernels read it: see `kernels/philox.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Draw {
    key: u64,
    is_fixed: u32,
    unused: u32,
}

impl Draw {
    fn new(philox: &Philox, is_fixed: bool) -> Draw {
        let [low, high] = philox.key();
        let key = u64::from(high) << 32 | u64::from(low);
        Draw { key, is_fixed: u32::from(is_fixed), unused: 0 }
    }

    /// Keyed by the op's seed, or else the program's, and the name of the output.
    fn of(l: &Lowering<'_>) -> Outcome<Draw> {
        let op = l.op;
        let seed = if op.maybe_attr("seed").is_some() { op.i64("seed")? } else { 0 };
        let key = if seed == 0 { op.seed } else { seed as u64 };
        // A slice of a variable draws what the whole one would draw at its place.
        let whole = op.maybe_attr("init_name").is_some() && !op.string("init_name")?.is_empty();
        let name = if whole { op.string("init_name")? } else { op.output_key("Out") };
        Ok(Draw::new(&Philox::new(key, &name), seed != 0))
    }
}

/// The position of the first element in its stream: not 0 in a slice of a variable.
fn first(l: &Lowering<'_>) -> Outcome<u64> {
    let given = l.op.maybe_attr("init_offset").is_some();
    Ok(if given { l.op.i64("init_offset")? as u64 } else { 0 })
}

impl Launch<'_> {
    /// The number of the step.
    fn step(self) -> Self {
        self.at(Ref::of(Base::Step))
    }
}

/// A kernel that draws `out`, four elements a thread.
fn draws<'a>(l: &'a mut Lowering<'_>, name: &str, out: &Var, first: u64) -> Outcome<Launch<'a>> {
    let suffix = out.suffix()?;
    if !matches!(suffix, "f32" | "f64" | "bf16" | "f16") {
        return host();
    }
    // Blocks of four begin at multiples of four of the stream.
    let threads = if out.numel() == 0 { 0 } else { out.numel().div_ceil(4) + 1 };
    let launch = l.over(format!("{name}_{suffix}"), threads).var(out);
    Ok(launch.value(out.numel() as u64).value(first))
}

fn uniform(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(SHAPES)?;
    let (out, draw, first) = (l.output("Out")?, Draw::of(l)?, first(l)?);
    let (low, high) = (l.op.f32("min")?, l.op.f32("max")?);
    // Paddle's `diag_*`: every `diag_step + 1`-th element, `diag_num` times.
    let count = l.op.i64("diag_num")?.max(0) as usize;
    let step = l.op.i64("diag_step")?.max(0) as usize + 1;
    let mut diagonal = Path::default();
    diagonal.axis(count.min(out.numel().div_ceil(step)), 0, step as i64);
    let value = if count > 0 { bits(out.dtype, l.op.f64("diag_val")?)? } else { 0 };
    let launch = draws(l, "uniform", &out, first)?;
    launch.value(low).value(high - low).value(draw).step().launch();
    if count > 0 && diagonal.count() > 0 && out.numel() > 0 {
        l.fill_along(&diagonal, out.at, out.dtype.size(), value)?;
    }
    Ok(())
}

fn normal(l: &mut Lowering<'_>, name: &str) -> Outcome {
    if name == "gaussian" {
        l.decline_values_in(SHAPES)?;
    }
    let (out, draw, first) = (l.output("Out")?, Draw::of(l)?, first(l)?);
    let (mean, deviation) = (l.op.f64("mean")?, l.op.f64("std")?);
    let launch = draws(l, name, &out, first)?;
    launch.value(mean).value(deviation).value(draw).step().launch();
    Ok(())
}

fn bernoulli(l: &mut Lowering<'_>) -> Outcome {
    let (x, out, draw) = (l.input("X")?.dense()?, l.output("Out")?, Draw::of(l)?);
    let suffix = x.suffix()?;
    if !matches!(suffix, "f32" | "f64") {
        return host();
    }
    let launch = l.over(format!("bernoulli_{suffix}"), x.numel().div_ceil(4)).var(&x).var(&out);
    launch.value(x.numel() as u64).value(draw).step().complaint().launch();
    Ok(())
}

/// What random integers may be.
fn integers(out: &Var) -> Outcome<&'static str> {
    let suffix = out.suffix()?;
    if matches!(suffix, "f32" | "f64" | "i32" | "i64") { Ok(suffix) } else { host() }
}

fn randint(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(SHAPES)?;
    let (out, draw) = (l.output("Out")?, Draw::of(l)?);
    let (low, high) = (l.op.i64("low")?, l.op.i64("high")?);
    if low >= high {
        return Err(invalid(format!("there is no integer from {low} below {high}")));
    }
    let name = format!("randint_{}", integers(&out)?);
    let launch = l.over(name, out.numel()).var(&out).size(out.numel()).value(low);
    launch.value(high.wrapping_sub(low).cast_unsigned()).value(draw).step().launch();
    Ok(())
}

fn randperm(l: &mut Lowering<'_>) -> Outcome {
    let (out, draw) = (l.output("Out")?, Draw::of(l)?);
    if out.numel() > MOST_SHUFFLED {
        return host();
    }
    let (name, blocks) = (format!("randperm_{}", integers(&out)?), out.numel().min(1) as u32);
    let launch = l.kernel(name, [blocks, 1, 1], THREADS).var(&out).value(out.numel() as i32);
    launch.value(draw).step().launch();
    Ok(())
}

/// What dropout draws from and does, as kernels read it.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Dropout {
    draw: Draw,
    hash: u64,
    drop: f32,
    unused: u32,
    scale: f64,
}

/// The probability to drop, and what elements are multiplied by in training and at inference.
fn factors(l: &Lowering<'_>) -> Outcome<(f32, f64, f64)> {
    let drop = l.op.f32("dropout_prob")?;
    let upscale = match l.op.string("dropout_implementation")?.as_str() {
        "upscale_in_train" => true,
        "downgrade_in_infer" => false,
        // The host says what is wrong.
        _ => return host(),
    };
    if !(0.0..=1.0).contains(&drop) {
        return host();
    }
    let keep = 1.0 - f64::from(drop);
    // With probability 1 nothing is kept; the factor must only not be infinite.
    let scale = if upscale && keep > 0.0 { 1.0 / keep } else { 1.0 };
    Ok((drop, scale, if upscale { 1.0 } else { keep }))
}

/// The float types that dropout has.
fn real(var: &Var) -> Outcome<&'static str> {
    let suffix = var.suffix()?;
    if matches!(suffix, "f32" | "f64" | "bf16" | "f16") { Ok(suffix) } else { host() }
}

fn dropout(l: &mut Lowering<'_>) -> Outcome {
    let (x, seed, out) = (l.input("X")?.dense()?, l.maybe_input("Seed"), l.output("Out")?);
    let (mask, suffix, count) = (l.wanted_output("Mask"), real(&x)?, x.numel());
    let (drop, scale, at_inference) = factors(l)?;
    if l.op.bool("is_test")? {
        multiply(l, suffix, &x, None, &out, at_inference);
        if let Some(mask) = mask {
            l.over("fill_ones", count).var(&mask).size(count).launch();
        }
        return Ok(());
    }
    if seed.as_ref().is_some_and(|seed| seed.dtype != DType::I32 || seed.numel() == 0) {
        return host();
    }
    let (name, given) = (l.op.output_key("Out"), l.op.i64("seed")?);
    let own = if given == 0 { l.op.seed } else { given as u64 };
    let draw = Draw::new(&Philox::new(own, &name), given != 0 && l.op.bool("fix_seed")?);
    let dropout = Dropout { draw, hash: hash_of(&name), drop, unused: 0, scale };
    let launch = l.over(format!("dropout_{suffix}"), count.div_ceil(4)).var(&x).var(&out);
    let launch = launch.maybe(mask.as_ref()).value(count as u64).value(dropout);
    launch.maybe(seed.as_ref()).step().launch();
    Ok(())
}

fn multiply(l: &mut Lowering<'_>, suffix: &str, x: &Var, mask: Option<&Var>, out: &Var, by: f64) {
    let launch = l.over(format!("dropout_scale_{suffix}"), x.numel()).var(x).maybe(mask);
    launch.var(out).size(x.numel()).value(by).launch();
}

fn dropout_grad(l: &mut Lowering<'_>) -> Outcome {
    let (mask, dout, dx) =
        (l.maybe_input("Mask"), l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let ((_, scale, at_inference), suffix) = (factors(l)?, real(&dout)?);
    if l.op.bool("is_test")? {
        multiply(l, suffix, &dout, None, &dx, at_inference);
        return Ok(());
    }
    let Some(mask) = mask.filter(|mask| mask.dtype.size() == 1) else { return host() };
    multiply(l, suffix, &dout, Some(&mask), &dx, scale);
    Ok(())
}

/// How rows are shuffled, as kernels read it.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Shuffle {
    draw: Draw,
    hash: u64,
    startup: i64,
}

/// A tensor as rows: all of the last axis is one.
fn as_rows(var: Var) -> Outcome<Var> {
    let Some((width, rows)) = var.dims.split_last() else { return host() };
    let dims = vec![rows.iter().product(), *width];
    Ok(Var { dims, ..var })
}

fn shuffle_batch(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (as_rows(l.input("X")?.dense()?)?, as_rows(l.output("Out")?)?);
    let (index, next_seed) = (l.output("ShuffleIdx")?, l.wanted_output("SeedOut"));
    // A seed without an element is one that is not there yet, as in Paddle.
    let seed = l.maybe_input("Seed").filter(|seed| seed.numel() > 0);
    let (rows, startup) = (x.dims[0], l.op.i64("startup_seed")?);
    if seed.as_ref().is_some_and(|seed| seed.dtype != DType::I64) || rows > MOST_SHUFFLED {
        return host();
    }
    let name = l.op.output_key("Out");
    let draw = Draw::new(&Philox::new(startup.cast_unsigned(), &name), false);
    let shuffle = Shuffle { draw, hash: hash_of(&name), startup };
    let launch = l.kernel("shuffle_rows", [1, 1, 1], THREADS).var(&index).value(rows as i32);
    let launch = launch.maybe(seed.as_ref()).maybe(next_seed.as_ref());
    launch.value(shuffle).step().launch();
    put_rows(l, x.at, Indices::of(&index)?, &out)
}

fn shuffle_batch_grad(l: &mut Lowering<'_>) -> Outcome {
    let (index, dout) = (l.input("ShuffleIdx")?, l.input("Out@GRAD")?.dense()?);
    let (dx, rows) = (l.output("X@GRAD")?, index.numel());
    if index.dtype != DType::I64 || (rows > 0 && !dout.numel().is_multiple_of(rows)) {
        return host();
    }
    let width = dout.numel().checked_div(rows).unwrap_or(0);
    take_slices(l, (&dout, 1, rows, width), Indices::of(&index)?, dx.at)
}
