//! Positions that an integer tensor names, checked once before anything is moved by them.

use crate::ops::prelude::*;

/// Replaces `positions` by the elements of `index`, each of which must lie below `bound`.
pub(super) fn read(positions: &mut Vec<usize>, index: &Tensor, bound: usize) -> Result<()> {
    positions.clear();
    match index.dtype() {
        DType::I32 => extend(positions, index.as_slice::<i32>()?, bound, i64::from),
        DType::I64 => extend(positions, index.as_slice::<i64>()?, bound, |value| value),
        other => Err(Error::kernel(format!("indices are int32 or int64, not {other}"))),
    }
}

fn extend<T: Copy>(
    positions: &mut Vec<usize>,
    values: &[T],
    bound: usize,
    widen: impl Fn(T) -> i64,
) -> Result<()> {
    // A negative number becomes a huge one, so one comparison checks both ends.
    positions.extend(values.iter().map(|value| widen(*value) as usize));
    match positions.iter().position(|position| *position >= bound) {
        Some(at) => Err(outside(widen(values[at]), bound)),
        None => Ok(()),
    }
}

/// The error for an index outside `0..bound`.
pub(super) fn outside(index: i64, bound: usize) -> Error {
    Error::kernel(format!("index {index} lies outside 0..{bound}"))
}

/// The number of indices in a list that may be written as a column, or -1.
pub(super) fn count(index: &Meta) -> Result<i64> {
    match index.dims.as_slice() {
        [] => Ok(1),
        [count] | [count, 1] => Ok(*count),
        dims => Err(Error::kernel(format!("indices are a list or a column, not {dims:?}"))),
    }
}
