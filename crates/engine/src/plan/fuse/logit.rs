//! The last two layers of a click model, a relu layer of a few columns and the logit, as one op on a card, forward and
//! back: between them launches cost more than work.

use bireme_ir::Op;

use super::pattern::{Edits, Uses};
use crate::op::is_half;
use crate::plan::select::{SelectedOp, VarId};

/// Columns that the relu layer may have, so that a block has all of a row.
const MOST_COLUMNS: i64 = 64;

/// Takes every such pair as one, for a card that does better with all at once up to `rows` rows.
pub(super) fn fuse(uses: &Uses<'_>, edits: &mut Edits, rows: usize) {
    let Some(rows) = i32::try_from(rows).ok().filter(|rows| *rows > 0) else { return };
    for at in 0..uses.ops.len() {
        let pair = forward(uses, at, rows).or_else(|| backward(uses, at, rows));
        if let Some((first, fused)) = pair.filter(|(first, _)| !edits.taken(*first)) {
            edits.replace(&[first, at], at, fused);
        }
    }
}

/// The logit at `at` with the layer below, and where that stands.
fn forward(uses: &Uses<'_>, at: usize, rows: i32) -> Option<(usize, SelectedOp)> {
    let head = &uses.ops[at];
    if head.op.kind != "fused_fc" || !is(head, "act", "") {
        return None;
    }
    let hidden = head.input("X")?;
    let below = uses.writer(hidden)?;
    let layer = &uses.ops[below];
    let fits =
        layer.op.kind == "fused_fc" && is(layer, "act", "relu") && sizes_fit(uses, layer, head);
    // All is computed where the logit is.
    let is_read_later = uses.readers(hidden).iter().all(|reader| *reader >= at);
    if !fits || !is_read_later || changes(uses, layer, below, at) {
        return None;
    }
    let out_dtype = i32::try_from(head.view().i64("out_dtype").ok()?).ok()?;
    let op = Op::new("fused_logit").attr("out_dtype", out_dtype).attr("at_once_rows", rows);
    let read = [
        ("X", layer.inputs_of("X")),
        ("W", layer.inputs_of("W")),
        ("Bias", layer.inputs_of("Bias")),
        ("HeadW", head.inputs_of("W")),
        ("HeadBias", head.inputs_of("Bias")),
    ];
    let written = [("Hidden", layer.outputs_of("Out")), ("Out", head.outputs_of("Out"))];
    Some((below, uses.selection.op(op, head, &read, &written)))
}

/// The gradient at `at` of a layer below a logit with that of the logit, and where that stands.
fn backward(uses: &Uses<'_>, at: usize, rows: i32) -> Option<(usize, SelectedOp)> {
    let layer = &uses.ops[at];
    // The gradient comes through the relu from who makes it (`slope.rs`).
    if layer.op.kind != "fused_fc_grad" || !is(layer, "act", "") {
        return None;
    }
    let dhidden = layer.input("Out@GRAD")?;
    let above = uses.writer(dhidden)?;
    let head = &uses.ops[above];
    let is_through = is(head, "x_act", "relu") && is(head, "act", "");
    let fits = head.op.kind == "fused_fc_grad"
        && head.output("X@GRAD") == Some(dhidden)
        && is_through
        && sizes_fit(uses, layer, head)
        && uses.inner(dhidden, &[at]);
    let params = ["W@GRAD", "Bias@GRAD"].map(|slot| head.output(slot));
    let is_read_later = |var: &VarId| uses.readers(*var).iter().all(|reader| *reader > at);
    let dtype = |op: &SelectedOp| op.view().i64("param_grad_dtype").ok();
    if !fits
        || dtype(layer) != dtype(head)
        || !params.iter().flatten().all(is_read_later)
        || changes(uses, head, above, at)
    {
        return None;
    }
    let mut op = layer.op.clone();
    op = op.attr("at_once_rows", rows);
    op.kind = "fused_logit_grad".to_owned();
    op.attrs.retain(|name, _| !matches!(name.as_str(), "act" | "x_num_col_dims"));
    let read = [
        ("X", layer.inputs_of("X")),
        ("W", layer.inputs_of("W")),
        ("Bias", layer.inputs_of("Bias")),
        ("Hidden", head.inputs_of("X")),
        ("HeadW", head.inputs_of("W")),
        ("HeadBias", head.inputs_of("Bias")),
        ("Out@GRAD", head.inputs_of("Out@GRAD")),
    ];
    let written = [
        ("X@GRAD", layer.outputs_of("X@GRAD")),
        ("W@GRAD", layer.outputs_of("W@GRAD")),
        ("Bias@GRAD", layer.outputs_of("Bias@GRAD")),
        ("HeadW@GRAD", head.outputs_of("W@GRAD")),
        ("HeadBias@GRAD", head.outputs_of("Bias@GRAD")),
    ];
    let given = |(_, vars): &(&str, &[VarId])| !vars.is_empty();
    let written: Vec<_> = written.into_iter().filter(given).collect();
    Some((above, uses.selection.op(op, layer, &read, &written)))
}

fn is(op: &SelectedOp, attr: &str, value: &str) -> bool {
    op.view().string(attr).is_ok_and(|own| own == value)
}

/// Whether both layers take rows of matrices, of a type and of sizes that tensor cores do.
fn sizes_fit(uses: &Uses<'_>, layer: &SelectedOp, head: &SelectedOp) -> bool {
    let takes_rows = |op: &SelectedOp| op.view().i64("x_num_col_dims").is_ok_and(|dims| dims == 1);
    let weight = |op: &SelectedOp| uses.var(op.input("W")?).declared.as_ref();
    let (Some(w), Some(head_w)) = (weight(layer), weight(head)) else { return false };
    let is_of_rows =
        |op: &SelectedOp| op.input("X").is_some_and(|x| uses.var(x).shape().len() == 2);
    let [k, n] = w.shape[..] else { return false };
    takes_rows(layer)
        && takes_rows(head)
        && is_of_rows(layer)
        && is_half(w.dtype)
        && head_w.dtype == w.dtype
        && head_w.shape[..] == [n, 1]
        && k % 8 == 0
        && n % 8 == 0
        && n <= MOST_COLUMNS
}

/// Whether something that the op at `first` reads is written before the op at `last`.
fn changes(uses: &Uses<'_>, op: &SelectedOp, first: usize, last: usize) -> bool {
    op.inputs.iter().any(|var| uses.written_between(*var, first, last))
}
