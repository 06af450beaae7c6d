//! Training steps on a card.

mod workload;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use bireme_engine::device::Device;

use self::workload::Workload;

/// Rounds of a case; the best counts.
const ROUNDS: u32 = 5;

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    model: Model,
    batch: usize,
    /// Whether products may round their factors.
    tf32: bool,
    /// Whether batches lie on the card, or come from the host in every step.
    on_card: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    /// 26 ids of a table of 10 million rows of 16, 13 dense features, layers of 512, 256, 128, 32 and 1, Adagrad.
    CtrDnn,
    /// 784, 128, 128 and 10, Adam.
    MnistMlp,
}

macro_rules! cases {
    ($($name:literal $model:ident $batch:literal $tf32:literal $on_card:literal,)*) => {
        &[$(Case {
            name: $name,
            model: Model::$model,
            batch: $batch,
            tf32: $tf32,
            on_card: $on_card,
        }),*]
    };
}

/// Every case, in the order of the table.
pub(crate) const CASES: &[Case] = cases! {
    "ctr_b2048_f32" CtrDnn 2048 false true,
    "ctr_b2048_tf32" CtrDnn 2048 true true,
    "ctr_b16384_f32" CtrDnn 16384 false true,
    "ctr_b16384_tf32" CtrDnn 16384 true true,
    "ctr_b65536_f32" CtrDnn 65536 false true,
    "ctr_b65536_tf32" CtrDnn 65536 true true,
    "ctr_b2048_tf32_fed" CtrDnn 2048 true false,
    "ctr_b16384_tf32_fed" CtrDnn 16384 true false,
    "ctr_b65536_tf32_fed" CtrDnn 65536 true false,
    "mnist_b64_f32" MnistMlp 64 false true,
    "mnist_b64_f32_fed" MnistMlp 64 false false,
};

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Microseconds of a step.
    pub(crate) step_us: f64,
    /// Million samples a second.
    pub(crate) samples: f64,
    /// The loss of the last step, which shows that something was trained.
    pub(crate) loss: f64,
}

impl Case {
    /// Measures the case for about `seconds`, after a warm-up.
    ///
    /// # Errors
    /// When the card fails, or the training diverges.
    pub(crate) fn measure(&self, card: u32, seconds: f64) -> Result<Figure> {
        bireme_cuda::allow_tf32(self.tf32);
        let device: Arc<dyn Device> = bireme_cuda::open(card)?;
        let mut workload = match self.model {
            Model::CtrDnn => Workload::ctr_dnn(&device, self.batch, self.on_card)?,
            Model::MnistMlp => Workload::mnist_mlp(&device, self.batch, self.on_card)?,
        };
        // Once around all batches, twice: the second time records.
        workload.warm_up()?;
        device.synchronize()?;
        let mut best = f64::INFINITY;
        let mut steps = 64u32;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            for _ in 0..steps {
                workload.step()?;
            }
            device.synchronize()?;
            let taken = started.elapsed().as_secs_f64();
            best = best.min(taken / f64::from(steps));
            let wanted = seconds / f64::from(ROUNDS);
            steps = ((wanted / best) as u32).clamp(16, 1 << 20);
        }
        let (loss, samples) = (workload.loss()?, self.batch as f64 / best / 1e6);
        Ok(Figure { step_us: best * 1e6, samples, loss })
    }
}
