//! Sums of rows that have the same number (`kernels/segments.cuh`).

use bireme_engine::device::View;
use bireme_ir::DType;

use super::divider::divider;
use super::lowering::{Launch, suffix};
use super::sort::Sorted;
use super::{Lowering, Outcome, host};
use crate::work::Ref;
use bytemuck::{Pod, Zeroable};

/// Sorted positions that one warp adds up, and warps in a block.
const CHUNK: usize = 32;
const CHUNK_WARPS: usize = 4;
/// Chunks that one warp of the second kernel looks at, and warps in a block.
const SPAN_CHUNKS: usize = 4;
const SPAN_WARPS: usize = 8;

/// Rows that are to be added up by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    /// Their numbers.
    pub(crate) sorted: Sorted,
    /// Their values, at the positions before the sort.
    pub(crate) values: Ref,
    pub(crate) dtype: DType,
    /// Elements in a row.
    pub(crate) width: usize,
    /// How the values lie, where not one behind the other.
    pub(crate) view: Option<View>,
}

/// As in `kernels/segments.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Amount {
    count: u32,
    bound: u32,
    width: u32,
    step: u32,
    run: [u32; 3],
    run_step: u32,
}

impl Rows {
    /// Adds each sum to its row of the dense tensor `out`.
    pub(super) fn add_to(&self, cx: &mut Lowering<'_>, out: Ref) -> Outcome {
        self.sum(cx, ["add_rows", "add_row_spans"], |launch| launch.at(out))
    }

    /// Writes each sum to the row of `out` where its number stood first. Says that in `numbers`, by the number
    /// at that row, and in `index`, by that row, from 1, at the number; either may be null. What else the
    /// three hold stays.
    pub(super) fn merge(
        &self,
        cx: &mut Lowering<'_>,
        out: Ref,
        numbers: Ref,
        index: Ref,
    ) -> Outcome {
        self.sum(cx, ["merge_rows", "merge_row_spans"], |launch| {
            launch.at(out).at(numbers).at(index)
        })
    }

    /// The two kernels of a sink, whose names begin with `kernels`. `sink` adds the arguments of the sink.
    pub(crate) fn sum(
        &self,
        cx: &mut Lowering<'_>,
        kernels: [&str; 2],
        sink: impl for<'l> Fn(Launch<'l>) -> Launch<'l>,
    ) -> Outcome {
        let Rows { sorted, values, width, .. } = *self;
        let shape = self.shape()?;
        let Ok(columns) = u32::try_from(width) else { return host() };
        if columns == 0 || sorted.count == 0 {
            return Ok(());
        }
        let (run, step, run_step) = match self.view {
            Some(view) => (view.run, view.step, view.run_step),
            None => (sorted.count, width, 0),
        };
        let amount = Amount {
            count: sorted.count as u32,
            bound: sorted.bound,
            width: columns,
            step: step as u32,
            run: divider(run),
            run_step: run_step as u32,
        };
        let chunks = sorted.count.div_ceil(CHUNK);
        let partial = [(); 2].map(|()| cx.scratch(chunks * width * self.dtype.size()));
        let blocks = chunks.div_ceil(CHUNK_WARPS) as u32;
        let threads = (CHUNK_WARPS * CHUNK) as u32;
        let from = match self.view.map(|view| view.dtype) {
            Some(dtype) if dtype != self.dtype => format!("_from_{}", suffix(dtype)?),
            _ => String::new(),
        };
        let launch = cx
            .kernel(format!("{}_{shape}{from}", kernels[0]), [blocks, 1, 1], threads)
            .refs([sorted.keys, sorted.positions], 2)
            .value(amount)
            .at(values)
            .at(partial[0])
            .at(partial[1]);
        sink(launch).launch();
        if chunks > 1 {
            let blocks = chunks.div_ceil(SPAN_CHUNKS * SPAN_WARPS) as u32;
            let threads = (SPAN_WARPS * CHUNK) as u32;
            let launch = cx
                .kernel(format!("{}_{shape}", kernels[1]), [blocks, 1, 1], threads)
                .refs([sorted.keys, sorted.positions], 2)
                .value(amount)
                .at(partial[0])
                .at(partial[1]);
            sink(launch).launch();
        }
        Ok(())
    }

    /// What names of kernels for rows of this width end in.
    fn shape(&self) -> Outcome<&'static str> {
        Ok(match self.dtype {
            DType::F32 if self.width.is_multiple_of(4) => "wide_f32",
            DType::F32 if self.width < 4 => "thin_f32",
            DType::F32 => "odd_f32",
            DType::F64 if self.width < 4 => "thin_f64",
            DType::F64 => "odd_f64",
            _ => return host(),
        })
    }
}
