//! Sorting row numbers with their positions: what everything is built on that adds up rows which occur
//! more than once.

use bireme_ir::DType;

use super::{Lowering, Outcome, host};
use crate::work::Ref;

/// The row number that stands for no row, as in `kernels/tables.cuh`.
pub(crate) const NO_ROW: i64 = bireme_engine::device::NO_ROW;

/// Bits that one pass sorts by.
const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Threads of a block of the passes, and items that each takes by the number of items: small tiles keep all of a
/// card busy when there are few, large ones spare it looking back when there are many.
const THREADS: usize = 256;
const TILES: [(usize, usize); 3] = [(1 << 17, 4), (1 << 20, 8), (usize::MAX, 16)];

/// Numbers to be sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsorted {
    /// Where they lie.
    pub(crate) at: Ref,
    /// Of 32 or 64 bits, signed.
    pub(crate) dtype: DType,
    /// How many there are.
    pub(crate) count: usize,
    /// One that is passed over, as [`NO_ROW`] is.
    pub(crate) padding: i64,
    /// What they lie below. Others are complained of and passed over.
    pub(crate) bound: usize,
}

/// Numbers in rising order, of 32 bits. Those that were passed over are `bound`, at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sorted {
    pub(crate) keys: Ref,
    /// Where each stood; equal numbers are in the order in which they stood.
    pub(crate) positions: Ref,
    pub(crate) count: usize,
    pub(crate) bound: u32,
}

/// Adds the work of a sort. More numbers, or larger ones, than 32 bits hold are declined.
pub(crate) fn sort(cx: &mut Lowering<'_>, unsorted: &Unsorted) -> Outcome<Sorted> {
    let Unsorted { at, dtype, count, padding, bound } = *unsorted;
    let suffix = match dtype {
        DType::I64 => "i64",
        DType::I32 => "i32",
        _ => return host(),
    };
    // Tiles keep two bits of a count for themselves.
    if count >= 1 << 30 || bound >= u32::MAX as usize {
        return host();
    }
    let (items, bound) = (count as u32, bound as u32);
    if count == 0 {
        return Ok(Sorted { keys: Ref::NULL, positions: Ref::NULL, count, bound });
    }
    let passes = (u32::BITS - bound.leading_zeros()).div_ceil(DIGIT_BITS).max(1) as usize;
    let per_thread = TILES.into_iter().find(|(most, _)| count <= *most).map_or(16, |tile| tile.1);
    let tiles = count.div_ceil(THREADS * per_thread);

    // What must be zero at the start lies together: counts of digits, tickets, what tiles say.
    let (counts_bytes, said_bytes) = (DIGITS * 4, tiles * DIGITS * 4);
    let zeros = cx.scratch(passes * (2 * counts_bytes + said_bytes));
    let tickets = zeros.plus(passes * counts_bytes);
    let said = tickets.plus(passes * counts_bytes);
    cx.clear(zeros, passes * (2 * counts_bytes + said_bytes));
    let buffers: [[Ref; 2]; 2] = [(); 2].map(|()| [(); 2].map(|()| cx.scratch(count * 4)));

    let blocks = count.div_ceil(THREADS * 8).min(1024) as u32;
    cx.kernel(format!("sort_keys_{suffix}"), [blocks, 1, 1], THREADS as u32)
        .at(at)
        .value(items)
        .value(padding)
        .value(bound)
        .value(passes as u32)
        .at(buffers[0][0])
        .at(zeros)
        .complaint()
        .launch();
    for pass in 0..passes {
        let (from, to) = (buffers[pass % 2], buffers[(pass + 1) % 2]);
        cx.kernel(format!("sort_pass_{per_thread}"), [tiles as u32, 1, 1], THREADS as u32)
            .at(from[0])
            .at(if pass == 0 { Ref::NULL } else { from[1] })
            .at(to[0])
            .at(to[1])
            .value(items)
            .value(pass as u32 * DIGIT_BITS)
            .at(zeros.plus(pass * counts_bytes))
            .at(said.plus(pass * said_bytes))
            .at(tickets.plus(pass * counts_bytes))
            .launch();
    }
    let [keys, positions] = buffers[passes % 2];
    Ok(Sorted { keys, positions, count, bound })
}
