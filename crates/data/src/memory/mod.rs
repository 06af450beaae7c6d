//! [`MemoryDataset`]: all samples in memory, packed; an epoch is an order of them.
//!
//! Samples never move: shuffling makes a new order of their numbers. Only the global shuffle
//! replaces them, by those that the other trainers send.

mod assembly;
mod chunk;
mod columns;
mod exchange;
mod gather;
mod keys;
mod lookup;
mod merge;
mod pages;
mod rows;
mod store;
mod view;
mod wire;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use exchange::Exchange;
pub use keys::{KeyedPart, Wanted};
pub use lookup::KeySlot;
pub use merge::Merged;
pub use rows::RowNumbers;
use store::Store;
use view::{Cut, View};

use crate::order::shuffle;
use crate::{Batches, Error, Input, Result, Slot, queue};

/// What a [`MemoryDataset`] reads, and how.
#[derive(Clone)]
pub struct MemorySettings {
    /// The files.
    pub input: Arc<dyn Input>,
    /// The columns of a sample, in the order of the feeds.
    pub slots: Vec<Slot>,
    /// Samples in a batch. 1, as Paddle.
    pub batch_size: usize,
    /// Whether the last batch is left out when it is short. False.
    pub drop_last: bool,
    /// Threads that read and parse, Paddle's `thread_num`. 1.
    pub readers: usize,
}

impl MemorySettings {
    /// Paddle's settings: batches of one sample and one reader.
    pub fn new(input: Arc<dyn Input>, slots: Vec<Slot>) -> MemorySettings {
        MemorySettings { input, slots, batch_size: 1, drop_last: false, readers: 1 }
    }
}

/// A dataset that is read once and then stays in memory.
pub struct MemoryDataset {
    settings: MemorySettings,
    held: Held,
    /// Whether anything was loaded since the last release, be it no samples.
    loaded: bool,
    loading: Option<Loading>,
}

/// Files that are being read.
struct Loading {
    read: Receiver<Result<Arc<Store>>>,
    /// Ends it.
    stop: Arc<AtomicBool>,
}

/// Between two questions whether somebody wants to stop.
const TICK: Duration = Duration::from_millis(20);

/// The samples and their order; training threads share it.
#[derive(Clone, Default)]
struct Held {
    store: Arc<Store>,
    order: Arc<Vec<u32>>,
    /// The slots whose values come from other samples, and which those are.
    swapped: Option<Arc<Swapped>>,
}

struct Swapped {
    /// For each slot, whether it is.
    slots: Vec<bool>,
    order: Vec<u32>,
}

impl Held {
    /// Samples in the order of their files.
    fn of(store: Arc<Store>) -> Held {
        let order = Arc::new(store.order());
        Held { store, order, swapped: None }
    }
}

impl MemoryDataset {
    /// A dataset with these settings; nothing is read yet.
    ///
    /// # Errors
    /// When there are no files, or the batch size or the number of readers is 0.
    pub fn new(settings: MemorySettings) -> Result<MemoryDataset> {
        queue::check(settings.input.files(), settings.batch_size, &settings.slots)?;
        Ok(MemoryDataset { settings, held: Held::default(), loaded: false, loading: None })
    }

    /// The settings.
    pub fn settings(&self) -> &MemorySettings {
        &self.settings
    }

    /// Reads other files the next time.
    pub fn set_input(&mut self, input: Arc<dyn Input>) {
        self.settings.input = input;
    }

    /// Cuts batches of another size from now on.
    pub fn set_batch_size(&mut self, batch_size: usize) {
        self.settings.batch_size = batch_size.max(1);
    }

    /// Reads all files. What was held is replaced; the order is that of the files.
    ///
    /// # Errors
    /// When a file cannot be read or understood.
    pub fn load(&mut self) -> Result<()> {
        self.preload(self.settings.readers)?;
        self.wait()
    }

    /// Begins to read all files in the background, with some threads; [`MemoryDataset::wait`] takes
    /// what was read. Until then the dataset holds what it held.
    ///
    /// # Errors
    /// When it is being read already, or no thread can be started.
    pub fn preload(&mut self, threads: usize) -> Result<()> {
        self.preload_then(threads, |_| {})
    }

