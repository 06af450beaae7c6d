//! The way of feeds to the card: two slots in its memory, so that the feeds of a step are copied while the step before
//! reads its own. Feeds that lie in one piece of page-locked memory go there in one copy, as they lie.

#![expect(unsafe_code, reason = "page-locked memory is copied after the call returns")]

use std::sync::Arc;
use std::thread;

use bireme_engine::device::{Address, Uploads};

use crate::bound::failed;
use crate::driver::{Card, Event, Memory, Pinned, Result, Span, Stream, Timing, is_page_locked};
use crate::page_locked::Pages;

/// Where feeds begin in a slot.
const ALIGN: usize = 256;
/// Bytes from which on feeds in page-locked memory go straight to the card; fewer are quicker in one piece.
const STRAIGHT_BYTES: usize = 2 << 20;
/// Bytes that one thread copies to page-locked memory before another one helps.
const THREAD_BYTES: usize = 2 << 20;
const MAX_THREADS: usize = 8;

/// Two slots that take turns.
pub(crate) struct Ring {
    /// What steps run on.
    steps: Arc<Stream>,
    /// What feeds are copied on.
    copies: Arc<Stream>,
    slots: [Slot; 2],
    turn: usize,
    /// Where each feed begins in a slot.
    offsets: Vec<usize>,
    pages: Arc<Pages>,
    /// Whether feeds of the step that runs are still to be read from where the caller has them.
    reads_feeds: bool,
}

struct Slot {
    memory: Memory,
    /// What goes to the card in one piece.
    staging: Pinned,
    /// When the feeds have arrived.
    arrived: Event,
    /// When the step has read them.
    used: Event,
    was_used: bool,
}

impl Ring {
    pub(crate) fn new(
        card: &Arc<Card>,
        steps: &Arc<Stream>,
        pages: &Arc<Pages>,
        bytes: &[usize],
    ) -> Result<Ring> {
        let mut end = 0;
        let offsets = bytes.iter().map(|bytes| {
            let offset = end;
            end += bytes.next_multiple_of(ALIGN);
            offset
        });
        let offsets = offsets.collect();
        let copies = Stream::new(card)?;
        let slot = || {
            let event = || Event::new(card, Timing::Off);
            let (arrived, used) = (event()?, event()?);
            let (memory, staging) = (steps.allocate(end)?, Pinned::new(card, end)?);
            Ok(Slot { memory, staging, arrived, used, was_used: false })
        };
        let slots = [slot()?, slot()?];
        // The copies' stream may then use memory that the other one has allocated.
        steps.synchronize()?;
        let (steps, pages) = (Arc::clone(steps), Arc::clone(pages));
        Ok(Ring { steps, copies, slots, turn: 0, offsets, pages, reads_feeds: false })
    }

