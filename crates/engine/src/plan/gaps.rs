//! Gaps between the rows of matrices on a card.
//!
//! A card reads rows fastest that begin on multiples of 16 bytes, and its products of matrices need that for their
//! best ways. A temporary whose rows do not, and whose every user takes gaps, gets them.

use std::collections::HashMap;

use bireme_ir::VarKind;

use crate::device::Device;
use crate::op::Meta;
use crate::plan::select::{SelectedOp, Selection, VarId};

/// Where rows should begin, in bytes.
const ALIGN: usize = 16;

/// The pitch, in elements, of each value that is to have gaps.
pub(crate) fn pitches(
    selection: &Selection,
    metas: &[Option<Meta>],
    device: &dyn Device,
) -> HashMap<VarId, usize> {
    let is_seen = |var: &VarId| {
        selection.feeds.contains(var)
            || selection.fetches.contains(var)
            || selection.vars[*var].persists()
    };
    let mut found = HashMap::new();
    for (var, meta) in metas.iter().enumerate() {
        let Some(pitch) = meta.as_ref().and_then(pitch) else { continue };
        let uses = |op: &&SelectedOp| op.inputs.contains(&var) || op.outputs.contains(&var);
        if !is_seen(&var) && selection.ops.iter().filter(uses).all(|op| takes(device, op, var)) {
            found.insert(var, pitch);
        }
    }
    found
}

/// The pitch of a matrix whose rows do not begin where they should.
fn pitch(meta: &Meta) -> Option<usize> {
    let size = meta.dtype.size();
    match meta.dims[..] {
        [rows, width] if rows > 1 && width > 0 && meta.kind == VarKind::LodTensor => {
            let bytes = usize::try_from(width).ok()? * size;
            (meta.dtype.is_float() && !bytes.is_multiple_of(ALIGN))
                .then(|| bytes.next_multiple_of(ALIGN) / size)
        }
        _ => None,
    }
}

/// Whether an op takes gaps in all slots that hold `var`.
fn takes(device: &dyn Device, op: &SelectedOp, var: VarId) -> bool {
    let slots = device.takes_gaps(&op.op.kind);
    let signature = &op.def.signature;
    let fits = |name: &str, vars: &[VarId]| !vars.contains(&var) || slots.contains(&name);
    !op.guarded
        && signature.inputs.iter().all(|slot| fits(slot.name, op.inputs_of(slot.name)))
        && signature.outputs.iter().all(|slot| fits(slot.name, op.outputs_of(slot.name)))
}
