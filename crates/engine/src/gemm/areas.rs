//! Large products on several threads: operands are packed once, by all of them, and then each computes areas of the
//! result. Bits do not depend on how it is split.

#![expect(unsafe_code, reason = "threads write areas of one result, and pack parts of one operand")]

use std::ops::Range;

use super::blocks::{self, Area, Lhs, Out, Rhs, Span, Tiles};
use super::buffer::{self, Buffer, Buffers};
use super::kernel::Kernel;
use super::packing::{self, PackedRows};
use super::{Order, Product, Side};
use crate::crew;
use crate::prefetch::prefetch_to_write;

/// Multiplications that are worth a task: some tens of microseconds.
const LEAST: usize = 1 << 21;
/// Areas for each thread, so that none waits long for the last.
const EACH: usize = 3;
/// Words to pack that are worth a task.
const WORDS: usize = 1 << 14;

/// Computes a product with a kernel of this processor, by all threads that may take part.
///
/// # Safety
/// As for [`blocks::run`].
pub(super) unsafe fn run(kernel: &Kernel, product: Product<'_, f32>) {
    let Product { m, n, k, lhs, rhs, packed, .. } = product;
    let out = Out(product.out.as_mut_ptr());
    let tiles = Tiles::of(kernel, m);
    let hands = crew::hands_now();
    let work = m.saturating_mul(n).saturating_mul(k);
    let tasks = if hands == 1 { 1 } else { (work / LEAST).clamp(1, hands * EACH) };
    let given = if packed { Rhs::Packed(rhs.data) } else { Rhs::Plain(rhs) };
    if tasks == 1 {
        let area = Area { tiles: 0..tiles.count(), columns: Span { at: 0, len: n } };
        let operands = (&Lhs::Plain(lhs), &given);
        // SAFETY: the caller's promise.
        buffer::with(|buffers| unsafe {
            blocks::run(kernel, &product, operands, (out, area), buffers);
        });
        return;
    }
    let run = |shared: &mut Buffers| {
        // As for one thread: where each number is used but once, packing does not pay.
        let is_narrow = lhs.order == Order::Transposed && kernel.terms == 1 && n <= kernel.panel();
        let rows = PackedRows::of(kernel, lhs.order).filter(|_| !is_narrow);
        let columns = (!packed).then_some(rhs);
        // SAFETY: the caller's promise.
        unsafe {
            pack(kernel, [m, n, k], (lhs, rows, &mut shared.lhs), (columns, &mut shared.rhs))
        };
        let lhs = rows.map_or(Lhs::Plain(lhs), |rows| Lhs::Packed(rows, &shared.lhs));
        let rhs = if packed { given } else { Rhs::Packed(shared.rhs.as_slice()) };
        let (down, across) = grid(kernel, [m, n], tasks);
        let compute = |task: usize| {
            let tiles = part(tiles.count(), down, task / across);
            let panels = part(n.div_ceil(kernel.panel()), across, task % across);
            let (first, end) = (panels.start * kernel.panel(), panels.end * kernel.panel());
            let columns = Span { at: first, len: end.min(n) - first };
            // SAFETY: the caller's promise; areas of a grid do not overlap.
            buffer::with(|buffers| unsafe {
                let area = Area { tiles, columns };
                blocks::run(kernel, &product, (&lhs, &rhs), (out, area), buffers);
            });
        };
        crew::share_out_near(down * across, &compute, &|| ());
    };
    crew::with_hands(hands, || buffer::with_shared(run));
}

/// A right operand of `k` rows and `n` columns, and where it is to be packed.
pub struct Packing<'a> {
    pub(super) sizes: [usize; 2],
    pub(super) rhs: Side<'a, f32>,
    pub(super) half: bool,
    pub(super) to: Out,
}

impl std::fmt::Debug for Packing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packing{:?}", self.sizes)
    }
}

