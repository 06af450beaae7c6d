//! Positions that index tensors name, and sums of what meets in one of them.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use crate::lower::divider::{Divider, divider};
use crate::lower::lowering::{Lowering, THREADS};
use crate::lower::order::{TILE_PAIRS, merge};
use crate::lower::walk::MAX_COUNT;
use crate::lower::{Outcome, Var, host};
use crate::work::Ref;

/// Positions that one thread adds up at most: the kernels' number.
const CHUNK: usize = 64;

/// Indices, of 32 or of 64 bits.
#[derive(Clone, Copy)]
pub(in crate::lower) struct Indices {
    pub(super) at: Ref,
    pub(super) wide: i32,
    pub(super) count: usize,
}

impl Indices {
    /// Those in a tensor.
    pub(in crate::lower) fn of(index: &Var) -> Outcome<Indices> {
        let wide = match index.dtype {
            DType::I32 => 0,
            DType::I64 => 1,
            _ => return host(),
        };
        Ok(Indices { at: index.at, wide, count: index.numel() })
    }
}

/// Lanes of indices along an axis, as kernels read them: see `kernels/index.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct Along {
    span: Divider,
    inner: Divider,
    len: u32,
}

impl Along {
    /// Lanes of `count` indices along an axis of `len` elements, `inner` apart.
    pub(super) fn new(count: usize, len: usize, inner: usize) -> Outcome<Along> {
        if count * inner >= MAX_COUNT || len >= MAX_COUNT {
            return host();
        }
        let (span, inner) = (divider(count * inner), divider(inner));
        Ok(Along { span, inner, len: len as u32 })
    }
}

/// What meets where, as kernels read it.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Sums {
    rows: u32,
    places: u32,
    width: Divider,
    row_count: Divider,
}

/// Rows of `width` elements that go to `places`: `tables` times.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) tables: usize,
    pub(super) places: usize,
    pub(super) width: usize,
}

/// Indices with where they lead, sorted by that.
#[derive(Clone, Copy)]
pub(super) struct Sorted {
    pub(super) pairs: Ref,
    pub(super) count: usize,
}

impl Lowering<'_> {
    /// Sorts where indices lead along an axis; complains of those that lead outside.
    pub(super) fn sort_indices(&mut self, indices: Indices, along: Along) -> Outcome<Sorted> {
        let count = indices.count;
        if count >= MAX_COUNT {
            return host();
        }
        let tiles = count.div_ceil(TILE_PAIRS);
        let pairs = self.scratch(count * 8);
        let other = if tiles > 1 { self.scratch(count * 8) } else { pairs };
        let launch = self.kernel("sort_indices", [tiles as u32, 1, 1], THREADS);
        let launch = launch.at(indices.at).value(indices.wide).at(pairs).value(count as u32);
        launch.value(along).complaint().launch();
        Ok(Sorted { pairs: merge(self, false, (pairs, other), count, count), count })
    }

    /// Sums rows that go to one place, in their order; places where none goes stay as they are.
    pub(super) fn sum_sorted(
        &mut self,
        sorted: Sorted,
        places: Places,
        terms: Ref,
        out: &Var,
    ) -> Outcome {
        let Places { tables, places, width } = places;
        let suffix = out.suffix()?;
        let threads = sorted.count * width * tables;
        if matches!(suffix, "u8" | "bool") || threads >= MAX_COUNT || places >= MAX_COUNT {
            return host();
        }
        let chunks = sorted.count.div_ceil(CHUNK);
        let partial = match chunks {
            0 | 1 => Ref::NULL,
            _ => self.scratch(chunks * width * tables * out.dtype.size().max(4)),
        };
        let sums = Sums {
            rows: sorted.count as u32,
            places: places as u32,
            width: divider(width),
            row_count: divider(sorted.count),
        };
        let launch = self.over(format!("sum_sorted_{suffix}"), threads).at(sorted.pairs).at(terms);
        launch.var(out).at(partial).value(threads as u32).value(sums).launch();
        if chunks > 1 {
            let threads = chunks * width * tables;
            let launch = self.over(format!("sum_chunks_{suffix}"), threads).at(sorted.pairs);
            let launch = launch.var(out).at(partial).value(threads as u32);
            launch.value(divider(chunks)).value(sums).launch();
        }
        Ok(())
    }
}
