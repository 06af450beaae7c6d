//! Training steps.

use std::time::Instant;

use anyhow::Result;

use super::timing::ROUNDS;
use super::workload::{Net, Workload};
use super::{Figure, Precision, Run, Scale};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// 26 ids of a table of 10 million rows of 16, 13 dense features, layers of 512, 256, 128, 32 and 1, Adagrad.
    CtrDnn,
    /// 784, 128, 128 and 10, Adam.
    MnistMlp,
}

impl Run {
    /// Million samples a second. Time is the host's, which gives the steps to the card.
    pub(super) fn step(
        &self,
        model: Model,
        batch: usize,
        precision: Precision,
        on_card: bool,
    ) -> Result<Figure> {
        let batch = self.small_batch(batch);
        let mut workload = self.workload(model, batch, precision, on_card)?;
        // Once around all batches, twice: the second time records.
        workload.warm_up()?;
        // Before the batches are known by heart.
        let loss = workload.unseen_loss()?;
        let best = self.step_us(&mut workload)?;
        let mut figure = Figure::new(batch as f64 / best, "M samples/s", None);
        figure.more = vec![("step_us", best), ("loss", loss)];
        Ok(figure)
    }

    /// Microseconds of a step, in the best of several rounds.
    pub(super) fn step_us(&self, workload: &mut Workload) -> Result<f64> {
        self.device.synchronize()?;
        let (mut best, mut steps) = (f64::INFINITY, self.scale.of(64u32, 2));
        for _ in 0..self.scale.of(ROUNDS, 1) {
            let started = Instant::now();
            (0..steps).try_for_each(|_| workload.step())?;
            self.device.synchronize()?;
            best = best.min(started.elapsed().as_secs_f64() / f64::from(steps));
            let wanted = self.seconds / f64::from(ROUNDS) / best;
            steps = (wanted as u32).clamp(16, 1 << 20);
        }
        Ok(best * 1e6)
    }

    /// The batch of a case, or one as small as it can be.
    pub(super) fn small_batch(&self, batch: usize) -> usize {
        self.scale.of(batch, batch / 16_384 + 2)
    }

    /// The layers of the CTR-DNN.
    pub(super) fn ctr_widths(&self) -> &'static [i64] {
        self.scale.of(&[512, 256, 128, 32, 1], &[32, 16, 1])
    }

    /// A prepared step and its batches.
    pub(super) fn workload(
        &self,
        model: Model,
        batch: usize,
        precision: Precision,
        on_card: bool,
    ) -> Result<Workload> {
        Workload::new(&self.device, self.net(model, batch, precision)?, on_card)
    }

    /// A net with its batches.
    pub(super) fn net(&self, model: Model, batch: usize, precision: Precision) -> Result<Net> {
        precision.set();
        let rows = self.scale.of(10_000_000, 1000);
        let count = match (self.scale, model) {
            (Scale::Small, _) => 2,
            (_, Model::CtrDnn) if batch > 2048 => 8,
            (_, Model::CtrDnn) => 32,
            (_, Model::MnistMlp) => 16,
        };
        match model {
            Model::CtrDnn => Net::ctr_dnn(rows, self.ctr_widths(), batch, count, precision.amp()?),
            Model::MnistMlp => {
                let widths = self.scale.of([128, 128, 10], [16, 16, 10]);
                Net::mnist_mlp(&widths, batch, count, precision.amp()?)
            }
        }
    }
}
