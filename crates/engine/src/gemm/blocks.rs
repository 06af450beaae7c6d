//! The loops around tiles: blocks of columns, of terms and of rows, so that what is packed once is used from caches.
//!
//! Every element of the result is one chain of sums over `k`, from the first term to the last, whatever the blocks and
//! the rows and columns that are computed together: a product's bits do not depend on how it is split.

#![expect(unsafe_code, reason = "kernels take pointers; every one is made of checked sizes")]

use std::ops::Range;

use super::buffer::{Buffer, Buffers};
use super::kernel::{Kernel, Tile};
use super::packing::{self, PackedRows, Panels, Rows};
use super::{Order, Product, Side};
use crate::prefetch::prefetch_at;

/// Tiles of rows that share a panel of `rhs`, at most, where it is not worth packing.
const TILES_UNPACKED: usize = 2;

/// A run of columns, terms or rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: usize,
    pub(super) len: usize,
}

/// The rows of a product by tiles: all of about the same height, since a low one at the end would be slow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiles {
    rows: usize,
    unit: usize,
    count: usize,
}

impl Tiles {
    pub(super) fn of(kernel: &Kernel, rows: usize) -> Tiles {
        Tiles { rows, unit: kernel.row_unit, count: rows.div_ceil(kernel.rows) }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The rows of one tile.
    pub(super) fn tile(&self, number: usize) -> Span {
        self.span(number..number + 1)
    }

    /// The rows of some tiles.
    pub(super) fn span(&self, tiles: Range<usize>) -> Span {
        let units = self.rows.div_ceil(self.unit);
        let edge = |tile: usize| (units * tile / self.count.max(1) * self.unit).min(self.rows);
        let at = edge(tiles.start);
        Span { at, len: edge(tiles.end) - at }
    }
}

/// The part of a result that is computed.
#[derive(Clone, Debug)]
pub(super) struct Area {
    /// Tiles of rows.
    pub(super) tiles: Range<usize>,
    /// They begin with a panel.
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
pub(super) fn spans(len: usize, most: usize, unit: usize) -> impl Iterator<Item = Span> + Clone {
    let count = len.div_ceil(most).max(1);
    let each = len.div_ceil(count).next_multiple_of(unit).max(1);
    (0..len).step_by(each).map(move |at| Span { at, len: each.min(len - at) })
}

/// `lhs` as [`run`] finds it.
pub(super) enum Lhs<'a> {
    /// To be packed as it is used, where the kernel needs that.
    Plain(Side<'a, f32>),
    /// Packed before, all of it.
    Packed(PackedRows, &'a Buffer),
}

/// `rhs` as [`run`] finds it.
pub(super) enum Rhs<'a> {
    /// To be packed as it is used.
    Plain(Side<'a, f32>),
    /// Packed before, all of it.
    Packed(&'a [f32]),
}

/// Computes an area of a product with a kernel of this processor, into `out`, which is that of the product.
///
/// # Safety
/// The processor has the kernel's instructions, and the operands are as long as the sizes say; packed ones were packed
/// for these sizes by this kernel. The area lies in the product, and nobody else touches it in `out`.
pub(super) unsafe fn run(
    kernel: &Kernel,
    product: &Product<'_, f32>,
    (lhs, rhs): (&Lhs<'_>, &Rhs<'_>),
    (out, area): (Out, Area),
    buffers: &mut Buffers,
) {
    let Product { m, n, k, add, .. } = *product;
    let tiles = Tiles::of(kernel, m);
    let _ready = kernel.ready();
    for columns in spans(area.columns.len, kernel.block_columns, kernel.panel()) {
        let columns = Span { at: area.columns.at + columns.at, len: columns.len };
        for terms in packing::terms(kernel, k) {
            let panels = match rhs {
                Rhs::Plain(rhs) if uses_as_it_lies(kernel, &tiles, &area, n, rhs.order) => {
                    let first = rhs.data[terms.at * n + columns.at..].as_ptr();
                    Panels { first, stride: kernel.panel(), step: Some(n) }
                }
                Rhs::Plain(rhs) => {
                    let room = buffers.rhs.room(packing::columns_words(kernel, columns.len, terms));
                    // SAFETY: the caller's promise, and there is room.
                    unsafe { packing::pack_columns(kernel, *rhs, [k, n], (columns, terms), room) };
                    Panels::packed(kernel, terms, room)
                }
                Rhs::Packed(packed) => {
                    let at = packing::columns_at(kernel, [k, n], columns.at, terms);
                    let len = packing::columns_words(kernel, columns.len, terms);
                    Panels::packed(kernel, terms, packed[at..at + len].as_ptr())
                }
            };
            for some in spans(area.tiles.len(), kernel.block_tiles, 1) {
                let first = area.tiles.start + some.at;
                let numbers = first..first + some.len;
                let block = Block { kernel, columns, terms, tiles, numbers, n };
                // SAFETY: the caller's promise.
                unsafe {
                    let rows = block.rows(lhs, [m, k], &mut buffers.lhs);
                    block.multiply(rows, panels, out.0, add || terms.at > 0);
                }
            }
        }
    }
}

/// Whether tiles read `rhs` where it lies: where each number is used but once or twice.
fn uses_as_it_lies(kernel: &Kernel, tiles: &Tiles, area: &Area, n: usize, order: Order) -> bool {
    // Tiles read whole vectors of it.
    let is_whole = n.is_multiple_of(kernel.lanes);
    let rows = tiles.span(area.tiles.clone()).len;
    kernel.terms == 1 && is_whole && order == Order::Plain && rows <= kernel.rows * TILES_UNPACKED
}

/// Some rows and columns of the result, and some of the terms.
struct Block<'a> {
    kernel: &'a Kernel,
    columns: Span,
    terms: Span,
    /// All tiles of the product, and which of them these are.
    tiles: Tiles,
    numbers: Range<usize>,
    /// Columns of the whole product.
    n: usize,
}

impl Block<'_> {
    /// The rows of `lhs`, packed where the kernel needs that.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn rows(&self, lhs: &Lhs<'_>, [m, k]: [usize; 2], buffer: &mut Buffer) -> Rows {
        let Block { kernel, columns, terms, tiles, ref numbers, .. } = *self;
        let lhs = match lhs {
            Lhs::Plain(lhs) => lhs,
            Lhs::Packed(packing, packed) => {
                let at = packing.at(kernel, k, tiles.count(), terms, numbers.start);
                assert!(at < packed.len(), "an operand packed for other sizes");
                // SAFETY: within the buffer, as just checked.
                return packing.rows(kernel, terms, unsafe { packed.words().add(at) });
            }
        };
        let rows = tiles.span(numbers.clone());
        // Each number is used but once.
        let is_narrow = kernel.terms == 1 && columns.len <= kernel.panel();
        match (PackedRows::of(kernel, lhs.order), lhs.order) {
            (None, _) => {
                let first = lhs.data[rows.at * k + terms.at..].as_ptr();
                Rows { first, stride: None, row: k, step: 1 }
            }
            (Some(_), Order::Transposed) if is_narrow => {
                let first = lhs.data[terms.at * m + rows.at..].as_ptr();
                Rows { first, stride: None, row: 1, step: m }
            }
            (Some(packing), _) => {
                let to = buffer.room(numbers.len() * packing.stride(kernel, terms));
                // SAFETY: the caller's promise, and there is room.
                unsafe {
                    packing.pack(kernel, *lhs, [m, k], (&tiles, numbers.clone()), terms, to);
                }
                packing.rows(kernel, terms, to)
            }
        }
    }

