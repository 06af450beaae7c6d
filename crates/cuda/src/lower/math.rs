//! Arithmetic on whole tensors: scaling, bounds, powers, sums of tensors, running sums.

use bireme_ir::DType;

use super::broadcast::{Aligned, Broadcast, threads};
use super::create::cast_to;
use super::elementwise::{Operand, zip, zip_grad};
use super::lowering::suffix;
use super::unary::{map, map_grad, map_whole};
use super::{Lower, Lowering, Outcome, Var, host, selected_rows};
use crate::work::Ref;

/// The ops of this file.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("scale", scale),
    ("increment", increment),
    ("clip", clip),
    ("clip_grad", clip_grad),
    ("pow", pow),
    ("pow_grad", pow_grad),
    ("sum", sum),
    ("cumsum", cumsum),
    ("cumsum_grad", cumsum_grad),
    ("label_smooth", label_smooth),
    ("label_smooth_grad", label_smooth_grad),
];

/// Tensors that the kernel of a sum takes at once.
const SUMMED_AT_ONCE: usize = 8;

fn is_wide_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

fn is_float(dtype: DType) -> bool {
    is_wide_float(dtype) || matches!(dtype, DType::BF16 | DType::F16)
}

fn is_whole(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

/// `from * scale + bias` for `n` elements.
struct Affine {
    from: Ref,
    to: Ref,
    dtype: DType,
    n: usize,
    /// The factor, or where it lies (as a double).
    factor: Ref,
    scale: f64,
    bias: f64,
    bias_is_scaled: bool,
}

impl Affine {
    /// Declined for types that have no arithmetic.
    fn add_to(self, l: &mut Lowering<'_>) -> Outcome {
        if !is_float(self.dtype) && !is_whole(self.dtype) {
            return host();
        }
        let name = format!("scale_{}", suffix(self.dtype)?);
        let launch = l.over(name, threads(self.n, self.dtype.size())).at(self.from).at(self.to);
        let launch = launch.size(self.n).at(self.factor).value(self.scale).value(self.bias);
        launch.value(i32::from(self.bias_is_scaled)).launch();
        Ok(())
    }
}

/// All of a tensor, times `scale` plus `bias`.
pub(super) fn affine(l: &mut Lowering<'_>, x: &Var, out: &Var, scale: f64, bias: f64) -> Outcome {
    let (from, to, dtype, n) = (x.at, out.at, x.dtype, x.numel());
    let factor = Ref::NULL;
    Affine { from, to, dtype, n, factor, scale, bias, bias_is_scaled: false }.add_to(l)
}

fn scale(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?, l.output("Out")?);
    let (scale, bias) = (l.op.f64("scale")?, l.op.f64("bias")?);
    let bias_is_scaled = !l.op.bool("bias_after_scale")?;
    if x.dtype != out.dtype {
        return host();
    }
    let factor = match l.maybe_input("ScaleTensor") {
        // The host complains of one without a number.
        Some(factor) if factor.numel() == 0 => return host(),
        Some(factor) => cast_to(l, &Var { dims: Vec::new(), ..factor.dense()? }, DType::F64)?,
        None => Ref::NULL,
    };
    let n = match (x.selected, out.selected) {
        (None, None) => x.numel(),
        (Some(from), Some(to)) => {
            l.select("Out", from.count);
            l.copy(from.rows, to.rows, from.count * size_of::<i64>());
            from.count * x.width()
        }
        _ => return host(),
    };
    let (from, to, dtype) = (x.at, out.at, x.dtype);
    Affine { from, to, dtype, n, factor, scale, bias, bias_is_scaled }.add_to(l)
}

fn increment(l: &mut Lowering<'_>) -> Outcome {
    let (x, out, step) = (l.input("X")?.dense()?, l.output("Out")?, l.op.f64("step")?);
    if x.numel() != 1 || x.dtype != out.dtype || !(is_wide_float(x.dtype) || is_whole(x.dtype)) {
        return host();
    }
    affine(l, &x, &out, 1.0, step)
}

