//! Asks the machine to bring memory near before it is read: rows of a table that the cache does
//! not hold cost a hundred nanoseconds each when they are met one after the other.

/// Asks for the first and the last cache line of `slice[first..first + len]`: all of a row of up
/// to 128 bytes. A row outside the slice is ignored; nothing but time can change.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], first: usize, len: usize) {
    if let Some([start, .., end]) = slice.get(first..first.saturating_add(len)) {
        line(start);
        line(end);
    } else if let Some(only) = slice.get(first) {
        line(only);
    }
}

#[inline(always)]
fn line<T>(element: &T) {
    prefetch_at(element);
}

/// Asks for the cache line at an address, which may be any.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[expect(unsafe_code, reason = "prefetching takes a pointer")]
#[inline(always)]
pub(crate) fn prefetch_at<T>(address: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing that the program can see, and cannot fail.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(crate) fn prefetch_at<T>(_address: *const T) {}

/// Asks for so many elements from an address on, which may be any, to be written: lines that other processors have read
/// come one after the other where they are only asked for by the writes themselves.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(address: *mut T, count: usize) {
    /// Bytes of a cache line.
    const LINE: usize = 64;
    for at in (0..count * size_of::<T>()).step_by(LINE) {
        line_to_write(address.cast::<u8>().wrapping_add(at));
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[expect(
    unsafe_code,
    reason = "compilers make it a prefetch to read where the build is for every processor"
)]
#[inline(always)]
fn line_to_write(address: *mut u8) {
    // SAFETY: as above; 64-bit processors that do not know it pass over it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn line_to_write(_address: *mut u8) {}

#[cfg(test)]
mod tests {
    #[test]
    fn any_range_is_safe() {
        let table = [0.0f32; 8];
        super::prefetch_to_write(std::ptr::null_mut::<f32>(), 100);
        for (first, len) in [(0, 8), (7, 1), (3, 0), (8, 1), (usize::MAX, 2), (2, usize::MAX)] {
            super::prefetch(&table, first, len);
        }
    }
}
