//! A GPUBox epoch: its data is a pass, or several where the rows of one would not fit; or a stream,
//! where it is read while it is trained.

use std::sync::Arc;
use std::time::Duration;

use bireme_data::{Batches, KeyedPart, Slot};
use bireme_fleet::Fleet;
use bireme_fleet::gpubox::{PassRun, StreamReport};

use super::data::Data;
use super::shuffle::Order;
use super::topology::Topology;
use crate::config::Config;
use crate::{Log, Result};

const READER: &str = "runner.reader_type";
const SHUFFLE: &str = "runner.shuffle";

/// Between two lines about a stream.
const TELL: Duration = Duration::from_secs(60);

/// Has the data of GPUBox held in memory, where the configuration does not want it read while it is
/// trained.
///
/// # Errors
/// When it is to be shuffled there.
pub(super) fn choose_reader(config: &Config, topology: Topology, data: &mut Data) -> Result<()> {
    if !topology.is_gpubox() {
        return Ok(());
    }
    if !config.has(READER) {
        data.hold_in_memory();
    }
    if data.is_memory() && config.has(SHUFFLE) && data.order() != Order::AsRead {
        let problem = "cannot be used with `sync_mode: gpubox` on samples in memory: which batches a \
                       pass has is decided once. Set it to none, or `runner.reader_type` to \
                       QueueDataset and it to buffer";
        return Err(config.refuse(SHUFFLE, problem));
    }
    if data.is_memory() {
        data.keep_order();
    }
    Ok(())
}

/// Whether the passes of a day are read while they are trained.
pub(super) fn streams_days(config: &Config, topology: Topology) -> bool {
    let reader = config.text(READER);
    let is_memory = matches!(reader.as_str(), "InmemoryDataset" | "InMemoryDataset");
    topology.is_gpubox() && config.has(READER) && !is_memory
}

/// Whether data is read while a GPUBox trainer trains it. Several agree by themselves then, as far ahead as they
/// read, at which batch they end.
pub(super) fn is_stream(fleet: &Fleet, data: &Data) -> bool {
    fleet.passes().is_some() && !data.is_memory()
}

/// Batches of data that is read while it is trained, whose keys have rows when they come; as they were,
/// for others than a GPUBox trainer and for data in memory.
///
/// # Errors
/// When a server is lost, or the slots are not those of the tables.
pub(super) fn with_rows(
    fleet: &Fleet,
    data: &Data,
    batches: Box<dyn Batches>,
    slots: &[Slot],
    is_trained: bool,
    log: &Log,
) -> Result<Box<dyn Batches>> {
    let Some(mut passes) = fleet.passes().filter(|_| !data.is_memory()) else { return Ok(batches) };
    let log = log.clone();
    let tell = Arc::new(move |report: &StreamReport| log.info(&report.to_string()));
    Ok(passes.stream()?.telling(TELL, tell).over(batches, slots, is_trained)?)
}

/// A stream has come to the end of an epoch, or of a pass; its rows stay. False where there is none.
pub(super) fn end_stream(fleet: &Fleet, log: &Log) -> bool {
    let report = fleet.passes().and_then(|passes| passes.take_stream_report());
    report.iter().for_each(|report| log.info(&report.to_string()));
    report.is_some()
}

/// The parts of an epoch, each a pass.
pub(super) struct Parts {
    parts: Vec<KeyedPart>,
    /// The part that was begun last, in this epoch.
    begun: Option<usize>,
}

/// A part that was begun.
pub(super) struct Begun {
    /// How many of its batches are left.
    pub(super) left: u64,
    /// These.
    pub(super) batches: Box<dyn Batches>,
    pub(super) run: PassRun,
}

impl Parts {
    /// The parts of some data in memory, for a GPUBox trainer; says if there are several.
    ///
    /// # Errors
    /// When the data cannot be read, or one batch has more rows than there is memory.
    pub(super) fn of(fleet: &Fleet, data: &mut Data, log: &Log) -> Result<Option<Parts>> {
        let Some(passes) = fleet.passes().filter(|_| data.is_memory()) else { return Ok(None) };
        let parts = data.keyed_parts(&passes)?;
        if parts.len() > 1 {
            log.info(&format!(
                "the rows of this pass do not fit into {:.1} MiB: it is trained in {} parts",
                passes.budget().unwrap_or(0) as f64 / f64::from(1 << 20),
                parts.len()
            ));
        }
        Ok(Some(Parts { parts, begun: None }))
    }

    /// Begins the part that batch `taken` of the epoch belongs to, unless that was done; `None` where
    /// there is none. Its steps run the fleet's program, or what is written for row numbers, and fetch
    /// `fetches`.
    ///
    /// # Errors
    /// When a server is lost, or the card has no memory.
    pub(super) fn begin(
        &mut self,
        taken: u64,
        fetches: &[String],
        data: &Data,
        fleet: &Fleet,
        log: &Log,
    ) -> Result<Option<Begun>> {
        let (mut start, mut at) = (0, 0);
        while let Some(part) = self.parts.get(at).filter(|part| start + part.batches <= taken) {
            (start, at) = (start + part.batches, at + 1);
        }
        let (Some(part), Some(mut passes), Some(memory)) =
            (self.parts.get(at), fleet.passes(), data.memory())
        else {
            return Ok(None);
        };
        if self.begun != Some(at) {
            if self.begun.is_some() {
                log.info(&passes.report().to_string());
            }
            passes.begin(part)?;
            self.begun = Some(at);
        }
        let end = start + part.batches;
        // Of several trainers, each makes as many steps as the others.
        let range = (self.parts.len() > 1 || passes.ranks() > 1).then_some(start..end);
        let run = passes.run_over(fleet.main_program()?, fetches, memory, range)?;
        let batches = run.open(memory, taken)?;
        Ok(Some(Begun { left: end - taken, batches, run }))
    }

    /// Whether so many batches are all of them.
    pub(super) fn are_over(&self, taken: u64) -> bool {
        taken >= self.parts.iter().map(|part| part.batches).sum()
    }

    /// The epoch is over: the servers are given what was trained.
    ///
    /// # Errors
    /// When a server is lost.
    pub(super) fn end(&mut self, fleet: &Fleet, log: &Log) -> Result<()> {
        if let (Some(mut passes), Some(_)) = (fleet.passes(), self.begun.take()) {
            passes.end()?;
            log.info(&passes.report().to_string());
        }
        Ok(())
    }
}
