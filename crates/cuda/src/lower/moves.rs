//! Elements that go along a path from one tensor to another, or are summed on their way (`kernels/shape.cu`).

use bytemuck::{Pod, Zeroable};

use super::divider::{Divider, divider};
use super::lowering::{Lowering, THREADS};
use super::walk::{Axis, MAX_COUNT, Path, TILE, bits_of, word};
use super::{Outcome, Var, host};
use crate::work::Ref;

/// How kernels transpose: see `kernels/shape.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
struct Matrix {
    height: u32,
    width: u32,
    pitch: i32,
    step: i32,
    tiles_across: Divider,
    tiles: Divider,
}

impl Lowering<'_> {
    /// Copies elements of `size` bytes along `path`.
    pub(super) fn move_along(&mut self, path: &Path, from: Ref, to: Ref, size: usize) -> Outcome {
        if path.count() == 0 {
            return Ok(());
        }
        if let [] | [Axis { from: 1, to: 1, .. }] = path.axes.as_slice() {
            let at = |offset: i64| offset as usize * size;
            self.copy(from.plus(at(path.from)), to.plus(at(path.to)), path.count() * size);
            return Ok(());
        }
        if let Some((across, width)) = path.turned() {
            return self.transpose(path, across, width, (from, to), size);
        }
        let (path, bytes) = path.widest(size);
        let walk = path.walk()?;
        let launch = self.over(format!("strided_copy_{}", word(bytes)), path.count());
        launch.at(from).at(to).value(path.count() as u32).value(walk).launch();
        Ok(())
    }

    /// Writes the element that `bits` are, of `size` bytes, wherever `path` leads to.
    pub(super) fn fill_along(&mut self, path: &Path, to: Ref, size: usize, bits: u64) -> Outcome {
        let (walk, count) = (path.walk()?, path.count());
        let launch = self.over(format!("strided_fill_{}", word(size)), count);
        let launch = launch.at(to).value(count as u32);
        bits_of(launch, size, bits).value(walk).launch();
        Ok(())
    }

    fn transpose(
        &mut self,
        path: &Path,
        across: usize,
        width: usize,
        (from, to): (Ref, Ref),
        size: usize,
    ) -> Outcome {
        let (rows, columns) = (path.axes[across], path.axes[width]);
        let mut outer = path.clone();
        outer.axes = Vec::new();
        for (at, axis) in path.axes.iter().enumerate() {
            if at != across && at != width {
                outer.axes.push(*axis);
            }
        }
        let tiles_across = columns.len.div_ceil(TILE);
        let tiles = tiles_across * rows.len.div_ceil(TILE);
        let (blocks, walk) = (tiles * outer.count(), outer.walk()?);
        let (Ok(pitch), Ok(step)) = (i32::try_from(rows.to), i32::try_from(columns.from)) else {
            return host();
        };
        if blocks >= MAX_COUNT || rows.len >= MAX_COUNT || columns.len >= MAX_COUNT {
            return host();
        }
        let matrix = Matrix {
            height: rows.len as u32,
            width: columns.len as u32,
            pitch,
            step,
            tiles_across: divider(tiles_across),
            tiles: divider(tiles),
        };
        let name = format!("transpose_{}", word(size));
        let launch = self.kernel(name, [blocks as u32, 1, 1], THREADS);
        launch.at(from).at(to).value(matrix).value(walk).launch();
        Ok(())
    }

    /// Sums what `kept` leads to, and from there `summed`, to the elements of `out` in order.
    pub(super) fn sum_along(
        &mut self,
        kept: &Path,
        summed: &Path,
        from: Ref,
        out: &Var,
    ) -> Outcome {
        /// Threads that are enough for any card.
        const ENOUGH: usize = 1 << 17;
        /// Terms that one thread adds at least.
        const FEW: usize = 8;
        let (results, terms, suffix) = (kept.count(), summed.count(), out.suffix()?);
        if matches!(suffix, "u8" | "bool") || results >= MAX_COUNT {
            return host();
        }
        let shares = (ENOUGH / results.max(1)).min(terms / FEW).clamp(1, 1 << 16);
        let accumulator = out.dtype.size().max(4);
        let partial = match shares {
            1 => Ref::NULL,
            _ => self.scratch(results * shares * accumulator),
        };
        let (kept, summed) = (kept.walk()?, summed.walk()?);
        let launch = self.over(format!("sum_axes_{suffix}"), results * shares);
        let launch = launch.at(from).var(out).at(partial).value(results as u32);
        let launch = launch.value(terms as u32).value(divider(results));
        launch.value(shares as u32).value(kept).value(summed).launch();
        if shares > 1 {
            let name = format!("sum_shares_{suffix}");
            let launch = self.kernel(name, [results as u32, 1, 1], THREADS).at(partial).var(out);
            launch.value(results as u32).value(shares as u32).launch();
        }
        Ok(())
    }
}
