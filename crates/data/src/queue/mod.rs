//! [`QueueDataset`]: samples that are read while they are trained, and never all in memory.
//!
//! Each reader has a thread that reads, parses and cuts batches ahead of training; a [`Lane`] of
//! bounded size leads to the training thread. Which file a reader takes, which batch a training
//! thread gets and in what order is decided by the numbers of files, readers and threads alone, so
//! every run has the same order; unless files are drawn from a [`FileShare`].

mod lane;
mod reader;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

pub(crate) use lane::{Ending, Lane};
use reader::Work;

use crate::{Batch, Batches, Closer, Error, FileShare, Input, Result, Slot};

/// What a [`QueueDataset`] reads, and how.
#[derive(Clone)]
pub struct QueueSettings {
    /// The files.
    pub input: Arc<dyn Input>,
    /// The columns of a sample, in the order of the feeds.
    pub slots: Vec<Slot>,
    /// Samples in a batch. 1, as Paddle.
    pub batch_size: usize,
    /// Whether a reader's last batch is left out when it is short. False.
    pub drop_last: bool,
    /// Threads that read and parse, Paddle's `thread_num`; no more than there are files. 1.
    pub readers: usize,
    /// Bytes that may wait for each training thread. 8 MiB.
    pub buffer_bytes: usize,
    /// Whether files and samples are brought into another order. Not.
    pub shuffle: Option<Shuffle>,
    /// Which epoch this is: another order when shuffling, another draw of shared files. 0.
    pub epoch: u64,
    /// Where readers draw their next file, instead of taking every n-th; for files that several
    /// trainers share.
    pub share: Option<Arc<dyn FileShare>>,
}

/// How a [`QueueDataset`] is shuffled: files among each other, and samples that a reader reads in a
/// row. The seed, the epoch and the number of readers decide the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// Decides the order.
    pub seed: u64,
    /// So many samples are read before they are shuffled; memory grows with it. 0 to shuffle files alone.
    pub window: usize,
}

impl QueueSettings {
    /// Paddle's settings: batches of one sample and one reader.
    pub fn new(input: Arc<dyn Input>, slots: Vec<Slot>) -> QueueSettings {
        QueueSettings {
            input,
            slots,
            batch_size: 1,
            drop_last: false,
            readers: 1,
            buffer_bytes: 8 << 20,
            shuffle: None,
            epoch: 0,
            share: None,
        }
    }
}

/// A dataset that is read anew for every epoch.
pub struct QueueDataset {
    settings: QueueSettings,
}

impl QueueDataset {
    /// A dataset with these settings; nothing is read yet.
    ///
    /// # Errors
    /// When there are no files, or the batch size or the number of readers is 0.
    pub fn new(settings: QueueSettings) -> Result<QueueDataset> {
        check(settings.input.files(), settings.batch_size, &settings.slots)?;
        if settings.readers == 0 {
            return Err(Error::Settings("a dataset needs at least one reader thread".to_owned()));
        }
        Ok(QueueDataset { settings })
    }

    /// The settings.
    pub fn settings(&self) -> &QueueSettings {
        &self.settings
    }

    /// Says which epoch comes next.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.settings.epoch = epoch;
    }

    /// Starts the readers; one entry for each of `threads` training threads.
    ///
    /// With as many readers as threads, thread `t` gets all of reader `t`. A thread that has several
    /// readers takes a batch from each in turn, and a reader that has several threads deals its
    /// batches in turn.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn open(&self, threads: usize) -> Result<Vec<Box<dyn Batches>>> {
        let threads = threads.max(1);
        let readers = self.settings.readers.min(self.settings.input.files());
        let limit = self.settings.buffer_bytes / readers.div_ceil(threads);
        let lanes_of: Vec<Vec<(usize, Arc<Lane>)>> = (0..readers)
            .map(|reader| {
                let to = if readers >= threads { reader % threads } else { reader };
                let to = (to..threads).step_by(if readers >= threads { threads } else { readers });
                to.map(|thread| (thread, Arc::new(Lane::new(limit)))).collect()
            })
            .collect();
        let mut queues: Vec<_> = (0..threads)
            .map(|_| Queue { lanes: Vec::new(), next: 0, slots: self.settings.slots.clone() })
            .collect();
        for (thread, lane) in lanes_of.iter().flatten() {
            queues[*thread].lanes.push(Arc::clone(lane));
        }
        let left = Arc::new(AtomicUsize::new(readers));
        for (reader, lanes) in lanes_of.into_iter().enumerate() {
            let lanes = lanes.into_iter().map(|(_, lane)| lane).collect();
            Work::new(&self.settings, reader, readers, lanes, &left).start()?;
        }
        Ok(queues.into_iter().map(|queue| Box::new(queue) as _).collect())
    }
}

/// What every dataset needs.
pub(crate) fn check(files: usize, batch_size: usize, slots: &[Slot]) -> Result<()> {
    let problem = if files == 0 {
        "the dataset has no files: give it a file list"
    } else if batch_size == 0 {
        "the batch size must be at least 1"
    } else if slots.is_empty() {
        "the dataset has no slots: say which variables it feeds (`use_var`)"
    } else {
        return Ok(());
    };
    Err(Error::Settings(problem.to_owned()))
}

/// The batches of one training thread.
struct Queue {
    /// One for each reader that has batches left.
    lanes: Vec<Arc<Lane>>,
    /// Whose turn it is.
    next: usize,
    slots: Vec<Slot>,
}

impl Batches for Queue {
    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        while !self.lanes.is_empty() {
            if self.lanes[self.next].take(batch)? {
                self.next = (self.next + 1) % self.lanes.len();
                return Ok(true);
            }
            self.lanes.remove(self.next);
            if self.next == self.lanes.len() {
                self.next = 0;
            }
        }
        Ok(false)
    }

    fn skip(&mut self, batches: u64) -> Result<u64> {
        let mut batch = Batch::of(&self.slots);
        for skipped in 0..batches {
            if !self.next(&mut batch)? {
                return Ok(skipped);
            }
        }
        Ok(batches)
    }

    fn closer(&self) -> Closer {
        let lanes = self.lanes.clone();
        Box::new(move || lanes.iter().for_each(|lane| lane.close()))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        for lane in &self.lanes {
            lane.close();
        }
    }
}

#[cfg(test)]
mod tests;
