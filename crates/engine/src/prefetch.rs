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

#[cfg(test)]
mod tests {
    #[test]
    fn any_range_is_safe() {
        let table = [0.0f32; 8];
        for (first, len) in [(0, 8), (7, 1), (3, 0), (8, 1), (usize::MAX, 2), (2, usize::MAX)] {
            super::prefetch(&table, first, len);
        }
    }
}
