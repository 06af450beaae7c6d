//! Where the sequences of a ragged tensor lie.

use std::ops::Range;

use crate::ops::prelude::*;

/// The offsets of the innermost sequences of `tensor`, which is in slot `slot`.
pub(super) fn innermost<'a>(tensor: &'a Tensor, slot: &str) -> Result<&'a [usize]> {
    let Some(offsets) = tensor.lod().last() else {
        return Err(Error::kernel(format!(
            "`{slot}` must be made of sequences, but has no LoD: feed it with one"
        )));
    };
    if offsets.last() != Some(&tensor.rows()) {
        return Err(Error::kernel(format!(
            "the sequences of `{slot}` end at row {}, but it has {} rows",
            offsets.last().copied().unwrap_or(0),
            tensor.rows()
        )));
    }
    Ok(offsets)
}

/// The rows of each sequence.
pub(super) fn ranges(offsets: &[usize]) -> impl Iterator<Item = Range<usize>> {
    offsets.windows(2).map(|pair| pair[0]..pair[1])
}
