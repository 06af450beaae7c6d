//! Training steps on a card.

mod workload;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use bireme_engine::amp::Amp;
use bireme_engine::device::Device;
use bireme_ir::DType;

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
    /// The type of mixed precision, if it is used.
    amp: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    /// 26 ids of a table of 10 million rows of 16, 13 dense features, layers of 512, 256, 128, 32 and 1, Adagrad.
    CtrDnn,
    /// 784, 128, 128 and 10, Adam.
    MnistMlp,
}

macro_rules! cases {
    ($($name:literal $model:ident $batch:literal $tf32:literal $on_card:literal $(+ $amp:ident)?,)*) => {
        &[$(Case {
            name: $name,
            model: Model::$model,
            batch: $batch,
            tf32: $tf32,
            on_card: $on_card,
            amp: &[$(stringify!($amp))?],
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
    "ctr_b2048_bf16" CtrDnn 2048 false true + bfloat16,
    "ctr_b16384_bf16" CtrDnn 16384 false true + bfloat16,
    "ctr_b65536_bf16" CtrDnn 65536 false true + bfloat16,
    "ctr_b2048_fp16" CtrDnn 2048 false true + float16,
    "ctr_b16384_fp16" CtrDnn 16384 false true + float16,
    "ctr_b65536_fp16" CtrDnn 65536 false true + float16,
    "ctr_b2048_bf16_fed" CtrDnn 2048 false false + bfloat16,
    "ctr_b16384_bf16_fed" CtrDnn 16384 false false + bfloat16,
    "ctr_b65536_bf16_fed" CtrDnn 65536 false false + bfloat16,
    "ctr_b2048_tf32_fed" CtrDnn 2048 true false,
    "ctr_b16384_tf32_fed" CtrDnn 16384 true false,
    "ctr_b65536_tf32_fed" CtrDnn 65536 true false,
    "mnist_b64_f32" MnistMlp 64 false true,
    "mnist_b64_f32_fed" MnistMlp 64 false false,
    "mnist_b64_bf16" MnistMlp 64 false true + bfloat16,
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

/// What the products of a case are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Precision {
    /// 32 bits
    F32,
    /// 32 bits, factors rounded to 10 bits of fraction
    Tf32,
    /// Mixed precision with `bfloat16`
    Bf16,
    /// Mixed precision with `float16` and a scaled loss
    Fp16,
}

impl Case {
    /// What its products are computed with.
    pub(crate) fn precision(&self) -> Precision {
        match self.amp {
            ["bfloat16"] => Precision::Bf16,
            [_, ..] => Precision::Fp16,
            [] if self.tf32 => Precision::Tf32,
            [] => Precision::F32,
        }
    }

    /// The mixed precision that the model is trained with, as a user asks for it.
    fn amp(&self) -> Result<Option<Amp>> {
        let dtype = match self.precision() {
            Precision::Bf16 => DType::BF16,
            Precision::Fp16 => DType::F16,
            Precision::F32 | Precision::Tf32 => return Ok(None),
        };
        Ok(Some(Amp::new(dtype)?))
    }

    /// Measures the case for about `seconds`, after a warm-up.
    ///
    /// # Errors
    /// When the card fails, or the training diverges.
    pub(crate) fn measure(&self, card: u32, seconds: f64) -> Result<Figure> {
        bireme_cuda::allow_tf32(self.tf32);
        let device: Arc<dyn Device> = bireme_cuda::open(card)?;
        let mut workload = match self.model {
            Model::CtrDnn => Workload::ctr_dnn(&device, self.batch, self.on_card, self.amp()?)?,
            Model::MnistMlp => Workload::mnist_mlp(&device, self.batch, self.on_card, self.amp()?)?,
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
