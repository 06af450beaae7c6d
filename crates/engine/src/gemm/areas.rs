//! Large products on several threads: each computes areas of the result. Bits do not depend on how it is split.

#![expect(unsafe_code, reason = "threads write areas of one result")]

use super::Product;
use super::blocks::{self, Area, Out, Rhs, Span};
use super::buffer;
use super::kernel::Kernel;
use crate::crew;

/// Multiplications that are worth a task: some tens of microseconds.
const LEAST: usize = 1 << 21;

/// Computes a product with a kernel of this processor, by all threads that may take part.
///
/// # Safety
/// As for [`blocks::run`].
pub(super) unsafe fn run(kernel: &Kernel, product: Product<'_, f32>, rhs: &Rhs<'_>) {
    let Product { m, n, k, .. } = product;
    let out = Out(product.out.as_mut_ptr());
    let tasks = crew::blocks(m.saturating_mul(n).saturating_mul(k), LEAST);
    // What was packed before is read from its beginning.
    let across = if matches!(rhs, Rhs::Packed(_)) { 1 } else { tasks };
    let (down, across) = grid(kernel, [m, n], tasks, across);
    let part = |len: usize, unit: usize, parts: usize, at: usize| {
        let units = len.div_ceil(unit);
        let edge = |at: usize| len.min(units * at / parts * unit);
        Span { at: edge(at), len: edge(at + 1) - edge(at) }
    };
    let compute = |task: usize| {
        let rows = part(m, kernel.rows, down, task / across);
        let columns = part(n, kernel.panel(), across, task % across);
        let area = Area { rows, columns };
        if rows.len == 0 || columns.len == 0 {
            return;
        }
        // SAFETY: the caller's promise; areas of a grid do not overlap.
        buffer::with(|buffers| unsafe {
            blocks::run(kernel, &product, rhs, (out, area), buffers);
        });
    };
    crew::share_out(down * across, &compute);
}

/// How many areas lie below and beside each other: as square as may be, for each packs its rows and columns itself.
fn grid(kernel: &Kernel, [m, n]: [usize; 2], tasks: usize, most_across: usize) -> (usize, usize) {
    let (rows, panels) = (m.div_ceil(kernel.rows).max(1), n.div_ceil(kernel.panel()).max(1));
    let packed = |across: usize| {
        let down = (tasks / across).min(rows);
        m.div_ceil(down) + n.div_ceil(across)
    };
    let across = (1..=tasks.min(most_across).min(panels)).min_by_key(|across| packed(*across));
    let across = across.unwrap_or(1);
    ((tasks / across).clamp(1, rows), across)
}

#[cfg(test)]
mod tests {
    use super::super::{Order, gemm, kernels};
    use super::*;

    #[test]
    fn areas_are_as_square_as_may_be() {
        let Some(kernel) = kernels().first() else { return };
        assert_eq!(grid(kernel, [4096, 4096], 16, 16), (4, 4));
        assert_eq!(grid(kernel, [1 << 20, 32], 8, 8), (8, 1));
        assert_eq!(grid(kernel, [1 << 20, 512], 8, 1), (8, 1));
        assert_eq!(grid(kernel, [3, 5], 16, 16), (1, 1));
    }

    #[test]
    fn products_of_several_threads_have_the_same_bits() {
        let fill = |len: usize| (0..len).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.01).collect();
        for (m, n, k) in [(429, 512, 256), (300, 31, 700), (37, 1000, 129)] {
            let (lhs, rhs): (Vec<f32>, Vec<f32>) = (fill(m * k), fill(k * n));
            for (x, y) in [
                (Order::Plain, Order::Plain),
                (Order::Transposed, Order::Plain),
                (Order::Plain, Order::Transposed),
            ] {
                let product = || {
                    let mut out = vec![0.0f32; m * n];
                    gemm(m, n, k, &mut out, &lhs, x, &rhs, y);
                    out
                };
                assert_eq!(product(), crew::with_threads(4, product), "{m} {n} {k} {x:?} {y:?}");
            }
        }
    }
}
