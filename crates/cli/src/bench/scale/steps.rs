//! Steps of the engine alone, on one thread and on many in turn, with batches that were made beforehand.

use std::time::Duration;

use anyhow::Result;
use bireme_engine::StepTimes;

use super::super::workload::{Kind, Workload};
use super::super::{Case, Model, peak};
use super::Figure;

/// Rounds in which one thread and many take turns; the median of their ratios counts.
const ROUNDS: usize = 15;
/// How long one of them runs in a round, and how long the peak is looked for.
const TURN: Duration = Duration::from_millis(300);
const PEAK: Duration = Duration::from_millis(20);

/// Steps of the CTR-DNN with batches of one size.
pub(super) struct Steps {
    batch: usize,
    one: Workload,
}

impl Steps {
    pub(super) fn new(batch: usize) -> Result<Steps> {
        Ok(Steps { batch, one: workload(batch, 1)? })
    }

    /// Runs steps on so many threads, and on one in between.
    ///
    /// # Errors
    /// When the engine fails.
    pub(super) fn measure(&mut self, threads: usize) -> Result<Figure> {
        let mut many = workload(self.batch, threads)?;
        self.one.run_for(TURN)?;
        many.run_for(TURN)?;
        let before = many.times();
        let (mut seconds, mut ratios, mut ceilings) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let one = self.one.run_for(TURN)?;
            let peak = peak::flops_per_second(1, PEAK);
            let took = many.run_for(TURN)?;
            seconds.push(took);
            ratios.push(one / took / threads as f64);
            ceilings.push(peak::flops_per_second(threads, PEAK) / peak / threads as f64);
        }
        many.check()?;
        let parts = parts(&many.times(), &before, threads);
        Ok(Figure {
            samples_per_second: self.batch as f64 / median(&mut seconds),
            ratio: median(&mut ratios),
            ceiling: Some(median(&mut ceilings)),
            parts: Some(parts),
            auc: None,
            reader: None,
            with_servers: None,
            servers: 0,
        })
    }
}

/// Where the time of a step goes, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    /// Before the batch is split.
    pub(crate) before: f64,
    /// Forward and backward of all shares.
    pub(crate) shares: f64,
    /// The part of that time in which threads worked on shares, and did not wait for others.
    pub(crate) at_work: f64,
    /// Sums of what shares computed.
    pub(crate) sums: f64,
    /// Updates and metrics.
    pub(crate) after: f64,
}

fn parts(after: &StepTimes, before: &StepTimes, threads: usize) -> Parts {
    let steps = (after.steps - before.steps).max(1) as f64;
    let part = |of: fn(&StepTimes) -> Duration| {
        of(after).saturating_sub(of(before)).as_secs_f64() / steps * 1e3
    };
    let (shares, on_shares) = (part(|times| times.shares), part(|times| times.on_shares));
    Parts {
        before: part(|times| times.before),
        shares,
        // On one thread nobody waits, and the only share is empty.
        at_work: if threads > 1 { on_shares / shares / threads as f64 } else { 1.0 },
        sums: part(|times| times.sums),
        after: part(|times| times.after),
    }
}

fn workload(batch: usize, threads: usize) -> Result<Workload> {
    Workload::new(&Case { name: "step", model: Model::CtrDnn, batch, threads }, Kind::Timed)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