/// Packs right operands, by all threads that may take part.
///
/// # Safety
/// The processor has the kernel's instructions, each `rhs` is as long as its sizes say, and where it goes there is room.
pub(super) unsafe fn pack_each(kernel: &Kernel, all: &[Option<Packing<'_>>]) {
    let all = || all.iter().flatten();
    let tasks = all().map(|one| one.panels(kernel).count()).sum();
    let pack = |task: usize| {
        let mut task = task;
        for one in all() {
            let panels = one.panels(kernel);
            match task.checked_sub(panels.count()) {
                Some(rest) => task = rest,
                // SAFETY: the caller's promise.
                None => return unsafe { panels.pack(task, one.to) },
            }
        }
    };
    crew::share_out_near(tasks, &pack, &|| ());
}

impl<'a> Packing<'a> {
    fn panels(&self, kernel: &'a Kernel) -> Panels<'a> {
        Panels { kernel, sizes: self.sizes, rhs: self.rhs }
    }
}

/// Packs what is to be packed of both operands.
///
/// # Safety
/// As for [`blocks::run`].
unsafe fn pack(
    kernel: &Kernel,
    [m, n, k]: [usize; 3],
    (lhs, packing, rows): (Side<'_, f32>, Option<PackedRows>, &mut Buffer),
    (rhs, columns): (Option<Side<'_, f32>>, &mut Buffer),
) {
    let tiles = Tiles::of(kernel, m);
    let rows = packing.map(|packing| {
        let room = Out(rows.room(packing.all_words(kernel, k, tiles.count())));
        (TileRows { kernel, sizes: [m, k], lhs, packing, tiles }, room)
    });
    let columns = rhs.map(|rhs| {
        let room = Out(columns.room(packing::all_columns_words(kernel, [k, n])));
        (Panels { kernel, sizes: [k, n], rhs }, room)
    });
    let of_rows = rows.as_ref().map_or(0, |(rows, _)| rows.count());
    let of_columns = columns.as_ref().map_or(0, |(columns, _)| columns.count());
    crew::share_out(of_rows + of_columns, &|task| {
        // SAFETY: the caller's promise, and there is room for all.
        unsafe {
            match (&rows, &columns) {
                (Some((rows, to)), _) if task < of_rows => rows.pack(task, *to),
                (_, Some((columns, to))) => columns.pack(task - of_rows, *to),
                _ => unreachable!("tasks are those of either"),
            }
        }
    });
}

/// Some numbers of `len`, cut into `parts` that differ by one at most.
fn part(len: usize, parts: usize, at: usize) -> Range<usize> {
    len * at / parts..len * (at + 1) / parts
}

/// A right operand to pack: a task is some panels of a block of terms.
struct Panels<'a> {
    kernel: &'a Kernel,
    sizes: [usize; 2],
    rhs: Side<'a, f32>,
}

impl Panels<'_> {
    /// Panels of a task.
    fn at_once(&self) -> usize {
        (WORDS / (self.kernel.panel() * self.kernel.block_terms)).max(1)
    }

    fn groups(&self) -> usize {
        self.sizes[1].div_ceil(self.kernel.panel()).div_ceil(self.at_once())
    }

    fn count(&self) -> usize {
        packing::terms(self.kernel, self.sizes[0]).count() * self.groups()
    }

    /// # Safety
    /// As for [`packing::pack_columns`]; `to` has room for all.
    unsafe fn pack(&self, task: usize, to: Out) {
        let Panels { kernel, sizes: [k, n], rhs } = *self;
        let terms = packing::terms(kernel, k).nth(task / self.groups());
        let Some(terms) = terms else { return };
        let most = self.at_once() * kernel.panel();
        let at = task % self.groups() * most;
        let columns = Span { at, len: most.min(n - at) };
        // SAFETY: the caller's promise; every task has a place of its own.
        unsafe {
            let to = to.0.add(packing::columns_at(kernel, [k, n], at, terms));
            // In the step before, every thread has read what was there.
            prefetch_to_write(to, packing::columns_words(kernel, columns.len, terms));
            packing::pack_columns(kernel, rhs, [k, n], (columns, terms), to);
        }
    }
}

/// A left operand to pack: a task is some tiles of a block of terms.
struct TileRows<'a> {
    kernel: &'a Kernel,
    sizes: [usize; 2],
    lhs: Side<'a, f32>,
    packing: PackedRows,
    tiles: Tiles,
}

impl TileRows<'_> {
    /// Tiles of a task.
    fn at_once(&self) -> usize {
        (WORDS / (self.kernel.rows * self.kernel.block_terms)).max(1)
    }

    fn groups(&self) -> usize {
        self.tiles.count().div_ceil(self.at_once())
    }

    fn count(&self) -> usize {
        packing::terms(self.kernel, self.sizes[1]).count() * self.groups()
    }

    /// # Safety
    /// As for [`PackedRows::pack`]; `to` has room for all.
    unsafe fn pack(&self, task: usize, to: Out) {
        let TileRows { kernel, sizes: [m, k], lhs, packing, tiles } = *self;
        let terms = packing::terms(kernel, k).nth(task / self.groups());
        let Some(terms) = terms else { return };
        let first = task % self.groups() * self.at_once();
        let numbers = first..tiles.count().min(first + self.at_once());
        // SAFETY: the caller's promise; every task has a place of its own.
        unsafe {
            let to = to.0.add(packing.at(kernel, k, tiles.count(), terms, first));
            packing.pack(kernel, lhs, [m, k], (&tiles, numbers), terms, to);
        }
    }
}

