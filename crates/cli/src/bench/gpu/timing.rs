//! How long work takes on the card.

use anyhow::Result;
use bireme_cuda::driver::{Event, Timing};

use super::Run;

/// Rounds of a case; the best counts.
pub(super) const ROUNDS: u32 = 5;

impl Run {
    /// Seconds that the card takes for `work` in the best of some rounds. `work` gives it to the card and does not
    /// wait.
    pub(super) fn time(&self, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
        let event = || Event::new(self.stream.card(), Timing::On);
        let (start, end) = (event()?, event()?);
        let rounds = self.scale.of(ROUNDS, 1);
        (0..self.scale.of(2, 0)).try_for_each(|_| work())?;
        let (mut best, mut runs) = (f64::INFINITY, 1u32);
        for _ in 0..=rounds {
            self.stream.record(&start)?;
            (0..runs).try_for_each(|_| work())?;
            self.stream.record(&end)?;
            end.synchronize()?;
            let seconds = f64::from(end.milliseconds_since(&start)?) / 1e3 / f64::from(runs);
            best = best.min(seconds.max(1e-9));
            let wanted = self.seconds / f64::from(rounds) / best;
            runs = (wanted as u32).clamp(1, self.scale.of(10_000, 1));
        }
        Ok(best)
    }
}
