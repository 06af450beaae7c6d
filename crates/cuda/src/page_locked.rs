//! Page-locked memory for what goes to a card while the host goes on; kept when it is given back, since the driver takes
//! long to lock pages.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_engine::device::{Arrival, PageLocked};

use crate::bound::failed;
use crate::driver::{Card, Event, Pinned, Result, Stream, Timing};

/// The least that is locked at a time; sizes are powers of two from here on.
const LEAST: usize = 4096;
/// Bytes that are kept when nobody uses them.
const MAX_KEPT: usize = 256 << 20;

/// The page-locked memory that a card has given out.
pub(crate) struct Pages {
    card: Arc<Card>,
    /// What nobody uses.
    free: Mutex<Vec<Pinned>>,
    /// What is in use: where each piece begins and ends.
    lent: Mutex<BTreeMap<usize, usize>>,
}

/// Some of it, in use.
struct Locked {
    pages: Arc<Pages>,
    /// There until this is dropped.
    memory: Option<Pinned>,
    bytes: usize,
}

/// What is there when the card has come to an event: a copy to the host, for one.
pub(crate) struct Landing(pub(crate) Event);

impl Arrival for Landing {
    fn wait(self: Box<Self>) -> bireme_engine::Result<()> {
        self.0.synchronize().map_err(failed)
    }
}

/// Copies on their way, with what they copy from.
#[derive(Default)]
pub(crate) struct Flights(Mutex<Flying>);

#[derive(Default)]
struct Flying {
    copies: VecDeque<(Event, Arc<dyn PageLocked>)>,
    /// Events that have come, to be used again.
    events: Vec<Event>,
}

impl Pages {
    pub(crate) fn new(card: &Arc<Card>) -> Arc<Pages> {
        Arc::new(Pages { card: Arc::clone(card), free: Mutex::default(), lent: Mutex::default() })
    }

    /// Page-locked memory with a copy of `from`.
    pub(crate) fn with(self: &Arc<Self>, from: &[u8]) -> Result<Arc<dyn PageLocked>> {
        let mut memory = self.take(from.len())?;
        memory.as_mut_slice()[..from.len()].copy_from_slice(from);
        Ok(self.lend(memory, from.len()))
    }

    /// Page-locked memory that holds anything.
    pub(crate) fn room(self: &Arc<Self>, bytes: usize) -> Result<Arc<dyn PageLocked>> {
        let memory = self.take(bytes)?;
        Ok(self.lend(memory, bytes))
    }

    /// Whether these bytes lie in one piece of memory that is in use.
    pub(crate) fn is_one_piece(&self, start: usize, end: usize) -> bool {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.range(..=start).next_back().is_some_and(|(_, last)| end <= *last)
    }

    fn lend(self: &Arc<Self>, memory: Pinned, bytes: usize) -> Arc<dyn PageLocked> {
        let start = memory.as_ptr() as usize;
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.insert(start, start + bytes);
        drop(lent);
        Arc::new(Locked { pages: Arc::clone(self), memory: Some(memory), bytes })
    }

    fn take(&self, bytes: usize) -> Result<Pinned> {
        let size = bytes.max(LEAST).next_power_of_two();
        let found = {
            let mut free = self.lock();
            let at = free.iter().position(|memory| memory.len() == size);
            at.map(|at| free.swap_remove(at))
        };
        match found {
            Some(memory) => Ok(memory),
            None => Pinned::new(&self.card, size),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pinned>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageLocked for Locked {
    fn start(&self) -> NonNull<u8> {
        let start = self.memory.as_ref().and_then(|memory| NonNull::new(memory.as_ptr()));
        start.expect("there until this is dropped, and memory is not at null")
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        let mut lent = self.pages.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.remove(&(memory.as_ptr() as usize));
        drop(lent);
        let mut free = self.pages.lock();
        let kept: usize = free.iter().map(Pinned::len).sum();
        if kept + memory.len() <= MAX_KEPT {
            free.push(memory);
        }
    }
}

impl fmt::Debug for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} page-locked bytes", self.bytes)
    }
}

impl Flights {
    /// Holds `from` until what the stream was given so far is done; lets go of what is done already.
    pub(crate) fn add(&self, stream: &Stream, from: &Arc<dyn PageLocked>) -> Result<()> {
        let mut flying = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((event, _)) = flying.copies.front() {
            if !event.is_done()? {
                break;
            }
            if let Some((event, _)) = flying.copies.pop_front() {
                flying.events.push(event);
            }
        }
        let event = match flying.events.pop() {
            Some(event) => event,
            None => Event::new(stream.card(), Timing::Off)?,
        };
        stream.record(&event)?;
        flying.copies.push_back((event, Arc::clone(from)));
        Ok(())
    }
}