/// How many areas lie below and beside each other, at most so many: those of which the largest takes least, to compute and to
/// read its rows and columns from far away.
fn grid(kernel: &Kernel, [m, n]: [usize; 2], tasks: usize) -> (usize, usize) {
    /// Multiply-adds in the time that reading one number from far away takes.
    const READ: usize = 16;
    let (tiles, panels) = (m.div_ceil(kernel.rows).max(1), n.div_ceil(kernel.panel()).max(1));
    let down = |across: usize| (tasks / across).clamp(1, tiles);
    let largest = |across: usize| {
        let (rows, columns) = (tiles.div_ceil(down(across)), panels.div_ceil(across));
        let (rows, columns) = (rows * kernel.rows, columns * kernel.panel());
        rows * columns + READ * (rows + columns)
    };
    let across = (1..=tasks.min(panels)).min_by_key(|across| largest(*across)).unwrap_or(1);
    (down(across), across)
}

#[cfg(test)]
mod tests {
    use super::super::{Order, gemm, kernels};
    use super::*;

    #[test]
    fn areas_are_as_square_as_may_be() {
        let Some(kernel) = kernels().first() else { return };
        assert_eq!(grid(kernel, [4096, 4096], 16), (4, 4));
        assert_eq!(grid(kernel, [1 << 20, 32], 8), (8, 1));
        assert_eq!(grid(kernel, [1 << 20, 512], 8), (8, 1));
        assert_eq!(grid(kernel, [3, 5], 16), (1, 1));
    }

    #[test]
    fn products_of_several_threads_have_the_same_bits() {
        let fill = |len: usize| (0..len).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.01).collect();
        for (m, n, k) in [(429, 512, 256), (300, 31, 700), (37, 1000, 129), (512, 16, 1500)] {
            let (lhs, rhs): (Vec<f32>, Vec<f32>) = (fill(m * k), fill(k * n));
            for (x, y) in [
                (Order::Plain, Order::Plain),
                (Order::Transposed, Order::Plain),
                (Order::Plain, Order::Transposed),
            ] {
                let product = |half: bool| {
                    let mut out = vec![0.0f32; m * n];
                    let product = Product::new([m, n, k], &mut out, (&lhs, x), (&rhs, y));
                    <f32 as super::super::Matrix>::multiply(product.half(half));
                    out
                };
                let mut alone = vec![0.0f32; m * n];
                gemm(m, n, k, &mut alone, &lhs, x, &rhs, y);
                for half in [false, true] {
                    let (one, four) = (product(half), crew::with_threads(4, || product(half)));
                    assert_eq!(one, four, "{m} {n} {k} {x:?} {y:?} {half}");
                    assert!(half || one == alone);
                }
            }
        }
    }
}
