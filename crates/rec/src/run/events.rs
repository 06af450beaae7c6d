//! The event log of a run: a line of JSON for everything that happens, for programs and for
//! `bireme report`.
//!
//! Each trainer has its own file, `trainer-R.jsonl`. A run that goes on from a checkpoint appends to
//! it; its `start` says from which batch, and who reads the log forgets what came after that.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use bireme_fleet::{Fleet, Times, clock};
use serde::{Deserialize, Serialize};

use crate::config::{Config, Node};
use crate::{Error, Result};

/// The log of `infer`, in the folder of a run.
pub(crate) const INFER: &str = "infer.jsonl";

/// Metrics as JSON has them: without those that are no numbers.
pub(super) fn finite(metrics: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let is_finite = |(_, value): &(&String, &f64)| value.is_finite();
    metrics.iter().filter(is_finite).map(|(name, value)| (name.clone(), *value)).collect()
}

/// Seconds that a trainer's steps were with servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WithServers {
    /// Getting rows and parameters.
    pub pull: f64,
    /// Handing gradients over.
    pub push: f64,
    /// Waiting for other trainers.
    pub wait: f64,
    /// Waiting for servers to apply gradients.
    pub update: f64,
}

impl WithServers {
    pub(super) fn of(spent: Times) -> WithServers {
        let Times { pull, push, wait, server } = spent;
        let [pull, push, wait, update] = [pull, push, wait, server].map(|t| t.as_secs_f64());
        WithServers { pull, push, wait, update }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A process began to train.
    Start {
        /// Seconds since 1970.
        time: f64,
        /// The zoo model.
        model: String,
        /// `local`, `sync`, …, `collective`.
        mode: String,
        /// The number of this trainer.
        trainer: u32,
        /// How many there are.
        trainers: u32,
        /// Batches of this trainer that were trained before.
        batch: u64,
        /// All keys of the configuration.
        config: BTreeMap<String, String>,
    },
    /// Some batches were trained.
    Step {
        /// Seconds since 1970.
        time: f64,
        /// The epoch.
        epoch: u64,
        /// Batches of this trainer since the beginning of the run.
        batch: u64,
        /// The mean loss since the last of these events; none when it is no number.
        loss: Option<f64>,
        /// Metrics by name.
        metrics: BTreeMap<String, f64>,
        /// Samples since the last of these events.
        samples: u64,
        /// Seconds since the last of these events.
        seconds: f64,
        /// Of these, seconds that threads waited for data.
        reader_seconds: f64,
        /// Of these, seconds that steps were with servers, of a job that has some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        servers: Option<WithServers>,
        /// Samples a second.
        samples_per_second: f64,
    },
    /// An epoch is over.
    Epoch {
        /// Seconds since 1970.
        time: f64,
        /// The epoch.
        epoch: u64,
        /// Batches of this trainer since the beginning of the run.
        batch: u64,
        /// Metrics over all trainers, by name.
        metrics: BTreeMap<String, f64>,
        /// Samples of this trainer.
        samples: u64,
        /// How long it took.
        seconds: f64,
    },
    /// The model was tried on the validation data.
    Valid {
        /// Seconds since 1970.
        time: f64,
        /// The epoch.
        epoch: u64,
        /// Batches of this trainer since the beginning of the run.
        batch: u64,
        /// Loss and metrics over all trainers, by name.
        metrics: BTreeMap<String, f64>,
        /// Samples of all trainers.
        samples: u64,
        /// How long it took.
        seconds: f64,
    },
    /// `infer` tried the model of an epoch on the test data.
    Infer {
        /// Seconds since 1970.
        time: f64,
        /// The epoch.
        epoch: u64,
        /// Loss and metrics, by name.
        metrics: BTreeMap<String, f64>,
        /// Samples.
        samples: u64,
        /// How long it took.
        seconds: f64,
    },
    /// A checkpoint or a model was written.
    Save {
        /// Seconds since 1970.
        time: f64,
        /// Batches of this trainer since the beginning of the run.
        batch: u64,
        /// `checkpoint` or `model`.
        what: String,
        /// Where.
        path: PathBuf,
        /// How long it took.
        seconds: f64,
    },
    /// Training is over.
    End {
        /// Seconds since 1970.
        time: f64,
        /// Batches of this trainer since the beginning of the run.
        batch: u64,
    },
}

/// Writes events.
pub(super) struct Events {
    path: PathBuf,
    file: File,
}

impl Events {
    /// The log of a trainer in a folder, which is made if need be; an old one is replaced, or
    /// continued by a run that goes on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn open(folder: &Path, trainer: u32, goes_on: bool) -> Result<Events> {
        let path = folder.join(name(trainer));
        let failed = |error| Error::file(&path, format!("cannot write the event log: {error}"));
        fs::create_dir_all(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.create(true);
        match goes_on {
            true => options.append(true),
            false => options.write(true).truncate(true),
        };
        let mut file = options.open(&path).map_err(failed)?;
        if goes_on {
            // What was killed may have left half a line.
            file.write_all(b"\n").map_err(failed)?;
        }
        Ok(Events { path, file })
    }

    /// The log of `infer` in the folder of a run, which is continued.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn of_infer(folder: &Path) -> Result<Events> {
        let path = folder.join(INFER);
        let failed = |error| Error::file(&path, format!("cannot write the event log: {error}"));
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        Ok(Events { path, file })
    }

    /// Forgets what `infer` has said of a training before this one.
    ///
    /// # Errors
    /// When its log cannot be removed.
    pub(super) fn forget_infer(&self) -> Result<()> {
        let path = self.folder().join(INFER);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file(path, format!("cannot remove it: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Writes an event.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&mut self, event: &Event) -> Result<()> {
        let failed = |error: std::io::Error| Error::file(&self.path, error);
        let mut line = serde_json::to_vec(event).map_err(std::io::Error::other).map_err(failed)?;
        line.push(b'\n');
        // In one piece: whoever reads along sees whole lines.
        self.file.write_all(&line).map_err(failed)
    }

    /// The folder of the log.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }
}

/// That a process begins to train, after so many batches.
pub(super) fn start(config: &Config, fleet: &Fleet, model: &str, mode: &str, batch: u64) -> Event {
    let text = |(key, node): (&str, &Node)| (key.to_owned(), node.value.to_string());
    Event::Start {
        time: now(),
        model: model.to_owned(),
        mode: mode.to_owned(),
        trainer: fleet.worker_index(),
        trainers: fleet.worker_num(),
        batch,
        config: config.values().map(text).collect(),
    }
}

/// How many batches a trainer had trained when it last saved something to `path`, by its own log;
/// 0 where that does not say it.
pub(super) fn batch_of_save(folder: &Path, trainer: u32, path: &Path) -> u64 {
    let log = fs::read_to_string(folder.join(name(trainer))).unwrap_or_default();
    let saved = |line: &str| match serde_json::from_str(line) {
        Ok(Event::Save { batch, path: saved, .. }) if saved == path => Some(batch),
        _ => None,
    };
    log.lines().rev().find_map(saved).unwrap_or(0)
}

fn name(trainer: u32) -> String {
    format!("trainer-{trainer}.jsonl")
}

/// Seconds since 1970, for [`Event`]s.
pub(super) fn now() -> f64 {
    clock::unix_seconds()
}
