//! Ops of 16-bit floats that have no kernels of their own: they run on copies of 32 bits, as on the host. Copies are
//! contiguous, so what has gaps, or is a view of other rows, is declined.

use bireme_engine::device::{DeviceMeta, RowValues};
use bireme_engine::op::OpView;
use bireme_ir::{DType, VarKind};

use super::broadcast::threads;
use super::lowering::{ALIGN, suffix};
use super::{Lower, Lowered, Lowering, Outcome, host};
use crate::work::{Arg, Base, Ref, Work};

fn is_half(meta: &DeviceMeta) -> bool {
    matches!(meta.meta.dtype, DType::BF16 | DType::F16)
}

/// A variable of 16 bits, and where its copy of 32 bits lies.
struct Copy {
    base: Base,
    dtype: DType,
    count: usize,
    offset: usize,
}

/// The work of an op on copies of its 16-bit floats. Declined where there are none, or where not even 32 bits help.
pub(crate) fn lower(
    lower: Lower,
    op: &OpView<'_>,
    inputs: &[DeviceMeta],
    outputs: &mut [DeviceMeta],
) -> Outcome<Lowered> {
    let is_scattered = |meta: &DeviceMeta| {
        is_half(meta) && (meta.pitch.is_some() || matches!(meta.values, RowValues::View(_)))
    };
    // Nobody may read a view of a copy, which is gone with the op.
    outputs.iter_mut().for_each(|output| output.values = RowValues::Own);
    let mut all = inputs.iter().chain(outputs.iter());
    if !all.clone().any(is_half) || all.any(is_scattered) {
        return host();
    }
    let wide_inputs: Vec<DeviceMeta> = inputs.iter().map(widened).collect();
    let mut wide_outputs: Vec<DeviceMeta> = outputs.iter().map(widened).collect();
    let mut lowering = Lowering::new(op, &wide_inputs, &mut wide_outputs);
    lower(&mut lowering)?;
    let mut lowered = lowering.finish();
    for (output, wide) in outputs.iter_mut().zip(&wide_outputs) {
        output.rows = wide.rows;
    }
    let read = copies(&mut lowered, inputs, Base::Input);
    let written = copies(&mut lowered, outputs, Base::Output);
    let mut work = Vec::new();
    for copy in &read {
        work.push(cast(copy, Ref::of(copy.base), copy.dtype, scratch(copy), DType::F32)?);
    }
    let moved: Vec<&Copy> = read.iter().chain(&written).collect();
    work.extend(lowered.work.into_iter().map(|work| redirect(work, &moved)));
    for copy in &written {
        work.push(cast(copy, scratch(copy), DType::F32, Ref::of(copy.base), copy.dtype)?);
    }
    work.retain(|work| !matches!(work, Work::Kernel { blocks, .. } if blocks.contains(&0)));
    lowered.work = work;
    Ok(lowered)
}

fn widened(meta: &DeviceMeta) -> DeviceMeta {
    let mut wide = meta.clone();
    if is_half(meta) {
        wide.meta.dtype = DType::F32;
        // A copy has no room behind it.
        wide.zeros_follow = false;
    }
    wide
}

/// Takes memory for the copies of what is of 16 bits among `metas`.
fn copies(lowered: &mut Lowered, metas: &[DeviceMeta], base: fn(usize) -> Base) -> Vec<Copy> {
    let mut copies = Vec::new();
    for (at, meta) in metas.iter().enumerate().filter(|(_, meta)| is_half(meta)) {
        let dims = meta.meta.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0));
        let count = match meta.meta.kind {
            VarKind::SelectedRows => meta.rows.unwrap_or(0) * dims.skip(1).product::<usize>(),
            _ => dims.product(),
        };
        let offset = lowered.scratch.next_multiple_of(ALIGN);
        lowered.scratch = offset + count * 4;
        lowered.pieces.push((offset, count * 4));
        copies.push(Copy { base: base(at), dtype: meta.meta.dtype, count, offset });
    }
    copies
}

fn scratch(copy: &Copy) -> Ref {
    Ref { base: Base::Scratch, offset: copy.offset }
}

/// The kernel that converts `count` elements.
fn cast(copy: &Copy, from: Ref, of: DType, to: Ref, into: DType) -> Outcome<Work> {
    let blocks = threads(copy.count, 4).div_ceil(256).min(1 << 16) as u32;
    let count = (copy.count as i64).to_ne_bytes();
    Ok(Work::Kernel {
        name: format!("cast_{}_{}", suffix(of)?, suffix(into)?),
        blocks: [blocks, 1, 1],
        threads: 256,
        args: vec![Arg::Ref(from), Arg::Ref(to), Arg::Value(count.into())],
        many: None,
    })
}

/// The same work on the copies.
fn redirect(mut work: Work, copies: &[&Copy]) -> Work {
    let to = |at: Ref| match copies.iter().find(|copy| copy.base == at.base) {
        Some(copy) => scratch(copy).plus(at.offset),
        None => at,
    };
    match &mut work {
        Work::Kernel { args, .. } => {
            for arg in args {
                match arg {
                    Arg::Ref(at) => *at = to(*at),
                    Arg::Refs(all) => all.iter_mut().for_each(|at| *at = to(*at)),
                    Arg::Value(_) | Arg::Op => {}
                }
            }
        }
        Work::Product(product) => {
            for at in [&mut product.a, &mut product.b, &mut product.out, &mut product.bias] {
                *at = to(*at);
            }
        }
        Work::Copy { from, to: into, .. } => (*from, *into) = (to(*from), to(*into)),
        Work::Clear { at, .. } => *at = to(*at),
    }
    work
}

#[cfg(test)]
mod tests {
    use bireme_engine::device::View;
    use bireme_engine::op::Meta;
    use bireme_ir::Op;

    use super::*;
    use crate::lower::Stop;

    const VIEW: View =
        View { input: 0, dtype: DType::BF16, offset: 0, run: 3, step: 4, run_step: 12 };

    fn three_rows(values: RowValues) -> DeviceMeta {
        let meta = Meta { kind: VarKind::SelectedRows, ..Meta::new(DType::BF16, [10, 4]) };
        DeviceMeta { rows: Some(3), values, ..DeviceMeta::new(meta) }
    }

    #[test]
    fn views_are_neither_made_nor_read() {
        let op = Op::new("merge_selected_rows").input("X", ["x"]).output("Out", ["out"]);
        let op = OpView::new(&op).unwrap();
        let selects: Lower = |lowering| {
            lowering.select_one("Out", 0, 3);
            assert!(!lowering.view_one("Out", 0, VIEW));
            Ok(())
        };
        let mut outputs = [three_rows(RowValues::OwnOrView)];
        lower(selects, &op, &[three_rows(RowValues::Own)], &mut outputs).unwrap();
        assert_eq!(outputs[0], three_rows(RowValues::Own));
        let refused = lower(selects, &op, &[three_rows(RowValues::View(VIEW))], &mut outputs).err();
        assert!(matches!(refused, Some(Stop::Host)));
    }
}
