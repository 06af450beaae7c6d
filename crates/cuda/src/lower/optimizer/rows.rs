//! Steps with sparse gradients: of the rows that they name, or of all rows.

use super::super::selected_rows::sorted_rows;
use super::super::{Lowering, Outcome, Var, host};
use super::dense::update_many;
use super::target::{Rule, Target, round};
use crate::work::Ref;

/// A parameter and its accumulators at most, as in `kernels/update_rows.cu`.
const MOST_ARRAYS: usize = 4;

/// Adds the work of an update op but for its powers.
pub(super) fn update(cx: &mut Lowering<'_>, rule: &Rule) -> Outcome {
    let (mut target, grad) = Target::of(cx, rule)?;
    if target.has_gaps() && (grad.selected.is_none() || !rule.keeps_rows) {
        return host();
    }
    if grad.selected.is_some() && rule.keeps_rows {
        update_rows(cx, rule, &target, &grad)?;
        return round(cx);
    }
    if grad.selected.is_some() {
        merge(cx, &mut target, &grad)?;
    }
    update_many(cx, rule, &[target])?;
    round(cx)
}

/// Updates the rows that `grad` names.
fn update_rows(cx: &mut Lowering<'_>, rule: &Rule, target: &Target, grad: &Var) -> Outcome {
    let bytes = target.count * target.dtype.size();
    let places = [target.param].into_iter().chain(target.state.iter().copied());
    for ([from, to], pitch) in places.zip(&target.pitches) {
        if *pitch == target.width {
            cx.copy(from, to, bytes);
        }
    }
    let rows = sorted_rows(cx, grad)?;
    let mut places = vec![target.param[1]];
    places.extend(target.room().map(|state| state[1]));
    places.extend(target.numbers);
    let mut pitches = [0u32; MOST_ARRAYS];
    for (to, pitch) in pitches.iter_mut().zip(&target.pitches) {
        *to = *pitch as u32;
    }
    let names = [format!("update_rows_{}", rule.name), format!("update_row_spans_{}", rule.name)];
    rows.sum(cx, [&names[0], &names[1]], |launch| {
        let launch = launch.refs(places.iter().copied(), places.len());
        launch.value(pitches).value(target.attributes(rule))
    })
}

/// Makes the target's gradient the merged rows of `grad`.
pub(super) fn merge(cx: &mut Lowering<'_>, target: &mut Target, grad: &Var) -> Outcome {
    let (Some(selected), Some(height)) = (grad.selected, grad.dims.first()) else { return host() };
    let rows = sorted_rows(cx, grad)?;
    let merged = cx.scratch(selected.count * target.width * target.dtype.size());
    let index = cx.scratch(height * 4);
    cx.clear(index, height * 4);
    rows.merge(cx, merged, Ref::NULL, index)?;
    (target.grad, target.index) = (merged, index);
    Ok(())
}
