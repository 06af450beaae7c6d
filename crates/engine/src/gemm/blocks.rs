//! The loops around tiles: blocks of columns, of terms and of rows, so that what is packed once is used from caches.
//!
//! Every element of the result is one chain of sums over `k`, from the first term to the last, whatever the blocks and
//! the rows and columns that are computed together: a product's bits do not depend on how it is split.

#![expect(unsafe_code, reason = "kernels take pointers; every one is made of checked sizes")]

use super::buffer::{Buffer, Buffers};
use super::kernel::{Kernel, Lines, Strip, Tile};
use super::{Order, Product, Side};
use crate::prefetch::prefetch_at;

/// Terms that are packed strip by strip, while the rows of memory that they lie in are at hand.
const TERMS_AT_ONCE: usize = 16;
/// Words between packed strips, which would otherwise lie a power of two apart and push each other out of caches.
const GAP: usize = 16;
/// Tiles of rows that share a panel of `rhs`, at most, where it is not worth packing.
const TILES_UNPACKED: usize = 2;

/// A run of columns, terms or rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: usize,
    pub(super) len: usize,
}

/// The part of a result that is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) rows: Span,
    /// They begin with a panel; all of them, where `rhs` was packed before.
    pub(super) columns: Span,
}

/// A result, of which several threads write areas of their own.
#[derive(Clone, Copy)]
pub(super) struct Out(pub(super) *mut f32);

// SAFETY: who shares one out promises that areas do not overlap.
unsafe impl Send for Out {}
// SAFETY: as above.
unsafe impl Sync for Out {}

/// Cuts `len` into runs of at most `most`, a multiple of `unit`, of about the same length.
fn spans(len: usize, most: usize, unit: usize) -> impl Iterator<Item = Span> + Clone {
    let count = len.div_ceil(most).max(1);
    let each = len.div_ceil(count).next_multiple_of(unit).max(1);
    (0..len).step_by(each).map(move |at| Span { at, len: each.min(len - at) })
}

/// Where columns of `rhs` are for tiles to use.
#[derive(Clone, Copy)]
struct Panels {
    first: *const f32,
    /// From one panel to the next.
    stride: usize,
    /// From one word to the next; none for that of packed panels, which is their width.
    step: Option<usize>,
}

/// Where rows of `lhs` are for tiles to use.
#[derive(Clone, Copy)]
struct Rows {
    first: *const f32,
    /// From one tile to the next, where tiles are packed.
    stride: Option<usize>,
    row: usize,
    step: usize,
}

