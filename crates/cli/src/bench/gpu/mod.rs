//! What a card does: training steps, their parts, kernels against the bytes that they move, hash tables, and whether
//! training learns what it learns on the host.

mod auc;
mod gpubox;
mod kernels;
mod parts;
mod steps;
mod tables;
mod timing;
mod workload;

use std::sync::Arc;

use anyhow::Result;
use bireme_cuda::driver::Stream;
use bireme_engine::amp::Amp;
use bireme_engine::device::Device;
use bireme_ir::DType;

use self::kernels::Kernel;
use self::steps::Model;
use self::tables::TableWork;

/// One line of the table, or several of one beginning.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// A training step: the batch, and whether batches lie on the card or come from the host in every step.
    Step(Model, usize, Precision, bool),
    /// The same step of the CTR-DNN, by part.
    Parts(usize, Precision),
    Kernel(Kernel),
    /// A table with rows of so many columns.
    Table(TableWork, usize),
    /// Training on the card and on the host.
    Auc(Precision),
    /// Passes of GPUBox with this batch.
    Box(usize, Precision),
}

/// What a training is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Precision {
    /// 32 bits
    F32,
    /// 32 bits, factors of products rounded to 10 bits of fraction
    Tf32,
    /// Mixed precision with `bfloat16`
    Bf16,
    /// Mixed precision with `float16` and a scaled loss
    Fp16,
}

impl Precision {
    /// Lets programs that are prepared from now on compute so.
    fn set(self) {
        bireme_cuda::allow_tf32(self == Precision::Tf32);
    }

    /// Mixed precision, where it is that.
    fn amp(self) -> Result<Option<Amp>> {
        Ok(match self {
            Precision::F32 | Precision::Tf32 => None,
            Precision::Bf16 => Some(Amp::new(DType::BF16)?),
            Precision::Fp16 => Some(Amp::new(DType::F16)?),
        })
    }
}

impl Case {
    /// What it is computed with, if it is a training.
    pub(crate) fn precision(&self) -> Option<Precision> {
        match self.work {
            Work::Step(_, _, precision, _)
            | Work::Parts(_, precision)
            | Work::Auc(precision)
            | Work::Box(_, precision) => Some(precision),
            Work::Kernel(_) | Work::Table(..) => None,
        }
    }
}

macro_rules! cases {
    ($($name:literal $work:expr,)*) => { &[$(Case { name: $name, work: $work }),*] };
}

