//! The gradient of a layer of one column, taken through the relu of the layer below at once.
//!
//! Such a gradient is one number a sample times the weights: who computes it has the outputs of the layer below at hand,
//! and so the slopes of its relu. The layer below then begins with its products.

use super::pattern::{Edits, Uses};
use crate::plan::select::SelectedOp;

/// Takes slopes to where gradients are made.
pub(super) fn fuse(uses: &Uses<'_>, edits: &mut Edits) {
    for (at, above) in uses.ops.iter().enumerate() {
        let is_free = |below: &usize| !edits.taken(at) && !edits.taken(*below);
        if let Some(below) = layer_below(uses, above).filter(is_free) {
            let changed = with(uses, above, ("x_act", "relu"), None);
            edits.replace(&[at], at, changed);
            let changed = with(uses, &uses.ops[below], ("act", ""), Some("Out"));
            edits.replace(&[below], below, changed);
        }
    }
}

/// The gradient op of a relu layer that alone reads what `above`, that of a layer of one column, gives it.
fn layer_below(uses: &Uses<'_>, above: &SelectedOp) -> Option<usize> {
    let is_grad = |op: &SelectedOp| op.op.kind == "fused_fc_grad";
    let has_act = |op: &SelectedOp, act: &str| op.view().string("act").is_ok_and(|own| own == act);
    if !is_grad(above) || !matches!(uses.var(above.input("W")?).shape(), [_, 1]) {
        return None;
    }
    let (x, dx) = (above.input("X")?, above.output("X@GRAD")?);
    let below = uses.reader_of_kind(dx, "fused_fc_grad", "Out@GRAD")?;
    let op = &uses.ops[below];
    let is_of_x = op.input("Out") == Some(x) && has_act(op, "relu");
    (is_of_x && uses.inner(dx, &[below])).then_some(below)
}

/// The same op with another attribute, and without an input.
fn with(
    uses: &Uses<'_>,
    op: &SelectedOp,
    (name, value): (&str, &str),
    without: Option<&str>,
) -> SelectedOp {
    let changed = op.op.clone().attr(name, value);
    let slots = |table: &'static [crate::op::Slot]| table.iter().map(|slot| slot.name);
    let inputs: Vec<_> = slots(op.def.signature.inputs)
        .filter(|slot| Some(*slot) != without)
        .map(|slot| (slot, op.inputs_of(slot)))
        .filter(|(_, vars)| !vars.is_empty())
        .collect();
    let outputs: Vec<_> = slots(op.def.signature.outputs)
        .map(|slot| (slot, op.outputs_of(slot)))
        .filter(|(_, vars)| !vars.is_empty())
        .collect();
    uses.selection.op(changed, op, &inputs, &outputs)
}
