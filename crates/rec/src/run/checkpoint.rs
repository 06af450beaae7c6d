//! Checkpoints that a run goes on from at the exact batch.
//!
//! A checkpoint is a folder, numbered in the order they are made: `parameters` (everything that
//! training changes, with the state of the optimizer), `trainer-R` (what trainer R alone has: its
//! counts of metrics, and in geo mode the state of its optimizer), and at last `state.json`, which lists the other files with their checksums.
//! Only with that file is it complete, and that file appears as a whole or not at all; so a process
//! that is killed at any point leaves the checkpoint before it as the last.
//!
//! A run that begins anew counts on from the numbers that are there. Checkpoints of the runs before
//! it stay where they are until its own first one is complete, and are then kept in a folder of
//! their own; nothing that is whole is removed but the checkpoints of the same run.

mod state;
mod sums;

use std::fs;
use std::path::{Path, PathBuf};

use bireme_engine::ir::Var;
use bireme_engine::{Scope, io};
use bireme_fleet::{Fleet, SaveMode};

use crate::config::Config;
use crate::{Error, Log, Result};
use state::Share;
pub(super) use state::{Position, Setup, State};

/// The file that makes a checkpoint complete.
const STATE: &str = "state.json";
/// The folder of the parameters.
const PARAMETERS: &str = "parameters";
/// The file with the number of the first checkpoint of the run that was begun last.
const FIRST: &str = "first";
/// The beginning of a folder's name with the checkpoints before a number.
const BEFORE: &str = "before-";
/// The beginning of the name of a checkpoint that was damaged.
const DAMAGED: &str = "damaged-";
/// How many complete checkpoints are kept.
const KEPT: usize = 2;

/// Where the checkpoints of a run are.
pub(super) struct Checkpoints {
    folder: PathBuf,
    /// The number of the first that is of this run.
    first: u64,
    log: Log,
}

impl Checkpoints {
    /// Those of a configuration's run.
    pub(super) fn of_run(config: &Config, log: &Log) -> Checkpoints {
        let folder = super::trainer::folder(config, "runner.checkpoint_path", "checkpoints");
        Checkpoints { folder, first: 0, log: log.clone() }
    }

    /// Where a run that `goes_on` does so: at the last checkpoint, or, unless the user `resumes`, at
    /// that of the job that a launcher has started again, not of one before it.
    ///
    /// # Errors
    /// As [`Checkpoints::last`].
    pub(super) fn of(
        &mut self,
        fleet: &Fleet,
        setup: &Setup,
        goes_on: bool,
        resumes: bool,
    ) -> Result<Option<(PathBuf, State)>> {
        if goes_on { self.last(fleet, setup, !resumes) } else { Ok(None) }
    }

    /// The last complete one that is not damaged, as trainer 0 sees it; all trainers ask together.
    /// With `begun_last`, of the run that was begun last and of none before it.
    ///
    /// # Errors
    /// When it cannot be read, all of them are damaged, or it was made by another training.
    fn last(
        &mut self,
        fleet: &Fleet,
        setup: &Setup,
        begun_last: bool,
    ) -> Result<Option<(PathBuf, State)>> {
        let number = told(fleet, || {
            let first = if begun_last { self.begun() } else { 0 };
            Ok(self.last_whole(first)?.map_or_else(String::new, |number| number.to_string()))
        })?;
        let Ok(number) = number.parse::<u64>() else { return Ok(None) };
        let folder = self.folder.join(name(number));
        let path = folder.join(STATE);
        let state = State::read(&path)?.map_err(|problem| Error::file(&path, problem))?;
        if let Some(differences) = state.setup.differences(setup) {
            return Err(Error::file(
                &folder,
                format!(
                    "this checkpoint was made by another training ({differences}): set them alike, \
                     or start anew without `--resume`"
                ),
            ));
        }
        self.first = state.first;
        if fleet.is_first_worker() {
            self.note_first()?;
        }
        Ok(Some((folder, state)))
    }

    /// The last complete one from `first` on that is not damaged; those that are, are set aside.
    fn last_whole(&self, first: u64) -> Result<Option<u64>> {
        let mut numbers = self.complete()?;
        numbers.retain(|number| *number >= first);
        let mut damaged = Vec::new();
        while let Some(number) = numbers.pop() {
            let folder = self.folder.join(name(number));
            let damage = match State::read(&folder.join(STATE))? {
                Ok(state) => sums::damage(&folder, &state.files, PARAMETERS)?,
                Err(problem) => Some(format!("`{STATE}`: {problem}")),
            };
            let Some(damage) = damage else {
                damaged.iter().try_for_each(|number| self.set_damaged_aside(*number))?;
                return Ok(Some(number));
            };
            let before = match numbers.last() {
                Some(before) => format!("checkpoint {} before it is tried", name(*before)),
                None => "there is no checkpoint before it".to_owned(),
            };
            self.log
                .warn(&format!("checkpoint {} is damaged ({damage}): {before}", folder.display()));
            damaged.push(number);
        }
        match damaged.first() {
            None => Ok(None),
            Some(last) => Err(Error::file(
                &self.folder,
                format!(
                    "every checkpoint in it is damaged, the last of them {}: bring one back from a \
                     copy, or start anew without `--resume`",
                    name(*last)
                ),
            )),
        }
    }