    /// # Safety
    /// As for [`run`]; `rows`, `panels` and `out` are those of the block.
    unsafe fn multiply(&self, rows: Rows, panels: Panels, out: *mut f32, add: bool) {
        let Block { kernel, columns, terms, tiles, ref numbers, n } = *self;
        let words = kernel.words_of(terms.len);
        let count = columns.len.div_ceil(kernel.panel());
        let top = tiles.span(numbers.clone()).at;
        for (number, tile) in numbers.clone().map(|number| tiles.tile(number)).enumerate() {
            for (panel, first) in (0..columns.len).step_by(kernel.panel()).enumerate() {
                let width = (columns.len - first).min(kernel.panel());
                let multiply = (kernel.tile)(tile.len, width.div_ceil(kernel.lanes));
                let to = tile.at * n + columns.at + first;
                if add && panel + 1 < count {
                    // What the next tile adds to is far away by now.
                    for row in 0..tile.len {
                        let next = out.wrapping_add(to + row * n + kernel.panel());
                        (0..kernel.vectors)
                            .for_each(|v| prefetch_at(next.wrapping_add(v * kernel.lanes)));
                    }
                }
                let from = rows.stride.map_or((tile.at - top) * rows.row, |stride| number * stride);
                // SAFETY: the caller's promise.
                unsafe {
                    multiply(&Tile {
                        words,
                        lhs: rows.first.add(from),
                        lhs_row: rows.row,
                        lhs_step: rows.step,
                        rhs: panels.first.add(panel * panels.stride),
                        rhs_step: panels
                            .step
                            .unwrap_or_else(|| packing::panel_width(kernel, width)),
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
