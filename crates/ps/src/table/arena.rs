//! Memory for records, which never move while a table grows.
//!
//! An [`Arena`] takes large regions from the system (on huge pages where there are any, because a
//! table is read at random) and deals out chunks; the [`Records`] of a shard are a list of chunks.
//! The system fills a page with zeros when it is first touched, which takes up to milliseconds for
//! a huge one: a thread ([`Prefault`]) touches pages before they are needed.
//! All unsafe code of the tables is in this file. What it relies on: a chunk belongs to one
//! `Records` at a time, and the rows below `len` are initialised.

#![expect(unsafe_code, reason = "records live in memory that is given out in raw chunks")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::prefault::Prefault;

/// A chunk has about this size; a small table holds few of them, and only touched pages of them.
const CHUNK_BYTES: usize = 64 << 10;
/// The first region: one chunk for each shard. It is not on huge pages, so that a small table
/// stays small.
const FIRST_REGION_BYTES: usize = 16 << 20;
/// Later regions are a quarter of what there is, up to this.
const LAST_REGION_BYTES: usize = 128 << 20;
/// The size of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// Memory touched ahead of use is an eighth of what there is, up to this: small tables stay small.
const MOST_AHEAD_BYTES: usize = 32 << 20;

/// Where the shards of one table get their chunks.
pub(super) struct Arena {
    /// Floats in a row.
    stride: usize,
    /// A chunk has 2 to the power of this many rows.
    shift: u32,
    chunk_bytes: usize,
    prefault: Arc<Prefault>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    regions: Vec<Arc<Region>>,
    /// Chunks that came back.
    free: Vec<Chunk>,
    /// Chunks that were never used, in order of address within a region, with their regions.
    fresh: VecDeque<(Chunk, Arc<Region>)>,
    /// How many chunks have left `fresh`; their numbers go on in it.
    dealt: u64,
    /// The number of the first fresh chunk whose pages may not be there.
    touched: u64,
    /// Whether the thread was asked to touch pages, and has not done so yet.
    touching: bool,
    /// Chunks dealt out now.
    used: usize,
    total_bytes: usize,
}

struct Region {
    memory: NonNull<u8>,
    layout: Layout,
}

/// Some fresh chunks whose pages may not be there.
struct Untouched {
    region: Arc<Region>,
    start: Chunk,
    bytes: usize,
    /// The number of the chunk after them.
    end: u64,
}

/// The start of a chunk, aligned to 64 bytes.
#[derive(Clone, Copy)]
struct Chunk(NonNull<f32>);

// SAFETY: a region is memory that only the arena frees; the pointer is not tied to a thread.
unsafe impl Send for Region {}
// SAFETY: a shared region is only asked for its pages, which the system does for any thread.
unsafe impl Sync for Region {}
// SAFETY: a chunk is memory that its holder owns; the pointer is not tied to a thread.
unsafe impl Send for Chunk {}
// SAFETY: a shared chunk is only read, through `Records::row`.
unsafe impl Sync for Chunk {}

