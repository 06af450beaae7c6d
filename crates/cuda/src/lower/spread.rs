//! `spread_rows`: rows that lie with several ranks, each once, by the rank that has it.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::sort::{Sorted, Unsorted, sort};
use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::Ref;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[("spread_rows", spread_rows)];

/// Lists in one launch, as in `kernels/spread.cu`.
const MAX_LISTS: usize = 64;
const THREADS: usize = 256;
/// Sorted numbers that one block counts, as in `kernels/spread.cu`.
const TILE: usize = 4 * THREADS;

/// Where lists begin, and how long they are, as in `kernels/spread.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Spans {
    first: [u32; MAX_LISTS],
    count: [u32; MAX_LISTS],
}

fn spread_rows(cx: &mut Lowering<'_>) -> Outcome {
    let (rows, places) = (cx.inputs("Rows"), cx.outputs("Places"));
    let (table, room) = (cx.input("W")?, cx.input("Room")?);
    let (wanted, ranks) = (cx.output("Wanted")?, cx.op.i64("ranks")?);
    let first = |var: &Var| var.dims.first().copied().unwrap_or(0);
    let (each, room) = (first(&table), first(&room));
    let fits = rows.iter().zip(&places).all(|(rows, places)| {
        rows.dtype == DType::I64 && places.dtype == DType::I64 && rows.numel() == places.numel()
    });
    let Ok(ranks) = usize::try_from(ranks) else { return host() };
    let (bound, count) = (ranks * each, rows.iter().map(Var::numel).sum::<usize>());
    let in_bits = |number: usize| number < i32::MAX as usize;
    let is_small = in_bits(bound) && in_bits(count) && in_bits(ranks * room);
    if !fits || !is_small || each == 0 || wanted.numel() != ranks * room {
        return host();
    }
    cx.clear(wanted.at, wanted.bytes());
    if count == 0 {
        return Ok(());
    }
    let all = cx.scratch(count * 8);
    each_list(cx, "spread_join", &rows, all);
    let at = Unsorted { at: all, dtype: DType::I64, count, padding: 0, bound };
    let Sorted { keys, positions, bound, .. } = sort(cx, &at)?;
    let tiles = count.div_ceil(TILE);
    let (firsts, bases) = (cx.scratch(tiles * 4), cx.scratch((ranks + 1) * 4));
    cx.kernel("spread_count", [tiles as u32, 1, 1], THREADS as u32)
        .at(keys)
        .value(count as u32)
        .value(bound)
        .at(firsts)
        .launch();
    cx.kernel("spread_sum", [1, 1, 1], THREADS as u32)
        .at(keys)
        .value(count as u32)
        .value(bound)
        .at(firsts)
        .value(tiles as u32)
        .value(ranks as u32)
        .value(each as u32)
        .value(room as u32)
        .at(bases)
        .complaint()
        .launch();
    cx.kernel("spread_places", [tiles as u32, 1, 1], THREADS as u32)
        .at(keys)
        .at(positions)
        .value(count as u32)
        .value(bound)
        .at(firsts)
        .at(bases)
        .value(each as u32)
        .value(room as u32)
        .at(all)
        .var(&wanted)
        .launch();
    each_list(cx, "spread_part", &places, all);
    Ok(())
}

/// Copies lists to or from where they lie one behind the other.
fn each_list(cx: &mut Lowering<'_>, kernel: &str, lists: &[Var], all: Ref) {
    let mut next = 0;
    for lists in lists.chunks(MAX_LISTS) {
        let mut spans = Spans::zeroed();
        for (at, list) in lists.iter().enumerate() {
            (spans.first[at], spans.count[at]) = (next, list.numel() as u32);
            next += list.numel() as u32;
        }
        let most = spans.count.iter().max().copied().unwrap_or(0) as usize;
        let blocks = [most.div_ceil(THREADS) as u32, lists.len() as u32, 1];
        cx.kernel(kernel, blocks, THREADS as u32)
            .refs(lists.iter().map(|list| list.at), MAX_LISTS)
            .value(spans)
            .at(all)
            .launch();
    }
}