    /// As [`MemoryDataset::preload`]; the thread that loaded shows what it has to `then`, after
    /// [`MemoryDataset::wait`] could have it.
    ///
    /// # Errors
    /// As [`MemoryDataset::preload`].
    pub fn preload_then(
        &mut self,
        threads: usize,
        then: impl FnOnce(&MemoryDataset) + Send + 'static,
    ) -> Result<()> {
        if self.loading.is_some() {
            let problem = "the dataset is being loaded: wait for that first (`wait_preload_done`)";
            return Err(Error::Settings(problem.to_owned()));
        }
        let settings = self.settings.clone();
        let thread = std::thread::Builder::new().name("loader".to_owned());
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let (done, read) = channel();
        let work = move || {
            let store = Store::load(settings.input.as_ref(), &settings.slots, threads, &stopped);
            let store = store.map(Arc::new);
            let held = store.as_ref().ok().map(|store| Held::of(Arc::clone(store)));
            // Nobody may want it any more.
            done.send(store).ok();
            if let Some(held) = held {
                then(&MemoryDataset { settings, held, loaded: true, loading: None });
            }
        };
        let failed = |error| Error::Settings(format!("cannot start a loading thread: {error}"));
        thread.spawn(work).map_err(failed)?;
        self.loading = Some(Loading { read, stop });
        Ok(())
    }

    /// Waits for [`MemoryDataset::preload`]; does nothing when there was none.
    ///
    /// # Errors
    /// When a file cannot be read or understood; the dataset then holds what it held.
    pub fn wait(&mut self) -> Result<()> {
        self.wait_unless(&|| false)
    }

