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
        let state = Mutex::new(State { small, large });
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
            return Ok((memory.address(), bytes, Some(memory)));
        }
        let rounded = bytes.max(1).next_multiple_of(GRAIN);
        let mut state = self.lock();
        let most = if rounded <= MIDDLE { LARGE_PIECE } else { rounded + rounded / 4 };
        let found = state.pool(rounded).take(rounded, most);
        let (address, counted) = match found {
            Some(found) => found,
            None => {
                let piece = if rounded <= SMALL {
                    SMALL_PIECE
                } else if rounded <= MIDDLE {
                    LARGE_PIECE
                } else {
                    rounded.next_multiple_of(SMALL_PIECE)
                };
                let memory = self.piece(piece, rounded)?;
                let (at, piece) = (memory.address(), memory.len());
                let pool = state.pool(rounded);
                pool.add(at, piece, memory);
                pool.take(rounded, usize::MAX).expect("the piece is large enough")
            }
        };
        self.card().count_used(counted);
        Ok((address, counted, None))
    }

    /// Memory of the driver: as much as is kept at a time, or as is needed when there is not so much. Its blocks count as
    /// used, not the whole.
    fn piece(&self, wanted: usize, needed: usize) -> Result<Memory> {
        match Memory::uncounted(&self.stream, wanted) {
            Err(Error::OutOfMemory { .. }) if needed < wanted => {
                Memory::uncounted(&self.stream, needed)
            }
            other => other,
        }
    }

    /// Gives what is kept, and not used, back to the driver.
    pub(crate) fn empty(&self) -> Result<()> {
        let unused = {
            let mut state = self.lock();
            (state.small.unused(), state.large.unused())
        };
        drop(unused);
        // The driver keeps it, too, until all work is done that was given before.
        self.stream.synchronize()?;
        self.card().trim()
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
        if self.own.is_some() {
            return;
        }
        self.cache.card().count_unused(self.counted);
        let rounded = self.bytes.max(1).next_multiple_of(GRAIN);
        self.cache.lock().pool(rounded).give_back(self.address);
    }
}
