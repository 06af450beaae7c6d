//! `dot`: inner products along the last axis.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("dot", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Y")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .split(SplitRule::Fn(split))
    .gradient(Gradient::new(&["X", "Y"], grad_kernel).reads(&["X", "Y"]).second(second::product));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (cx.input("X")?, cx.input("Y")?);
    let dims = x.dims.iter().zip(&y.dims).map(|(x, y)| same_dim(*x, *y).ok());
    match dims.collect::<Option<Vec<_>>>() {
        Some(dims) if x.rank() == y.rank() && x.rank() > 0 => {
            let out = x.with_dims(&dims[..dims.len() - 1]);
            cx.set("Out", out);
            Ok(())
        }
        _ => Err(Error::kernel(format!("`X` {:?} and `Y` {:?} differ in shape", x.dims, y.dims))),
    }
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let rows = view.spreads.iter().all(|spread| *spread == Spread::Rows);
    let kept = view.meta("X")?.rank() > 1;
    (rows && kept).then(|| vec![Spread::Rows; view.outputs.len()])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let len = run.dims(x)?.last().copied().unwrap_or(1);
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            let (x, y, out) = (run.get::<T>(x)?, run.get::<T>(y)?, run.set::<T>(&mut out)?);
            if len == 0 {
                out.fill(T::ZERO);
                return Ok(());
            }
            let rows = x.chunks_exact(len).zip(y.chunks_exact(len));
            vectorized(
                #[inline(always)]
                || {
                    for (out, (x, y)) in out.iter_mut().zip(rows) {
                        *out = sum_of_pairs(x, y, T::times);
                    }
                },
            );
            Ok(())
        }, else => Err(Error::kernel(format!("cannot multiply {dtype} elements"))))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, dout) = (op.input("X")?, op.input("Y")?, op.input("Out@GRAD")?);
    let (mut dx, mut dy) = (op.maybe_output("X@GRAD"), op.maybe_output("Y@GRAD"));
    float_kernel!(op, "X", |run, T| {
        let len = run.dims(x)?.last().copied().unwrap_or(1);
        let dout = run.get::<T>(dout)?;
        if let Some(dx) = &mut dx {
            scale_rows(run.get::<T>(y)?, dout, run.set(dx)?, len);
        }
        if let Some(dy) = &mut dy {
            scale_rows(run.get::<T>(x)?, dout, run.set(dy)?, len);
        }
    })
}

/// The gradient of one operand is the other, each row times its product's gradient.
fn scale_rows<T: Number>(other: &[T], dout: &[T], grad: &mut [T], len: usize) {
    let rows = grad.chunks_exact_mut(len.max(1)).zip(other.chunks_exact(len.max(1)));
    vectorized(
        #[inline(always)]
        || {
            for ((grad, other), dout) in rows.zip(dout) {
                grad.iter_mut().zip(other).for_each(|(grad, x)| *grad = x.times(*dout));
            }
        },
    );
}