    /// As [`MemoryDataset::wait`], and asks meanwhile whether to stop. The input is stopped then, and
    /// cannot be read again.
    ///
    /// # Errors
    /// As [`MemoryDataset::wait`], and [`Error::Interrupted`].
    pub fn wait_unless(&mut self, interrupt: &dyn Fn() -> bool) -> Result<()> {
        let Some(Loading { read, stop }) = self.loading.take() else { return Ok(()) };
        loop {
            match read.recv_timeout(TICK) {
                Ok(store) => {
                    self.hold(store?);
                    return Ok(());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Settings("a loading thread panicked".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if interrupt() => {
                    stop.store(true, Ordering::Relaxed);
                    self.settings.input.stop();
                    // It may read from a disk that does not answer: nobody waits for it.
                    return Err(Error::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn hold(&mut self, store: Arc<Store>) {
        self.held = Held::of(store);
        self.loaded = true;
    }

    /// How many samples it holds.
    pub fn len(&self) -> usize {
        self.held.order.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the samples take, their order included.
    pub fn bytes(&self) -> usize {
        let swapped = self.held.swapped.as_ref().map_or(0, |swapped| swapped.order.len() * 4);
        self.held.store.bytes() + self.held.order.len() * 4 + swapped
    }

    /// Brings the samples into an order that the seed decides, whatever their order was.
    pub fn local_shuffle(&mut self, seed: u64) {
        let mut order = self.held.store.order();
        shuffle(&mut order, seed, "local shuffle", 0);
        self.held.order = Arc::new(order);
    }

    /// Distributes the samples of all trainers among them as chance wills, and shuffles those that
    /// came; the seed and what each trainer had decide which and in what order. All trainers call
    /// it together, with the same seed.
    ///
    /// # Errors
    /// When a trainer is lost or has other slots. The dataset is empty then: load it again.
    pub fn global_shuffle(&mut self, peers: &dyn Exchange, seed: u64) -> Result<()> {
        self.shuffle_among(peers, seed, None)
    }

    /// As [`MemoryDataset::global_shuffle`], but samples of the same name ([`crate::INS_ID`]) go to
    /// the same trainer, and are merged there; see [`MemoryDataset::merge`].
    ///
    /// # Errors
    /// As [`MemoryDataset::global_shuffle`] and [`MemoryDataset::merge`].
    pub fn global_merge(
        &mut self,
        peers: &dyn Exchange,
        seed: u64,
        merge_size: usize,
    ) -> Result<Merged> {
        self.shuffle_among(peers, seed, Some(merge::name_slot(&self.settings.slots)?))?;
        self.merge(merge_size, seed.wrapping_add(peers.rank() as u64))
    }

    /// Makes one sample of those that have the same name, as Paddle does: dense slots have the last
    /// values that are not all 0, other slots the values of the one sample that has some which are
    /// not 0. Samples of a name that are not `merge_size` (where that is not 0), or of which two
    /// have values in the same slot, are left out. Then shuffles them.
    ///
    /// # Errors
    /// When samples have no names.
    pub fn merge(&mut self, merge_size: usize, seed: u64) -> Result<Merged> {
        let name = merge::name_slot(&self.settings.slots)?;
        let store = std::mem::take(&mut self.held).store;
        let (store, merged) = merge::merge(&store, &self.settings.slots, name, merge_size)?;
        self.hold(Arc::new(store));
        self.local_shuffle(seed);
        Ok(merged)
    }

    /// `name` is the slot whose values decide where a sample goes.
    fn shuffle_among(
        &mut self,
        peers: &dyn Exchange,
        seed: u64,
        name: Option<usize>,
    ) -> Result<()> {
        if peers.size() > 1 {
            let held = std::mem::take(&mut self.held);
            self.loaded = false;
            drop(held.order);
            let store = Arc::unwrap_or_clone(held.store);
            let received = exchange::spread(store, &self.settings.slots, peers, seed, name)?;
            self.hold(Arc::new(received));
        }
        self.local_shuffle(seed.wrapping_add(peers.rank() as u64));
        Ok(())
    }

    /// Gives each sample the values of another one, which chance decides, in some slots: what a
    /// model loses by it is what these slots are worth. Always from the values as they were loaded;
    /// no slots at all restore them.
    ///
    /// # Errors
    /// When a slot does not exist.
    pub fn slots_shuffle(&mut self, slots: &[&str], seed: u64) -> Result<()> {
        let known = &self.settings.slots;
        if let Some(unknown) =
            slots.iter().find(|name| known.iter().all(|slot| slot.name != **name))
        {
            let problem = format!("there is no slot `{unknown}` to shuffle");
            return Err(Error::Settings(problem));
        }
        if slots.is_empty() {
            self.held.swapped = None;
            return Ok(());
        }
        let mut order = self.held.store.order();
        shuffle(&mut order, seed, "slots shuffle", 0);
        let slots = known.iter().map(|slot| slots.contains(&slot.name.as_str())).collect();
        self.held.swapped = Some(Arc::new(Swapped { slots, order }));
        Ok(())
    }

    /// Forgets all samples.
    pub fn release(&mut self) {
        self.held = Held::default();
        self.loaded = false;
    }

    /// The batches for each of `threads` training threads: thread `t` takes batch `t`,
    /// `t + threads`, and so on.
    ///
    /// # Errors
    /// When nothing was loaded.
    pub fn open(&self, threads: usize) -> Result<Vec<Box<dyn Batches>>> {
        let (cut, threads) = (self.cut()?, threads.max(1) as u64);
        let of_thread = |thread| Box::new(View::new(cut.clone(), thread, threads)) as _;
        Ok((0..threads).map(of_thread).collect())
    }

    /// Some of the batches, for one training thread; with row numbers in the place of ids, where there
    /// are some of these samples.
    ///
    /// # Errors
    /// When nothing was loaded, or the row numbers are those of other samples.
    pub fn part(
        &self,
        batches: Range<u64>,
        rows: Option<&Arc<RowNumbers>>,
    ) -> Result<Box<dyn Batches>> {
        let mut cut = self.cut()?;
        if rows.is_some_and(|rows| !rows.are_of(self, &batches)) {
            let problem = "the samples have changed since their rows were looked up: begin the pass \
                           anew";
            return Err(Error::Settings(problem.to_owned()));
        }
        (cut.end, cut.rows) = (batches.end, rows.cloned());
        Ok(Box::new(View::new(cut, batches.start, 1)))
    }

    /// What tells whether the dataset still has the same batches.
    pub fn contents(&self) -> Contents {
        let Held { store, order, swapped } = &self.held;
        Contents {
            store: Arc::downgrade(store),
            order: Arc::downgrade(order),
            swapped: swapped.as_ref().map(Arc::downgrade),
            cut: (self.settings.batch_size, self.settings.drop_last),
        }
    }

    fn cut(&self) -> Result<Cut> {
        if !self.loaded {
            let problem =
                "nothing is loaded into the dataset: call `load_into_memory` before training";
            return Err(Error::Settings(problem.to_owned()));
        }
        let MemorySettings { batch_size, drop_last, .. } = self.settings;
        Ok(Cut { held: self.held.clone(), batch_size, drop_last, end: u64::MAX, rows: None })
    }
}

/// What a dataset held at some time. It keeps no sample in memory.
#[derive(Clone, Default)]
pub struct Contents {
    store: Weak<Store>,
    order: Weak<Vec<u32>>,
    swapped: Option<Weak<Swapped>>,
    cut: (usize, bool),
}

impl Contents {
    /// Whether the samples are the same, in whatever order and batches.
    pub fn has_samples_of(&self, other: &Contents) -> bool {
        self.store.ptr_eq(&other.store)
    }

    /// Whether somebody still holds the samples.
    fn is_held(&self) -> bool {
        self.store.strong_count() > 0
    }
}

impl PartialEq for Contents {
    fn eq(&self, other: &Contents) -> bool {
        let same_values = match (&self.swapped, &other.swapped) {
            (None, None) => true,
            (Some(mine), Some(theirs)) => mine.ptr_eq(theirs),
            _ => false,
        };
        let same_samples = self.store.ptr_eq(&other.store) && self.order.ptr_eq(&other.order);
        same_samples && same_values && self.cut == other.cut
    }
}

#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;