    /// Renames a damaged checkpoint, so that the next one can have its number.
    fn set_damaged_aside(&self, number: u64) -> Result<()> {
        let from = self.folder.join(name(number));
        let names = (1..).map(|copy| match copy {
            1 => format!("{DAMAGED}{}", name(number)),
            copy => format!("{DAMAGED}{}-{copy}", name(number)),
        });
        let to = names.map(|name| self.folder.join(name)).find(|path| !path.exists());
        let to = to.unwrap_or_else(|| self.folder.join(DAMAGED));
        fs::rename(&from, &to).map_err(|error| {
            Error::file(&from, format!("this damaged checkpoint cannot be renamed: {error}"))
        })?;
        self.log.warn(&format!(
            "the damaged checkpoint is now {}: remove it if you do not need it",
            to.display()
        ));
        Ok(())
    }

    /// Begins a run whose checkpoints come after those that are there; all trainers call it
    /// together. Returns the number before its first.
    ///
    /// # Errors
    /// When the folder cannot be read or written.
    pub(super) fn begin(&mut self, fleet: &Fleet) -> Result<u64> {
        let highest = told(fleet, || {
            let highest = self.highest()?;
            self.first = highest + 1;
            self.note_first()?;
            let old = self.complete()?;
            if let Some(last) = old.last() {
                self.log.warn(&format!(
                    "training begins anew: {} checkpoints of a run before it, the last of them {}, \
                     stay there until this run has written its first, and are then moved to {}; \
                     `--resume` goes on from the last one",
                    old.len(),
                    self.folder.join(name(*last)).display(),
                    self.before().display()
                ));
            }
            Ok(highest.to_string())
        })?;
        let highest = highest.parse::<u64>().unwrap_or(0);
        self.first = highest + 1;
        Ok(highest)
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
        fleet.save_persistables(&folder.join(PARAMETERS), scope, SaveMode::Full)?;
        let mut files = Vec::new();
        if has_own(fleet) {
            let own = own_name(fleet);
            let program = fleet.main_program()?;
            let is_own = |var: &Var| is_own(var, scope, fleet);
            io::save_vars(folder.join(&own), program, scope, Some("variables"), is_own)?;
            files = sums::of_folder(&folder, &own)?;
        }
        if fleet.is_first_worker() {
            files.extend(sums::of_folder(&folder, PARAMETERS)?);
        }
        let json = |error: serde_json::Error| Error::file(&folder, error);
        let mine = Share { position: position.clone(), files };
        let mine = serde_json::to_vec(&mine).map_err(json)?;
        let all = fleet.util().all_gather(&mine)?;
        if fleet.is_first_worker() {
            let (mut trainers, mut files) = (Vec::new(), Vec::new());
            for bytes in &all {
                let share: Share = serde_json::from_slice(bytes).map_err(json)?;
                trainers.push(share.position);
                files.extend(share.files);
            }
            let state = State { first: self.first, setup: setup.clone(), trainers, files };
            let text = state.text().map_err(json)?;
            io::write_file(folder.join(STATE), |out| out.write_all(text.as_bytes()))?;
            self.set_others_aside()?;
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
        &self,
        folder: &Path,
        fleet: &Fleet,
        scope: &Scope,
        fetch: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let parameters = folder.join(PARAMETERS);
        match fleet.server_num() {
            0 => io::load_persistables(&parameters, fleet.original_program()?, scope, None)?,
            _ => {
                fleet.load_model(&parameters, SaveMode::Full)?;
                fetch()?;
            }
        }
        let own = folder.join(own_name(fleet));
        if has_own(fleet) && fleet.worker_num() == 1 && !own.exists() {
            self.log.warn(&format!(
                "checkpoint {} was written before trainers kept their own state there: metrics of \
                 this epoch count from here on",
                folder.display()
            ));
        } else if has_own(fleet) {
            let program = fleet.main_program()?;
            io::load_vars(own, program, scope, Some("variables"), |var| is_own(var, scope, fleet))?;
        }
        Ok(())
    }

    /// Names of what lies in the folder.
    fn names(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::file(&self.folder, error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| Error::file(&self.folder, error))?;
            names.extend(entry.file_name().into_string());
        }
        Ok(names)
    }

