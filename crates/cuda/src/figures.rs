//! What people ask of a card: its properties, its memory, points in time.

use std::sync::Arc;

use bireme_engine::{Error, Result};

use crate::bound::failed;
use crate::device::Cuda;
use crate::driver::{Event, MemoryFigures, Timing};

/// What a card is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// What the driver calls it.
    pub name: String,
    /// Its compute capability, as (9, 0).
    pub capability: (u32, u32),
    /// Its memory in bytes.
    pub total_memory: usize,
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
}

/// What a card is.
///
/// # Errors
/// As [`crate::open`]; so for all that follow.
pub fn properties(number: u32) -> Result<Properties> {
    let card = Cuda::open(number)?;
    let card = card.card();
    Ok(Properties {
        name: card.name().to_owned(),
        capability: card.capability(),
        total_memory: card.memory().map_err(failed)?.total,
        multiprocessors: card.multiprocessors(),
    })
}

/// How the memory of a card is used by this process.
pub fn memory(number: u32) -> Result<MemoryFigures> {
    Cuda::open(number)?.card().memory().map_err(failed)
}

/// Lets the largest figure of [`memory`] begin anew: of what is allocated, or of what is kept.
pub fn reset_peak(number: u32, of_kept: bool) -> Result<()> {
    let card = Cuda::open(number)?;
    match of_kept {
        true => card.card().reset_reserved_peak().map_err(failed),
        false => {
            card.card().reset_used_peak();
            Ok(())
        }
    }
}

/// Gives memory back that is kept for later.
pub fn give_back_kept(number: u32) -> Result<()> {
    Cuda::open(number)?.empty_cache()
}

/// Whether a card has done all that it was given.
pub fn is_idle(number: u32) -> Result<bool> {
    Cuda::open(number)?.stream().is_idle().map_err(failed)
}

/// A point in the work of a card, with the time when it was reached.
pub struct Moment {
    card: Arc<Cuda>,
    event: Event,
}

impl Moment {
    /// The point behind all that the card was given until now.
    ///
    /// # Errors
    /// When the card is lost; so for all that follow.
    pub fn now(number: u32) -> Result<Moment> {
        let card = Cuda::open(number)?;
        let event = Event::new(card.card(), Timing::On).map_err(failed)?;
        card.stream().record(&event).map_err(failed)?;
        Ok(Moment { card, event })
    }

    /// Whether it is reached.
    pub fn is_past(&self) -> Result<bool> {
        self.event.is_done().map_err(failed)
    }

    /// Waits until it is reached.
    pub fn wait(&self) -> Result<()> {
        self.event.synchronize().map_err(failed)
    }

    /// The time since another, in milliseconds; waits for both.
    pub fn milliseconds_since(&self, start: &Moment) -> Result<f32> {
        if !Arc::ptr_eq(&self.card, &start.card) {
            return Err(Error::kernel("the two events are of different cards"));
        }
        start.wait()?;
        self.wait()?;
        self.event.milliseconds_since(&start.event).map_err(failed)
    }
}

impl std::fmt::Debug for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a moment of {:?}", self.card)
    }
}
