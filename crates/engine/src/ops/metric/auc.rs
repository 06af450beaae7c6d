//! `auc`: the area under the ROC curve, from histograms of positive and negative predictions.
//!
//! With `slide_steps` = 0 the histograms hold every batch so far. Otherwise the state is a ring of
//! one histogram a batch for the last `slide_steps` batches, then their sum, then the number of
//! batches so far. A step costs the batch and the thresholds, whatever the number of steps.

use std::ops::Range;

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("auc", kernel)
    .inputs(&[
        Slot::one("Predict"),
        Slot::one("Label"),
        Slot::one("StatPos"),
        Slot::one("StatNeg"),
        Slot::maybe("InsTagWeight"),
    ])
    .outputs(&[Slot::one("AUC"), Slot::one("StatPosOut"), Slot::one("StatNegOut")])
    .attrs(&[
        attr::str("curve", "ROC"),
        attr::int("num_thresholds", 8191),
        attr::int("slide_steps", 1),
    ])
    .infer(infer)
    .inplace(&[("StatPos", "StatPosOut"), ("StatNeg", "StatNegOut")]);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let layout = HistogramLayout::of(cx.op())?;
    for slot in ["StatPos", "StatNeg"] {
        let meta = cx.input(slot)?;
        if meta.numel().is_some_and(|numel| numel != layout.len() as i64) {
            return Err(Error::kernel(format!(
                "`{slot}` {:?} must have {} elements for {} buckets and {} slide steps",
                meta.dims,
                layout.len(),
                layout.buckets,
                layout.steps
            )));
        }
    }
    cx.set("AUC", Meta::new(DType::F64, []));
    cx.like(&[("StatPosOut", "StatPos"), ("StatNegOut", "StatNeg")])
}

/// How a histogram's state lies in memory.
#[derive(Clone, Copy)]
struct HistogramLayout {
    /// Thresholds + 1.
    buckets: usize,
    /// Batches in the window; 0 for all.
    steps: usize,
}

impl HistogramLayout {
    fn of(op: &OpView<'_>) -> Result<HistogramLayout> {
        let (thresholds, steps) = (op.i64("num_thresholds")?, op.i64("slide_steps")?);
        match (usize::try_from(thresholds), usize::try_from(steps)) {
            (Ok(thresholds), Ok(steps)) if thresholds > 0 => {
                Ok(HistogramLayout { buckets: thresholds + 1, steps })
            }
            _ => Err(Error::kernel(format!(
                "`num_thresholds` {thresholds} and `slide_steps` {steps} must not be negative"
            ))),
        }
    }

    /// Numbers in the state.
    fn len(self) -> usize {
        (self.steps + 1) * self.buckets + usize::from(self.steps > 0)
    }

    /// The histogram that the area is computed from: the only one, or the sum of the window's.
    fn total(self) -> Range<usize> {
        self.steps * self.buckets..(self.steps + 1) * self.buckets
    }

    /// The histogram that this batch goes to: the only one, or the oldest of the window.
    fn oldest(self, stat: &[i64]) -> Range<usize> {
        let batches = stat.get(self.total().end).copied().unwrap_or(0);
        let slot = (batches.unsigned_abs() as usize).checked_rem(self.steps).unwrap_or(0);
        slot * self.buckets..(slot + 1) * self.buckets
    }

    /// Takes the oldest batch out of the sum and clears its place.
    fn open(self, oldest: Range<usize>, stat: &mut [i64]) {
        if self.steps > 0 {
            let (ring, total) = stat.split_at_mut(self.total().start);
            for (count, total) in ring[oldest].iter_mut().zip(total) {
                *total -= *count;
                *count = 0;
            }
        }
    }