/// `rhs` as [`run`] finds it.
pub(super) enum Rhs<'a> {
    /// To be packed as it is used.
    Plain(Side<'a, f32>),
    /// Packed before, by [`pack`].
    Packed(&'a Buffer),
}

/// Computes an area of a product with a kernel of this processor, into `out`, which is that of the product.
///
/// # Safety
/// The processor has the kernel's instructions, and the operands are as long as the sizes say; a packed one was packed
/// for these sizes by this kernel. The area lies in the product, and nobody else touches it in `out`.
pub(super) unsafe fn run(
    kernel: &Kernel,
    product: &Product<'_, f32>,
    rhs: &Rhs<'_>,
    (out, area): (Out, Area),
    buffers: &mut Buffers,
) {
    let Product { m, n, k, add, lhs, .. } = *product;
    let rows_at_once = kernel.rows * kernel.block_tiles;
    let mut packed_at = 0;
    let _ready = kernel.ready();
    for columns in columns(kernel, area.columns.len) {
        let columns = Span { at: area.columns.at + columns.at, len: columns.len };
        for terms in terms(kernel, k) {
            let panels = match rhs {
                Rhs::Plain(rhs) if uses_as_it_lies(kernel, area.rows.len, n, rhs.order) => {
                    let first = rhs.data[terms.at * n + columns.at..].as_ptr();
                    Panels { first, stride: kernel.panel(), step: Some(n) }
                }
                Rhs::Plain(rhs) => {
                    let room = buffers.rhs.room(block_words(kernel, columns, terms));
                    // SAFETY: the caller's promise, and there is room.
                    unsafe { pack_block(kernel, *rhs, [k, n], columns, terms, room) };
                    packed_panels(kernel, terms, room)
                }
                Rhs::Packed(buffer) => {
                    let len = block_words(kernel, columns, terms);
                    assert!(packed_at + len <= buffer.len(), "an operand packed for other sizes");
                    // SAFETY: within the buffer, as just checked.
                    let first = unsafe { buffer.words().add(packed_at) };
                    packed_at += len;
                    packed_panels(kernel, terms, first)
                }
            };
            for rows in spans(area.rows.len, rows_at_once, kernel.rows) {
                let rows = Span { at: area.rows.at + rows.at, len: rows.len };
                let block = Block { kernel, columns, terms, rows, sizes: [m, n, k] };
                // SAFETY: the caller's promise.
                unsafe {
                    let lhs = block.lhs(lhs, &mut buffers.lhs);
                    block.multiply(lhs, panels, out.0, add || terms.at > 0);
                }
            }
        }
    }
}

/// Packs all of a `rhs` of `k` rows and `n` columns for [`run`].
///
/// # Safety
/// As for [`run`].
pub(super) unsafe fn pack(
    kernel: &Kernel,
    rhs: Side<'_, f32>,
    [k, n]: [usize; 2],
    to: &mut Buffer,
) {
    let blocks = || columns(kernel, n).flat_map(move |c| terms(kernel, k).map(move |t| (c, t)));
    let room = to.room(blocks().map(|(c, t)| block_words(kernel, c, t)).sum());
    let mut at = 0;
    for (columns, terms) in blocks() {
        // SAFETY: the caller's promise, and there is room for all blocks.
        unsafe { pack_block(kernel, rhs, [k, n], columns, terms, room.add(at)) };
        at += block_words(kernel, columns, terms);
    }
}

fn columns(kernel: &Kernel, n: usize) -> impl Iterator<Item = Span> + Clone {
    spans(n, kernel.block_columns, kernel.panel())
}

fn terms(kernel: &Kernel, k: usize) -> impl Iterator<Item = Span> + Clone {
    spans(k, kernel.block_terms, kernel.terms * kernel.words)
}

/// Whether tiles read `rhs` where it lies: where each number is used but once or twice.
fn uses_as_it_lies(kernel: &Kernel, m: usize, n: usize, order: Order) -> bool {
    // Tiles read whole vectors of it.
    let is_whole = n.is_multiple_of(kernel.lanes);
    kernel.terms == 1 && is_whole && order == Order::Plain && m <= kernel.rows * TILES_UNPACKED
}

fn panel_stride(kernel: &Kernel, terms: Span) -> usize {
    kernel.words_of(terms.len) * kernel.panel() + GAP
}

fn block_words(kernel: &Kernel, columns: Span, terms: Span) -> usize {
    columns.len.div_ceil(kernel.panel()) * panel_stride(kernel, terms)
}

fn packed_panels(kernel: &Kernel, terms: Span, first: *const f32) -> Panels {
    Panels { first, stride: panel_stride(kernel, terms), step: None }
}

/// The width of a packed panel that holds so many columns: whole vectors.
fn panel_width(kernel: &Kernel, columns: usize) -> usize {
    columns.min(kernel.panel()).next_multiple_of(kernel.lanes)
}

/// # Safety
/// As for [`run`], and `to` has room for the block.
unsafe fn pack_block(
    kernel: &Kernel,
    rhs: Side<'_, f32>,
    [k, n]: [usize; 2],
    columns: Span,
    terms: Span,
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

/// Some rows and columns of the result, and some of the terms.
struct Block<'a> {
    kernel: &'a Kernel,
    columns: Span,
    terms: Span,
    rows: Span,
    /// Of the whole product: m, n, k.
    sizes: [usize; 3],
}

impl Block<'_> {
    /// Its tiles by rows: all of about the same height, since a low one at the end would be slow.
    fn tiles(&self) -> impl Iterator<Item = Span> + Clone {
        let (len, unit) = (self.rows.len, self.kernel.row_unit);
        let (count, units) = (len.div_ceil(self.kernel.rows).max(1), len.div_ceil(unit));
        let (each, more) = (units / count, units % count);
        (0..count).map(move |tile| {
            let at = (tile * each + tile.min(more)) * unit;
            let height = (each + usize::from(tile < more)) * unit;
            Span { at, len: height.min(len - at) }
        })
    }

    /// The rows of `lhs`, packed where the kernel needs that.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn lhs(&self, lhs: Side<'_, f32>, buffer: &mut Buffer) -> Rows {
        let [m, _, k] = self.sizes;
        let Block { kernel, columns, terms, rows, .. } = *self;
        let ((lines, pack), from_step, at_once) = match (lhs.order, kernel.lhs_along) {
            (Order::Plain, None) => {
                let first = lhs.data[rows.at * k + terms.at..].as_ptr();
                return Rows { first, stride: None, row: k, step: 1 };
            }
            // Each number is used but once.
            (Order::Transposed, _) if kernel.terms == 1 && columns.len <= kernel.panel() => {
                let first = lhs.data[terms.at * m + rows.at..].as_ptr();
                return Rows { first, stride: None, row: 1, step: m };
            }
            (Order::Plain, Some(along)) => (along, k, terms.len),
            (Order::Transposed, _) => (kernel.lhs_across, m, TERMS_AT_ONCE * kernel.terms),
        };
        let words = kernel.words_of(terms.len);
        let (row, step, tile_words) = match lines {
            Lines::Interleaved => {
                let step = kernel.rows.next_multiple_of(kernel.lanes);
                (1, step, words * step)
            }
            Lines::Whole => (words, 1, kernel.rows * words),
        };
        let stride = tile_words + GAP;
        let to = buffer.room(self.tiles().count() * stride);
        for some in spans(terms.len, at_once, kernel.terms * kernel.words) {
            let is_last = some.at + some.len == terms.len;
            let word = some.at / kernel.terms;
            for (number, tile) in self.tiles().enumerate() {
                let (term, row_at) = (terms.at + some.at, rows.at + tile.at);
                let from = match lhs.order {
                    Order::Plain => row_at * k + term,
                    Order::Transposed => term * m + row_at,
                };
                // SAFETY: the caller's promise, and there is room.
                unsafe {
                    pack(&Strip {
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
        Rows { first: to, stride: Some(stride), row, step }
    }

    /// # Safety
    /// As for [`run`]; `lhs`, `panels` and `out` are those of the block.
    unsafe fn multiply(&self, lhs: Rows, panels: Panels, out: *mut f32, add: bool) {
        let Block { kernel, columns, terms, rows, sizes: [_, n, _] } = *self;
        let words = kernel.words_of(terms.len);
        let count = columns.len.div_ceil(kernel.panel());
        for (number, tile) in self.tiles().enumerate() {
            for (panel, first) in (0..columns.len).step_by(kernel.panel()).enumerate() {
                let width = (columns.len - first).min(kernel.panel());
                let multiply = (kernel.tile)(tile.len, width.div_ceil(kernel.lanes));
                let to = (rows.at + tile.at) * n + columns.at + first;
                if add && panel + 1 < count {
                    // What the next tile adds to is far away by now.
                    for row in 0..tile.len {
                        let next = out.wrapping_add(to + row * n + kernel.panel());
                        (0..kernel.vectors)
                            .for_each(|v| prefetch_at(next.wrapping_add(v * kernel.lanes)));
                    }
                }
                // SAFETY: the caller's promise.
                unsafe {
                    multiply(&Tile {
                        words,
                        lhs: lhs.first.add(lhs.stride.map_or(tile.at * lhs.row, |s| number * s)),
                        lhs_row: lhs.row,
                        lhs_step: lhs.step,
                        rhs: panels.first.add(panel * panels.stride),
                        rhs_step: panels.step.unwrap_or_else(|| panel_width(kernel, width)),
                        out: out.add(to),
                        out_row: n,
                        rows: tile.len,
                        columns: width,
                        add,
                    });
                }
            }
        }
    }
}
