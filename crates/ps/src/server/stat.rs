//! What a server holds and did, for people and monitors.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::state::State;
use crate::Result;

/// The answer to [`crate::message::Request::Stat`], as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// Where the server listens.
    pub endpoint: String,
    /// Its number.
    pub server: u32,
    /// Trainers of the job.
    pub trainers: u32,
    /// Updates applied so far.
    pub step: u64,
    /// Dense parameters (and row-sliced tables), or pieces of them.
    pub dense: Vec<DenseStat>,
    /// Keyed tables.
    pub tables: Vec<TableStat>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DenseStat {
    /// Its name on the server.
    pub name: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Bytes of the parameter and its accumulators.
    pub bytes: usize,
    /// Updates applied.
    pub updates: u64,
}

/// A keyed table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableStat {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: usize,
    /// Bytes of memory.
    pub bytes: usize,
    /// Updates applied.
    pub updates: u64,
}

impl State {
    /// What is here now.
    pub(super) fn stat(&self) -> Result<Stat> {
        let mut dense = Vec::new();
        for update in &self.blocks {
            let Some(param) = update.block.param() else { continue };
            let kept: Vec<&str> = update.block.kept().collect();
            let bytes = update.block.read_all(&kept, |values| {
                values.iter().map(|value| value.as_bytes().len()).sum::<usize>()
            })?;
            dense.push(DenseStat {
                name: param.to_owned(),
                shape: update.block.read(param, |value| value.dims().to_vec())?,
                bytes,
                updates: update.count.load(Ordering::Acquire),
            });
        }
        let tables = self.tables.iter().map(|table| TableStat {
            name: table.name.clone(),
            rows: table.rows.len(),
            bytes: table.rows.bytes(),
            updates: table.pushes.load(Ordering::Acquire),
        });
        Ok(Stat {
            endpoint: self.config.endpoint.clone(),
            server: self.config.server,
            trainers: self.config.trainers,
            step: self.step.load(Ordering::Acquire),
            dense,
            tables: tables.collect(),
        })
    }
}
