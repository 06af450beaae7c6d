//! How operands lie when they are packed: terms block by block; within a block, `rhs` panel by panel of columns and
//! `lhs` tile by tile of rows. So whatever is packed at once, every panel and tile has its place by number alone.

#![expect(unsafe_code, reason = "kernels take pointers; every one is made of checked sizes")]

use std::ops::Range;

use super::blocks::{Span, Tiles, spans};
use super::kernel::{Kernel, Lines, Pack, Strip};
use super::{Order, Side};

/// Terms that are packed strip by strip, while the rows of memory that they lie in are at hand.
const TERMS_AT_ONCE: usize = 16;
/// Words between packed strips, which would otherwise lie a power of two apart and push each other out of caches.
const GAP: usize = 16;

/// Where columns of `rhs` are for tiles to use.
#[derive(Clone, Copy)]
pub(super) struct Panels {
    pub(super) first: *const f32,
    /// From one panel to the next.
    pub(super) stride: usize,
    /// From one word to the next; none for that of packed panels, which is their width.
    pub(super) step: Option<usize>,
}

impl Panels {
    /// Packed ones.
    pub(super) fn packed(kernel: &Kernel, terms: Span, first: *const f32) -> Panels {
        Panels { first, stride: panel_stride(kernel, terms), step: None }
    }
}

/// Where rows of `lhs` are for tiles to use.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) first: *const f32,
    /// From one tile to the next, where tiles are packed.
    pub(super) stride: Option<usize>,
    pub(super) row: usize,
    pub(super) step: usize,
}

/// The blocks of terms.
pub(super) fn terms(kernel: &Kernel, k: usize) -> impl Iterator<Item = Span> + Clone {
    spans(k, kernel.block_terms, kernel.terms * kernel.words)
}

/// Those before one.
fn terms_before(kernel: &Kernel, k: usize, this: Span) -> impl Iterator<Item = Span> {
    terms(kernel, k).take_while(move |terms| terms.at < this.at)
}

fn panel_stride(kernel: &Kernel, terms: Span) -> usize {
    kernel.words_of(terms.len) * kernel.panel() + GAP
}

/// The width of a packed panel that holds so many columns: whole vectors.
pub(super) fn panel_width(kernel: &Kernel, columns: usize) -> usize {
    columns.min(kernel.panel()).next_multiple_of(kernel.lanes)
}

/// Words of so many packed columns of a block of terms.
pub(super) fn columns_words(kernel: &Kernel, columns: usize, terms: Span) -> usize {
    columns.div_ceil(kernel.panel()) * panel_stride(kernel, terms)
}

/// Words of a whole packed `rhs`.
pub(super) fn all_columns_words(kernel: &Kernel, [k, n]: [usize; 2]) -> usize {
    terms(kernel, k).map(|terms| columns_words(kernel, n, terms)).sum()
}

/// Where, in a whole packed `rhs`, the panel that begins with a column lies.
pub(super) fn columns_at(kernel: &Kernel, [k, n]: [usize; 2], column: usize, terms: Span) -> usize {
    let before = terms_before(kernel, k, terms).map(|terms| columns_words(kernel, n, terms));
    before.sum::<usize>() + columns_words(kernel, column, terms)
}

/// Packs a block of columns, which begin with a panel.
///
/// # Safety
/// The processor has the kernel's instructions, `rhs` has `k` rows and `n` columns, and `to` has room for the block.
pub(super) unsafe fn pack_columns(
    kernel: &Kernel,
    rhs: Side<'_, f32>,
    [k, n]: [usize; 2],
    (columns, terms): (Span, Span),
    to: *mut f32,
) {
    let stride = panel_stride(kernel, terms);
    let (from_step, pack, at_once) = match rhs.order {
        // Rows of memory are read whole, not a panel's part of each.
        Order::Plain => (n, kernel.rhs_across, TERMS_AT_ONCE * kernel.terms),
        Order::Transposed => (k, kernel.rhs_along, terms.len),
    };
    for some in spans(terms.len, at_once, kernel.terms * kernel.words) {
        let is_last = some.at + some.len == terms.len;
        for (number, first) in (0..columns.len).step_by(kernel.panel()).enumerate() {
            let lines = (columns.len - first).min(kernel.panel());
            let (term, column) = (terms.at + some.at, columns.at + first);
            let from = match rhs.order {
                Order::Plain => term * n + column,
                Order::Transposed => column * k + term,
            };
            let width = panel_width(kernel, lines);
            let word = some.at / kernel.terms;
            // SAFETY: the caller's promise.
            unsafe {
                pack(&Strip {
                    from: rhs.data.as_ptr().add(from),
                    from_step,
                    lines,
                    terms: some.len,
                    words: if is_last {
                        kernel.words_of(terms.len) - word
                    } else {
                        some.len / kernel.terms
                    },
                    to: to.add(number * stride + word * width),
                    to_step: width,
                });
            }
        }
    }
}