/// Every case, in the order of the table.
pub(crate) const CASES: &[Case] = {
    use Kernel::*;
    use Model::*;
    use Precision::*;
    use TableWork::*;
    use Work::{Auc, Parts, Step, Table};
    cases! {
        "ctr_b2048_f32" Step(CtrDnn, 2048, F32, true),
        "ctr_b2048_tf32" Step(CtrDnn, 2048, Tf32, true),
        "ctr_b16384_f32" Step(CtrDnn, 16384, F32, true),
        "ctr_b16384_tf32" Step(CtrDnn, 16384, Tf32, true),
        "ctr_b65536_f32" Step(CtrDnn, 65536, F32, true),
        "ctr_b65536_tf32" Step(CtrDnn, 65536, Tf32, true),
        "ctr_b2048_bf16" Step(CtrDnn, 2048, Bf16, true),
        "ctr_b16384_bf16" Step(CtrDnn, 16384, Bf16, true),
        "ctr_b65536_bf16" Step(CtrDnn, 65536, Bf16, true),
        "ctr_b2048_fp16" Step(CtrDnn, 2048, Fp16, true),
        "ctr_b16384_fp16" Step(CtrDnn, 16384, Fp16, true),
        "ctr_b65536_fp16" Step(CtrDnn, 65536, Fp16, true),
        "ctr_b2048_tf32_fed" Step(CtrDnn, 2048, Tf32, false),
        "ctr_b16384_tf32_fed" Step(CtrDnn, 16384, Tf32, false),
        "ctr_b65536_tf32_fed" Step(CtrDnn, 65536, Tf32, false),
        "ctr_b2048_bf16_fed" Step(CtrDnn, 2048, Bf16, false),
        "ctr_b16384_bf16_fed" Step(CtrDnn, 16384, Bf16, false),
        "ctr_b65536_bf16_fed" Step(CtrDnn, 65536, Bf16, false),
        "mnist_b64_f32" Step(MnistMlp, 64, F32, true),
        "mnist_b64_f32_fed" Step(MnistMlp, 64, F32, false),
        "mnist_b64_bf16" Step(MnistMlp, 64, Bf16, true),
        "parts_b2048_tf32" Parts(2048, Tf32),
        "parts_b16384_tf32" Parts(16384, Tf32),
        "parts_b65536_tf32" Parts(65536, Tf32),
        "parts_b2048_bf16" Parts(2048, Bf16),
        "parts_b16384_bf16" Parts(16384, Bf16),
        "parts_b65536_bf16" Parts(65536, Bf16),
        "kernel_copy" Work::Kernel(Copy),
        "kernel_add" Work::Kernel(Add),
        "kernel_broadcast_add" Work::Kernel(BroadcastAdd),
        "kernel_reduce_rows" Work::Kernel(ReduceRows),
        "kernel_reduce_columns" Work::Kernel(ReduceColumns),
        "kernel_softmax" Work::Kernel(Softmax),
        "kernel_concat" Work::Kernel(Concat),
        "kernel_cast" Work::Kernel(Cast),
        "kernel_gather" Work::Kernel(Gather),
        "kernel_sort" Work::Kernel(Sort),
        "kernel_row_update" Work::Kernel(RowUpdate),
        "table_find_d8" Table(Find, 8),
        "table_insert_d8" Table(Insert, 8),
        "table_find_or_insert_d8" Table(FindOrInsert, 8),
        "table_rows_d8" Table(Rows, 8),
        "table_find_d16" Table(Find, 16),
        "table_insert_d16" Table(Insert, 16),
        "table_find_or_insert_d16" Table(FindOrInsert, 16),
        "table_rows_d16" Table(Rows, 16),
        "auc_f32" Auc(F32),
        "auc_tf32" Auc(Tf32),
        "auc_bf16" Auc(Bf16),
        "box_b16384_tf32" Work::Box(16384, Tf32),
        "box_b16384_bf16" Work::Box(16384, Bf16),
    }
};

/// How large everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scale {
    /// As the cases say.
    Full,
    /// As small as it can be: shows that a case runs, and nothing of its speed.
    Small,
}

impl Scale {
    /// One of two sizes.
    fn of<T>(self, full: T, small: T) -> T {
        match self {
            Scale::Full => full,
            Scale::Small => small,
        }
    }
}

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// What follows the name of the case, where it has several.
    pub(crate) part: Option<&'static str>,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// What it is of something else that was measured in the same run.
    pub(crate) ratio: Option<f64>,
    /// Other figures, by name.
    pub(crate) more: Vec<(&'static str, f64)>,
}

impl Figure {
    fn new(value: f64, unit: &'static str, ratio: Option<f64>) -> Figure {
        Figure { part: None, value, unit, ratio, more: Vec::new() }
    }
}

/// A card, and what cases are compared with, which is measured once.
pub(crate) struct Run {
    number: u32,
    seconds: f64,
    scale: Scale,
    device: Arc<dyn Device>,
    stream: Arc<Stream>,
    copy_gb_s: Option<f64>,
    row_reads: Option<f64>,
}

impl Run {
    /// Opens a card, for cases that are measured for about `seconds` each.
    ///
    /// # Errors
    /// When there is no such card.
    pub(crate) fn new(number: u32, seconds: f64, scale: Scale) -> Result<Run> {
        let (device, stream) = (bireme_cuda::open(number)?, bireme_cuda::stream(number)?);
        Ok(Run { number, seconds, scale, device, stream, copy_gb_s: None, row_reads: None })
    }

    /// Measures a case, after a warm-up.
    ///
    /// # Errors
    /// When the card fails, or a training diverges.
    pub(crate) fn measure(&mut self, case: &Case) -> Result<Vec<Figure>> {
        match case.work {
            Work::Step(model, batch, precision, on_card) => {
                self.step(model, batch, precision, on_card).map(|figure| vec![figure])
            }
            Work::Parts(batch, precision) => self.parts(batch, precision),
            Work::Kernel(kernel) => self.kernel(kernel).map(|figure| vec![figure]),
            Work::Table(work, width) => self.table(work, width).map(|figure| vec![figure]),
            Work::Auc(precision) => self.auc(precision).map(|figure| vec![figure]),
            Work::Box(batch, precision) => self.gpubox(batch, precision),
        }
    }
}
