//! Rows of a tensor replaced by others, or by sums of others.

use super::gather::take_slices;
use super::positions::{Along, Indices, Places};
use crate::lower::axes::around_axis;
use crate::lower::divider::divider;
use crate::lower::lowering::Lowering;
use crate::lower::walk::{MAX_COUNT, word, word_of};
use crate::lower::{Outcome, Var, host};
use crate::work::Ref;

pub(super) fn scatter(l: &mut Lowering<'_>) -> Outcome {
    let (x, ids, updates) = (l.input("X")?.dense()?, l.input("Ids")?, l.input("Updates")?);
    let (out, indices) = (l.output("Out")?, Indices::of(&ids)?);
    let (_, rows, width) = around_axis(&x.dims, 0);
    if updates.numel() != indices.count * width || updates.dtype != x.dtype {
        return host();
    }
    l.carry_over(&x, &out);
    if updates.numel() == 0 {
        return Ok(());
    }
    let sorted = l.sort_indices(indices, Along::new(indices.count, rows, 1)?)?;
    if !l.op.bool("overwrite")? {
        let places = Places { tables: 1, places: rows, width };
        return l.sum_sorted(sorted, places, updates.at, &out);
    }
    let bytes = word_of([width * x.dtype.size()]);
    let words = width * x.dtype.size() / bytes;
    if sorted.count * words >= MAX_COUNT {
        return host();
    }
    let launch = l.over(format!("put_last_{}", word(bytes)), sorted.count * words);
    let launch = launch.at(sorted.pairs).value(sorted.count as u32).var(&updates).var(&out);
    launch.value(divider(words)).value(rows as u32).launch();
    Ok(())
}

/// The op `put_rows`, whose rows are distinct.
pub(super) fn put_rows_op(l: &mut Lowering<'_>) -> Outcome {
    let (param, rows, values) = (l.input("Param")?.dense()?, l.input("Rows")?, l.input("Values")?);
    let (out, indices) = (l.output("ParamOut")?, Indices::of(&rows)?);
    let (_, _, width) = around_axis(&param.dims, 0);
    if values.numel() != indices.count * width || values.dtype != param.dtype {
        return host();
    }
    l.carry_over(&param, &out);
    if values.numel() == 0 {
        return Ok(());
    }
    put_rows(l, values.at, indices, &out)
}

pub(super) fn scatter_grad(l: &mut Lowering<'_>) -> Outcome {
    let (ids, dout) = (l.input("Ids")?, l.input("Out@GRAD")?.dense()?);
    let (dx, dupdates) = (l.wanted_output("X@GRAD"), l.wanted_output("Updates@GRAD"));
    let indices = Indices::of(&ids)?;
    let (_, rows, width) = around_axis(&dout.dims, 0);
    if let Some(dx) = dx {
        l.copy(dout.at, dx.at, dout.bytes());
        put_rows(l, Ref::NULL, indices, &dx)?;
    }
    if let Some(dupdates) = dupdates {
        take_slices(l, (&dout, 1, rows, width), indices, dupdates.at)?;
    }
    Ok(())
}

/// Copies rows to where indices say, no two to one place; clears those rows where there are none to copy.
pub(in crate::lower) fn put_rows(
    l: &mut Lowering<'_>,
    from: Ref,
    indices: Indices,
    to: &Var,
) -> Outcome {
    let (_, rows, width) = around_axis(&to.dims, 0);
    let bytes = word_of([width * to.dtype.size()]);
    let words = width * to.dtype.size() / bytes;
    let count = indices.count * words;
    if count >= MAX_COUNT {
        return host();
    }
    let launch = l.over(format!("put_rows_{}", word(bytes)), count).at(from).at(indices.at);
    let launch = launch.value(indices.wide).var(to).value(count as u32);
    launch.value(divider(words)).size(rows).complaint().launch();
    Ok(())
}