/// How rows of `lhs` are packed.
#[derive(Clone, Copy)]
pub(super) struct PackedRows {
    lines: Lines,
    pack: Pack,
    order: Order,
}

impl PackedRows {
    /// That of rows that lie so; none where the kernel uses them as they lie.
    pub(super) fn of(kernel: &Kernel, order: Order) -> Option<PackedRows> {
        let (lines, pack) = match order {
            Order::Plain => kernel.lhs_along?,
            Order::Transposed => kernel.lhs_across,
        };
        Some(PackedRows { lines, pack, order })
    }

    /// Words from one row and from one word to the next, and in a tile.
    fn steps(&self, kernel: &Kernel, terms: Span) -> (usize, usize, usize) {
        let words = kernel.words_of(terms.len);
        match self.lines {
            Lines::Interleaved => {
                let step = kernel.rows.next_multiple_of(kernel.lanes);
                (1, step, words * step)
            }
            Lines::Whole => (words, 1, kernel.rows * words),
        }
    }

    /// Words from one tile to the next.
    pub(super) fn stride(&self, kernel: &Kernel, terms: Span) -> usize {
        self.steps(kernel, terms).2 + GAP
    }

    /// Words of all rows.
    pub(super) fn all_words(&self, kernel: &Kernel, k: usize, tiles: usize) -> usize {
        terms(kernel, k).map(|terms| tiles * self.stride(kernel, terms)).sum()
    }

    /// Where, among all rows, a tile lies.
    pub(super) fn at(
        &self,
        kernel: &Kernel,
        k: usize,
        tiles: usize,
        terms: Span,
        tile: usize,
    ) -> usize {
        let before = terms_before(kernel, k, terms).map(|terms| tiles * self.stride(kernel, terms));
        before.sum::<usize>() + tile * self.stride(kernel, terms)
    }

    /// Packed rows, which begin at `first`, for tiles to use.
    pub(super) fn rows(&self, kernel: &Kernel, terms: Span, first: *const f32) -> Rows {
        let (row, step, _) = self.steps(kernel, terms);
        Rows { first, stride: Some(self.stride(kernel, terms)), row, step }
    }

    /// Packs some of the tiles.
    ///
    /// # Safety
    /// The processor has the kernel's instructions, `lhs` has `m` rows and `k` columns, and `to` has room for the tiles.
    pub(super) unsafe fn pack(
        &self,
        kernel: &Kernel,
        lhs: Side<'_, f32>,
        [m, k]: [usize; 2],
        (tiles, numbers): (&Tiles, Range<usize>),
        terms: Span,
        to: *mut f32,
    ) {
        let (from_step, at_once) = match self.order {
            Order::Plain => (k, terms.len),
            Order::Transposed => (m, TERMS_AT_ONCE * kernel.terms),
        };
        let (words, stride) = (kernel.words_of(terms.len), self.stride(kernel, terms));
        let (row, step, _) = self.steps(kernel, terms);
        for some in spans(terms.len, at_once, kernel.terms * kernel.words) {
            let is_last = some.at + some.len == terms.len;
            let word = some.at / kernel.terms;
            for (number, tile) in numbers.clone().map(|number| tiles.tile(number)).enumerate() {
                let term = terms.at + some.at;
                let from = match self.order {
                    Order::Plain => tile.at * k + term,
                    Order::Transposed => term * m + tile.at,
                };
                // SAFETY: the caller's promise.
                unsafe {
                    (self.pack)(&Strip {
                        from: lhs.data.as_ptr().add(from),
                        from_step,
                        lines: tile.len,
                        terms: some.len,
                        words: if is_last { words - word } else { some.len / kernel.terms },
                        to: to.add(number * stride + word * step),
                        to_step: row.max(step),
                    });
                }
            }
        }
    }
}
