//! `pool2d`: the maximum or the mean of each window.

use bireme_ir::{Op, Slots, grad_name};

use super::windows::{Config, Windows, infer};
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::required("pooling_type", AttrKind::String),
    attr::required("ksize", AttrKind::Ints),
    attr::ints("strides", &[1, 1]),
    attr::ints("paddings", &[0, 0]),
    attr::str("padding_algorithm", "EXPLICIT"),
    attr::bool("global_pooling", false),
    attr::bool("adaptive", false),
    attr::bool("ceil_mode", false),
    attr::bool("exclusive", true),
    attr::str("data_format", "NCHW"),
];

pub(super) const DEF: OpDef = OpDef::new("pool2d", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(ATTRS)
    .infer(infer)
    .split(SplitRule::RowWise)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Out"]).second(second_gradient));

/// The gradient of the gradient. Of a mean it is the mean itself; of a maximum it takes what lies where the maximum
/// was, as a mean of windows in which all else is zero, which windows must not share.
fn second_gradient(view: &OpView<'_>) -> Result<Vec<Op>> {
    if Kind::of(view)? == Kind::Mean {
        return second::linear(view);
    }
    let config = Config::of(view)?;
    if !config.is_apart() {
        return Err(Error::kernel(
            "there is no gradient of a gradient for a maximum over windows that overlap, are adaptive or are cut off \
             (`ceil_mode`)",
        ));
    }
    let one = |slots: &Slots, slot: &str| slots.get(slot).and_then(|vars| vars.first()).cloned();
    let missing = || Error::kernel("a slot of `pool2d_grad` is empty");
    let (x, out) = (one(&view.op.inputs, "X"), one(&view.op.inputs, "Out"));
    let (dout, dx) = (one(&view.op.inputs, "Out@GRAD"), one(&view.op.outputs, "X@GRAD"));
    let (x, out) = (x.ok_or_else(missing)?, out.ok_or_else(missing)?);
    let (dout, dx) = (dout.ok_or_else(missing)?, dx.ok_or_else(missing)?);
    let ddx = grad_name(&dx);
    let named = |what: &str| format!("{dx}@SECOND@{what}");
    let (ones, chosen, taken, mean) =
        (named("ones"), named("chosen"), named("taken"), named("mean"));
    let with_attrs = |op: Op| Op { attrs: view.op.attrs.clone(), ..op };
    Ok(vec![
        Op::new("fill_any_like")
            .input("X", [out.as_str()])
            .output("Out", [ones.as_str()])
            .attr("value", 1.0f32),
        with_attrs(Op::new("pool2d_grad"))
            .input("X", [x])
            .input("Out", [out])
            .input("Out@GRAD", [ones])
            .output("X@GRAD", [chosen.as_str()]),
        Op::new("elementwise_mul")
            .input("X", [ddx])
            .input("Y", [chosen])
            .output("Out", [taken.as_str()]),
        with_attrs(Op::new("pool2d"))
            .input("X", [taken])
            .output("Out", [mean.as_str()])
            .attr("pooling_type", "avg")
            .attr("exclusive", false),
        Op::new("scale")
            .input("X", [mean])
            .output("Out", [grad_name(&dout)])
            .attr("scale", config.window_size() as f32),
    ])
}

/// What becomes of a window.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Max,
    Mean,
}

impl Kind {
    fn of(op: &OpView<'_>) -> Result<Kind> {
        match op.string("pooling_type")?.as_str() {
            "max" => Ok(Kind::Max),
            "avg" => Ok(Kind::Mean),
            other => {
                Err(Error::kernel(format!("`pooling_type` must be max or avg, not `{other}`")))
            }
        }
    }
}

/// What a maximum starts from, in both float types, as in Paddle.
const LOWEST: f64 = f32::MIN as f64;

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, kind, config) =
        (op.input("X")?, op.output("Out")?, Kind::of(op)?, Config::of(op)?);
    let mut windows = Windows::default();
    float_kernel!(op, "X", |run, T| {
        let dims = run.dims(x)?;
        config.lay(&mut windows, dims, run.out(&mut out)?.numel())?;
        let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
        match kind {
            Kind::Max => max(&windows, x, out),
            Kind::Mean => mean(&windows, x, out),
        }
    })
}

fn max<T: Real>(windows: &Windows, x: &[T], out: &mut [T]) {
    let greater = |a: T, b: T| if a > b { a } else { b };
    fold(windows, x, out, T::from_f64(LOWEST), greater, |start, line| {
        line.iter().fold(start, |so_far, x| greater(so_far, *x))
    });
}

