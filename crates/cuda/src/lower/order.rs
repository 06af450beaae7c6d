//! Ops that compare elements along an axis: `argsort`, `top_k`, `arg_max`, `arg_min`.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::axes::{around_axis, axis_in};
use super::divider::{Divider, divider};
use super::index::put_along;
use super::lowering::{Lowering, THREADS, invalid};
use super::walk::MAX_COUNT;
use super::{Lower, Outcome, Var, host};
use crate::work::Ref;

/// The ops of this family that the card runs.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("argsort", argsort),
    ("argsort_grad", put_back),
    ("top_k", top_k),
    ("top_k_grad", put_back),
    ("top_k_v2", top_k),
    ("top_k_v2_grad", put_back),
    ("arg_max", |l| arg_extreme(l, true)),
    ("arg_min", |l| arg_extreme(l, false)),
];

/// Pairs that a block sorts in shared memory.
pub(super) const TILE_PAIRS: usize = 2048;

/// Lanes as kernels read them: see `kernels/order.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Lanes {
    count: u32,
    len: u32,
    keep: u32,
    descending: u32,
    inner: Divider,
    tiles: u32,
    segment: u32,
}

impl Lanes {
    fn new(dims: &[usize], axis: usize) -> Outcome<Lanes> {
        let (outer, len, inner) = around_axis(dims, axis);
        if outer * len * inner >= MAX_COUNT || outer * inner >= MAX_COUNT {
            return host();
        }
        let tiles = len.div_ceil(TILE_PAIRS).max(1);
        Ok(Lanes {
            count: (outer * inner) as u32,
            len: len as u32,
            keep: len as u32,
            descending: 0,
            inner: divider(inner),
            tiles: tiles as u32,
            segment: len.next_power_of_two().clamp(2, TILE_PAIRS) as u32,
        })
    }
}

/// The axis of attribute `axis`; a scalar has one as if it were a list.
fn axis_of(axis: i64, rank: usize) -> Outcome<usize> {
    axis_in(axis, rank.max(1))
}

fn argsort(l: &mut Lowering<'_>) -> Outcome {
    let x = l.input("X")?.dense()?;
    let mut lanes = Lanes::new(&x.dims, axis_of(l.op.i64("axis")?, x.dims.len())?)?;
    lanes.descending = u32::from(l.op.bool("descending")?);
    sort(l, &x, lanes)
}

fn top_k(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["K"])?;
    let (x, k) = (l.input("X")?.dense()?, l.op.i64("k")?);
    // What the older op has no attributes for.
    let old = l.op.def.name == "top_k";
    let (axis, largest) = if old { (-1, true) } else { (l.op.i64("axis")?, l.op.bool("largest")?) };
    let mut lanes = Lanes::new(&x.dims, axis_of(axis, x.dims.len())?)?;
    if x.dtype == DType::U8 || k < 1 || k > i64::from(lanes.len) {
        return host();
    }
    (lanes.keep, lanes.descending) = (k as u32, u32::from(largest));
    sort(l, &x, lanes)
}

fn sort(l: &mut Lowering<'_>, x: &Var, lanes: Lanes) -> Outcome {
    let (out, indices) = (l.output("Out")?, l.output("Indices")?);
    let suffix = match x.dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U8 | DType::Bool => "u8",
        _ => return host(),
    };
    if x.numel() == 0 {
        return Ok(());
    }
    let wide = x.dtype.size() == 8;
    let name = format!("sort_lanes_{suffix}");
    if lanes.tiles == 1 {
        let per_block = TILE_PAIRS as u32 / lanes.segment;
        let blocks = [lanes.count.div_ceil(per_block), 1, 1];
        let launch = l.kernel(name, blocks, THREADS).var(x).var(&out).var(&indices);
        launch.at(Ref::NULL).value(lanes).launch();
        return Ok(());
    }
    let count = lanes.count as usize * lanes.len as usize;
    let bytes = count * if wide { 16 } else { 8 };
    let (pairs, other) = (l.scratch(bytes), l.scratch(bytes));
    let blocks = [lanes.count * lanes.tiles, 1, 1];
    let launch = l.kernel(name, blocks, THREADS).var(x).var(&out).var(&indices);
    launch.at(pairs).value(lanes).launch();
    let sorted = merge(l, wide, (pairs, other), count, lanes.len as usize);
    let written = lanes.count as usize * lanes.keep as usize;
    let launch = l.over(format!("write_lanes_{suffix}"), written).var(x).var(&out).var(&indices);
    launch.at(sorted).value(lanes).value(divider(lanes.keep as usize)).launch();
    Ok(())
}

/// Merges sorted tiles of lanes of `len` pairs, to and fro between two places; says where they end.
pub(super) fn merge(
    l: &mut Lowering<'_>,
    wide: bool,
    (mut from, mut to): (Ref, Ref),
    count: usize,
    len: usize,
) -> Ref {
    let mut run = TILE_PAIRS;
    while run < len {
        let name = if wide { "merge_pairs_64" } else { "merge_pairs_32" };
        let launch = l.over(name, count).at(from).at(to).value(count as u32);
        launch.value(divider(len)).value(run as u32).launch();
        std::mem::swap(&mut from, &mut to);
        run *= 2;
    }
    from
}

/// The gradient of an op that chose elements of each lane: zero, but where they came from.
fn put_back(l: &mut Lowering<'_>) -> Outcome {
    let (x, indices) = (l.input("X")?, l.input("Indices")?);
    let (dout, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let axis = if l.op.maybe_attr("axis").is_some() { l.op.i64("axis")? } else { -1 };
    let axis = axis_of(axis, x.dims.len())?;
    if indices.dtype != DType::I64 || indices.numel() != dout.numel() {
        return host();
    }
    put_along(l, &dout, &indices, &dx, axis)
}

fn arg_extreme(l: &mut Lowering<'_>, largest: bool) -> Outcome {
    /// The longest lanes that one thread walks, where they do not lie side by side.
    const SHORT: u32 = 64;
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let all = l.op.bool("flatten")? || x.dims.is_empty();
    let dims = if all { vec![x.numel()] } else { x.dims.clone() };
    let axis = if all { 0 } else { axis_of(l.op.i64("axis")?, dims.len())? };
    let (lanes, inner) = (Lanes::new(&dims, axis)?, around_axis(&dims, axis).2);
    if lanes.len == 0 {
        return Err(invalid(format!("`X` {:?} has no elements to compare", x.dims)));
    }
    let suffix = x.suffix()?;
    let wide = match out.dtype {
        DType::I32 => 0i32,
        DType::I64 => 1,
        _ => return host(),
    };
    if !matches!(suffix, "f32" | "f64" | "i32" | "i64") {
        return host();
    }
    let many = lanes.len <= SHORT || (inner >= 32 && lanes.count >= 1 << 14);
    let launch = if many {
        l.over(format!("arg_extreme_{suffix}"), lanes.count as usize)
    } else {
        let threads = (lanes.len / 8).next_power_of_two().clamp(32, 1024);
        l.kernel(format!("arg_extreme_block_{suffix}"), [lanes.count, 1, 1], threads)
    };
    launch.var(&x).var(&out).value(wide).value(i32::from(largest)).value(lanes).launch();
    Ok(())
}
