//! Checkpoints that a run goes on from at the exact batch.
//!
//! A checkpoint is a folder, numbered in the order they are made: `parameters` (everything that
//! training changes, with the state of the optimizer), `trainer-R` (what trainer R alone has: its
//! counts of metrics), and at last `state.json`. Only with that file is it complete, and that file
//! appears as a whole or not at all; so a process that is killed at any point leaves the checkpoint
//! before it as the last.

use std::fs;
use std::path::{Path, PathBuf};

use bireme_engine::ir::Var;
use bireme_engine::{Scope, io};
use bireme_fleet::{Fleet, SaveMode};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The file that makes a checkpoint complete.
const STATE: &str = "state.json";
/// How many complete checkpoints are kept.
const KEPT: usize = 2;

/// What all trainers together have done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// What must be the same for a run that goes on.
    pub(super) setup: Setup,
    /// What each trainer has done.
    pub(super) trainers: Vec<Position>,
}

/// What must be the same for a run that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) model: String,
    pub(super) mode: String,
    pub(super) trainers: usize,
    pub(super) threads: usize,
    pub(super) batch_size: usize,
    pub(super) seed: u64,
}

/// What one trainer has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The number of this checkpoint.
    pub(super) number: u64,
    /// The epoch that is being trained.
    pub(super) epoch: u64,
    /// Batches of it that each training thread has trained.
    pub(super) taken: Vec<u64>,
    /// Portions of the run that were trained: random numbers depend on it.
    pub(super) portions: u64,
    /// Batches of the whole run.
    pub(super) batches: u64,
    /// Samples of this epoch.
    pub(super) samples: u64,
    /// The sum of the losses of this epoch's batches.
    #[serde(with = "super::exact")]
    pub(super) loss: f64,
    /// How many batches that are.
    pub(super) losses: u64,
    /// Seconds spent on this epoch.
    pub(super) seconds: f64,
    /// What came out of the epochs before.
    pub(super) epochs: Vec<super::Epoch>,
}

/// Where the checkpoints of a run are.
pub(super) struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    pub(super) fn new(folder: PathBuf) -> Checkpoints {
        Checkpoints { folder }
    }

    /// The last complete one, as trainer 0 sees it; all trainers ask together.
    ///
    /// # Errors
    /// When it cannot be read, or was made by another training.
    pub(super) fn last(&self, fleet: &Fleet, setup: &Setup) -> Result<Option<(PathBuf, State)>> {
        let own = match fleet.is_first_worker() {
            true => {
                self.complete()?.pop().map_or_else(Vec::new, |number| number.to_string().into())
            }
            false => Vec::new(),
        };
        let number = fleet.util().all_gather(&own)?.swap_remove(0);
        let Ok(number) = String::from_utf8_lossy(&number).parse::<u64>() else { return Ok(None) };
        let folder = self.folder.join(name(number));
        let path = folder.join(STATE);
        let text = fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
        let state: State = serde_json::from_str(&text)
            .map_err(|error| Error::file(&path, format!("it is damaged: {error}")))?;
        if state.setup != *setup {
            return Err(Error::file(
                &folder,
                format!(
                    "this checkpoint was made by another training ({}), and this one is ({}): set \
                     them alike, or start anew without `--resume`",
                    state.setup.describe(),
                    setup.describe()
                ),
            ));
        }
        Ok(Some((folder, state)))
    }

    /// Writes a checkpoint; all trainers call it together.
    ///
    /// # Errors
    /// When it cannot be written, or another process is lost.
    pub(super) fn write(
        &self,
        fleet: &Fleet,
        scope: &Scope,
        setup: &Setup,
        position: &Position,
    ) -> Result<PathBuf> {
        let folder = self.folder.join(name(position.number));
        if fleet.is_first_worker() {
            // Left by a process that was killed while it wrote.
            remove(&folder)?;
        }
        fleet.save_persistables(&folder.join("parameters"), scope, SaveMode::All)?;
        if fleet.worker_num() > 1 {
            let own = own_folder(&folder, fleet);
            let program = fleet.main_program()?;
            io::save_vars(own, program, scope, Some("variables"), |var| is_own(var, scope))?;
        }
        let json = |error: serde_json::Error| Error::file(&folder, error);
        let mine = serde_json::to_vec(position).map_err(json)?;
        let all = fleet.util().all_gather(&mine)?;
        if fleet.is_first_worker() {
            let trainers = all.iter().map(|bytes| serde_json::from_slice(bytes));
            let trainers = trainers.collect::<std::result::Result<_, _>>().map_err(json)?;
            let state = State { setup: setup.clone(), trainers };
            let text = serde_json::to_string_pretty(&state).map_err(json)?;
            io::write_file(folder.join(STATE), |out| out.write_all(text.as_bytes()))?;
            self.forget_old()?;
        }
        Ok(folder)
    }

    /// Brings parameters and a trainer's own variables back to what they were; all trainers call it
    /// together, connected. `fetch` runs the startup program again, which fetches what servers have.
    ///
    /// # Errors
    /// When the checkpoint cannot be read.
    pub(super) fn load(
        folder: &Path,
        fleet: &Fleet,
        scope: &Scope,
        fetch: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let parameters = folder.join("parameters");
        match fleet.server_num() {
            0 => io::load_persistables(&parameters, fleet.original_program()?, scope, None)?,
            _ => {
                fleet.load_model(&parameters, SaveMode::All)?;
                fetch()?;
            }
        }
        if fleet.worker_num() > 1 {
            let (own, program) = (own_folder(folder, fleet), fleet.main_program()?);
            io::load_vars(own, program, scope, Some("variables"), |var| is_own(var, scope))?;
        }
        Ok(())
    }

    /// Numbers of complete checkpoints, in order.
    fn complete(&self) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(numbers),
            Err(error) => return Err(Error::file(&self.folder, error)),
        };
        for entry in entries {
            let path = entry.map_err(|error| Error::file(&self.folder, error))?.path();
            let number = path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
            if let Some(number) = number.filter(|_| path.join(STATE).is_file()) {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Removes all but the last checkpoints.
    fn forget_old(&self) -> Result<()> {
        let numbers = self.complete()?;
        for number in &numbers[..numbers.len().saturating_sub(KEPT)] {
            remove(&self.folder.join(name(*number)))?;
        }
        Ok(())
    }

    /// Removes all checkpoints: a run that begins anew must not leave those of another before it.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub(super) fn clear(&self) -> Result<()> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            let is_number =
                entry.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok());
            if is_number {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

impl Setup {
    fn describe(&self) -> String {
        format!(
            "model {}, {}, {} trainers with {} threads, batches of {}, seed {}",
            self.model, self.mode, self.trainers, self.threads, self.batch_size, self.seed
        )
    }
}

fn name(number: u64) -> String {
    format!("{number:08}")
}

/// Without its last file first, so that what is left of it is not taken for a checkpoint.
fn remove(folder: &Path) -> Result<()> {
    let gone = |result: std::io::Result<()>| match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file(folder, format!("cannot remove it: {error}")))
        }
        _ => Ok(()),
    };
    gone(fs::remove_file(folder.join(STATE)))?;
    gone(fs::remove_dir_all(folder))
}

fn own_folder(folder: &Path, fleet: &Fleet) -> PathBuf {
    folder.join(format!("trainer-{}", fleet.worker_index()))
}

/// Whether a variable belongs to a trainer alone: counts of metrics, counters of schedules.
fn is_own(var: &Var, scope: &Scope) -> bool {
    !var.is_parameter() && scope.contains(&var.name)
}