    /// Numbers of checkpoints, complete or not, in order.
    fn numbers(&self) -> Result<Vec<u64>> {
        let names = self.names()?;
        // Only as we write them: who renames one to `1.old` or `7` has something in mind.
        let number = |text: &String| text.parse().ok().filter(|number| name(*number) == *text);
        let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Numbers of complete checkpoints, in order.
    fn complete(&self) -> Result<Vec<u64>> {
        let mut numbers = self.numbers()?;
        numbers.retain(|number| self.folder.join(name(*number)).join(STATE).is_file());
        Ok(numbers)
    }

    /// The highest number that was ever used, as far as the folder tells; 0 for none.
    fn highest(&self) -> Result<u64> {
        let of_name = |text: &String| {
            let text = [BEFORE, DAMAGED].iter().find_map(|prefix| text.strip_prefix(prefix))?;
            text.get(..8)?.parse().ok()
        };
        let aside = self.names()?.iter().filter_map(of_name).max();
        Ok(self.numbers()?.pop().max(aside).unwrap_or(0))
    }

    /// The number of the first checkpoint of the run that was begun last.
    fn begun(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join(FIRST)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Notes which checkpoints are of this run, for a process that is started again before there is
    /// one.
    fn note_first(&self) -> Result<()> {
        let path = self.folder.join(FIRST);
        if self.begun() == self.first || self.first <= 1 && !path.exists() {
            return Ok(());
        }
        Ok(io::write_file(path, |out| writeln!(out, "{}", self.first))?)
    }

    /// Where checkpoints of the runs before this one are kept.
    fn before(&self) -> PathBuf {
        self.folder.join(format!("{BEFORE}{}", name(self.first)))
    }

    /// Moves checkpoints of other runs into a folder of their own: this run has one now.
    fn set_others_aside(&self) -> Result<()> {
        let (numbers, complete) = (self.numbers()?, self.complete()?);
        let mut moved = 0;
        for number in numbers.into_iter().filter(|number| *number < self.first) {
            let from = self.folder.join(name(number));
            if !complete.contains(&number) {
                remove(&from)?;
                continue;
            }
            let to = self.before().join(name(number));
            let made = fs::create_dir_all(self.before()).and_then(|()| fs::rename(&from, &to));
            made.map_err(|error| {
                Error::file(&from, format!("cannot be moved to {}: {error}", to.display()))
            })?;
            moved += 1;
        }
        if moved > 0 {
            let before = self.before();
            self.log.warn(&format!(
                "{moved} checkpoints of a run before this one are now in {0}: `--resume -o \
                 runner.checkpoint_path={0}` goes on from them; remove them if you do not need them",
                before.display()
            ));
        }
        Ok(())
    }

    /// Removes all but the last checkpoints of this run.
    fn forget_old(&self) -> Result<()> {
        let mut numbers = self.complete()?;
        numbers.retain(|number| *number >= self.first);
        for number in &numbers[..numbers.len().saturating_sub(KEPT)] {
            remove(&self.folder.join(name(*number)))?;
        }
        Ok(())
    }
}

/// The last complete checkpoint of a configuration's run, to tell somebody who stopped it.
pub fn last(config: &Config) -> Option<PathBuf> {
    if config.has("runner.start_day") {
        let done = Path::new(&config.text("runner.model_save_path")).join(super::online::DONE);
        return done.is_file().then_some(done);
    }
    let checkpoints = Checkpoints::of_run(config, &Log::silent());
    let mut numbers = checkpoints.complete().ok()?;
    numbers.retain(|number| *number >= checkpoints.begun());
    Some(checkpoints.folder.join(name(numbers.pop()?)))
}

/// What trainer 0 says to all of them, who ask together; its error is everyone's.
fn told(fleet: &Fleet, says: impl FnOnce() -> Result<String>) -> Result<String> {
    let own = match fleet.is_first_worker().then(says) {
        None => String::new(),
        Some(Ok(text)) => format!("+{text}"),
        Some(Err(error)) => format!("-{error}"),
    };
    let said = fleet.util().all_gather(own.as_bytes())?.swap_remove(0);
    let said = String::from_utf8_lossy(&said).into_owned();
    match said.strip_prefix('+') {
        Some(text) => Ok(text.to_owned()),
        None => Err(Error::Settings(said.strip_prefix('-').unwrap_or(&said).to_owned())),
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

/// Whether a trainer has variables that are not among the parameters of a checkpoint: without servers
/// those of a single trainer are.
fn has_own(fleet: &Fleet) -> bool {
    fleet.worker_num() > 1 || fleet.server_num() > 0
}

fn own_name(fleet: &Fleet) -> String {
    format!("trainer-{}", fleet.worker_index())
}

/// Whether a variable belongs to a trainer alone: counts of metrics, counters of schedules. Rows of a
/// pass are the servers'.
fn is_own(var: &Var, scope: &Scope, fleet: &Fleet) -> bool {
    let of_pass = fleet.passes().is_some_and(|passes| passes.plan().has(&var.name));
    !var.is_parameter() && !of_pass && scope.contains(&var.name)
}
