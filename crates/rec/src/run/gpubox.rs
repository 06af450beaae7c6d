//! A GPUBox epoch: its data is a pass, or several where the rows of one would not fit.

use bireme_data::KeyedPart;
use bireme_fleet::Fleet;

use super::data::Data;
use super::topology::Topology;
use crate::config::Config;
use crate::{Log, Result};

const READER: &str = "runner.reader_type";

/// Has the data of GPUBox held in memory, from where the keys of a pass are known before it is trained.
///
/// # Errors
/// When the configuration wants it read while training.
pub(super) fn check_data(config: &Config, topology: Topology, data: &mut Data) -> Result<()> {
    if !topology.is_gpubox() {
        return Ok(());
    }
    if !config.has(READER) {
        data.hold_in_memory();
    }
    match data.is_memory() {
        true => Ok(()),
        false => Err(config.refuse(
            READER,
            "must be `InmemoryDataset` in GPUBox, which looks for the keys of a pass before it trains",
        )),
    }
}

/// The parts of an epoch, each a pass.
pub(super) struct Parts {
    parts: Vec<KeyedPart>,
    /// The part that was begun last, in this epoch.
    begun: Option<usize>,
}

impl Parts {
    /// The parts of some data, for a GPUBox trainer; says if there are several.
    ///
    /// # Errors
    /// When the data cannot be read, or one batch has more rows than there is memory.
    pub(super) fn of(fleet: &Fleet, data: &mut Data, log: &Log) -> Result<Option<Parts>> {
        let Some(passes) = fleet.passes() else { return Ok(None) };
        let parts = data.keyed_parts(passes.plan(), passes.budget())?;
        if parts.len() > 1 {
            log.info(&format!(
                "the rows of this pass do not fit into {:.1} MiB: it is trained in {} parts",
                passes.budget().unwrap_or(0) as f64 / f64::from(1 << 20),
                parts.len()
            ));
        }
        Ok(Some(Parts { parts, begun: None }))
    }

    /// Begins the part that batch `taken` of the epoch belongs to, unless that was done; how many of
    /// its batches are left.
    ///
    /// # Errors
    /// When a server is lost, or the card has no memory.
    pub(super) fn begin(&mut self, taken: u64, fleet: &Fleet, log: &Log) -> Result<u64> {
        let (mut end, mut at) = (0, 0);
        while let Some(part) = self.parts.get(at) {
            end += part.batches;
            if taken < end {
                break;
            }
            at += 1;
        }
        let Some(part) = self.parts.get(at) else { return Ok(0) };
        if self.begun != Some(at)
            && let Some(mut passes) = fleet.passes()
        {
            if self.begun.is_some() {
                log.info(&passes.report().to_string());
            }
            passes.begin(&part.keys, part.ids)?;
            self.begun = Some(at);
        }
        Ok(end - taken)
    }

    /// Whether so many batches are all of them.
    pub(super) fn are_over(&self, taken: u64) -> bool {
        taken >= self.parts.iter().map(|part| part.batches).sum()
    }

    /// The epoch is over.
    pub(super) fn end(&mut self, fleet: &Fleet, log: &Log) {
        if let (Some(mut passes), Some(_)) = (fleet.passes(), self.begun.take()) {
            passes.end();
            log.info(&passes.report().to_string());
        }
    }
}
