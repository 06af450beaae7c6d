//! `data_norm`: normalises columns by statistics of all data seen so far (`BatchSize`, `BatchSum`,
//! `BatchSquareSum`), which are parameters.
//!
//! Their "gradients" are what this batch adds to the statistics. With `slot_dim`, columns come in
//! slots whose first column counts shows; a slot that was not shown yields 0 and counts nowhere.

use crate::ops::prelude::*;

/// The default of `summary_decay_rate`, by which Paddle's GPU kernel forgets old statistics. Its CPU
/// kernel reads neither this nor `sync_stats`, and nor does this one.
const DECAY: f32 = 0.999_999_9;

const ATTRS: &[AttrSpec] = &[
    attr::float("epsilon", 1e-4),
    attr::int("slot_dim", -1),
    attr::float("summary_decay_rate", DECAY),
    attr::bool("enable_scale_and_shift", false),
    attr::str("data_layout", "NCHW"),
    attr::bool("sync_stats", false),
];

pub(super) const DEF: OpDef = OpDef::new("data_norm", kernel)
    .inputs(&[
        Slot::one("X"),
        Slot::one("BatchSize"),
        Slot::one("BatchSum"),
        Slot::one("BatchSquareSum"),
        Slot::maybe("scale_w"),
        Slot::maybe("bias"),
    ])
    .outputs(&[Slot::one("Y"), Slot::one("Means"), Slot::one("Scales")])
    .attrs(ATTRS)
    .infer(infer)
    .lod_from("X")
    .grad(GradRule::Op(&["X", "scale_w", "bias", "Means", "Scales"]))
    // Every worker needs `Means` and `Scales`, but only the first may count in them: they are a sum of
    // pieces of which all others are zero.
    .split(SplitRule::Batch { rows: &["X"], partial: &["Means", "Scales"] });

// Paddle's gradient op also names the statistics as outputs, for its GPU kernel; they are accepted
// and left alone.
pub(super) const GRAD: OpDef = OpDef::new("data_norm_grad", grad_kernel)
    .inputs(&[
        Slot::one("X"),
        Slot::maybe("scale_w"),
        Slot::maybe("bias"),
        Slot::one("Means"),
        Slot::one("Scales"),
        Slot::one("Y@GRAD"),
    ])
    .outputs(&[
        Slot::maybe("X@GRAD"),
        Slot::maybe("BatchSize@GRAD"),
        Slot::maybe("BatchSum@GRAD"),
        Slot::maybe("BatchSquareSum@GRAD"),
        Slot::maybe("scale_w@GRAD"),
        Slot::maybe("bias@GRAD"),
        Slot::maybe("BatchSize"),
        Slot::maybe("BatchSum"),
        Slot::maybe("BatchSquareSum"),
    ])
    .attrs(ATTRS)
    .infer(infer_grad);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let &[_, columns] = x.dims.as_slice() else {
        return Err(Error::kernel(format!("`X` must have rank 2, not shape {:?}", x.dims)));
    };
    for slot in ["BatchSize", "BatchSum", "BatchSquareSum", "scale_w", "bias"] {
        let Some(meta) = cx.maybe_input(slot) else { continue };
        if meta.rank() != 1 || same_dim(meta.dims[0], columns).is_err() {
            return Err(Error::kernel(format!(
                "`{slot}` must have shape [{columns}], one for each column of `X`, not {:?}",
                meta.dims
            )));
        }
    }
    let slot_dim = cx.op().i64("slot_dim")?;
    if slot_dim > 0 && columns >= 0 && columns % slot_dim != 0 {
        return Err(Error::kernel(format!(
            "{columns} columns cannot be cut into slots of `slot_dim` {slot_dim}"
        )));
    }
    cx.like(&[("Y", "X"), ("Means", "BatchSum"), ("Scales", "BatchSum")])
}

fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    let (x, columns) = (cx.input("X")?.clone(), cx.input("Means")?.clone());
    cx.set("X@GRAD", x);
    for slot in cx.op().def.signature.outputs.iter().skip(1) {
        cx.set(slot.name, columns.clone());
    }
    Ok(())
}

/// The columns of a row in runs that are shown or not shown together.
#[derive(Clone, Copy)]
struct Slots {
    columns: usize,
    width: usize,
    skip_unshown: bool,
}

