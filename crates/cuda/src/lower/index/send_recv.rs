//! Along each edge of a graph, the row at its source goes to its destination, where rows are joined.

use bytemuck::{Pod, Zeroable};

use super::positions::{Along, Indices};
use crate::lower::axes::around_axis;
use crate::lower::divider::{Divider, divider};
use crate::lower::lowering::Lowering;
use crate::lower::walk::MAX_COUNT;
use crate::lower::{Outcome, Var, host};
use crate::work::Ref;

/// Edges as kernels read them: see `kernels/graph.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Edges {
    count: u32,
    places: u32,
    others: u32,
    wide: i32,
    reduce: i32,
    width: Divider,
}

/// What the kernels call a mean, and the first of what reads the result again.
const MEAN: i32 = 1;
const MAX: i32 = 2;

fn reduce(l: &Lowering<'_>) -> Outcome<i32> {
    Ok(match l.op.string("reduce_op")?.as_str() {
        "SUM" => 0,
        "MEAN" => MEAN,
        "MAX" => MAX,
        "MIN" => 3,
        // The host says what is wrong.
        _ => return host(),
    })
}

/// The numbers that are sent.
fn number(x: &Var) -> Outcome<&'static str> {
    let suffix = x.suffix()?;
    if matches!(suffix, "f32" | "f64" | "i32" | "i64") { Ok(suffix) } else { host() }
}

/// Edges that meet in one of `places` rows of `width`, and come from one of `others`.
fn edges(
    l: &Lowering<'_>,
    (from, to): (Indices, Indices),
    places: usize,
    others: usize,
    width: usize,
) -> Outcome<Edges> {
    if from.count != to.count || places.max(others).max(from.count * width) >= MAX_COUNT {
        return host();
    }
    Ok(Edges {
        count: from.count as u32,
        places: places as u32,
        others: others as u32,
        wide: from.wide,
        reduce: reduce(l)?,
        width: divider(width),
    })
}

pub(super) fn send(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["Out_size"])?;
    let (x, out, counts) = (l.input("X")?.dense()?, l.output("Out")?, l.wanted_output("Dst_count"));
    let sources = Indices::of(&l.input("Src_index")?)?;
    let targets = Indices::of(&l.input("Dst_index")?)?;
    let (suffix, (_, rows, width)) = (number(&x)?, around_axis(&x.dims, 0));
    let places = around_axis(&out.dims, 0).1;
    let edges = edges(l, (sources, targets), places, rows, width)?;
    l.clear(out.at, out.bytes());
    if let Some(counts) = &counts {
        l.clear(counts.at, counts.bytes());
    }
    let threads = targets.count * width;
    if threads == 0 {
        // Edges of rows without elements are still counted, and checked.
        return if targets.count == 0 { Ok(()) } else { host() };
    }
    let sorted = l.sort_indices(targets, Along::new(targets.count, places, 1)?)?;
    let launch = l.over(format!("send_rows_{suffix}"), threads).at(sorted.pairs).at(sources.at);
    let launch = launch.var(&x).var(&out).maybe(counts.as_ref()).value(threads as u32);
    launch.value(edges).complaint().launch();
    Ok(())
}

pub(super) fn send_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.maybe_input("Out"));
    let (dout, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let sources = Indices::of(&l.input("Src_index")?)?;
    let targets = Indices::of(&l.input("Dst_index")?)?;
    let (suffix, (_, rows, width)) = (number(&dout)?, around_axis(&x.dims, 0));
    let others = around_axis(&dout.dims, 0).1;
    let edges = edges(l, (targets, sources), rows, others, width)?;
    if (edges.reduce >= MAX && out.is_none()) || x.dtype != dout.dtype {
        return host();
    }
    l.clear(dx.at, dx.bytes());
    let threads = sources.count * width;
    if threads == 0 {
        return if sources.count == 0 { Ok(()) } else { host() };
    }
    let mut counts = Ref::NULL;
    if edges.reduce == MEAN {
        counts = l.scratch(others * 4);
        l.clear(counts, others * 4);
        let launch = l.over("count_edges", targets.count).at(targets.at).value(targets.wide);
        launch.at(counts).value(edges.count).value(others as u32).launch();
    }
    let sorted = l.sort_indices(sources, Along::new(sources.count, rows, 1)?)?;
    let launch = l.over(format!("return_rows_{suffix}"), threads).at(sorted.pairs).at(targets.at);
    let launch = launch.var(&x).maybe(out.as_ref()).var(&dout).at(counts).var(&dx);
    launch.value(threads as u32).value(edges).complaint().launch();
    Ok(())
}