impl Arena {
    /// For rows of `stride` floats, whose pages `prefault` touches.
    pub(super) fn new(stride: usize, prefault: &Arc<Prefault>) -> Arena {
        let row_bytes = stride.max(1) * size_of::<f32>();
        let shift = (CHUNK_BYTES / row_bytes).max(1).ilog2();
        let chunk_bytes = (row_bytes << shift).next_multiple_of(64);
        Arena { stride, shift, chunk_bytes, prefault: prefault.clone(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>) -> Chunk {
        let mut state = self.state();
        state.used += 1;
        if let Some(chunk) = state.free.pop() {
            return chunk;
        }
        if state.fresh.is_empty() {
            let make = state.next_region(self.chunk_bytes);
            state.add_region(make(), self.chunk_bytes);
        }
        let (chunk, _) = state.fresh.pop_front().expect("a region has at least one chunk");
        state.dealt += 1;
        state.touched = state.touched.max(state.dealt);
        if !state.touching && state.ahead(self.chunk_bytes) < state.most_ahead() / 2 {
            state.touching = true;
            drop(state);
            // Without the thread, pages are touched when they are used.
            if !self.prefault.ask(self) {
                self.state().touching = false;
            }
        }
        chunk
    }

    /// Touches the pages of the next chunks, about a huge page at a time.
    pub(super) fn touch_ahead(&self) {
        while let Some(untouched) = self.next_untouched() {
            untouched.region.touch(untouched.start, untouched.bytes);
            let mut state = self.state();
            state.touched = state.touched.max(untouched.end);
        }
    }

    /// What to touch next; nothing when enough is there.
    fn next_untouched(&self) -> Option<Untouched> {
        let mut state = self.state();
        loop {
            if state.ahead(self.chunk_bytes) >= state.most_ahead() {
                state.touching = false;
                return None;
            }
            let first = (state.touched - state.dealt) as usize;
            if first < state.fresh.len() {
                let (start, region) = state.fresh[first].clone();
                let step = HUGE_PAGE.div_ceil(self.chunk_bytes);
                let chunks = state.fresh.iter().skip(first).take(step);
                let count = chunks.take_while(|(_, other)| Arc::ptr_eq(other, &region)).count();
                let end = state.touched + count as u64;
                return Some(Untouched { region, start, bytes: count * self.chunk_bytes, end });
            }
            // The system may take its time over a region, and a pull should not wait for it.
            let (total, make) = (state.total_bytes, state.next_region(self.chunk_bytes));
            drop(state);
            let region = make();
            state = self.state();
            if state.total_bytes == total {
                state.add_region(region, self.chunk_bytes);
            }
        }
    }

    fn give_back(&self, chunks: impl Iterator<Item = Chunk>) {
        let mut state = self.state();
        let before = state.free.len();
        state.free.extend(chunks);
        state.used -= state.free.len() - before;
        if state.used == 0 {
            // Nobody holds a chunk: the system gets its memory back. A thread that touches it may
            // still be there, so the numbers of chunks go on.
            let dealt = state.dealt + state.fresh.len() as u64;
            let touching = state.touching;
            *state = State { dealt, touched: dealt, touching, ..State::default() };
        }
    }
}

impl State {
    /// How the next region is made, which needs no lock.
    fn next_region(&self, chunk_bytes: usize) -> impl FnOnce() -> Region + use<> {
        let wanted = (self.total_bytes / 4).clamp(FIRST_REGION_BYTES, LAST_REGION_BYTES);
        let bytes = wanted.max(chunk_bytes).next_multiple_of(HUGE_PAGE);
        let huge = self.total_bytes > 0;
        move || Region::new(bytes, huge)
    }

    fn add_region(&mut self, region: Region, chunk_bytes: usize) {
        let bytes = region.layout.size();
        let region = Arc::new(region);
        self.total_bytes += bytes;
        for chunk in 0..bytes / chunk_bytes {
            // SAFETY: the chunk ends within the region.
            let start = unsafe { region.memory.add(chunk * chunk_bytes) };
            self.fresh.push_back((Chunk(start.cast()), Arc::clone(&region)));
        }
        self.regions.push(region);
    }

    /// Bytes that were touched and not used yet.
    fn ahead(&self, chunk_bytes: usize) -> usize {
        (self.touched - self.dealt) as usize * chunk_bytes
    }

    /// Bytes that may be.
    fn most_ahead(&self) -> usize {
        // The first region is small pages, a few at a time.
        if self.regions.len() < 2 { 0 } else { (self.total_bytes / 8).min(MOST_AHEAD_BYTES) }
    }
}

impl Region {
    fn new(bytes: usize, huge: bool) -> Region {
        let layout = Layout::from_size_align(bytes, HUGE_PAGE).expect("a region is a valid size");
        // SAFETY: the size is not zero. The memory is not read before it is written.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        #[cfg(target_os = "linux")]
        if huge {
            // SAFETY: the range was just allocated and is aligned to pages; this is advice, and a
            // refusal changes nothing.
            unsafe { libc::madvise(memory.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = huge;
        Region { memory, layout }
    }

    /// Has the system make the pages of `bytes` bytes from `start` on, which lie in this region.
    /// Their contents stay as they are, so they may be in use.
    fn touch(&self, start: Chunk, bytes: usize) {
        const PAGE: usize = 4096;
        let first = start.0.addr().get() / PAGE * PAGE;
        let end = (start.0.addr().get() + bytes).next_multiple_of(PAGE);
        debug_assert!(first >= self.memory.addr().get(), "the chunk lies in this region");
        #[cfg(target_os = "linux")]
        // SAFETY: the range lies in memory that this region holds, whose start and size are
        // multiples of a page; the call changes no contents. Old systems refuse, which is fine.
        unsafe {
            let address = self.memory.as_ptr().with_addr(first).cast();
            libc::madvise(address, end - first, libc::MADV_POPULATE_WRITE);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = end;
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; no chunk of it is used when the arena drops it.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

/// The records of one shard, numbered from 0 without gaps.
pub(super) struct Records {
    arena: Arc<Arena>,
    chunks: Vec<Chunk>,
    len: u32,
    stride: usize,
    shift: u32,
    /// Rows of the first chunk that are left unused.
    skipped: u32,
}

impl Records {
    /// No records yet. The shards of a table should differ in `phase` (from 0 to 1): they grow at
    /// the same pace, and a pull should not have to wait until all of them have a new chunk, whose
    /// pages the system fills with zeros.
    pub(super) fn new(arena: &Arc<Arena>, phase: f64) -> Records {
        let (stride, shift) = (arena.stride, arena.shift);
        let skipped = (f64::from(1u32 << shift) * phase.clamp(0.0, 0.99)) as u32;
        Records { arena: arena.clone(), chunks: Vec::new(), len: 0, stride, shift, skipped }
    }

    /// No records, from the same arena.
    pub(super) fn empty_like(&self) -> Records {
        let Records { stride, shift, skipped, .. } = *self;
        Records { arena: self.arena.clone(), chunks: Vec::new(), len: 0, stride, shift, skipped }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Bytes of the records and of the list of chunks.
    pub(super) fn bytes(&self) -> usize {
        self.len as usize * self.stride * size_of::<f32>()
            + self.chunks.capacity() * size_of::<Chunk>()
    }

    /// Where a row starts.
    #[inline(always)]
    fn start(&self, slot: u32) -> *mut f32 {
        assert!(slot < self.len, "slot {slot} of {}", self.len);
        let place = slot + self.skipped;
        let within = (place & ((1 << self.shift) - 1)) as usize;
        let chunk = self.chunks[(place >> self.shift) as usize];
        // SAFETY: a chunk has room for 2 to the power of `shift` rows.
        unsafe { chunk.0.as_ptr().add(within * self.stride) }
    }

    /// Record `slot`.
    #[inline(always)]
    pub(super) fn row(&self, slot: u32) -> &[f32] {
        // SAFETY: rows below `len` are initialised, and `self` is borrowed as long as the row.
        unsafe { std::slice::from_raw_parts(self.start(slot), self.stride) }
    }

    /// Record `slot`, to change it.
    #[inline(always)]
    pub(super) fn row_mut(&mut self, slot: u32) -> &mut [f32] {
        // SAFETY: as in `row`; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start(slot), self.stride) }
    }

    /// Asks for the cache lines of the first `bytes` of record `slot`.
    #[inline(always)]
    pub(super) fn prefetch(&self, slot: u32, bytes: usize) {
        let start = self.start(slot);
        prefetch(start);
        // Rows start anywhere in a line.
        let mut ahead = 64 - start.addr() % 64;
        while ahead < bytes {
            prefetch(start.wrapping_byte_add(ahead));
            ahead += 64;
        }
    }

    /// Appends a record of zeros.
    pub(super) fn push(&mut self) -> u32 {
        let slot = self.len;
        if ((slot + self.skipped) >> self.shift) as usize == self.chunks.len() {
            self.chunks.push(self.arena.take());
        }
        self.len += 1;
        // SAFETY: the row lies within its chunk, which this shard owns.
        unsafe { self.start(slot).write_bytes(0, self.stride) };
        slot
    }

    /// Forgets the records from `len` on.
    pub(super) fn truncate(&mut self, len: u32) {
        self.len = self.len.min(len);
        let places = if self.len == 0 { 0 } else { self.len as usize + self.skipped as usize };
        let keep = places.div_ceil(1 << self.shift);
        self.arena.give_back(self.chunks.drain(keep..));
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.truncate(0);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch(address: *const f32) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing that the program can see, and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch(_address: *const f32) {}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn rows_keep_their_place_and_chunks_come_back() {
        let arena = Arc::new(Arena::new(20, &Arc::default()));
        let mut records = [Records::new(&arena, 0.0), Records::new(&arena, 0.7)];
        for i in 0..5000u32 {
            for (side, records) in records.iter_mut().enumerate() {
                let slot = records.push();
                assert_eq!(slot, i);
                assert_eq!(records.row(slot), [0.0; 20]);
                records.row_mut(slot).fill((i * 2 + side as u32) as f32);
            }
        }
        for (side, records) in records.iter().enumerate() {
            for i in 0..5000u32 {
                assert_eq!(records.row(i), [(i * 2 + side as u32) as f32; 20]);
                records.prefetch(i, 2);
            }
        }
        records[0].truncate(1);
        assert_eq!(records[0].row(0), [0.0; 20]);
        assert_eq!(records[1].row(4999), [9999.0; 20]);
        records[0].push();
        assert_eq!(records[0].row(1), [0.0; 20], "a used chunk comes back clean");
        drop(records);
        assert!(arena.state().regions.is_empty());
    }

    #[test]
    fn pages_are_touched_ahead_of_use() {
        let arena = Arc::new(Arena::new(64, &Arc::default()));
        let mut records = Records::new(&arena, 0.0);
        // More than two regions.
        for i in 0..200_000u32 {
            let slot = records.push();
            records.row_mut(slot).fill(i as f32);
        }
        let wait_for_the_thread = || {
            let until = Instant::now() + Duration::from_secs(60);
            while arena.state().touching {
                assert!(Instant::now() < until, "the thread ends");
                std::thread::yield_now();
            }
        };
        wait_for_the_thread();
        let state = arena.state();
        assert!(state.touched > state.dealt && state.regions.len() > 2);
        assert!(state.ahead(arena.chunk_bytes) < state.most_ahead() + 2 * HUGE_PAGE);
        drop(state);
        assert!((0..200_000).all(|i| records.row(i) == [i as f32; 64]));
        drop(records);
        wait_for_the_thread();
        let state = arena.state();
        assert!(state.regions.is_empty() && state.touched == state.dealt);
    }

    #[test]
    fn any_width_fits() {
        for stride in [2, 3, 17, 1 << 14, 1 << 20] {
            let arena = Arc::new(Arena::new(stride, &Arc::default()));
            let mut records = Records::new(&arena, 1.0);
            for i in 0..20 {
                let slot = records.push();
                records.row_mut(slot).fill(i as f32);
            }
            assert!((0..20).all(|i| records.row(i).iter().all(|x| *x == i as f32)));
        }
    }
}
