//! `cvm`: prepares embeddings whose first two columns count shows and clicks.
//!
//! With `use_cvm` these become `ln(show + 1)` and `ln(click + 1) - ln(show + 1)`; without, they are
//! dropped. The "gradient" of the two columns is no gradient: it is the show and click of the
//! sample (`CVM`), which the sparse table adds to its counters when the gradient is pushed.

use super::offsets::innermost;
use crate::ops::prelude::*;

/// Leading columns that count shows and clicks.
const COUNTERS: usize = 2;

pub(super) const DEF: OpDef = OpDef::new("cvm", kernel)
    .inputs(&[Slot::one("X"), Slot::one("CVM")])
    .outputs(&[Slot::one("Y")])
    .attrs(&[attr::bool("use_cvm", true)])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::Fn(split))
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "CVM"]).lod_from("X"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let mut y = x.clone();
    let [_, width] = y.dims.as_mut_slice() else {
        return Err(Error::kernel(format!("`X` must have rank 2, not shape {:?}", x.dims)));
    };
    if (0..COUNTERS as i64).contains(width) {
        return Err(Error::kernel(format!("`X` {:?} has no show and click columns", x.dims)));
    }
    if !cx.op().bool("use_cvm")? && *width >= 0 {
        *width -= COUNTERS as i64;
    }
    cx.set("Y", y);
    Ok(())
}

/// Rows are independent, but sequences of rows share one row of `CVM`.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    if view.meta("X")?.lod_level > 0 { None } else { SplitRule::RowWise.apply(view) }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut y, use_cvm) = (op.input("X")?, op.output("Y")?, op.bool("use_cvm")?);
    float_kernel!(op, "X", |run, T| {
        let width = run.dims(x)?.tail(1);
        let (x, y) = (run.get::<T>(x)?, run.set::<T>(&mut y)?);
        let kept = if use_cvm { width } else { width - COUNTERS };
        if kept == 0 {
            return Ok(());
        }
        for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(kept)) {
            y.copy_from_slice(&x[width - kept..]);
            if use_cvm {
                y[0] = (x[0] + 1.0).ln();
                y[1] = (x[1] + 1.0).ln() - y[0];
            }
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, cvm) = (op.input("X")?, op.input("CVM")?);
    let (dy, mut dx) = (op.input("Y@GRAD")?, op.output("X@GRAD")?);
    let use_cvm = op.bool("use_cvm")?;
    float_kernel!(op, "X", |run, T| {
        let x = run.tensor(x)?;
        let (rows, width) = (x.rows(), x.dims().tail(1));
        let kept = if use_cvm { width } else { width - COUNTERS };
        let offsets = if x.lod().is_empty() { None } else { Some(innermost(x, "X")?) };
        let samples = offsets.map_or(rows, |offsets| offsets.len() - 1);
        let (cvm, dy, dx) = (run.get::<T>(cvm)?, run.get::<T>(dy)?, run.set::<T>(&mut dx)?);
        if cvm.len() != samples * COUNTERS || dy.len() != rows * kept {
            return Err(Error::kernel(format!(
                "{samples} samples need as many rows of show and click in `CVM`, \
                 but it has {} elements",
                cvm.len()
            )));
        }
        for (row, dx) in dx.chunks_exact_mut(width).enumerate() {
            dx[width - kept..].copy_from_slice(&dy[row * kept..][..kept]);
        }
        let counters = cvm.chunks_exact(COUNTERS);
        for (sample, counters) in counters.enumerate() {
            let range = offsets.map_or(sample..sample + 1, |o| o[sample]..o[sample + 1]);
            for dx in dx[range.start * width..range.end * width].chunks_exact_mut(width) {
                dx[..COUNTERS].copy_from_slice(counters);
            }
        }
    })
}
