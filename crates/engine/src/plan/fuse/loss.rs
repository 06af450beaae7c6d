//! A loss whose mean is what a program minimizes, with its gradient, as one op on a card: what the gradient of each sample's
//! loss is does not depend on any other, so nothing has to wait for the mean.

use bireme_ir::Op;

use super::pattern::{Edits, Uses};
use crate::plan::select::{SelectedOp, VarId};

/// Takes every such loss with its gradient.
pub(super) fn fuse(uses: &Uses<'_>, edits: &mut Edits) {
    for at in 0..uses.ops.len() {
        if let Some(found) = find(uses, at) {
            edits.replace(&found.replaced, at, found.op);
        }
    }
}

/// The op in the place of others.
struct Found {
    op: SelectedOp,
    replaced: Vec<usize>,
}

/// The loss at `at`, if all it leads to is a mean that is minimized.
fn find(uses: &Uses<'_>, at: usize) -> Option<Found> {
    let ops = uses.ops;
    let loss = &ops[at];
    let view = loss.view();
    let rank = uses.var(loss.input("Logits").filter(|_| is_softmax(loss))?).shape().len() as i64;
    let axis = view.i64("axis").ok()?;
    let is_plain = !view.bool("soft_label").ok()? && view.bool("use_softmax").ok()?;
    if !is_plain || rank == 0 || (axis != -1 && axis != rank - 1) {
        return None;
    }
    let mean_grad = uses.reader_of_kind(loss.output("Loss")?, "mean_grad", "X")?;
    let dlosses = ops[mean_grad].output("X@GRAD")?;
    let grad = uses.reader_of_kind(dlosses, "softmax_with_cross_entropy_grad", "Loss@GRAD")?;
    let (fill, value) = constant(uses, ops[mean_grad].input("Out@GRAD")?)?;
    let is_of_loss = ops[grad].input("Softmax") == loss.output("Softmax")
        && ops[grad].input("Label") == loss.input("Label")
        && uses.inner(dlosses, &[grad]);
    let dlogits = ops[grad].output("Logits@GRAD")?;
    let stays = !uses.written_between(loss.input("Label")?, at, grad);
    if !is_of_loss || !stays || uses.writer(dlogits) != Some(grad) {
        return None;
    }
    let mut replaced = vec![at, mean_grad, grad];
    if uses.inner(ops[fill].output("Out")?, &[mean_grad]) {
        replaced.push(fill);
    }
    let ignore = i32::try_from(view.i64("ignore_index").ok()?).ok()?;
    let op = Op::new("fused_softmax_loss").attr("ignore_index", ignore).attr("mean_grad", value);
    let read = [("Logits", loss.inputs_of("Logits")), ("Label", loss.inputs_of("Label"))];
    let written = [
        ("Softmax", loss.outputs_of("Softmax")),
        ("Loss", loss.outputs_of("Loss")),
        ("Logits@GRAD", ops[grad].outputs_of("Logits@GRAD")),
    ];
    Some(Found { op: uses.selection.op(op, loss, &read, &written), replaced })
}

fn is_softmax(op: &SelectedOp) -> bool {
    op.op.kind == "softmax_with_cross_entropy"
}

/// The op that makes `var` a number which the program knows, and that number.
fn constant(uses: &Uses<'_>, var: VarId) -> Option<(usize, f32)> {
    let at = uses.writer(var)?;
    let op = &uses.ops[at];
    let is_constant = op.op.kind == "fill_constant"
        && op.inputs.is_empty()
        && op.view().string("str_value").ok()?.is_empty();
    Some((at, op.view().f64("value").ok()? as f32)).filter(|_| is_constant)
}
