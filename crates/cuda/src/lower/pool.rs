//! Pooling: one number for each window of an image.

use bytemuck::{Pod, Zeroable};

use super::divider::{Divider, divider};
use super::lowering::Lowering;
use super::walk::MAX_COUNT;
use super::{Lower, Outcome, Var, host};
use crate::work::Ref;

/// The ops of this family that the card runs.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("pool2d", pool2d),
    ("pool2d_grad", pool2d_grad),
    ("max_pool2d_with_index", max_with_index),
    ("max_pool2d_with_index_grad", max_with_index_grad),
];

/// The windows along one axis, as kernels read them: see `kernels/pool.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Windows {
    input: i32,
    output: i32,
    window: i32,
    stride: i32,
    before: i32,
    is_adaptive: i32,
    counts_padding: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Pool {
    rows: Windows,
    columns: Windows,
    inner: Divider,
    width: Divider,
    height: Divider,
}

/// Which side has a thread for each element.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Result,
    Image,
}

/// The windows over images of shape `x` that give a result of shape `out`.
fn windows(l: &Lowering<'_>, x: &Var, out: &Var, side: Side) -> Outcome<Pool> {
    let op = l.op;
    let has = |name: &str| op.maybe_attr(name).is_some();
    let last = has("data_format") && op.string("data_format")? == "NHWC";
    let spatial = if last { [1, 2] } else { [2, 3] };
    if x.dims.len() != 4 || out.dims.len() != 4 || x.numel().max(out.numel()) >= MAX_COUNT {
        return host();
    }
    let adaptive = op.bool("global_pooling")? || op.bool("adaptive")?;
    let exclusive = !has("exclusive") || op.bool("exclusive")?;
    let mut axes = [Windows::zeroed(); 2];
    for (axis, at) in spatial.into_iter().enumerate() {
        let (input, output) = (x.dims[at] as i64, out.dims[at] as i64);
        let (mut window, mut stride, mut before) = (1, 1, 0);
        if !adaptive {
            let (windows, strides) = (op.longs("ksize")?, op.longs("strides")?);
            if windows.len() != 2 || strides.len() != 2 || strides[axis] < 1 {
                return host();
            }
            (window, stride) = (windows[axis], strides[axis]);
            before = padding_before(l, axis, input, window, stride)?;
        }
        let fits = |number: i64| i32::try_from(number).ok();
        let (Some(window), Some(stride), Some(before)) = (fits(window), fits(stride), fits(before))
        else {
            return host();
        };
        axes[axis] = Windows {
            input: input as i32,
            output: output as i32,
            window,
            stride,
            before,
            is_adaptive: i32::from(adaptive),
            counts_padding: i32::from(!exclusive),
        };
    }
    let of = if side == Side::Result { out } else { x };
    let [height, width] = spatial.map(|at| divider(of.dims[at]));
    let inner = divider(if last { x.dims[3] } else { 1 });
    Ok(Pool { rows: axes[0], columns: axes[1], inner, width, height })
}

/// The padding in front of an axis.
fn padding_before(
    l: &Lowering<'_>,
    axis: usize,
    input: i64,
    window: i64,
    stride: i64,
) -> Outcome<i64> {
    let named = l.op.maybe_attr("padding_algorithm").is_some();
    let algorithm = if named { l.op.string("padding_algorithm")? } else { "EXPLICIT".to_owned() };
    match (algorithm.as_str(), l.op.longs("paddings")?.as_slice()) {
        ("VALID", _) => Ok(0),
        ("SAME", _) => {
            let outputs = (input + stride - 1) / stride;
            Ok(((outputs - 1) * stride + window - input).max(0) / 2)
        }
        ("EXPLICIT", given @ [_, _]) if given.iter().all(|padding| *padding >= 0) => {
            Ok(given[axis])
        }
        ("EXPLICIT", given @ [_, _, _, _]) if given.iter().all(|padding| *padding >= 0) => {
            Ok(given[2 * axis])
        }
        // The host says what is wrong.
        _ => host(),
    }
}

/// The float types that are pooled.
fn real(var: &Var) -> Outcome<&'static str> {
    let suffix = var.suffix()?;
    if matches!(suffix, "f32" | "f64" | "bf16" | "f16") { Ok(suffix) } else { host() }
}

/// Whether it is the maximum of windows that is wanted, rather than the mean.
fn is_max(l: &Lowering<'_>) -> Outcome<bool> {
    match l.op.string("pooling_type")?.as_str() {
        "max" => Ok(true),
        "avg" => Ok(false),
        _ => host(),
    }
}

fn pool2d(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let (pool, suffix, count) = (windows(l, &x, &out, Side::Result)?, real(&x)?, out.numel());
    let name = if is_max(l)? { "max_pool" } else { "mean_pool" };
    let launch = l.over(format!("{name}_{suffix}"), count).var(&x).var(&out);
    launch.value(count as u32).value(pool).launch();
    Ok(())
}

fn pool2d_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, out, dout) = (l.input("X")?.dense()?, l.input("Out")?, l.input("Out@GRAD")?.dense()?);
    let (dx, suffix) = (l.output("X@GRAD")?, real(&dout)?);
    if out.dims != dout.dims || x.dtype != dout.dtype || out.dtype != dout.dtype {
        return host();
    }
    if !is_max(l)? {
        let (pool, count) = (windows(l, &x, &dout, Side::Image)?, dx.numel());
        let launch = l.over(format!("mean_pool_grad_{suffix}"), count).var(&dout).var(&dx);
        launch.value(count as u32).value(pool).launch();
        return Ok(());
    }
    let places = l.scratch(out.numel() * 4);
    locate(l, (&x, Some(&out)), None, places, &dout)?;
    gather_grad(l, places, &x, &dout, &dx)
}

/// Finds where the maxima of windows lie.
fn locate(
    l: &mut Lowering<'_>,
    (x, known): (&Var, Option<&Var>),
    out: Option<&Var>,
    places: Ref,
    result: &Var,
) -> Outcome {
    let (pool, count) = (windows(l, x, result, Side::Result)?, result.numel());
    let launch = l.over(format!("locate_max_{}", real(x)?), count).var(x).maybe(known);
    launch.maybe(out).at(places).value(count as u32).value(pool).launch();
    Ok(())
}

/// The gradient of maxima: each goes to where it came from.
fn gather_grad(l: &mut Lowering<'_>, places: Ref, x: &Var, dout: &Var, dx: &Var) -> Outcome {
    let (pool, count) = (windows(l, x, dout, Side::Image)?, dx.numel());
    let launch = l.over(format!("max_pool_grad_{}", real(dout)?), count).at(places).var(dout);
    launch.var(dx).value(count as u32).value(pool).launch();
    Ok(())
}

fn max_with_index(l: &mut Lowering<'_>) -> Outcome {
    let (x, out, mask) = (l.input("X")?.dense()?, l.output("Out")?, l.output("Mask")?);
    locate(l, (&x, None), Some(&out), mask.at, &out)
}

fn max_with_index_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, mask, dout) = (l.input("X")?, l.input("Mask")?, l.input("Out@GRAD")?.dense()?);
    let dx = l.output("X@GRAD")?;
    if mask.dims != dout.dims || mask.suffix()? != "i32" {
        return host();
    }
    gather_grad(l, mask.at, &x, &dout, &dx)
}
