//! The thread of one reader: from files to batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::lane::{Ending, Lane};
use super::{QueueSettings, Shuffle};
use crate::order::shuffle;
use crate::{Batch, Error, FileShare, Input, Result, Rows, Samples, Slot};

/// Fewer rows than this are never asked of a file at once.
const MIN_ROWS: usize = 256;

/// What one reader does.
pub(super) struct Work {
    input: Arc<dyn Input>,
    slots: Vec<Slot>,
    batch_size: usize,
    drop_last: bool,
    shuffle: Option<Shuffle>,
    epoch: u64,
    reader: usize,
    files: Files,
    lanes: Vec<Arc<Lane>>,
    /// Batches that were handed over.
    dealt: usize,
    /// Readers that have files left.
    left: Arc<AtomicUsize>,
}

/// The files that are left for a reader.
struct Files {
    /// All files, in the order in which they are read.
    order: Vec<usize>,
    next: usize,
    step: usize,
    epoch: u64,
    share: Option<Arc<dyn FileShare>>,
}

impl Files {
    fn next(&mut self) -> Result<Option<usize>> {
        let at = match &self.share {
            Some(share) => share.draw(self.epoch, self.order.len())?,
            None => {
                let at = self.next;
                self.next += self.step;
                Some(at)
            }
        };
        Ok(at.and_then(|at| self.order.get(at).copied()))
    }
}

impl Work {
    pub(super) fn new(
        settings: &QueueSettings,
        reader: usize,
        readers: usize,
        lanes: Vec<Arc<Lane>>,
        left: &Arc<AtomicUsize>,
    ) -> Work {
        let mut order: Vec<usize> = (0..settings.input.files()).collect();
        if let Some(how) = settings.shuffle {
            shuffle(&mut order, how.seed, "files", settings.epoch);
        }
        let (epoch, share) = (settings.epoch, settings.share.clone());
        Work {
            input: Arc::clone(&settings.input),
            slots: settings.slots.clone(),
            batch_size: settings.batch_size,
            drop_last: settings.drop_last,
            shuffle: settings.shuffle,
            epoch,
            reader,
            files: Files { order, next: reader, step: readers, epoch, share },
            lanes,
            dealt: 0,
            left: Arc::clone(left),
        }
    }

    /// Works on a thread of its own, which ends with the data or when nobody wants more of it.
    pub(super) fn start(mut self) -> Result<()> {
        let name = format!("reader-{}", self.reader);
        let thread = std::thread::Builder::new().name(name);
        let run = move || {
            let ending = Ending(self.lanes.clone());
            let end = self.read().and_then(|all| match all {
                // The last to finish knows that every file has been read.
                true if self.left.fetch_sub(1, Ordering::AcqRel) == 1 => self.input.check(),
                _ => Ok(()),
            });
            // The error belongs to the thread that would have had the next batch; it stops the
            // others.
            let lane = self.dealt % self.lanes.len();
            self.lanes[lane].finish(end);
            for lane in &self.lanes {
                lane.finish(Ok(()));
            }
            drop(ending);
        };
        thread.spawn(run).map(drop).map_err(|error| {
            Error::Settings(format!("cannot start a reader thread: {error}; use fewer of them"))
        })
    }

    /// Hands over all batches; false when nobody wants more before they end.
    fn read(&mut self) -> Result<bool> {
        let window = self.shuffle.map_or(0, |how| how.window);
        let target = window.max(self.batch_size).max(MIN_ROWS);
        let mut samples = Samples::of(&self.slots);
        let mut carried = Samples::of(&self.slots);
        let mut order: Vec<usize> = Vec::new();
        let mut open: Option<Box<dyn Rows>> = None;
        for block in 0.. {
            let more = self.fill(&mut samples, target, &mut open)?;
            order.clear();
            order.extend(0..samples.len());
            if let Some(how) = self.shuffle.filter(|how| how.window > 0) {
                let stream = self.epoch << 32 | block & 0xffff_ffff;
                let purpose = format!("samples of reader {}", self.reader);
                shuffle(&mut order, how.seed, &purpose, stream);
            }
            let mut batches = order.chunks_exact(self.batch_size);
            for rows in &mut batches {
                if !self.deal(&samples, rows) {
                    return Ok(false);
                }
            }
            let rest = batches.remainder();
            if !more {
                let last_is_short = !rest.is_empty() && !self.drop_last;
                return Ok(!last_is_short || self.deal(&samples, rest));
            }
            carried.clear();
            rest.iter().for_each(|&row| carried.push_row(&samples, row));
            std::mem::swap(&mut samples, &mut carried);
        }
        Ok(true)
    }

    /// Reads until there are `target` samples; whether there may be more.
    fn fill(
        &mut self,
        samples: &mut Samples,
        target: usize,
        open: &mut Option<Box<dyn Rows>>,
    ) -> Result<bool> {
        while samples.len() < target {
            let rows = match open {
                Some(rows) => rows,
                None => match self.files.next()? {
                    Some(file) => open.insert(self.input.open(file)?),
                    None => return Ok(false),
                },
            };
            if !rows.read(samples, target - samples.len())? {
                *open = None;
            }
        }
        Ok(true)
    }

    /// Hands a batch to the thread whose turn it is; false when that wants none.
    fn deal(&mut self, samples: &Samples, rows: &[usize]) -> bool {
        let lane = &self.lanes[self.dealt % self.lanes.len()];
        let mut batch = lane.spare().unwrap_or_else(|| Batch::of(&self.slots));
        batch.fill(samples, rows.iter().copied());
        self.dealt += 1;
        lane.send(batch)
    }
}
