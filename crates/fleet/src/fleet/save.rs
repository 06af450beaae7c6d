//! Checkpoints and models of a job.
//!
//! Every trainer makes these calls; trainer 0 acts between two barriers. So what is written holds
//! everything that was sent before, and nobody trains on what is being loaded.

use std::path::Path;
use std::sync::Arc;

use bireme_engine::remote::Piece;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Scope, io};
use bireme_ir::Var;
use bireme_ps::message::Format;
use bireme_ps::table::SaveMode;
use bireme_ps::worker::Worker;
use bireme_transpiler::{Located, Transpiled};

use super::Fleet;
use crate::{Error, Result, remember_checkpoint};

impl Fleet {
    /// Lets the servers write parameters and optimizer state into `folder`, as they see it.
    /// Without servers, writes the persistable variables of `scope` there.
    ///
    /// # Errors
    /// When a server cannot write, or is lost.
    pub fn save_persistables(&self, folder: &Path, scope: &Scope, mode: SaveMode) -> Result<()> {
        let original = self.original_program()?;
        let alone = || Ok(io::save_persistables(folder, original, scope, None)?);
        self.save(folder, None, mode, Format::Native, alone)?;
        // What changed since the last save is no state to go on from.
        if self.is_first_worker() && mode == SaveMode::Full {
            remember_checkpoint(&self.environment, folder);
        }
        Ok(())
    }

    /// As [`Fleet::save_persistables`], for one table.
    ///
    /// # Errors
    /// As [`Fleet::save_persistables`], or when there is no such table.
    pub fn save_one_table(&self, table: &str, folder: &Path, mode: SaveMode) -> Result<()> {
        self.save(folder, Some(table), mode, Format::Native, || Err(no_servers("save_one_table")))
    }

    /// As [`Fleet::save_persistables`], in Paddle's text layout.
    ///
    /// # Errors
    /// As [`Fleet::save_persistables`].
    pub fn save_text(&self, folder: &Path, mode: SaveMode) -> Result<()> {
        self.save(folder, None, mode, Format::Text, || Err(no_servers("save_text")))
    }

    /// Lets the servers read a checkpoint, of whichever layout and number of servers.
    ///
    /// # Errors
    /// When there is none, or it does not fit the program.
    pub fn load_model(&self, folder: &Path, mode: SaveMode) -> Result<()> {
        self.between_barriers("load_model", |worker| {
            Ok(worker.load(text(folder)?, None, mode.code()).map(drop)?)
        })
    }

    /// As [`Fleet::load_model`], for one table.
    ///
    /// # Errors
    /// As [`Fleet::load_model`].
    pub fn load_one_table(&self, table: &str, folder: &Path, mode: SaveMode) -> Result<()> {
        self.between_barriers("load_one_table", |worker| {
            Ok(worker.load(text(folder)?, Some(table), mode.code()).map(drop)?)
        })
    }

    /// Ages all tables and drops rows that are worth nothing any more.
    ///
    /// # Errors
    /// When a server is lost.
    pub fn shrink(&self) -> Result<()> {
        self.between_barriers("shrink", |worker| Ok(worker.shrink(None).map(drop)?))
    }

    /// Writes the part of the program that computes `fetches` from `feeds`, with the servers'
    /// parameters, as `prefix.pdmodel` and `prefix.pdiparams`. `scope` is the trainer's.
    ///
    /// # Errors
    /// When the feeds do not suffice, a server is lost, or the files cannot be written.
    pub fn save_inference_model(
        &self,
        prefix: &Path,
        feeds: &[&str],
        fetches: &[&str],
        scope: &Scope,
    ) -> Result<()> {
        let original = self.original_program()?;
        let write = |scope: &Scope| -> Result<()> {
            Ok(io::save_inference_model(prefix, feeds, fetches, original, scope)?)
        };
        self.act("save_inference_model", |worker| match worker {
            None => write(scope),
            Some(worker) => write(&self.gather(worker, feeds, fetches, scope)?),
        })
    }

