//! Memory that is read at random, in large pages: a sample that lies anywhere in gigabytes of ordinary pages
//! costs a walk through the page tables, which takes as long as bringing its values.

/// Bytes of a large page.
#[cfg(all(target_os = "linux", not(miri)))]
const LARGE: usize = 2 << 20;

/// Asks for large pages where memory will be that nobody has touched yet. Nothing but time can change.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "advice about memory takes a pointer")]
pub(super) fn ask_for_large<T>(memory: &mut [T]) {
    let start = memory.as_mut_ptr();
    let first = start.addr().next_multiple_of(LARGE);
    let end = (start.addr() + size_of_val(memory)) / LARGE * LARGE;
    if first < end {
        let at = start.wrapping_byte_add(first - start.addr()).cast();
        // SAFETY: the range lies in the slice, and this advice changes no value in it.
        let asked =
            unsafe { rustix::mm::madvise(at, end - first, rustix::mm::Advice::LinuxHugepage) };
        // Ordinary pages do, too.
        asked.ok();
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn ask_for_large<T>(_memory: &mut [T]) {}

#[cfg(test)]
mod tests {
    #[test]
    fn values_stay_in_slices_of_any_size() {
        for len in [0, 1, 4096, 3 << 20] {
            let mut values: Vec<u32> = (0..len).collect();
            super::ask_for_large(&mut values);
            super::ask_for_large(&mut values[len as usize / 3..]);
            assert!(values.into_iter().eq(0..len));
        }
    }
}
