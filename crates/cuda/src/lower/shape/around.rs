//! Elements put around a tensor, or moved round its axes.

use bytemuck::{Pod, Zeroable};

use crate::lower::axes::axis_in;
use crate::lower::constant::bits;
use crate::lower::divider::{Divider, divider};
use crate::lower::lowering::{Lowering, invalid};
use crate::lower::walk::{MAX_AXES, MAX_COUNT, bits_of, strides, word, word_of};
use crate::lower::{Outcome, Var, host};

/// What lies around; the numbers are those of the kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Constant = 0,
    Reflect = 1,
    Replicate = 2,
    Circular = 3,
}

/// An axis of the result: what it has, what of that is inside, and what lies in front.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    outer: usize,
    inner: usize,
    before: i64,
}

impl Axis {
    fn is_plain(self) -> bool {
        self.outer == self.inner && self.before == 0
    }

    /// The axis together with `len` elements that lie inside each of its own.
    fn times(self, len: usize) -> Axis {
        Axis { outer: self.outer * len, inner: self.inner * len, before: self.before * len as i64 }
    }
}

/// Axes as kernels read them.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Around {
    rank: i32,
    mode: i32,
    outer: [Divider; MAX_AXES],
    inner: [i32; MAX_AXES],
    before: [i32; MAX_AXES],
    steps: [i32; MAX_AXES],
}

pub(super) fn pad(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["Paddings"])?;
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let (mode, value) = mode(l)?;
    let axes = axes(l, mode, &x.dims, &out.dims)?;
    if mode == Mode::Constant && !matches!(out.suffix()?, "f32" | "f64" | "i32" | "i64") {
        return host();
    }
    surround(l, mode, &axes, (&x, &out), bits(out.dtype, value)?)
}

pub(super) fn pad_grad(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["Paddings"])?;
    let (dout, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let (mode, _) = mode(l)?;
    let axes = axes(l, mode, &dx.dims, &dout.dims)?;
    if mode == Mode::Constant {
        let steps = strides(&dout.dims);
        let first = axes.iter().zip(&steps).map(|(axis, step)| axis.before * step).sum();
        let path = crate::lower::walk::Path::read(first, &dx.dims, &steps);
        return l.move_along(&path, dout.at, dx.at, dx.dtype.size());
    }
    let (suffix, count) = (dx.suffix()?, dx.numel());
    if !matches!(suffix, "f32" | "f64" | "i32" | "i64") || count >= MAX_COUNT {
        return host();
    }
    let around = table(mode, &axes)?;
    let launch = l.over(format!("surround_sum_{suffix}"), count).var(&dout).var(&dx);
    launch.value(count as u32).value(around).launch();
    Ok(())
}

/// What attributes say lies around.
fn mode(l: &Lowering<'_>) -> Outcome<(Mode, f64)> {
    let name = l.op.def.name;
    if name.starts_with("pad_") || name == "pad" {
        return Ok((Mode::Constant, l.op.f64("pad_value")?));
    }
    let mode = match l.op.string("mode")?.as_str() {
        "constant" => Mode::Constant,
        "reflect" => Mode::Reflect,
        "edge" | "replicate" => Mode::Replicate,
        "circular" => Mode::Circular,
        // The host says what is wrong.
        _ => return host(),
    };
    let value = if name.starts_with("pad2d") { "pad_value" } else { "value" };
    Ok((mode, l.op.f64(value)?))
}

/// The axes of `outer`, of which attribute `paddings` says what is inside.
fn axes(l: &Lowering<'_>, mode: Mode, inner: &[usize], outer: &[usize]) -> Outcome<Vec<Axis>> {
    let given = l.op.longs("paddings")?;
    let padded: Vec<usize> = if l.op.maybe_attr("data_format").is_none() {
        (0..inner.len()).collect()
    } else {
        match l.op.string("data_format")?.as_str() {
            "NCHW" => vec![2, 3],
            "NHWC" => vec![1, 2],
            "NCDHW" => vec![4, 3, 2],
            "NDHWC" => vec![3, 2, 1],
            _ => return host(),
        }
    };
    if given.len() != 2 * padded.len()
        || padded.iter().any(|axis| *axis >= inner.len())
        || inner.len() != outer.len()
    {
        return host();
    }
    let plain = |(inner, outer): (&usize, &usize)| Axis { outer: *outer, inner: *inner, before: 0 };
    let mut axes: Vec<Axis> = inner.iter().zip(outer).map(plain).collect();
    for (pair, at) in given.chunks_exact(2).zip(padded) {
        let (axis, before, after) = (&mut axes[at], pair[0], pair[1]);
        axis.before = before;
        let most = match mode {
            Mode::Constant => i64::MAX,
            Mode::Reflect => (axis.inner as i64 - 1).max(0),
            Mode::Replicate | Mode::Circular if axis.inner > 0 => i64::MAX,
            Mode::Replicate | Mode::Circular => 0,
        };
        let fits = axis.inner as i64 + before + after == axis.outer as i64;
        if before < 0 || after < 0 || before > most || after > most || !fits {
            return host();
        }
    }
    Ok(axes)
}