    /// All that a model for prediction needs, in a scope of its own.
    fn gather(
        &self,
        worker: &Arc<Worker>,
        feeds: &[&str],
        fetches: &[&str],
        own: &Scope,
    ) -> Result<Scope> {
        let job = self.job()?;
        let transpiled = job.transpiled.as_ref().ok_or_else(|| no_servers("gather"))?;
        let pruned = job.original.clone_for_test().prune(feeds, fetches)?;
        let scope = Scope::new();
        for var in pruned.global().vars.values().filter(|var| var.persistable) {
            if let Some(keyed) = transpiled.keyed_tables().find(|table| *table == var.name) {
                if let Some(rows) = self.rows_of_pass_table(worker, var)? {
                    scope.set(&var.name, &rows);
                    continue;
                }
                return Err(Error::Config(format!(
                    "table `{keyed}` has any 64-bit key, and no model file could hold it: save it \
                     with `save_persistables`"
                )));
            }
            match transpiled.located().find(|located| located.param == var.name) {
                Some(located) => {
                    scope.set(&var.name, &whole(worker, transpiled, &located, var)?);
                }
                None if own.contains(&var.name) => scope.set(&var.name, &own.get(&var.name)?),
                // Its absence is reported, with its name, if the model needs it.
                None => {}
            }
        }
        Ok(scope)
    }

    fn save(
        &self,
        folder: &Path,
        table: Option<&str>,
        mode: SaveMode,
        format: Format,
        alone: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.act("save", |worker| match worker {
            None => alone(),
            Some(worker) => Ok(worker.save(text(folder)?, table, mode.code(), format)?),
        })?;
        match mode {
            SaveMode::Full => Ok(()),
            _ => self.reload_passes(),
        }
    }

    fn between_barriers(
        &self,
        method: &str,
        action: impl FnOnce(&Arc<Worker>) -> Result<()>,
    ) -> Result<()> {
        self.act(method, |worker| action(worker.ok_or_else(|| no_servers(method))?))?;
        // The servers may have other rows now than a trainer that holds some.
        self.refresh_passes()
    }

    /// Lets trainer 0 act while the others wait.
    fn act(
        &self,
        method: &str,
        action: impl FnOnce(Option<&Arc<Worker>>) -> Result<()>,
    ) -> Result<()> {
        self.need_worker(method)?;
        let worker = self.connected(method)?;
        self.flush()?;
        self.barrier_worker()?;
        let acted = if self.is_first_worker() { action(worker) } else { Ok(()) };
        // The others wait at the second barrier even for a trainer 0 that failed.
        acted.and(self.barrier_worker())
    }
}

/// A parameter put together from its pieces, which are consecutive elements.
fn whole(
    worker: &Worker,
    transpiled: &Transpiled,
    located: &Located<'_>,
    var: &Var,
) -> Result<Tensor> {
    let piece = |piece: &bireme_transpiler::Piece| Piece {
        name: piece.name.clone(),
        endpoint: transpiled.endpoints()[piece.server].clone(),
    };
    let pieces: Vec<Piece> = located.pieces.iter().map(piece).collect();
    let values = worker.values(&pieces)?;
    let dims: Vec<usize> =
        var.shape.iter().map(|size| usize::try_from(*size).unwrap_or(0)).collect();
    let mut whole = Tensor::empty(var.dtype);
    whole.resize(var.dtype, dims.as_slice());
    let bytes = whole.as_mut_bytes();
    let mut at = 0;
    for (piece, value) in pieces.iter().zip(&values) {
        let from = value.as_bytes();
        let Some(part) = bytes.get_mut(at..at + from.len()) else {
            return Err(Error::Config(format!(
                "`{}` on server {} is larger than its part of `{}`",
                piece.name, piece.endpoint, var.name
            )));
        };
        part.copy_from_slice(from);
        at += from.len();
    }
    Ok(whole)
}

/// A folder's name as it is sent to servers.
pub(super) fn text(folder: &Path) -> Result<&str> {
    folder.to_str().ok_or_else(|| {
        Error::Config(format!("the folder `{}` is not valid text", folder.display()))
    })
}

fn no_servers(method: &str) -> Error {
    Error::Config(format!(
        "`{method}` is about the servers of a job, but this process has none: start it with a \
         launcher"
    ))
}
