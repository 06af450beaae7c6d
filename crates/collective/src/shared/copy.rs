//! Copies into shared memory, past the caches where those are far apart.
//!
//! A line that another processor has in its cache must be taken from it before it can be written.
//! Between processors with a common cache that costs little; between others it costs more than the
//! way through memory, which writes that bypass the caches take. Which is better is measured now
//! and then, since a virtual machine's processors move.
#![expect(unsafe_code, reason = "memory is copied through pointers")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

/// Copies between two measurements.
const PERIOD: u32 = 32;
/// Bytes that are enough to measure.
const ENOUGH: usize = 32 << 10;
/// Nanoseconds for a line of 64 bytes above which the caches are far apart. Near ones take 2 to 8,
/// far ones 30 and more.
const FAR_NS: u64 = 8;

/// How this rank writes large data.
#[derive(Default)]
pub(super) struct Writer {
    past_caches: AtomicBool,
    /// Copies until the next measurement.
    left: AtomicU32,
}

impl Writer {
    /// Runs `copy`, which copies this many bytes with the function it is given, in the way that
    /// was faster lately.
    pub(super) fn write(&self, bytes: usize, copy: impl FnOnce(Copy)) {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 && bytes >= ENOUGH {
            let start = Instant::now();
            copy(through_caches);
            let far = start.elapsed().as_nanos() as u64 > FAR_NS * (bytes as u64 / 64);
            self.past_caches.store(far, Ordering::Relaxed);
            self.left.store(PERIOD, Ordering::Relaxed);
            return;
        }
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        copy(self.copy());
    }

    /// The way that was faster lately.
    pub(super) fn copy(&self) -> Copy {
        if self.past_caches.load(Ordering::Relaxed) { past_caches } else { through_caches }
    }
}

/// Copies bytes: from, to, how many. Both must be valid for as many and must not overlap.
pub(super) type Copy = unsafe fn(*const u8, *mut u8, usize);

/// # Safety
/// See [`Copy`].
pub(super) unsafe fn through_caches(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { to.copy_from_nonoverlapping(from, bytes) }
}

#[cfg(target_arch = "x86_64")]
unsafe fn past_caches(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    let head = to.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE;
    // SAFETY: as the caller promises for all bytes; the stream begins at a line, and the fence puts
    // it before whatever this thread writes next.
    unsafe {
        through_caches(from, to, head);
        let (source, target) = (from.add(head), to.add(head));
        for line in 0..lines {
            let source = source.add(line * LINE).cast::<__m128i>();
            let target = target.add(line * LINE).cast::<__m128i>();
            for part in 0..LINE / 16 {
                _mm_stream_si128(target.add(part), _mm_loadu_si128(source.add(part)));
            }
        }
        _mm_sfence();
        let done = head + lines * LINE;
        through_caches(from.add(done), to.add(done), bytes - done);
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn past_caches(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { through_caches(from, to, bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_copy_the_same() {
        for bytes in [0, 1, 63, 64, 65, 1000, 4096] {
            for offset in [0, 1, 16, 40] {
                let from: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
                for copy in [through_caches as Copy, past_caches] {
                    let mut to = vec![255; offset + bytes + 1];
                    // SAFETY: `to` has room from `offset`, and the two are separate.
                    unsafe { copy(from.as_ptr(), to.as_mut_ptr().add(offset), bytes) };
                    assert_eq!(to[offset..offset + bytes], from);
                    assert_eq!(
                        (to[offset + bytes], to[..offset].iter().min()),
                        (255, to[..offset].iter().max())
                    );
                }
            }
        }
    }

    #[test]
    fn it_is_measured_now_and_then() {
        let writer = Writer::default();
        writer.write(ENOUGH, |_| std::thread::sleep(std::time::Duration::from_millis(5)));
        assert!(writer.past_caches.load(Ordering::Relaxed));
        for _ in 0..PERIOD {
            writer.write(ENOUGH, |_| ());
            assert!(writer.past_caches.load(Ordering::Relaxed));
        }
        writer.write(ENOUGH, |_| ());
        assert!(!writer.past_caches.load(Ordering::Relaxed));
    }
}