/// The bounds of a clip; declined when they lie on the card, or exclude each other.
fn bounds(l: &Lowering<'_>) -> Outcome<[f64; 2]> {
    if l.maybe_input("Min").is_some() || l.maybe_input("Max").is_some() {
        return host();
    }
    let (min, max) = (l.op.f64("min")?, l.op.f64("max")?);
    if min > max { host() } else { Ok([min, max]) }
}

fn clip(l: &mut Lowering<'_>) -> Outcome {
    // Rows would have to be merged first.
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let [min, max] = bounds(l)?;
    match x.dtype {
        // The kernel cuts 64 bits down to 32.
        DType::I32 => map_whole(l, "clip", &x, &out, [min as i32, max as i32].map(i64::from), 0.0),
        DType::I64 => map_whole(l, "clip", &x, &out, [min as i64, max as i64], 0.0),
        dtype if is_float(dtype) => {
            map(l, format!("clip_{}", x.suffix()?), &x, &out, [min, max, 0.0]);
            Ok(())
        }
        _ => host(),
    }
}

fn clip_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, d, dx) = (l.input("X")?.dense()?, l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let [min, max] = bounds(l)?;
    if !is_float(x.dtype) || d.dtype != x.dtype {
        return host();
    }
    map_grad(l, format!("clip_grad_{}", x.suffix()?), &x, &d, &dx, [min, max, 0.0]);
    Ok(())
}

fn pow(l: &mut Lowering<'_>) -> Outcome {
    let (x, out, factor) = (l.input("X")?.dense()?, l.output("Out")?, l.op.f64("factor")?);
    if l.maybe_input("FactorTensor").is_some() {
        let factor = given_factor(l, &x)?;
        let name = format!("elementwise_pow_{}", x.suffix()?);
        let full = [x.numel()];
        let operands = [Operand { at: x.at, dims: &full }, factor];
        return zip(l, name, &full, operands, out.at, x.dtype.size());
    }
    if is_whole(x.dtype) {
        return map_whole(l, "pow", &x, &out, [0, 0], factor);
    }
    if !is_wide_float(x.dtype) {
        return host();
    }
    map(l, format!("pow_{}", x.suffix()?), &x, &out, [factor, factor - 1.0, 0.0]);
    Ok(())
}

/// The exponent that lies on the card, as a number like those of `x`. The host complains of a tensor without one.
fn given_factor(l: &mut Lowering<'_>, x: &Var) -> Outcome<Operand<'static>> {
    let factor = l.input("FactorTensor")?.dense()?;
    if factor.numel() == 0 || !is_wide_float(x.dtype) {
        return host();
    }
    let at = cast_to(l, &Var { dims: Vec::new(), ..factor }, x.dtype)?;
    Ok(Operand { at, dims: &[1] })
}

fn pow_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, d, dx) = (l.input("X")?.dense()?, l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let factor = l.op.f64("factor")?;
    if !is_wide_float(x.dtype) || d.dtype != x.dtype {
        return host();
    }
    if l.maybe_input("FactorTensor").is_some() {
        let (n, factor) = (x.numel(), given_factor(l, &x)?);
        let aligned = Aligned { x: vec![n], y: vec![1], full: vec![n] };
        let factor = Var { at: factor.at, dims: vec![1], ..x.clone() };
        let name = format!("elementwise_pow_grad_x_{}", x.suffix()?);
        return zip_grad(l, name, &aligned, [&x, &factor, &d], dx.at);
    }
    let attrs = [factor, factor - 1.0, 0.0];
    map_grad(l, format!("pow_grad_{}", x.suffix()?), &x, &d, &dx, attrs);
    Ok(())
}