    /// Adds the new batch to the sum and moves the ring on.
    fn close(self, newest: Range<usize>, stat: &mut [i64]) {
        if self.steps > 0 {
            let (ring, total) = stat.split_at_mut(self.total().start);
            total.iter_mut().zip(&ring[newest]).for_each(|(total, count)| *total += *count);
            total[self.buckets] += 1;
        }
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (predict, label) = (op.input("Predict")?, op.input("Label")?);
    let (weight, mut auc) = (op.maybe_input("InsTagWeight"), op.output("AUC")?);
    let mut positive = op.in_out("StatPos", "StatPosOut")?;
    let mut negative = op.in_out("StatNeg", "StatNegOut")?;
    let layout = HistogramLayout::of(op)?;
    let curve = op.string("curve")?;
    if curve != "ROC" {
        return Err(Error::kernel(format!("`curve` must be ROC, not `{curve}`")));
    }
    Ok(Box::new(move |run| {
        let positive = run.update::<i64>(&mut positive)?;
        let negative = run.update::<i64>(&mut negative)?;
        if positive.len() != layout.len() || negative.len() != layout.len() {
            return Err(Error::kernel("the histograms have another size than the op says"));
        }
        // A batch whose tag weight is 0 is made up to keep trainers in step; it must not count. (In
        // Paddle it enters the ring but not the sum, which is then below zero when it leaves.)
        let fake = match weight {
            Some(weight) => run.first::<f32>(weight)? == 0.0,
            None => false,
        };
        if !fake {
            let window = layout.oldest(positive);
            layout.open(window.clone(), positive);
            layout.open(window.clone(), negative);
            let counters = (&mut positive[window.clone()], &mut negative[window.clone()]);
            count(run.tensor(predict)?, run.tensor(label)?, counters)?;
            layout.close(window.clone(), positive);
            layout.close(window, negative);
        }
        run.set::<f64>(&mut auc)?[0] = area(&positive[layout.total()], &negative[layout.total()]);
        Ok(())
    }))
}

/// Counts the predictions of one batch, each in the bucket of its threshold. The last column of
/// `predict` is the probability of the positive class; a negative label counts nowhere.
fn count(
    predict: &Tensor,
    label: &Tensor,
    (positive, negative): (&mut [i64], &mut [i64]),
) -> Result<()> {
    let width = predict.dims().get(1..).map_or(1, |rest| rest.iter().product::<usize>()).max(1);
    if label.numel() != predict.rows() {
        return Err(Error::kernel(format!(
            "`Label` has {} entries, but `Predict` has {} rows",
            label.numel(),
            predict.rows()
        )));
    }
    let thresholds = positive.len() - 1;
    dispatch!(predict.dtype(), T in [f32, f64] => {
        dispatch!(label.dtype(), L in [i64, i32] => {
            let rows = predict.as_slice::<T>()?.chunks_exact(width);
            for (sample, (row, label)) in rows.zip(label.as_slice::<L>()?).enumerate() {
                let probability = row[width - 1];
                if !(0.0..=1.0).contains(&probability) {
                    return Err(not_a_probability(sample, probability.to_f64()));
                }
                let bucket = (probability * thresholds as T) as usize;
                if *label > 0 {
                    positive[bucket] += 1;
                } else if *label == 0 {
                    negative[bucket] += 1;
                }
            }
            Ok(())
        }, else => Err(Error::kernel(format!("labels are int64 or int32, not {}", label.dtype()))))
    }, else => Err(not_float("Predict", predict.dtype())))
}

#[cold]
fn not_a_probability(sample: usize, value: f64) -> Error {
    Error::kernel(format!("prediction {value} of sample {sample} is no probability in [0, 1]"))
}

/// The area under the curve through all thresholds, by trapezoids; 0 without positives, and without
/// negatives.
fn area(positive: &[i64], negative: &[i64]) -> f64 {
    // Twice the area in whole numbers: exact, and faster than a chain of float additions.
    let (mut twice, mut positives, mut negatives) = (0i128, 0i64, 0i64);
    for (positive, negative) in positive.iter().zip(negative).rev() {
        twice += i128::from(*negative) * i128::from(2 * positives + *positive);
        positives += *positive;
        negatives += *negative;
    }
    let area = twice as f64 / 2.0;
    if positives > 0 && negatives > 0 { area / positives as f64 / negatives as f64 } else { area }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::*;

    /// One batch: predictions of the positive class with their labels.
    type Batch<'a> = &'a [(f32, i64)];

    /// The area after each batch, with state kept in place.
    fn areas(steps: i32, batches: &[Batch<'_>]) -> Result<Vec<f64>> {
        let real: Vec<_> = batches.iter().map(|batch| (*batch, 1.0)).collect();
        weighted_areas(steps, &real)
    }

    /// As [`areas`], of batches with tag weights.
    fn weighted_areas(steps: i32, batches: &[(Batch<'_>, f32)]) -> Result<Vec<f64>> {
        let op = Op::new("auc")
            .input("Predict", ["p"])
            .input("Label", ["l"])
            .input("StatPos", ["pos"])
            .input("StatNeg", ["neg"])
            .input("InsTagWeight", ["weight"])
            .output("AUC", ["auc"])
            .output("StatPosOut", ["pos"])
            .output("StatNegOut", ["neg"])
            .attr("num_thresholds", 7)
            .attr("slide_steps", steps);
        let len = HistogramLayout { buckets: 8, steps: steps as usize }.len();
        let mut values = HashMap::<String, Value>::new();
        for name in ["pos", "neg"] {
            values.insert(name.to_owned(), Tensor::zeros(DType::I64, [1, len]).into());
        }
        let run = |(batch, weight): &(Batch<'_>, f32)| {
            values.insert("weight".to_owned(), Tensor::from_slice([1], &[*weight])?.into());
            let (predict, label): (Vec<f32>, Vec<i64>) = batch.iter().copied().unzip();
            let rows = batch.len();
            values.insert("p".to_owned(), Tensor::from_slice([rows, 1], &predict)?.into());
            values.insert("l".to_owned(), Tensor::from_slice([rows, 1], &label)?.into());
            run_once(&op, &mut values)?;
            Ok(values["auc"].tensor()?.as_slice::<f64>()?[0])
        };
        batches.iter().map(run).collect()
    }

    const GOOD: Batch<'_> = &[(0.9, 1), (0.1, 0)];
    const BAD: Batch<'_> = &[(0.1, 1), (0.9, 0)];

    #[test]
    fn a_window_forgets_old_batches() {
        assert_eq!(areas(1, &[GOOD, BAD, GOOD]).unwrap(), [1.0, 0.0, 1.0]);
        assert_eq!(areas(2, &[BAD, BAD, GOOD, GOOD]).unwrap(), [0.0, 0.0, 0.5, 1.0]);
        assert_eq!(areas(0, &[GOOD, BAD]).unwrap(), [1.0, 0.5]);
    }

    #[test]
    fn a_batch_that_is_made_up_never_counts() {
        let batches = [(GOOD, 1.0), (BAD, 0.0), (GOOD, 1.0), (GOOD, 1.0), (BAD, 1.0)];
        for (steps, last) in [(0, 0.75), (2, 0.5)] {
            let areas = weighted_areas(steps, &batches).unwrap();
            assert_eq!(areas, [1.0, 1.0, 1.0, 1.0, last], "{steps} steps");
        }
    }

    #[test]
    fn a_prediction_outside_0_to_1_is_refused() {
        for bad in [1.5, -0.1, f32::NAN] {
            let error = areas(0, &[&[(0.5, 1), (bad, 0)]]).unwrap_err().to_string();
            assert!(error.contains("of sample 1 is no probability in [0, 1]"), "{error}");
        }
    }
}
