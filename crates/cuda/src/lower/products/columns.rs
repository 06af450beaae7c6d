//! Sums over the rows of a matrix, in two steps: blocks add up chunks of rows, then one kernel adds
//! up the chunks in their order, so that the bits are the same in every run.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use crate::lower::{Lowering, Outcome, host, lowering::suffix};
use crate::work::{Many, Ref};

/// Columns that a block takes at once, and the rows that it looks at together: as in `rows.cuh`.
const TILE: usize = 32;
const TILE_LANES: usize = 8;

/// Blocks that fill a large card.
const BLOCKS: usize = 1024;

/// Sums that one launch finishes at most, as in `kernels/products.cu`.
const MANY_SUMS: usize = 32;

/// How a matrix is cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chunks {
    /// Blocks side by side, and one below the other.
    pub(crate) blocks: [u32; 3],
    /// Chunks of rows.
    pub(crate) count: usize,
    /// Rows of a chunk.
    pub(crate) rows: usize,
}

impl Chunks {
    /// Cuts `rows` rows of `columns` columns, of which each thread takes `pack`. Even no rows make
    /// one chunk, whose sums are zero.
    pub(crate) fn of(rows: usize, columns: usize, pack: usize) -> Chunks {
        let tiles = columns.div_ceil(TILE * pack);
        let wanted = (BLOCKS / tiles.max(1)).clamp(1, 512);
        let per_chunk = rows.div_ceil(wanted).next_multiple_of(TILE_LANES).max(4 * TILE_LANES);
        let count = rows.div_ceil(per_chunk).max(1);
        Chunks { blocks: [tiles as u32, count as u32, 1], count, rows: per_chunk }
    }
}

/// The size of what sums of `dtype` elements are made in.
pub(crate) fn sum_size(dtype: DType) -> usize {
    dtype.size().max(4)
}

/// Where the sums of two groups of columns go, and what they are multiplied by. Sums that are not
/// wanted have no place.
pub(crate) struct Sums {
    pub(crate) first: Ref,
    /// Columns of the first group.
    pub(crate) split: usize,
    pub(crate) second: Ref,
    pub(crate) scale: f64,
}

/// Adds up `chunks` rows of `width` sums.
pub(crate) fn finish(
    l: &mut Lowering<'_>,
    dtype: DType,
    partials: Ref,
    chunks: usize,
    width: usize,
    sums: &Sums,
) -> Outcome {
    let suffix = suffix(dtype)?;
    let shape = Unfinished {
        chunks: chunks as i64,
        width: width as i64,
        split: sums.split as i64,
        scale: sums.scale,
        first_block: 0,
        unused: 0,
    };
    let many = Many {
        name: format!("finish_many_columns_{suffix}"),
        targets: 1,
        room: 1,
        most: MANY_SUMS,
        block_word: Some(std::mem::offset_of!(Unfinished, first_block) / 8),
    };
    let blocks = [width.div_ceil(TILE) as u32, 1, 1];
    let launch = l.kernel(format!("finish_columns_{suffix}"), blocks, 256).many(many);
    launch.refs([partials, sums.first, sums.second], 3).value(shape).value(1u32).launch();
    Ok(())
}

/// As in `kernels/products.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Unfinished {
    chunks: i64,
    width: i64,
    split: i64,
    scale: f64,
    first_block: u32,
    unused: u32,
}

/// A matrix whose columns are summed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) at: Ref,
    pub(crate) dtype: DType,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Elements from one row to the next.
    pub(crate) pitch: usize,
}

/// `out[column]` becomes `scale` times the sum of a column, its rows weighed by `weights` unless
/// that is null.
pub(crate) fn column_sums(
    l: &mut Lowering<'_>,
    matrix: Matrix,
    weights: Ref,
    out: Ref,
    scale: f64,
) -> Outcome {
    let Matrix { at, dtype, rows, columns, pitch } = matrix;
    let chunks = Chunks::of(rows, columns, 1);
    // A single chunk is the sum itself, where the types are the same.
    let is_done = chunks.count == 1 && scale == 1.0 && sum_size(dtype) == dtype.size();
    let partials = if is_done { out } else { l.scratch(chunks.count * columns * sum_size(dtype)) };
    let launch = l.kernel(format!("column_dot_{}", suffix(dtype)?), chunks.blocks, 256);
    let launch = launch.at(at).at(weights).at(partials).size(rows).size(columns);
    launch.size(pitch).size(chunks.rows).launch();
    if is_done {
        return Ok(());
    }
    let sums = Sums { first: out, split: columns, second: Ref::NULL, scale };
    finish(l, dtype, partials, chunks.count, columns, &sums)
}

/// `out[o, i]` becomes the sum of `x[o, ., i]` over `count` elements.
pub(crate) fn sum_middle(
    l: &mut Lowering<'_>,
    dtype: DType,
    x: Ref,
    out: Ref,
    [outer, count, inner]: [usize; 3],
) -> Outcome {
    if outer == 1 && count > 1 {
        let matrix = Matrix { at: x, dtype, rows: count, columns: inner, pitch: inner };
        return column_sums(l, matrix, Ref::NULL, out, 1.0);
    }
    if inner == 0 {
        return host();
    }
    let launch = l.over(format!("sum_middle_{}", suffix(dtype)?), outer * inner);
    launch.at(x).at(out).size(outer * inner).size(count).size(inner).launch();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_rows_and_fill_the_card() {
        for (rows, columns, pack) in [(0, 5, 1), (1, 1, 1), (16_384, 512, 4), (65_536, 33, 1)] {
            let chunks = Chunks::of(rows, columns, pack);
            assert!(chunks.count * chunks.rows >= rows, "{chunks:?}");
            assert!(rows == 0 || (chunks.count - 1) * chunks.rows < rows, "{chunks:?}");
            assert!(chunks.blocks[0] as usize * TILE * pack >= columns);
        }
        assert_eq!(Chunks::of(16_384, 512, 4).blocks, [4, 256, 1]);
    }
}
