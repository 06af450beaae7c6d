//! Checkpoints of a server: what it holds as [`crate::checkpoint`] wants to see it.
//!
//! A parameter and its accumulators are read under the block's one lock, so a checkpoint never has
//! a value of one step with the state of another.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_engine::tensor::Tensor;

use super::state::State;
use crate::checkpoint::{
    self, Form, Holdings, Part, Piece, Rows, SaveMode, ServerIndex, State as KeptState, StateKind,
};
use crate::dense::Block;
use crate::message::{Array, Format};
use crate::{Error, Result};

/// Checkpoints are written one at a time; what was written counts as saved when the asker says that
/// the checkpoint is complete.
#[derive(Default)]
pub(super) struct Saves {
    /// Held while a checkpoint is written, and while its rows are marked.
    writing: Mutex<()>,
    last: Mutex<Option<LastSave>>,
}

/// The last save, until it is known what became of it.
struct LastSave {
    /// What the asker calls it.
    number: u64,
    /// The asker's session.
    session: u64,
    /// Its folder, where a job can begin again from it.
    folder: Option<String>,
    /// Whether its files are being written.
    running: bool,
    /// Whether it will not be completed.
    given_up: bool,
}

impl Saves {
    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, Option<LastSave>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes this server's part of a checkpoint; returns what
    /// [`checkpoint::complete_request`] must know of it. `asker` is the session and the number by
    /// which [`State::commit`] and [`State::abandon`] know it.
    pub(super) fn save(
        &self,
        asker: (u64, u64),
        directory: &str,
        table: Option<&str>,
        mode: u32,
        format: Format,
    ) -> Result<String> {
        let (path, server) = (Path::new(directory), self.index());
        let code = mode;
        let mode = SaveMode::from_code(mode).ok_or_else(|| {
            Error::Request(format!(
                "there is no save mode {code}: 0 saves all, 1 what changed, 2 the base, 3 all and \
                 a day older"
            ))
        })?;
        let form = match format {
            Format::Native => Form::Checkpoint,
            Format::Text => Form::Text,
        };
        let _writing = self.saves.writing();
        let (session, number) = asker;
        let is_whole = table.is_none() && mode == SaveMode::Full && form == Form::Checkpoint;
        let folder = is_whole.then(|| directory.to_owned());
        let save = LastSave { number, session, folder, running: true, given_up: false };
        *self.saves.last() = Some(save);
        let written = checkpoint::save_request(self, path, server, mode, table, form);
        let mut last = self.saves.last();
        if let (Some(save), Ok(_)) = (last.as_mut(), &written)
            && !save.given_up
        {
            save.running = false;
        } else {
            *last = None;
            drop(last);
            checkpoint::abandon(self);
            written?;
            let problem = "the save was given up while it was written";
            return Err(Error::Request(problem.to_owned()));
        }
        String::from_utf8(written?).map_err(|error| Error::Request(error.to_string()))
    }

    /// The checkpoint of a save is complete; says nothing of another save than the last.
    pub(super) fn commit(&self, number: u64) {
        let save = self.settle_save(|save| save.number == number, checkpoint::commit);
        if let Some(folder) = save.and_then(|save| save.folder) {
            self.lineage().saved(&folder);
        }
    }

    /// Loads what the server starts with: its share of the checkpoint in `directory`, all of it or
    /// only the tables named in `only`.
    pub(super) fn start_from(&self, directory: &str, only: &[String]) -> Result<()> {
        match only {
            [] => drop(self.load(directory, None)?),
            tables => {
                for table in tables {
                    self.load(directory, Some(table))?;
                }
            }
        }
        let origin = checkpoint::origin(Path::new(directory))?;
        self.lineage().start_from(directory, origin);
        Ok(())
    }

    /// A save will not be completed.
    pub(super) fn abandon(&self, number: u64) {
        self.settle_save(|save| save.number == number, checkpoint::abandon);
    }

    /// A peer is gone, and completes no save any more.
    pub(super) fn abandon_of(&self, session: u64) {
        self.settle_save(|save| save.session == session, checkpoint::abandon);
    }

    /// Ends the last save if it is the one that is meant. One that is being written is given up,
    /// and not waited for: the disk may be stuck.
    fn settle_save(
        &self,
        is_meant: impl Fn(&LastSave) -> bool,
        end: fn(&dyn checkpoint::Holdings),
    ) -> Option<LastSave> {
        match self.saves.last().as_mut() {
            Some(save) if is_meant(save) && save.running => {
                save.given_up = true;
                return None;
            }
            Some(save) if is_meant(save) => {}
            _ => return None,
        }
        let _writing = self.saves.writing();
        let save = self.saves.last().take_if(|save| is_meant(save));
        if save.is_some() {
            end(self);
        }
        save
    }

    /// Reads this server's part of a checkpoint, of either format; returns how many pieces and
    /// rows.
    pub(super) fn load(&self, directory: &str, table: Option<&str>) -> Result<u64> {
        let loaded = checkpoint::load_request(Path::new(directory), self, self.index(), table)?;
        for note in &loaded.notes {
            tracing::warn!("{}: loading `{directory}`: {note}", self.name());
        }
        // Rates that were computed before are those of another step.
        let rating = self.rating.lock().unwrap_or_else(PoisonError::into_inner);
        self.preview_rates()?;
        drop(rating);
        self.mark_all_changed()?;
        Ok(loaded.pieces as u64 + loaded.rows.values().sum::<u64>())
    }

