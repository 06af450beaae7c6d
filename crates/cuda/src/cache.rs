//! The memory of a card for tensors: blocks that are given back are kept for those who ask next.
//!
//! A card does what it is given in order, on one stream. So a block may be handed on while work that uses it is still
//! waiting: whatever the next owner does comes after it. Asking the driver instead would take longer than most kernels.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::{Card, Error, Memory, Result, Stream};
use crate::pool::{GRAIN, Pool};

/// Up to this size, blocks are cut from small pieces.
const SMALL: usize = 1 << 20;
/// The size of small pieces.
const SMALL_PIECE: usize = 2 << 20;
/// Blocks up to this size are cut from pieces of [`LARGE_PIECE`]; beyond it a block has a piece to itself.
const MIDDLE: usize = 10 << 20;
/// The size of pieces for blocks of middle size.
const LARGE_PIECE: usize = 20 << 20;

/// How much memory this process uses of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes of tensors, plans and what else is alive.
    pub allocated: usize,
    /// Bytes taken from the driver: those, and what is kept for later.
    pub reserved: usize,
    /// The most that was allocated at a time.
    pub peak_allocated: usize,
    /// The most that was reserved at a time.
    pub peak_reserved: usize,
}

/// Whether blocks are kept when they are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// They are kept for those who ask next.
    Kept,
    /// Each goes back to the driver, which so sees every access outside of one.
    Driver,
}

/// The memory of one card.
pub(crate) struct Cache {
    stream: Arc<Stream>,
    keeping: Keeping,
    state: Mutex<State>,
}

struct State {
    small: Pool<Memory>,
    large: Pool<Memory>,
    figures: MemoryUse,
}

/// A block of memory; it goes back when it is dropped.
pub(crate) struct Block {
    cache: Arc<Cache>,
    address: u64,
    bytes: usize,
    /// Bytes that count as allocated.
    counted: usize,
    /// Of a block that is not cut from a piece.
    own: Option<Memory>,
}

impl Cache {
    pub(crate) fn new(stream: &Arc<Stream>, keeping: Keeping) -> Arc<Cache> {
        let (small, large) = (Pool::new(GRAIN), Pool::new(SMALL));
        let state = Mutex::new(State { small, large, figures: MemoryUse::default() });
        Arc::new(Cache { stream: Arc::clone(stream), keeping, state })
    }

    /// Takes a block; what it holds is unspecified. When there is no memory, what is kept goes back to the driver, and
    /// it is tried once more.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Result<Block> {
        let taken = match self.try_take(bytes) {
            Err(Error::OutOfMemory { .. }) => {
                self.empty()?;
                self.try_take(bytes)
            }
            other => other,
        };
        let (address, counted, own) = taken?;
        Ok(Block { cache: Arc::clone(self), address, bytes, counted, own })
    }

    fn try_take(&self, bytes: usize) -> Result<(u64, usize, Option<Memory>)> {
        if self.keeping == Keeping::Driver {
            let memory = self.stream.allocate(bytes)?;
            let mut state = self.lock();
            state.figures.reserve(bytes);
            state.figures.allocate(bytes);
            return Ok((memory.address(), bytes, Some(memory)));
        }
        let rounded = bytes.max(1).next_multiple_of(GRAIN);
        let mut state = self.lock();
        let found = state.pool(rounded).take(rounded);
        let (address, counted) = match found {
            Some(found) => found,
            None => {
                let piece = match rounded {
                    0..=SMALL => SMALL_PIECE,
                    ..=MIDDLE => LARGE_PIECE,
                    _ => rounded.next_multiple_of(SMALL_PIECE),
                };
                let memory = self.piece(piece, rounded)?;
                let (at, piece) = (memory.address(), memory.len());
                state.figures.reserve(piece);
                let pool = state.pool(rounded);
                pool.add(at, piece, memory);
                pool.take(rounded).expect("the piece is large enough")
            }
        };
        state.figures.allocate(counted);
        Ok((address, counted, None))
    }

    /// Memory of the driver: as much as is kept at a time, or as is needed when there is not so much.
    fn piece(&self, wanted: usize, needed: usize) -> Result<Memory> {
        match self.stream.allocate(wanted) {
            Err(Error::OutOfMemory { .. }) if needed < wanted => self.stream.allocate(needed),
            other => other,
        }
    }

    /// Gives what is kept, and not used, back to the driver.
    pub(crate) fn empty(&self) -> Result<()> {
        let (small, large) = {
            let mut state = self.lock();
            let (small, large) = (state.small.unused(), state.large.unused());
            state.figures.reserved -= small.1 + large.1;
            (small.0, large.0)
        };
        drop((small, large));
        // The driver keeps it, too, until all work is done that was given before.
        self.stream.synchronize()?;
        self.card().trim()
    }

    /// How much is used.
    pub(crate) fn figures(&self) -> MemoryUse {
        self.lock().figures
    }

    /// Peaks are counted from now on.
    pub(crate) fn reset_peaks(&self) {
        let figures = &mut self.lock().figures;
        figures.peak_allocated = figures.allocated;
        figures.peak_reserved = figures.reserved;
    }

    fn card(&self) -> &Arc<Card> {
        self.stream.card()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pool(&mut self, bytes: usize) -> &mut Pool<Memory> {
        if bytes <= SMALL { &mut self.small } else { &mut self.large }
    }
}

impl MemoryUse {
    fn allocate(&mut self, bytes: usize) {
        self.allocated += bytes;
        self.peak_allocated = self.peak_allocated.max(self.allocated);
    }

    fn reserve(&mut self, bytes: usize) {
        self.reserved += bytes;
        self.peak_reserved = self.peak_reserved.max(self.reserved);
    }
}

impl Block {
    /// Its address on the card.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// As many bytes as were asked for.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        state.figures.allocated -= self.counted;
        if self.own.is_some() {
            state.figures.reserved -= self.counted;
        } else {
            let rounded = self.bytes.max(1).next_multiple_of(GRAIN);
            state.pool(rounded).give_back(self.address);
        }
    }
}