impl Slots {
    fn new(slot_dim: i64, columns: usize) -> Slots {
        let skip_unshown = slot_dim > 0;
        let width = if skip_unshown { slot_dim as usize } else { columns };
        Slots { columns, width: width.max(1), skip_unshown }
    }

    /// Calls `visit(columns, elements, shown)` for every slot of every row.
    fn each<T: Real>(
        self,
        x: &[T],
        mut visit: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>, bool),
    ) {
        let unshown = T::from_f64(1e-7);
        for row in (0..x.len()).step_by(self.columns.max(1)) {
            for first in (0..self.columns).step_by(self.width) {
                let shown = !self.skip_unshown || x[row + first].abs() >= unshown;
                let columns = first..first + self.width;
                visit(columns, row + first..row + first + self.width, shown);
            }
        }
    }
}

/// `scale_w` and `bias` when the op uses them.
fn shift<'a, T: Real>(
    run: &Run<'a>,
    slots: Option<(In, In)>,
) -> Result<Option<(&'a [T], &'a [T])>> {
    slots.map(|(scale, bias)| Ok((run.get::<T>(scale)?, run.get::<T>(bias)?))).transpose()
}

fn shift_slots(op: &OpView<'_>) -> Result<Option<(In, In)>> {
    let enabled = op.bool("enable_scale_and_shift")?;
    enabled.then(|| Ok((op.input("scale_w")?, op.input("bias")?))).transpose()
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let x = op.input("X")?;
    let [size, total, square] =
        [op.input("BatchSize")?, op.input("BatchSum")?, op.input("BatchSquareSum")?];
    let [mut y, mut means, mut scales] =
        [op.output("Y")?, op.output("Means")?, op.output("Scales")?];
    let (slot_dim, shifted) = (op.i64("slot_dim")?, shift_slots(op)?);
    float_kernel!(op, "X", |run, T| {
        let columns = run.dims(x)?.tail(1);
        let (size, total, square) =
            (run.get::<T>(size)?, run.get::<T>(total)?, run.get::<T>(square)?);
        let (means, scales) = (run.set::<T>(&mut means)?, run.set::<T>(&mut scales)?);
        for (column, (mean, scale)) in means.iter_mut().zip(&mut *scales).enumerate() {
            *mean = total[column] / size[column];
            *scale = (size[column] / square[column]).sqrt();
        }
        let (x, y) = (run.get::<T>(x)?, run.set::<T>(&mut y)?);
        let shifted = shift::<T>(run, shifted)?;
        Slots::new(slot_dim, columns).each(x, |columns, elements, shown| {
            let (x, y) = (&x[elements.clone()], &mut y[elements]);
            if !shown {
                return y.fill(0.0);
            }
            let statistics = means[columns.clone()].iter().zip(&scales[columns.clone()]);
            for ((y, x), (mean, scale)) in y.iter_mut().zip(x).zip(statistics) {
                *y = (x - mean) * scale;
            }
            if let Some((weight, bias)) = shifted {
                let shifts = weight[columns.clone()].iter().zip(&bias[columns]);
                for (y, (weight, bias)) in y.iter_mut().zip(shifts) {
                    *y = *y * weight + bias;
                }
            }
        });
        if run.share.first > 0 {
            means.fill(0.0);
            scales.fill(0.0);
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let [x, means, scales, dy] =
        [op.input("X")?, op.input("Means")?, op.input("Scales")?, op.input("Y@GRAD")?];
    let [mut dx, mut dsize, mut dsum, mut dsquare, mut dscale, mut dbias] = [
        "X@GRAD",
        "BatchSize@GRAD",
        "BatchSum@GRAD",
        "BatchSquareSum@GRAD",
        "scale_w@GRAD",
        "bias@GRAD",
    ]
    .map(|slot| op.maybe_output(slot));
    let (slot_dim, shifted) = (op.i64("slot_dim")?, shift_slots(op)?);
    let epsilon = op.f64("epsilon")?;
    let mut sums = Vec::<f64>::new();
    float_kernel!(op, "X", |run, T| {
        let columns = run.dims(x)?.tail(1);
        let slots = Slots::new(slot_dim, columns);
        let (x, dy) = (run.get::<T>(x)?, run.get::<T>(dy)?);
        let (means, scales) = (run.get::<T>(means)?, run.get::<T>(scales)?);
        let shifted = shift::<T>(run, shifted)?;
        if let Some(dx) = &mut dx {
            input_grad(slots, x, dy, scales, shifted, run.set::<T>(dx)?);
        }
        let dscale = dscale.as_mut().map(|dscale| run.set::<T>(dscale)).transpose()?;
        let dbias = dbias.as_mut().map(|dbias| run.set::<T>(dbias)).transpose()?;
        let mut grads = [dscale, dbias];
        grads.iter_mut().flatten().for_each(|grad| grad.fill(0.0));
        if shifted.is_some() {
            shift_grads(slots, x, dy, means, scales, grads);
        }
        summarize(slots, x, means, &mut sums);
        for (column, sum) in sums.chunks_exact_mut(3).enumerate() {
            let [count, total, square] = batch_summary(sum, slots.skip_unshown, epsilon);
            for (output, value) in [(&mut dsize, count), (&mut dsum, total), (&mut dsquare, square)]
            {
                if let Some(output) = output {
                    run.set::<T>(output)?[column] = value as T;
                }
            }
        }
    })
}

/// Paddle skips slots that were not shown only when it shifts.
fn input_grad<T: Real>(
    slots: Slots,
    x: &[T],
    dy: &[T],
    scales: &[T],
    shifted: Option<(&[T], &[T])>,
    dx: &mut [T],
) {
    slots.each(x, |columns, elements, shown| {
        let (dx, dy) = (&mut dx[elements.clone()], &dy[elements]);
        for ((dx, dy), scale) in dx.iter_mut().zip(dy).zip(&scales[columns.clone()]) {
            *dx = *dy * *scale;
        }
        if let Some((weight, _)) = shifted {
            for (dx, weight) in dx.iter_mut().zip(&weight[columns]) {
                *dx = if shown { *dx * *weight } else { T::ZERO };
            }
        }
    });
}

/// Adds up the gradients of `scale_w` and `bias`.
fn shift_grads<T: Real>(
    slots: Slots,
    x: &[T],
    dy: &[T],
    means: &[T],
    scales: &[T],
    mut grads: [Option<&mut [T]>; 2],
) {
    slots.each(x, |columns, elements, shown| {
        for (column, at) in columns.zip(elements).filter(|_| shown) {
            if let Some(dscale) = &mut grads[0] {
                dscale[column] += (x[at] - means[column]) * scales[column] * dy[at];
            }
            if let Some(dbias) = &mut grads[1] {
                dbias[column] += dy[at];
            }
        }
    });
}

/// Three numbers a column: rows, their sum, and the sum of squared distances from the mean.
fn summarize<T: Real>(slots: Slots, x: &[T], means: &[T], sums: &mut Vec<f64>) {
    sums.clear();
    sums.resize(slots.columns * 3, 0.0);
    slots.each(x, |columns, elements, shown| {
        for (column, at) in columns.zip(elements).filter(|_| shown) {
            let (x, mean) = (x[at].to_f64(), means[column].to_f64());
            let sums = &mut sums[column * 3..][..3];
            sums[0] += 1.0;
            sums[1] += x;
            sums[2] += (x - mean) * (x - mean);
        }
    });
}

/// What a column adds to the statistics; with slots, Paddle counts a batch as one sample.
fn batch_summary(sums: &[f64], by_slot: bool, epsilon: f64) -> [f64; 3] {
    let (count, total, square) = (sums[0], sums[1], sums[2]);
    match (by_slot, count >= 1.0) {
        (true, true) => [1.0, total / count, square / count + count * epsilon],
        (true, false) => [0.0; 3],
        (false, _) => [count, total, square + count * epsilon],
    }
}

#[cfg(test)]
mod tests {
    use bireme_ir::DType;

    use crate::autodiff::append_backward_to;
    use crate::graph::Graph;
    use crate::layers::{self, DataNorm};

    #[test]
    fn what_only_gpu_kernels_read_is_taken_in_training() {
        let graph = Graph::new();
        let x = layers::data(&graph, "x", [3], DType::F32);
        let loss = layers::mean(&DataNorm::default().apply(&x).unwrap()).unwrap();
        let with = |name: &str, value: bireme_ir::Attr| {
            let mut main = graph.main();
            let ops = &mut main.global_mut().ops;
            let op = ops.iter_mut().find(|op| op.kind == "data_norm").unwrap();
            op.attrs.insert(name.to_owned(), value);
            append_backward_to(&mut main, loss.name(), None, &[]).map(drop)
        };
        with("sync_stats", true.into()).unwrap();
        with("summary_decay_rate", 0.9f32.into()).unwrap();
    }
}
