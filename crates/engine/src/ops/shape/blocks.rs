//! Blocks side by side: rows of one tensor that are made of rows of several others.
//!
//! Sizes are in bytes, so one copy serves every element type.

/// Writes `part`, rows of `width` bytes, at byte `at` of each row of `whole`.
pub(super) fn put(whole: &mut [u8], row: usize, at: usize, part: &[u8], width: usize) {
    if width == 0 || row == 0 {
        return;
    }
    for (row, part) in whole.chunks_exact_mut(row).zip(part.chunks_exact(width)) {
        row[at..at + width].copy_from_slice(part);
    }
}

/// Reads `part`, rows of `width` bytes, from byte `at` of each row of `whole`.
pub(super) fn take(whole: &[u8], row: usize, at: usize, part: &mut [u8], width: usize) {
    if width == 0 || row == 0 {
        return;
    }
    for (row, part) in whole.chunks_exact(row).zip(part.chunks_exact_mut(width)) {
        part.copy_from_slice(&row[at..at + width]);
    }
}