    fn index(&self) -> ServerIndex {
        ServerIndex { index: self.config.server, count: self.config.endpoints.len() as u32 }
    }

    /// The piece of a block's parameter.
    fn piece(&self, block: &Block) -> Option<Piece> {
        let name = block.param()?;
        let (dims, dtype) = block.read(name, |value| (value.dims(), value.dtype())).ok()?;
        let (variable, start, shape) = match self.config.pieces.get(name) {
            Some(of) => (of.variable.clone(), of.start, of.shape.clone()),
            None => (name.to_owned(), 0, dims.to_vec()),
        };
        let suffix = name.strip_prefix(variable.as_str()).unwrap_or_default();
        let state = |state: &str| {
            let (elements, dtype) = block.read(state, |v| (v.numel(), v.dtype())).ok()?;
            let kind = match elements == dims.numel() && elements > 1 {
                true => StateKind::Elementwise,
                false => StateKind::Whole,
            };
            let variable = state.strip_suffix(suffix).unwrap_or(state).to_owned();
            Some(KeptState { variable, dtype, kind })
        };
        let states = states(block).filter_map(state).collect();
        let len = dims.numel();
        Some(Piece { name: name.to_owned(), variable, shape, dtype, start, len, states })
    }

    /// Names of learning rates and counters.
    fn scalars(&self) -> Vec<String> {
        let mut names = self.rates.as_ref().map_or(Vec::new(), |rates| rates.kept.clone());
        let shared = self.shared.names();
        names.extend(shared.into_iter().filter(|name| self.rates_block(name).is_none()));
        names.sort();
        names.dedup();
        names
    }

    /// The block of learning rates, if it has a value of this name that outlives a step.
    fn rates_block(&self, name: &str) -> Option<&Block> {
        let rates = self.rates.as_ref()?;
        rates.kept.iter().any(|kept| kept == name).then_some(&rates.block)
    }

    fn scalar(&self, name: &str) -> Result<Tensor> {
        if let Some(block) = self.rates_block(name) {
            return block.read(name, Tensor::clone);
        }
        let missing = || Error::Request(format!("there is no value `{name}` here"));
        self.shared.get(name).ok_or_else(missing)
    }
}

/// What a block keeps beside its parameter.
fn states(block: &Block) -> impl Iterator<Item = &str> {
    block.kept().filter(|name| block.param() != Some(*name))
}

impl Holdings for State {
    fn step(&self) -> u64 {
        self.step.load(Ordering::Acquire)
    }

    fn set_step(&self, step: u64) {
        self.step.store(step, Ordering::Release);
        self.blocks.iter().for_each(|update| update.count.store(step, Ordering::Release));
        self.tables.iter().for_each(|table| table.pushes.store(step, Ordering::Release));
    }

    fn pieces(&self) -> Vec<Piece> {
        let blocks = self.blocks.iter().filter_map(|update| self.piece(&update.block));
        let scalars = self.scalars().into_iter().filter_map(|name| {
            let tensor = self.scalar(&name).ok().filter(|tensor| tensor.numel() > 0)?;
            Some(Piece {
                variable: name.clone(),
                name,
                shape: tensor.dims().to_vec(),
                dtype: tensor.dtype(),
                start: 0,
                len: tensor.numel(),
                states: Vec::new(),
            })
        });
        blocks.chain(scalars).collect()
    }

    fn read_piece(
        &self,
        piece: &str,
        look: &mut dyn FnMut(&[&Tensor]) -> Result<()>,
    ) -> Result<()> {
        match self.block_of(piece) {
            Some(block) => {
                let names: Vec<&str> = [piece].into_iter().chain(states(block)).collect();
                block.read_all(&names, look)?
            }
            None => look(&[&self.scalar(piece)?]),
        }
    }

    fn read_piece_in_parts(
        &self,
        piece: &str,
        look: &mut dyn FnMut(&Part<'_>) -> Result<()>,
    ) -> Result<()> {
        match self.block_of(piece) {
            Some(block) => {
                let names: Vec<&str> = [piece].into_iter().chain(states(block)).collect();
                block.read_in_parts(&names, look)
            }
            None => {
                let value = self.scalar(piece)?;
                let (dtype, dims) = (value.dtype(), value.dims());
                look(&Part { value: 0, dtype, dims, start: 0, bytes: value.as_bytes() })
            }
        }
    }

    fn progressed(&self) {
        self.progress.note();
    }

    fn write_piece(
        &self,
        piece: &str,
        fill: &mut dyn FnMut(&mut [&mut Tensor]) -> Result<()>,
    ) -> Result<()> {
        if let Some(block) = self.block_of(piece) {
            let names: Vec<&str> = [piece].into_iter().chain(states(block)).collect();
            return block.write_all(&names, fill)?;
        }
        let mut tensor = self.scalar(piece)?;
        fill(&mut [&mut tensor])?;
        match self.rates_block(piece) {
            Some(block) => block.set(piece, &Array::of_tensor(&tensor)),
            None => {
                self.shared.set(piece, &tensor);
                Ok(())
            }
        }
    }

    fn tables(&self) -> Vec<Arc<dyn Rows>> {
        self.tables.iter().map(|table| Arc::clone(&table.rows) as Arc<dyn Rows>).collect()
    }
}
