//! How training grows with the processors: steps of the engine alone, and whole trainings of the demo as `bireme train` runs
//! them, on one thread and on many, alone and with servers. The speed of trainings is that of their own event logs; how well
//! they learned is what they print.

mod steps;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use bireme_rec::run::{Event, WithServers};

pub(crate) use self::steps::Parts;
use self::steps::Steps;

/// Trainings of each case; the quickest counts.
const ROUNDS: usize = 2;
/// Samples of a step of one trainer, where there are servers.
const BATCH_OF_TRAINER: usize = 512;
/// Steps that each trainer with servers makes at least: fewer say more of how a job begins than of how it goes on, and its
/// event log tells where time went after each hundred.
const FEWEST_STEPS: usize = 250;
/// From so many trainers on there are two servers.
const MANY: usize = 8;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Steps, each of which splits a batch of so many samples over the threads.
    Steps(usize),
    /// A whole training.
    Training(Way),
}

/// How a training is spread over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Each batch of so many samples is split.
    Batch(usize),
    /// Each thread has batches of so many samples for itself.
    Threads(usize),
    /// Trainers of one thread each, in this mode.
    Servers(&'static str),
}

/// One line of the table for each number of threads.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    what: What,
}

/// Every case, in the order of reports.
pub(crate) const CASES: &[Case] = &[
    Case { name: "step_b2048", what: What::Steps(2048) },
    Case { name: "step_b8192", what: What::Steps(8192) },
    Case { name: "local_b2048", what: What::Training(Way::Batch(2048)) },
    Case { name: "local_b8192", what: What::Training(Way::Batch(8192)) },
    Case { name: "threads_b2048", what: What::Training(Way::Threads(2048)) },
    Case { name: "sync", what: What::Training(Way::Servers("sync")) },
    Case { name: "async", what: What::Training(Way::Servers("async")) },
    Case { name: "geo", what: What::Training(Way::Servers("geo")) },
];

/// What a training was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) samples_per_second: f64,
    /// Of this speed over that of so many times one thread alone.
    pub(crate) ratio: f64,
    /// What `ratio` would be for work that needs nothing but arithmetic: processors may share a core, and slow down when all
    /// have work.
    pub(crate) ceiling: Option<f64>,
    pub(crate) parts: Option<Parts>,
    /// On samples that were held out.
    pub(crate) auc: Option<f64>,
    /// The part of the time in which training threads waited for their data.
    pub(crate) reader: Option<f64>,
    /// The parts of the time that trainers spent with servers.
    pub(crate) with_servers: Option<WithServers>,
    pub(crate) servers: usize,
}

/// Trainings that were run.
pub(crate) struct Run {
    /// `bireme`, in words.
    bireme: Vec<OsString>,
    samples: usize,
    /// Of one thread alone, by the size of its batches.
    alone: BTreeMap<usize, f64>,
    /// Steps, by the size of their batches.
    steps: BTreeMap<usize, Steps>,
}

impl Run {
    pub(crate) fn new(bireme: Vec<OsString>, samples: usize) -> Run {
        Run { bireme, samples, alone: BTreeMap::new(), steps: BTreeMap::new() }
    }

    /// Measures with so many threads, or trainers.
    ///
    /// # Errors
    /// When a step or a training fails.
    pub(crate) fn measure(&mut self, case: &Case, threads: usize) -> Result<Figure> {
        let way = match case.what {
            What::Training(way) => way,
            What::Steps(batch) => {
                let steps = match self.steps.entry(batch) {
                    Entry::Occupied(steps) => steps.into_mut(),
                    Entry::Vacant(none) => none.insert(Steps::new(batch)?),
                };
                return steps.measure(threads);
            }
        };
        let batch = match way {
            Way::Batch(batch) | Way::Threads(batch) => batch,
            Way::Servers(_) => BATCH_OF_TRAINER,
        };
        let alone = match self.alone.get(&batch) {
            Some(alone) => *alone,
            None => {
                let alone = self.best(Way::Batch(batch), 1)?.samples_per_second;
                *self.alone.entry(batch).or_insert(alone)
            }
        };
        let mut figure = self.best(way, threads)?;
        figure.ratio = figure.samples_per_second / (alone * threads as f64);
        Ok(figure)
    }

