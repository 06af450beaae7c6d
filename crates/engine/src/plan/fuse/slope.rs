//! The gradient of a layer's input, taken through the relu of the layer below at once.
//!
//! The gradient of a layer of one column is one number a sample times the weights: who computes it has the outputs of
//! the layer below at hand, and so the slopes of its relu. The layer below then begins with its products. A card can do
//! the same with wider layers of 16-bit floats, which pays as long as batches are small
//! ([`Device::rows_through_relu`](crate::device::Device::rows_through_relu)); how many rows there are is not known here,
//! so both ops are told the limit.

use std::collections::BTreeMap;

use bireme_ir::Attr;

use super::pattern::{Edits, Uses};
use crate::op::is_half;
use crate::plan::select::SelectedOp;

/// What becomes of a gradient op.
#[derive(Default)]
struct Change {
    attrs: Vec<(&'static str, Attr)>,
    /// Whether it needs the layer's output no longer.
    drops_out: bool,
}

/// Takes slopes to where gradients are made; of layers of more than one column up to `rows` rows.
pub(super) fn fuse(uses: &Uses<'_>, edits: &mut Edits, rows: usize) {
    let mut changes: BTreeMap<usize, Change> = BTreeMap::new();
    for (at, above) in uses.ops.iter().enumerate() {
        let Some(below) = layer_below(uses, above) else { continue };
        let mut note = |at, attrs: &[(&'static str, Attr)], drops_out| {
            let change = changes.entry(at).or_default();
            change.attrs.extend_from_slice(attrs);
            change.drops_out |= drops_out;
        };
        if has_one_column(uses, above) {
            note(at, &[("x_act", "relu".into())], false);
            note(below, &[("act", "".into())], true);
        } else if let Some(rows) = i32::try_from(rows).ok().filter(|rows| *rows > 0)
            && fits_tensor_cores(uses, above)
        {
            note(at, &[("x_act", "relu".into()), ("x_act_rows", rows.into())], false);
            note(below, &[("taken_rows", rows.into())], false);
        }
    }
    for (at, change) in changes {
        edits.replace(&[at], at, changed(uses, &uses.ops[at], change));
    }
}

fn has_one_column(uses: &Uses<'_>, op: &SelectedOp) -> bool {
    op.input("W").is_some_and(|w| matches!(uses.var(w).shape(), [_, 1]))
}

/// Whether a layer has the type and the sizes for it.
fn fits_tensor_cores(uses: &Uses<'_>, op: &SelectedOp) -> bool {
    let weight = op.input("W").and_then(|w| uses.var(w).declared.as_ref());
    weight.is_some_and(|w| is_half(w.dtype) && w.shape.iter().all(|size| size % 8 == 0))
}

/// The gradient op of a relu layer that alone reads what `above` gives it.
fn layer_below(uses: &Uses<'_>, above: &SelectedOp) -> Option<usize> {
    let is_grad = |op: &SelectedOp| op.op.kind == "fused_fc_grad";
    let has_act = |op: &SelectedOp, act: &str| op.view().string("act").is_ok_and(|own| own == act);
    if !is_grad(above) {
        return None;
    }
    let (x, dx) = (above.input("X")?, above.output("X@GRAD")?);
    let below = uses.reader_of_kind(dx, "fused_fc_grad", "Out@GRAD")?;
    let op = &uses.ops[below];
    let width = |op: &SelectedOp, side: usize| uses.var(op.input("W")?).shape().get(side).copied();
    let is_of_x = op.input("Out") == Some(x) && has_act(op, "relu");
    // Then both see the same rows.
    let is_as_wide = width(above, 0).is_some() && width(above, 0) == width(op, 1);
    (is_of_x && is_as_wide && uses.inner(dx, &[below])).then_some(below)
}

/// The same op with other attributes.
fn changed(uses: &Uses<'_>, op: &SelectedOp, change: Change) -> SelectedOp {
    let with =
        change.attrs.into_iter().fold(op.op.clone(), |op, (name, value)| op.attr(name, value));
    let slots = |table: &'static [crate::op::Slot]| table.iter().map(|slot| slot.name);
    let inputs: Vec<_> = slots(op.def.signature.inputs)
        .filter(|slot| !(change.drops_out && *slot == "Out"))
        .map(|slot| (slot, op.inputs_of(slot)))
        .filter(|(_, vars)| !vars.is_empty())
        .collect();
    let outputs: Vec<_> = slots(op.def.signature.outputs)
        .map(|slot| (slot, op.outputs_of(slot)))
        .filter(|(_, vars)| !vars.is_empty())
        .collect();
    uses.selection.op(with, op, &inputs, &outputs)
}
