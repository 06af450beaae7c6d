//! Whether training on the card learns what it learns on the host: the CTR-DNN on samples of a hidden model, and the
//! area under the curve on samples that it has not seen.

use std::thread;

use anyhow::{Result, ensure};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place};

use super::workload::Net;
use super::{Figure, Precision, Run};

impl Run {
    /// The area on the card, with that on the host and their difference.
    pub(super) fn auc(&self, precision: Precision) -> Result<Figure> {
        precision.set();
        let (rows, batch, count) = self.scale.of((20_000, 2048, 300), (50, 16, 3));
        let net = |amp| Net::ctr_dnn(rows, self.ctr_widths(), batch, count, amp);
        let (on_host, on_card) = (net(None)?, net(precision.amp()?)?);
        let threads = thread::available_parallelism().map_or(1, |threads| threads.get().min(16));
        let host = self.trained(Executor::new(Place::Cpu)?.threads(threads), &on_host)?;
        let card = self.trained(Executor::on(self.device.clone()), &on_card)?;
        let mut figure = Figure::new(card, "AUC", None);
        figure.more = vec![("host", host), ("difference", (card - host).abs())];
        Ok(figure)
    }

    /// Trains on all batches but the last fifth once, and gives the area on those.
    fn trained(&self, mut executor: Executor, net: &Net) -> Result<f64> {
        let (seen, unseen) = net.batches.split_at(net.batches.len() * 4 / 5);
        executor.run(&net.startup, &[], &[])?;
        let mut train = executor.prepare(&net.main, &net.feeds, &[])?;
        for batch in seen {
            train.run(&batch.iter().collect::<Vec<_>>())?;
        }
        let mut predict = executor.prepare(&net.forward, &net.feeds, &[&net.logits])?;
        let mut samples = Vec::new();
        for batch in unseen {
            predict.run(&batch.iter().collect::<Vec<&Tensor>>())?;
            let labels = batch[2].to_f64_vec();
            let logits = predict.fetched(0).to_f64_vec();
            samples.extend(logits.into_iter().zip(labels.iter().map(|label| *label > 0.5)));
        }
        let is_finite = samples.iter().all(|(logit, _)| logit.is_finite());
        ensure!(is_finite, "the training diverged");
        Ok(area(samples))
    }
}

/// The chance that a click is predicted above a sample without one; half where both are the same.
fn area(mut samples: Vec<(f64, bool)>) -> f64 {
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut won) = (0.0, 0.0);
    for ties in samples.chunk_by(|a, b| a.0 == b.0) {
        let clicks = ties.iter().filter(|(_, is_click)| *is_click).count() as f64;
        let others = ties.len() as f64 - clicks;
        won += clicks * (below + others / 2.0);
        below += others;
    }
    let clicks = samples.len() as f64 - below;
    if clicks * below == 0.0 { 0.5 } else { won / (clicks * below) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_count_pairs() {
        assert_eq!(area(vec![(0.1, false), (0.9, true)]), 1.0);
        assert_eq!(area(vec![(0.1, true), (0.9, false)]), 0.0);
        assert_eq!(area(vec![(0.5, true), (0.5, false), (0.2, false)]), 0.75);
        assert_eq!(area(vec![(0.5, true)]), 0.5);
    }
}