    fn best(&self, way: Way, threads: usize) -> Result<Figure> {
        let mut best = self.train(way, threads)?;
        for _ in 1..ROUNDS {
            let next = self.train(way, threads)?;
            if next.samples_per_second > best.samples_per_second {
                best = next;
            }
        }
        Ok(best)
    }

    fn train(&self, way: Way, threads: usize) -> Result<Figure> {
        let folder = tempfile::tempdir().context("cannot make a folder for the models")?;
        let servers = if threads < MANY { 1 } else { 2 };
        let samples = match way {
            Way::Servers(_) => self.samples.max(FEWEST_STEPS * BATCH_OF_TRAINER * threads),
            Way::Batch(_) | Way::Threads(_) => self.samples,
        };
        let mut flags = vec![
            ("--samples", samples.to_string()),
            ("--threads", threads.to_string()),
            ("--output", folder.path().to_string_lossy().into_owned()),
        ];
        flags.extend(match way {
            Way::Batch(batch) => vec![("--batch-size", batch.to_string())],
            Way::Threads(batch) => {
                vec![("--batch-size", batch.to_string()), ("--parallel", "threads".to_owned())]
            }
            Way::Servers(mode) => vec![
                ("--batch-size", (BATCH_OF_TRAINER * threads).to_string()),
                ("--workers", threads.to_string()),
                ("--servers", servers.to_string()),
                ("--mode", mode.to_owned()),
            ],
        });
        let (program, words) = self.bireme.split_first().context("a command has a word")?;
        let mut command = Command::new(program);
        command.args(words).args(["train", "--quiet"]);
        if !matches!(way, Way::Servers(_)) {
            command.arg("--local");
        }
        command.args(flags.iter().flat_map(|(flag, value)| [*flag, value.as_str()]));
        let done = command.stdin(Stdio::null()).output().context("cannot start a training")?;
        let said = String::from_utf8_lossy(&done.stdout);
        let why = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "`{command:?}` failed:\n{why}");
        let auc = said.lines().find_map(|line| line.strip_prefix("AUC")?.split_whitespace().next());
        let auc = auc.and_then(|auc| auc.parse().ok()).context("the training printed no AUC")?;
        let Speed { samples_per_second, reader, with_servers } = speed(&folder.path().join("run"))?;
        let servers = if matches!(way, Way::Servers(_)) { servers } else { 0 };
        Ok(Figure {
            samples_per_second,
            ratio: f64::NAN,
            ceiling: None,
            parts: None,
            auc: Some(auc),
            reader: Some(reader),
            with_servers,
            servers,
        })
    }
}

/// What event logs say of a training.
struct Speed {
    /// Of all trainers together.
    samples_per_second: f64,
    reader: f64,
    with_servers: Option<WithServers>,
}

fn speed(logs: &Path) -> Result<Speed> {
    let (mut samples, mut seconds, mut waited, mut steps) = (0, 0.0, 0.0, 0.0);
    let mut spent: Option<WithServers> = None;
    for entry in std::fs::read_dir(logs).context("the training left no event log")? {
        for line in std::fs::read_to_string(entry?.path())?.lines() {
            match serde_json::from_str(line) {
                Ok(Event::Epoch { samples: more, seconds: took, .. }) => {
                    samples += more;
                    seconds = f64::max(seconds, took);
                }
                Ok(Event::Step { reader_seconds, seconds, servers, .. }) => {
                    waited += reader_seconds;
                    steps += seconds;
                    if let Some(more) = servers {
                        let sum = spent.get_or_insert_default();
                        sum.pull += more.pull;
                        sum.push += more.push;
                        sum.wait += more.wait;
                        sum.update += more.update;
                    }
                }
                _ => {}
            }
        }
    }
    ensure!(samples > 0 && seconds > 0.0, "the event log says of no epoch");
    let part = |spent: f64| if steps > 0.0 { spent / steps } else { 0.0 };
    let with_servers = spent.map(|spent| WithServers {
        pull: part(spent.pull),
        push: part(spent.push),
        wait: part(spent.wait),
        update: part(spent.update),
    });
    Ok(Speed { samples_per_second: samples as f64 / seconds, reader: part(waited), with_servers })
}
