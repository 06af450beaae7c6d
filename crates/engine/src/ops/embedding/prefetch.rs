//! A hint to the memory: this row is needed soon. Rows of a large table lie in memory at random, so
//! without it every lookup waits for a cache miss.

#![expect(unsafe_code, reason = "the hint takes a pointer")]

/// Bytes that one hint fetches.
const LINE: usize = 64;

/// Starts loading `values[start .. start + len]`; does nothing when that is not inside `values`.
#[inline]
pub(super) fn prefetch<T>(values: &[T], start: usize, len: usize) {
    let Some(row) = start.checked_add(len).and_then(|end| values.get(start..end)) else { return };
    let first = row.as_ptr().cast::<i8>();
    for offset in (0..size_of_val(row)).step_by(LINE) {
        // SAFETY: the address lies inside `row`.
        hint(unsafe { first.add(offset) });
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn hint(address: *const i8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch has no effect on memory; every x86-64 processor has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn hint(_address: *const i8) {}