/// Moves elements along axes; what leaves at one end comes back at the other.
pub(super) fn roll(l: &mut Lowering<'_>, from: &str, to: &str, sign: i64) -> Outcome {
    l.decline_values_in(&["ShiftsTensor"])?;
    let (x, out) = (l.input(from)?.dense()?, l.output(to)?);
    let (shifts, given) = (l.op.longs("shifts")?, l.op.longs("axis")?);
    // Without axes the tensor is moved as one list.
    let dims = if given.is_empty() { vec![x.numel()] } else { x.dims.clone() };
    if shifts.len() != given.len().max(1) {
        let problem = format!("{} shifts do not fit axes {given:?}", shifts.len());
        return Err(invalid(problem));
    }
    let plain = |dim: &usize| Axis { outer: *dim, inner: *dim, before: 0 };
    let mut axes: Vec<Axis> = dims.iter().map(plain).collect();
    for (i, shift) in shifts.iter().enumerate() {
        let axis = if given.is_empty() { 0 } else { axis_in(given[i], dims.len())? };
        let (axis, len) = (&mut axes[axis], (dims[axis] as i64).max(1));
        axis.before = (axis.before + sign * (shift % len)).rem_euclid(len);
    }
    surround(l, Mode::Circular, &axes, (&x, &out), 0)
}

/// Puts `x`, seen in shape `inner`, into `out`, seen in shape `outer`, behind `before` elements of each
/// axis; the others become the constant that `bits` are.
pub(super) fn with_constant(
    l: &mut Lowering<'_>,
    (x, inner): (&Var, &[usize]),
    (out, outer): (&Var, &[usize]),
    before: &[i64],
    bits: u64,
) -> Outcome {
    let sizes = inner.iter().zip(outer).zip(before);
    let axis = |((inner, outer), before): ((&usize, &usize), &i64)| Axis {
        outer: *outer,
        inner: *inner,
        before: *before,
    };
    let axes: Vec<Axis> = sizes.map(axis).collect();
    surround(l, Mode::Constant, &axes, (x, out), bits)
}

fn surround(
    l: &mut Lowering<'_>,
    mode: Mode,
    axes: &[Axis],
    (x, out): (&Var, &Var),
    bits: u64,
) -> Outcome {
    let size = x.dtype.size();
    let mut axes = merged(mode, axes);
    let mut bytes = size;
    // Elements that move together go in larger words.
    let mirrors = matches!(mode, Mode::Reflect | Mode::Replicate);
    if let Some(last) = axes.last_mut().filter(|last| last.is_plain() || !mirrors) {
        let sizes = [last.outer, last.inner, last.before as usize].map(|len| len * size);
        bytes = word_of(sizes).max(size);
        let words = bytes / size;
        *last = Axis {
            outer: last.outer / words,
            inner: last.inner / words,
            before: last.before / words as i64,
        };
    }
    let count: usize = axes.iter().map(|axis| axis.outer).product();
    if count >= MAX_COUNT {
        return host();
    }
    let around = table(mode, &axes)?;
    let launch = l.over(format!("surround_{}", word(bytes)), count).var(x).var(out);
    let launch = launch.value(count as u32);
    bits_of(launch, bytes, repeated(bits, size)).value(around).launch();
    Ok(())
}

/// The bits of an element as often as they fit into 8 bytes.
fn repeated(bits: u64, size: usize) -> u64 {
    match size {
        1 => (bits & 0xff) * 0x0101_0101_0101_0101,
        2 => (bits & 0xffff) * 0x0001_0001_0001_0001,
        4 => (bits & 0xffff_ffff) * 0x0000_0001_0000_0001,
        _ => bits,
    }
}

/// Fewer axes that say the same: what lies whole inside another's elements joins it.
fn merged(mode: Mode, axes: &[Axis]) -> Vec<Axis> {
    let mut all: Vec<Axis> = Vec::new();
    for axis in axes {
        match all.last_mut() {
            Some(last)
                if axis.is_plain()
                    && (last.is_plain() || matches!(mode, Mode::Constant | Mode::Circular)) =>
            {
                *last = last.times(axis.inner);
            }
            _ => all.push(*axis),
        }
    }
    all
}

fn table(mode: Mode, axes: &[Axis]) -> Outcome<Around> {
    let mut around = Around::zeroed();
    if axes.len() > MAX_AXES || axes.iter().any(|axis| axis.outer.max(axis.inner) >= MAX_COUNT) {
        return host();
    }
    (around.rank, around.mode) = (axes.len() as i32, mode as i32);
    let inner: Vec<usize> = axes.iter().map(|axis| axis.inner).collect();
    if inner.iter().product::<usize>() >= MAX_COUNT {
        return host();
    }
    for (at, (axis, step)) in axes.iter().zip(strides(&inner)).enumerate() {
        around.outer[at] = divider(axis.outer);
        around.inner[at] = axis.inner as i32;
        around.before[at] = axis.before as i32;
        around.steps[at] = step as i32;
    }
    Ok(around)
}
