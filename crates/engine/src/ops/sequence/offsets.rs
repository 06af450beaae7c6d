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

/// The offsets of the sequences of `tensor`, which is in slot `slot` and has one level of them.
pub(in crate::ops) fn only_level<'a>(tensor: &'a Tensor, slot: &str) -> Result<&'a [usize]> {
    let levels = tensor.lod().len();
    if levels > 1 {
        return Err(Error::kernel(format!(
            "`{slot}` must have one level of sequences, but has {levels}"
        )));
    }
    innermost(tensor, slot)
}

/// The bytes of one row of `tensor`.
pub(super) fn row_bytes(tensor: &Tensor) -> usize {
    tensor.dims().tail(1) * tensor.dtype().size()
}

/// That the gradient in slot `slot` has as many elements as the value that it belongs to.
pub(super) fn check_gradient(gradient: &Tensor, slot: &str, elements: usize) -> Result<()> {
    if gradient.numel() == elements {
        return Ok(());
    }
    let given = gradient.numel();
    Err(Error::kernel(format!("`{slot}` must have {elements} elements, not {given}")))
}

/// What is known of a tensor of rows that come from the rows of `x`: how many is known only when
/// the batch is there.
pub(super) fn rows_of(x: &Meta, slot: &str, levels: u32) -> Result<Meta> {
    let Some((_, rest)) = x.dims.split_first() else {
        return Err(Error::kernel(format!("`{slot}` must have at least one dimension")));
    };
    Ok(Meta { lod_level: levels, ..x.with_dims([&[-1], rest].concat()) })
}

/// Cuts `tensor` into one level of sequences of these lengths; `lod` is memory of the last batch.
pub(super) fn set_lengths(
    tensor: &mut Tensor,
    lod: &mut [Vec<usize>; 1],
    lengths: impl Iterator<Item = usize>,
) {
    lod[0].clear();
    lod[0].push(0);
    lod[0].extend(lengths.scan(0, |end, rows| {
        *end += rows;
        Some(*end)
    }));
    tensor.set_lod(lod.as_slice());
}

/// The rows of each sequence.
pub(super) fn ranges(offsets: &[usize]) -> impl Iterator<Item = Range<usize>> {
    offsets.windows(2).map(|pair| pair[0]..pair[1])
}
