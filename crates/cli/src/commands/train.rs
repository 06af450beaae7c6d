//! `bireme train`: what a YAML file describes or, without one, the built-in configuration.

mod demo;

use std::path::PathBuf;

use anyhow::Result;

use super::{Host, MAX_THREADS, Outcome, none_or_up_to, positive_real, up_to, yaml};
use crate::device::{self, Choice};
use crate::rows::MAX_ROWS;

/// Samples, and rows of the table: a hundred million take some 10 GiB of memory.
const MAX_SIZE: usize = 100_000_000;
const MAX_EPOCHS: usize = 1_000_000;
/// Servers, and trainers: more than this no machine has cores for.
const MAX_PROCESSES: usize = 64;

/// Train a model: of a YAML file with `-m`, else an example on generated data
///
/// Without `-m`, generates Criteo-like click data (26 slots of skewed ids, 13 dense features, labels from a
/// hidden model), trains the CTR-DNN of PaddleRec on it, evaluates it on data it has not seen, and
/// saves it. Trains on a local cluster: parameter servers and trainers in processes of their own,
/// each with its share of every batch; under a launcher (`fleetrun --server_num=1 --worker_num=2
/// bireme train`) it is one of them, as the environment says. Needs no arguments and takes less than a minute on two
/// cores. Ctrl-C ends training after the current step and saves a checkpoint in the folder
/// `unfinished` of the output folder, which `--resume` goes on from.
///
/// With `-m config.yaml`, trains what PaddleRec's YAML describes instead, on your data: alone, on a
/// local cluster (`--servers`, `--workers`, `--mode`), or as one process of a launcher's job.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Train what this YAML file of PaddleRec describes
    #[arg(long = "config_yaml", alias = "config-yaml", short = 'm', value_name = "FILE")]
    #[arg(conflicts_with_all = ["samples", "epochs", "local", "member", "batch_size", "threads",
          "parallel", "learning_rate", "rows", "output"])]
    config: Option<PathBuf>,
    #[command(flatten)]
    source: yaml::Source,
    /// Go on from the last checkpoint of the same training
    #[arg(long)]
    resume: bool,
    /// Samples to train on; a tenth as many are held out for evaluation
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = up_to::<MAX_SIZE>)]
    samples: usize,
    /// Times to go through the samples
    #[arg(long, value_name = "N", default_value = "1", value_parser = up_to::<MAX_EPOCHS>)]
    epochs: usize,
    /// Parameter servers; 0 is `--local` [default: 1]
    #[arg(long, value_name = "N", value_parser = none_or_up_to::<MAX_PROCESSES>)]
    servers: Option<usize>,
    /// Trainers [default: 2]
    #[arg(long, value_name = "N", value_parser = up_to::<MAX_PROCESSES>)]
    workers: Option<usize>,
    /// How trainers keep time with each other [default: sync]
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// Train in this process alone, without servers
    #[arg(long, conflicts_with_all = ["servers", "workers", "mode"])]
    local: bool,
    /// Be a process of a cluster that this command started; the environment says which
    #[arg(long, hide = true)]
    member: bool,
    /// Samples in one step, of all trainers together; as many of each
    #[arg(long, value_name = "N", default_value = "512", value_parser = up_to::<MAX_ROWS>)]
    batch_size: usize,
    /// Threads to train with, of all trainers together [default: all processors]
    #[arg(long, value_name = "N", value_parser = up_to::<MAX_THREADS>)]
    threads: Option<usize>,
    /// How the threads of one process share the work; `threads` needs `--local`
    #[arg(long, value_enum, default_value = "batch")]
    parallel: Parallel,
    /// Learning rate of Adam
    #[arg(long, value_name = "RATE", default_value = "0.001", value_parser = positive_real)]
    #[arg(allow_negative_numbers = true)]
    learning_rate: f32,
    /// Seed of the model's initial values and of generated data [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Rows of the embedding table
    #[arg(long, value_name = "N", default_value = "1000001", value_parser = up_to::<MAX_SIZE>)]
    rows: usize,
    /// Folder for the model, its curves and a file of sample lines; made if missing
    #[arg(long, value_name = "FOLDER", default_value = "bireme-demo")]
    output: PathBuf,
    /// Where to train: cpu, gpu or gpu:1; in this process alone, unless there are `--servers`, whose
    /// trainers then share the GPUs [default: cpu, or as `runner.use_gpu` of the YAML file says]
    #[arg(long, value_name = "DEVICE", value_parser = device::parse)]
    device: Option<Choice>,
    /// What matrix products multiply: bf16 is faster on GPUs and on processors with AVX512-BF16 or
    /// AMX; parameters, sums and everything else stay in 32 bits [default: float32, or as
    /// `runner.precision` of the YAML file says]
    #[arg(long, value_enum)]
    precision: Option<Precision>,
    /// Stop at the first op that produces NaN or infinity, and name it
    #[arg(long)]
    check_finite: bool,
    /// Show no progress and no advice
    #[arg(long, short)]
    quiet: bool,
}

/// How several threads train one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Parallel {
    /// Each step's batch is split over the threads: the same result every time
    Batch,
    /// Several batches are trained at a time, four at most, each by as many of the threads, which
    /// update the shared parameters at once: not repeatable to the bit
    Threads,
}

/// What matrix products multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Precision {
    /// Numbers of 32 bits
    Float32,
    /// Factors rounded to bfloat16
    Bf16,
}

impl Precision {
    fn name(self) -> &'static str {
        match self {
            Precision::Float32 => "float32",
            Precision::Bf16 => "bf16",
        }
    }

    /// The setting of a configuration.
    fn option(self) -> String {
        format!("runner.precision={}", self.name())
    }
}

/// How trainers keep time with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum ModeArg {
    #[default]
    /// One update a step from all trainers' gradients: the same result as `--local`
    Sync,
    /// Gradients are applied as they come
    Async,
    /// As async, but a trainer waits for its own gradients
    HalfAsync,
    /// Trainers update copies of their own and exchange differences
    Geo,
    /// Dense parameters as in sync, tables as in async
    Hybrid,
}

impl ModeArg {
    fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self).expect("no mode is skipped");
        value.get_name().to_owned()
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, host: &Host) -> Result<Outcome> {
    let Some(config) = &args.config else { return demo::run(args, host) };
    let mut source = args.source.clone();
    source.options.extend(args.seed.map(|seed| format!("runner.seed={seed}")));
    source.options.extend(args.precision.map(Precision::option));
    let training = yaml::Training {
        config,
        source: &source,
        resume: args.resume,
        check_finite: args.check_finite,
        quiet: args.quiet,
        servers: args.servers,
        workers: args.workers,
        mode: args.mode.map(ModeArg::name),
        device: args.device,
    };
    yaml::train(&training, host)
}

impl Args {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
}