    /// The bytes that all given feeds lie in, if that is one piece of page-locked memory with all of them at places
    /// where the card may have them.
    fn one_piece<'a>(&self, feeds: &[Option<&'a [u8]>], most: usize) -> Option<&'a [u8]> {
        let mut given = feeds.iter().flatten().filter(|feed| !feed.is_empty());
        let first = given.next()?;
        let start = first.as_ptr() as usize;
        let mut end = start + first.len();
        for feed in given {
            let at = feed.as_ptr() as usize;
            if at < end || !(at - start).is_multiple_of(ALIGN) {
                return None;
            }
            end = at + feed.len();
        }
        let fits = end - start <= most && self.pages.is_one_piece(start, end);
        // SAFETY: the bytes lie in one allocation, which is initialised and lives as long as the feeds in it.
        fits.then(|| unsafe { std::slice::from_raw_parts(first.as_ptr(), end - start) })
    }

    /// Sends feeds that lie in one piece.
    fn send_piece(
        &mut self,
        piece: &[u8],
        feeds: &[Option<&[u8]>],
        places: &mut [Option<Address>],
    ) -> Result<()> {
        let slot = &mut self.slots[self.turn];
        let address = slot.memory.address();
        // SAFETY: the piece is not longer than the slot, which lives as long as the ring.
        let to = unsafe { Span::from_raw(address, piece.len()) };
        // SAFETY: the caller keeps the bytes until `finish`, which waits for the copy.
        unsafe { self.copies.upload_locked(to, piece)? };
        self.copies.record(&slot.arrived)?;
        self.steps.wait(&slot.arrived)?;
        self.reads_feeds = true;
        for (feed, place) in feeds.iter().zip(places) {
            if let Some(feed) = feed {
                let at = (feed.as_ptr() as usize).saturating_sub(piece.as_ptr() as usize);
                *place = Some(Address(address + if feed.is_empty() { 0 } else { at as u64 }));
            }
        }
        Ok(())
    }

    fn send(&mut self, feeds: &[Option<&[u8]>], places: &mut [Option<Address>]) -> Result<()> {
        self.turn = 1 - self.turn;
        let most = self.slots[self.turn].memory.len();
        if self.slots[self.turn].was_used {
            self.copies.wait(&self.slots[self.turn].used)?;
        }
        if let Some(piece) = self.one_piece(feeds, most) {
            return self.send_piece(piece, feeds, places);
        }
        let slot = &mut self.slots[self.turn];
        let given = || {
            let with_offsets = feeds.iter().zip(&self.offsets);
            with_offsets.filter_map(|(feed, at)| feed.map(|feed| (feed, *at)))
        };
        let bytes: usize = given().map(|(feed, _)| feed.len()).sum();
        let span = |at: usize, bytes: usize| {
            // SAFETY: offsets and sizes are those that the slot was made for, and it lives as long as the ring.
            unsafe { Span::from_raw(slot.memory.address() + at as u64, bytes) }
        };
        let goes_straight =
            |feed: &[u8]| bytes >= STRAIGHT_BYTES && !feed.is_empty() && is_page_locked(feed);
        let (straight, staged): (Vec<_>, Vec<_>) =
            given().partition(|(feed, _)| goes_straight(feed));
        for (feed, at) in &straight {
            // SAFETY: the caller keeps the bytes until `finish`, which waits for the copy.
            unsafe { self.copies.upload_locked(span(*at, feed.len()), feed)? };
        }
        // What was copied from here last has long arrived.
        slot.arrived.synchronize()?;
        stage(&staged, slot.staging.as_mut_slice());
        // In one piece, unless that would cover others.
        let pieces = if straight.is_empty() { staged.len().max(1) } else { 1 };
        for piece in staged.chunks(pieces) {
            let (first, (last, end)) = (piece[0].1, piece[piece.len() - 1]);
            let range = first..end + last.len();
            // SAFETY: the bytes stay until the slot's next turn, which waits for the copy.
            unsafe { self.copies.upload_later(span(first, range.len()), &slot.staging, range)? };
        }
        self.copies.record(&slot.arrived)?;
        self.steps.wait(&slot.arrived)?;
        self.reads_feeds = !straight.is_empty();
        for ((feed, offset), place) in feeds.iter().zip(&self.offsets).zip(places) {
            if feed.is_some() {
                *place = Some(Address(slot.memory.address() + *offset as u64));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let slot = &mut self.slots[self.turn];
        self.steps.record(&slot.used)?;
        slot.was_used = true;
        if std::mem::take(&mut self.reads_feeds) { slot.arrived.synchronize() } else { Ok(()) }
    }
}

impl Uploads for Ring {
    fn send(
        &mut self,
        feeds: &[Option<&[u8]>],
        places: &mut [Option<Address>],
    ) -> bireme_engine::Result<()> {
        Ring::send(self, feeds, places).map_err(failed)
    }

    fn finish(&mut self) -> bireme_engine::Result<()> {
        Ring::finish(self).map_err(failed)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Copies that are under way read and write memory that goes now.
        let _ = self.copies.synchronize();
    }
}

/// Copies feeds to their places, which rise; by several threads when there is much.
fn stage(feeds: &[(&[u8], usize)], mut to: &mut [u8]) {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (feed, at) in feeds {
        let (_, rest) = to.split_at_mut(at - start);
        let (mut place, rest) = rest.split_at_mut(feed.len());
        let mut from = *feed;
        while from.len() > THREAD_BYTES {
            let (now, later) = from.split_at(THREAD_BYTES);
            let (place_now, place_later) = place.split_at_mut(THREAD_BYTES);
            pieces.push((now, place_now));
            (from, place) = (later, place_later);
        }
        pieces.push((from, place));
        (to, start) = (rest, at + feed.len());
    }
    let bytes: usize = pieces.iter().map(|(from, _)| from.len()).sum();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = (bytes / THREAD_BYTES).min(cores / 2).clamp(1, MAX_THREADS);
    let copy = |pieces: Vec<(&[u8], &mut [u8])>| {
        pieces.into_iter().for_each(|(from, to)| to.copy_from_slice(from));
    };
    if threads == 1 {
        return copy(pieces);
    }
    let mut shares: Vec<Vec<(&[u8], &mut [u8])>> = (0..threads).map(|_| Vec::new()).collect();
    for (at, piece) in pieces.into_iter().enumerate() {
        shares[at % threads].push(piece);
    }
    thread::scope(|scope| {
        for share in shares {
            scope.spawn(|| copy(share));
        }
    });
}
