//! Training steps and their floors, on the host and on cards, single eager ops, parameter servers, collective calls, parsers of
//! data, and whole jobs, timed in turn.

pub(crate) mod collective;
pub(crate) mod data;
mod eager;
mod floor;
pub(crate) mod gpu;
pub(crate) mod launch;
mod peak;
mod products;
pub(crate) mod ps;
pub(crate) mod scale;
mod workload;

use std::time::{Duration, Instant};

use anyhow::Result;

pub(crate) use self::eager::{Eager, measure_add};
pub(crate) use self::products::{Shape, Speeds};

use self::floor::Floor;
use self::workload::{Kind, Workload};

/// Rounds in which step and floor alternate; the best of each counts.
const ROUNDS: u32 = 10;

/// Every case, in the order of the table.
pub(crate) const CASES: &[Case] = &[
    Case { name: "ctr_dnn_b512_t1", model: Model::CtrDnn, batch: 512, threads: 1 },
    Case { name: "ctr_dnn_b2048_t1", model: Model::CtrDnn, batch: 2048, threads: 1 },
    Case { name: "ctr_dnn_b512_t2", model: Model::CtrDnn, batch: 512, threads: 2 },
    Case { name: "ctr_dnn_b2048_t2", model: Model::CtrDnn, batch: 2048, threads: 2 },
    Case { name: "mnist_mlp_b64_t1", model: Model::MnistMlp, batch: 64, threads: 1 },
    Case { name: SHARED, model: Model::CtrDnn, batch: 2048, threads: 1 },
    Case { name: HALF[0], model: Model::CtrDnn, batch: 2048, threads: 1 },
    Case { name: HALF[1], model: Model::CtrDnn, batch: 2048, threads: 2 },
];

/// The case of a step whose parameters other training threads may change meanwhile: what it does by
/// relaxed atomic accesses and copies, the step that it is measured against does plainly.
const SHARED: &str = "ctr_dnn_b2048_shared";

/// Cases of steps whose products round their factors to `bfloat16`, measured against the same step without.
const HALF: [&str; 2] = ["ctr_dnn_b2048_t1_bf16", "ctr_dnn_b2048_t2_bf16"];

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    model: Model,
    batch: usize,
    threads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    CtrDnn,
    MnistMlp,
}

/// Seconds for one step, and for what it is measured against.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) step_s: f64,
    pub(crate) floor_s: f64,
    /// Whether the floor is the step's products.
    is_of_products: bool,
    /// Floating-point operations of the products of one step.
    operations: f64,
    /// Operations a second that the threads can do at most.
    peak: f64,
}

impl Case {
    /// Measures for about `seconds`, after a warm-up.
    ///
    /// # Errors
    /// When the engine fails.
    pub(crate) fn measure(&self, seconds: f64) -> Result<Measured> {
        let kind = match () {
            () if self.is_shared() => Kind::Shared,
            () if self.is_half() => Kind::Half,
            () => Kind::Plain,
        };
        let mut workload = Workload::new(self, kind)?;
        let mut floor = self.floor()?;
        let round = Duration::from_secs_f64(seconds / f64::from(2 * ROUNDS));
        workload.run_for(round)?;
        floor(round)?;
        let mut best = Measured {
            step_s: f64::INFINITY,
            floor_s: f64::INFINITY,
            is_of_products: !self.is_shared() && !self.is_half(),
            operations: Floor::operations(self.model, self.batch),
            peak: 0.0,
        };
        for _ in 0..ROUNDS {
            best.step_s = best.step_s.min(workload.run_for(round)?);
            best.floor_s = best.floor_s.min(floor(round)?);
            best.peak = best.peak.max(peak::flops_per_second(self.threads, round / 10));
        }
        workload.check()?;
        Ok(best)
    }

    fn is_shared(&self) -> bool {
        self.name == SHARED
    }

    fn is_half(&self) -> bool {
        HALF.contains(&self.name)
    }

    /// What the step is measured against: runs for about the given time, returns the seconds of one.
    fn floor(&self) -> Result<Box<dyn FnMut(Duration) -> Result<f64>>> {
        if self.is_shared() || self.is_half() {
            let mut plain = Workload::new(self, Kind::Plain)?;
            return Ok(Box::new(move |time| plain.run_for(time)));
        }
        let mut products = Floor::new(self.model, self.batch, self.threads);
        Ok(Box::new(move |time| Ok(products.run_for(time))))
    }
}

impl Measured {
    /// Samples of `case` trained in a second.
    pub(crate) fn samples_per_second(&self, case: &Case) -> f64 {
        case.batch as f64 / self.step_s
    }

    /// Time of what it is measured against over step time: 1 would be a step of nothing but matrix products.
    pub(crate) fn ratio(&self) -> f64 {
        self.floor_s / self.step_s
    }

    /// What the processor can do at most on the threads of the case, in GFLOP/s.
    pub(crate) fn peak_gflops(&self) -> f64 {
        self.peak / 1e9
    }

    /// The part of the peak that the step's products take: the processor's best over the step's time.
    pub(crate) fn peak_ratio(&self) -> f64 {
        self.operations / self.peak / self.step_s
    }

    /// The part of the peak that the products alone run at, where they are the floor.
    pub(crate) fn products_peak_ratio(&self) -> Option<f64> {
        self.is_of_products.then(|| self.operations / self.peak / self.floor_s)
    }
}

/// The most memory that this process has held so far, in MiB, where the system tells.
pub(crate) fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = peak.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

/// Repeats `work` for about `time`, at least once; returns the seconds that one took.
fn time_per_run(time: Duration, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    let mut runs = 0u64;
    while runs == 0 || started.elapsed() < time {
        work()?;
        runs += 1;
    }
    Ok(started.elapsed().as_secs_f64() / runs as f64)
}