/// Dense tensors, eight of them in one pass.
fn sum(l: &mut Lowering<'_>) -> Outcome {
    let (inputs, out) = (l.inputs("X"), l.output("Out")?);
    if inputs.iter().any(|input| input.selected.is_some()) {
        return selected_rows::sum(l);
    }
    let is_known = is_float(out.dtype) || is_whole(out.dtype);
    let fits = |x: &Var| x.dtype == out.dtype && x.numel() == out.numel();
    if !is_known || !inputs.iter().all(fits) {
        return host();
    }
    if let [only] = inputs.as_slice() {
        l.copy(only.at, out.at, out.bytes());
        return Ok(());
    }
    let mut rest: Vec<Ref> = inputs.iter().map(|input| input.at).collect();
    let (name, n) = (format!("sum_of_tensors_{}", out.suffix()?), out.numel());
    while !rest.is_empty() {
        let now: Vec<Ref> = rest.drain(..rest.len().min(SUMMED_AT_ONCE)).collect();
        let mut launch = l.over(name.clone(), threads(n, out.dtype.size()));
        for at in 0..SUMMED_AT_ONCE {
            launch = launch.at(now.get(at).copied().unwrap_or(Ref::NULL));
        }
        launch.var(&out).size(n).launch();
        if !rest.is_empty() {
            rest.insert(0, out.at);
        }
    }
    Ok(())
}

fn cumsum(l: &mut Lowering<'_>) -> Outcome {
    running_sums(l, "X", "Out", false)
}

/// An element counts in all later sums, so its gradient is the running sum from the other end.
fn cumsum_grad(l: &mut Lowering<'_>) -> Outcome {
    running_sums(l, "Out@GRAD", "X@GRAD", true)
}

fn running_sums(l: &mut Lowering<'_>, from: &str, to: &str, is_backward: bool) -> Outcome {
    let (x, from, out) = (l.input("X")?.dense()?, l.input(from)?.dense()?, l.output(to)?);
    let (axis, rank) = (l.op.i64("axis")?, x.dims.len());
    let exclusive = i32::from(l.op.bool("exclusive")?);
    let reverse = i32::from(l.op.bool("reverse")? != is_backward);
    if from.dtype != x.dtype || !(is_wide_float(x.dtype) || is_whole(x.dtype)) {
        return host();
    }
    let positive = if axis < 0 { axis + rank as i64 } else { axis };
    let (length, width) = match usize::try_from(positive) {
        _ if l.op.bool("flatten")? => (x.numel(), 1),
        _ if rank == 0 => (1, 1),
        Ok(axis) if axis < rank => (x.dims[axis], x.dims[axis + 1..].iter().product()),
        _ => return host(),
    };
    if x.numel() == 0 {
        return Ok(());
    }
    let (lines, suffix) = (x.numel() / length, x.suffix()?);
    // Neighbouring threads go along neighbouring lines, unless those are few and long.
    let launch = if length <= 32 || width >= 32 {
        let launch = l.over(format!("cumsum_of_lines_{suffix}"), lines);
        launch.var(&from).var(&out).size(lines)
    } else {
        let Ok(blocks) = i32::try_from(lines) else { return host() };
        let name = format!("cumsum_by_blocks_{suffix}");
        l.kernel(name, [blocks as u32, 1, 1], 256).var(&from).var(&out)
    };
    launch.size(length).size(width).value(exclusive).value(reverse).launch();
    Ok(())
}

fn label_smooth(l: &mut Lowering<'_>) -> Outcome {
    let (x, out, epsilon) = (l.input("X")?.dense()?, l.output("Out")?, l.op.f64("epsilon")?);
    if !is_wide_float(x.dtype) {
        return host();
    }
    let (keep, classes) = (1.0 - epsilon, x.dims.last().copied().unwrap_or(1));
    let Some(prior) = l.maybe_input("PriorDist") else {
        return affine(l, &x, &out, keep, epsilon / classes.max(1) as f64);
    };
    if prior.selected.is_some() || prior.dtype != x.dtype || prior.numel() != classes {
        return host();
    }
    let (n, size) = (x.numel(), x.dtype.size());
    let full = [n / classes.max(1), classes];
    let shape = Broadcast::new(&full, [&full, &[1, classes]], size)?;
    let name = format!("label_smooth_{}", x.suffix()?);
    let launch = l.over(name, shape.threads(n, size)).var(&x).var(&prior).var(&out).size(n);
    launch.value(shape).value(keep).value(epsilon).launch();
    Ok(())
}

fn label_smooth_grad(l: &mut Lowering<'_>) -> Outcome {
    let (d, dx, epsilon) =
        (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?, l.op.f64("epsilon")?);
    if !is_wide_float(d.dtype) {
        return host();
    }
    affine(l, &d, &dx, 1.0 - epsilon, 0.0)
}
