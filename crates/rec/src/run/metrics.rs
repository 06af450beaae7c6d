//! Metrics of an epoch: from the counts of all trainers, which then begin anew.

use bireme_data::Result as DataResult;
use bireme_engine::Scope;
use bireme_engine::tensor::Tensor;
use bireme_fleet::{Fleet, Reduce};

use crate::Result;
use crate::zoo::{Metric, Model};

/// Where the counts of all batches are among those of an AUC.
const ALL: [usize; 2] = [2, 3];

/// The value of a metric over everything that all trainers have counted since it was last zeroed;
/// `None` for one that has no counts of that kind.
pub(super) fn global(metric: &Metric, scope: &Scope, fleet: &Fleet) -> Result<Option<f64>> {
    let Some([positive, negative]) = counts(metric, scope)? else { return Ok(None) };
    let length = positive.len();
    let both = [positive, negative].concat();
    let both = fleet.util().all_reduce(&both, Reduce::Sum)?;
    Ok(Some(auc(&both[..length], &both[length..])))
}

/// The same over what this process has counted.
pub(super) fn own(metric: &Metric, scope: &Scope) -> Result<Option<f64>> {
    Ok(counts(metric, scope)?.map(|[positive, negative]| auc(&positive, &negative)))
}

fn counts(metric: &Metric, scope: &Scope) -> Result<Option<[Vec<f64>; 2]>> {
    if metric.counts.len() != 4 {
        return Ok(None);
    }
    let read =
        |at: usize| -> Result<Vec<f64>> { Ok(scope.get(metric.counts[at].name())?.to_f64_vec()) };
    Ok(Some([read(ALL[0])?, read(ALL[1])?]))
}

/// The names of a model's metrics.
pub(super) fn names(model: &Model) -> Vec<String> {
    model.metrics.iter().map(|metric| metric.name.clone()).collect()
}

/// The counts of metrics as they are, by name; they begin anew.
pub(super) fn take(metrics: &[Metric], scope: &Scope) -> Result<Vec<(String, Tensor)>> {
    let mut kept = Vec::new();
    for metric in metrics {
        for counts in &metric.counts {
            kept.push((counts.name().to_owned(), scope.get(counts.name())?));
        }
        reset(metric, scope)?;
    }
    Ok(kept)
}

/// Brings counts back to what they were.
pub(super) fn put_back(kept: Vec<(String, Tensor)>, scope: &Scope) -> DataResult<()> {
    kept.into_iter().try_for_each(|(name, counts)| Ok(scope.try_set(&name, &counts)?))
}

/// Zeroes the counts of a metric.
pub(super) fn reset(metric: &Metric, scope: &Scope) -> DataResult<()> {
    for counts in &metric.counts {
        let old = scope.get(counts.name())?;
        let mut zeros = Tensor::empty(old.dtype());
        zeros.resize(old.dtype(), old.dims().to_vec());
        zeros.as_mut_bytes().fill(0);
        scope.try_set(counts.name(), &zeros)?;
    }
    Ok(())
}

/// The area under the ROC curve, from counts of positive and negative samples by prediction; 0.5
/// when there are none of one kind.
pub fn auc(positive: &[f64], negative: &[f64]) -> f64 {
    let (mut area, mut positives, mut negatives) = (0.0, 0.0, 0.0);
    for (positive, negative) in positive.iter().zip(negative).rev() {
        area += (positives + positives + positive) * negative / 2.0;
        positives += positive;
        negatives += negative;
    }
    if positives > 0.0 && negatives > 0.0 { area / (positives * negatives) } else { 0.5 }
}

/// The same from all labels (1 for a click) and scores, exactly; `None` unless there are labels of both
/// kinds.
pub fn auc_of(labels: &[u8], scores: &[f32]) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_unstable_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let (mut positive, mut negative) = (Vec::new(), Vec::new());
    for ties in order.chunk_by(|a, b| scores[*a] == scores[*b]) {
        let clicks = ties.iter().filter(|at| labels[**at] == 1).count();
        positive.push(clicks as f64);
        negative.push((ties.len() - clicks) as f64);
    }
    let has_any = |counts: &[f64]| counts.iter().any(|count| *count > 0.0);
    (has_any(&positive) && has_any(&negative)).then(|| auc(&positive, &negative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_counts_pairs() {
        // Predictions 0.1 0.4 0.35 0.8 with labels 0 0 1 1, in four buckets: 0.75 with ties halved.
        assert_eq!(auc(&[0.0, 1.0, 0.0, 1.0], &[1.0, 0.0, 1.0, 0.0]), 0.75);
        assert_eq!(auc(&[0.0, 2.0], &[0.0, 2.0]), 0.5);
        assert_eq!(auc(&[1.0, 0.0], &[0.0, 0.0]), 0.5);
        assert_eq!(auc_of(&[0, 0, 1, 1], &[0.1, 0.4, 0.35, 0.8]), Some(0.75));
        assert_eq!(auc_of(&[0, 1], &[0.5, 0.5]), Some(0.5));
        assert_eq!(auc_of(&[1, 1], &[0.5, 0.6]), None);
    }
}