fn mean<T: Real>(windows: &Windows, x: &[T], out: &mut [T]) {
    fold(windows, x, out, T::ZERO, |a, b| a + b, |start, line| start + sum_of(line, |x| x));
    for outer in 0..windows.outer {
        let out = &mut out[outer * windows.result()..][..windows.result()];
        windows.each(|at, rows, columns| {
            let count = T::from_f64((rows.weight * columns.weight) as f64);
            out[at..at + windows.inner].iter_mut().for_each(|out| *out = *out / count);
        });
    }
}

/// Folds every window with `join` from `start`; `join_line` joins the whole line of one channel.
fn fold<T: Real>(
    windows: &Windows,
    x: &[T],
    out: &mut [T],
    start: T,
    join: impl Fn(T, T) -> T,
    join_line: impl Fn(T, &[T]) -> T,
) {
    let inner = windows.inner;
    out.fill(start);
    vectorized(
        #[inline(always)]
        || {
            for outer in 0..windows.outer {
                let plane = &x[outer * windows.plane..][..windows.plane];
                let out = &mut out[outer * windows.result()..][..windows.result()];
                windows.each(
                    #[inline(always)]
                    |at, rows, columns| {
                        for row in rows.start..rows.end {
                            let line = &plane[windows.line(row, columns)];
                            if inner == 1 {
                                out[at] = join_line(out[at], line);
                                continue;
                            }
                            let out = &mut out[at..at + inner];
                            for x in line.chunks_exact(inner.max(1)) {
                                out.iter_mut().zip(x).for_each(|(out, x)| *out = join(*out, *x));
                            }
                        }
                    },
                );
            }
        },
    );
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, out, dout) = (op.input("X")?, op.input("Out")?, op.input("Out@GRAD")?);
    let (mut dx, kind, config) = (op.output("X@GRAD")?, Kind::of(op)?, Config::of(op)?);
    let mut windows = Windows::default();
    float_kernel!(op, "Out@GRAD", |run, T| {
        let dims = run.dims(x)?;
        config.lay(&mut windows, dims, run.tensor(dout)?.numel())?;
        if run.tensor(out)?.numel() != run.tensor(dout)?.numel() {
            return Err(Error::kernel("`Out` and `Out@GRAD` differ in shape"));
        }
        let (dout, dx) = (run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        match kind {
            Kind::Max => max_grad(&windows, run.get::<T>(x)?, run.get::<T>(out)?, dout, dx),
            Kind::Mean => mean_grad(&windows, dout, dx),
        }
    })
}

/// The first of equal maxima takes the whole gradient.
fn max_grad<T: Real>(windows: &Windows, x: &[T], out: &[T], dout: &[T], dx: &mut [T]) {
    dx.fill(T::ZERO);
    let (inner, result) = (windows.inner, windows.result());
    for outer in 0..windows.outer {
        let (from, to) = (outer * windows.plane, outer * result);
        let (x, dx) = (&x[from..][..windows.plane], &mut dx[from..][..windows.plane]);
        let (out, dout) = (&out[to..][..result], &dout[to..][..result]);
        windows.each(|at, rows, columns| {
            for channel in 0..inner {
                let found = (rows.start..rows.end).find_map(|row| {
                    let line = windows.line(row, columns);
                    let start = line.start + channel;
                    let mut elements = x[line].iter().skip(channel).step_by(inner);
                    let column = elements.position(|x| *x == out[at + channel])?;
                    Some(start + column * inner)
                });
                if let Some(found) = found {
                    dx[found] += dout[at + channel];
                }
            }
        });
    }
}

fn mean_grad<T: Real>(windows: &Windows, dout: &[T], dx: &mut [T]) {
    dx.fill(T::ZERO);
    let (inner, result) = (windows.inner, windows.result());
    for outer in 0..windows.outer {
        let dx = &mut dx[outer * windows.plane..][..windows.plane];
        let dout = &dout[outer * result..][..result];
        windows.each(|at, rows, columns| {
            let share = T::ONE / T::from_f64((rows.weight * columns.weight) as f64);
            let dout = &dout[at..at + inner];
            for row in rows.start..rows.end {
                for dx in dx[windows.line(row, columns)].chunks_exact_mut(inner.max(1)) {
                    dx.iter_mut().zip(dout).for_each(|(dx, dout)| *dx += *dout * share);
                }
            }
        });
    }
}
