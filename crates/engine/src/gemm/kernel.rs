//! What a processor's way to multiply is made of: the size of its tiles, and the functions that compute one and that
//! pack its operands. The loops around them are one for all, in `blocks`.
//!
//! Operands are in *words* of 32 bits along `k`: an `f32`, or two factors of 16 bits next to each other.

/// A tile of the result, and its operands.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// Words to multiply and sum up.
    pub(super) words: usize,
    /// Word `p` of row `i` is at `i * lhs_row + p * lhs_step`.
    pub(super) lhs: *const f32,
    pub(super) lhs_row: usize,
    pub(super) lhs_step: usize,
    /// Word `p` of column `j` is at `p * rhs_step + j`.
    pub(super) rhs: *const f32,
    pub(super) rhs_step: usize,
    /// Column `j` of row `i` is at `i * out_row + j`.
    pub(super) out: *mut f32,
    pub(super) out_row: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Whether the sums begin with what `out` holds.
    pub(super) add: bool,
}

/// Rows of `lhs` or columns of `rhs` that are packed together.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    /// Packed *along* `k`, term `p` of line `i` is at `i * from_step + p`; *across* it, at `p * from_step + i`.
    pub(super) from: *const f32,
    pub(super) from_step: usize,
    /// Lines to pack.
    pub(super) lines: usize,
    /// Terms of a line.
    pub(super) terms: usize,
    /// Words to write of each line: those of its terms, then zeros.
    pub(super) words: usize,
    pub(super) to: *mut f32,
    /// From one word of a line to the next, or from one line to the next, as the kernel lays them.
    pub(super) to_step: usize,
}

/// Computes a tile of as many rows and columns as it was made for.
pub(super) type Multiply = unsafe fn(&Tile);
/// Packs a strip.
pub(super) type Pack = unsafe fn(&Strip);

/// How tiles lie in packed memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// Word by word: word `p` of all lines, then word `p + 1`.
    Interleaved,
    /// Line by line.
    Whole,
}

/// A way to multiply matrices, by name; see [`kernels`](super::kernels).
pub struct Kernel {
    pub(super) name: &'static str,
    /// Whether this processor has its instructions.
    pub(super) is_here: fn() -> bool,
    /// Terms in a word.
    pub(super) terms: usize,
    /// Words that it takes at once along `k`.
    pub(super) words: usize,
    /// Most rows of a tile.
    pub(super) rows: usize,
    /// Rows that take the same time as one does.
    pub(super) row_unit: usize,
    /// Columns in a vector.
    pub(super) lanes: usize,
    /// Most vectors in a row of a tile.
    pub(super) vectors: usize,
    /// Most terms of a block: what of `rhs` is packed at once stays in the second cache, and a tile's rows of `lhs`
    /// in the first.
    pub(super) block_terms: usize,
    /// Most columns of a block.
    pub(super) block_columns: usize,
    /// Tiles whose rows of `lhs` are packed at a time.
    pub(super) block_tiles: usize,
    /// The function for so many rows and vectors.
    pub(super) tile: fn(rows: usize, vectors: usize) -> Multiply,
    /// Packs rows of `lhs` that lie along `k`; none where they are used as they lie.
    pub(super) lhs_along: Option<(Lines, Pack)>,
    /// Packs rows of `lhs` that lie across `k`.
    pub(super) lhs_across: (Lines, Pack),
    /// Packs columns of `rhs` that lie along `k`, interleaved.
    pub(super) rhs_along: Pack,
    /// Packs columns of `rhs` that lie across `k`, interleaved.
    pub(super) rhs_across: Pack,
    /// What is done before and after the tiles of a product.
    pub(super) guard: Option<Guard>,
}

/// What makes a thread ready for tiles, and ends that.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    pub(super) enter: fn(),
    pub(super) leave: fn(),
}

/// A thread that is ready for tiles of a kernel, until it is dropped.
pub(super) struct Ready(Option<Guard>);

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(guard) = self.0 {
            (guard.leave)();
        }
    }
}

impl Kernel {
    /// Its name: instructions, and the type of the factors where that is not `f32`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether this processor has its instructions.
    pub fn is_here(&self) -> bool {
        (self.is_here)()
    }

    /// Whether it rounds factors to 16 bits.
    pub fn is_half(&self) -> bool {
        self.terms == 2
    }

    /// Makes this thread ready for tiles.
    pub(super) fn ready(&self) -> Ready {
        if let Some(guard) = self.guard {
            (guard.enter)();
        }
        Ready(self.guard)
    }

    /// Columns of a packed panel.
    pub(super) fn panel(&self) -> usize {
        self.lanes * self.vectors
    }

    /// Words of a block of so many terms.
    pub(super) fn words_of(&self, terms: usize) -> usize {
        terms.div_ceil(self.terms).next_multiple_of(self.words)
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
