//! `cumsum`: running sums along an axis; `exclusive` leaves each element out of its own sum,
//! `reverse` runs from the end.

use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::int("axis", -1),
    attr::bool("flatten", false),
    attr::bool("exclusive", false),
    attr::bool("reverse", false),
];

pub(super) const DEF: OpDef = OpDef::new("cumsum", |op| kernel(op, "X", "Out", false))
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(ATTRS)
    .infer(infer)
    .split(SplitRule::Fn(split))
    // An element counts in all later sums, so its gradient is the running sum from the other end.
    .gradient(
        Gradient::new(&["X"], |op| kernel(op, "Out@GRAD", "X@GRAD", true))
            .reads(&["X"])
            .second(second::linear),
    );

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let out = if cx.op().bool("flatten")? {
        x.with_dims([x.numel().unwrap_or(-1)])
    } else {
        x.axis(cx.op().i64("axis")?)?;
        x.clone()
    };
    cx.set("Out", out);
    Ok(())
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let within_rows = view.meta("X")?.axis(view.op.i64("axis").ok()?).ok()? > 0;
    let rows = view.spreads.iter().all(|spread| *spread == Spread::Rows);
    (within_rows && rows && !view.op.bool("flatten").ok()?).then(|| vec![Spread::Rows])
}

fn kernel(op: &OpView<'_>, from: &str, to: &str, backwards: bool) -> Result<Kernel> {
    let (x, from, mut out) = (op.input("X")?, op.input(from)?, op.output(to)?);
    let (axis, flatten) = (op.i64("axis")?, op.bool("flatten")?);
    let (exclusive, reverse) = (op.bool("exclusive")?, op.bool("reverse")? != backwards);
    Ok(Box::new(move |run| {
        let (len, width) =
            if flatten { (run.dims(x)?.numel(), 1) } else { blocks(run.dims(x)?, axis)? };
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            let (from, out) = (run.get::<T>(from)?, run.set::<T>(&mut out)?);
            let size = (len * width).max(1);
            for (from, out) in from.chunks_exact(size).zip(out.chunks_exact_mut(size)) {
                running_sums(from, out, width, exclusive, reverse);
            }
            Ok(())
        }, else => Err(Error::kernel(format!("cannot add {dtype} elements"))))
    }))
}

/// The length of the axis, and the elements that lie between neighbours along it.
fn blocks(dims: Dims, axis: i64) -> Result<(usize, usize)> {
    let positive = if axis < 0 { axis + dims.len() as i64 } else { axis };
    match usize::try_from(positive) {
        _ if dims.is_empty() => Ok((1, 1)),
        Ok(axis) if axis < dims.len() => Ok((dims[axis], dims.tail(axis + 1))),
        _ => Err(Error::kernel(format!("axis {axis} lies outside shape {dims}"))),
    }
}

/// Running sums of rows of `width` elements.
fn running_sums<T: Number>(x: &[T], out: &mut [T], width: usize, exclusive: bool, reverse: bool) {
    let rows = x.len() / width.max(1);
    let position = |step| width * if reverse { rows - 1 - step } else { step };
    for step in 0..rows {
        let now = position(step);
        if step == 0 {
            let first = &mut out[now..now + width];
            if exclusive {
                first.fill(T::ZERO)
            } else {
                first.copy_from_slice(&x[now..now + width])
            }
            continue;
        }
        let before = position(step - 1);
        let added = if exclusive { before } else { now };
        for column in 0..width {
            out[now + column] = out[before + column].plus(x[added + column]);
        }
    }
}
