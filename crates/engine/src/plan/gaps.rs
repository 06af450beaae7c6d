//! Gaps between the rows of matrices on a card.
//!
//! A card reads rows fastest that begin on multiples of 16 bytes, and its products of matrices need that for their
//! best ways. A temporary whose rows do not, and whose every user takes gaps, gets them. In the same manner selected
//! rows need no memory of their own where every user takes them as they lie in another variable.

use std::collections::{HashMap, HashSet};

use bireme_ir::VarKind;

use crate::device::Device;
use crate::op::Meta;
use crate::plan::select::{SelectedOp, Selection, VarId};

/// Where rows should begin, in bytes.
const ALIGN: usize = 16;

/// Values that need not lie in one piece.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Gaps {
    /// The pitch, in elements, of each matrix that is to have gaps.
    pub(crate) pitches: HashMap<VarId, usize>,
    /// Selected rows that may be views.
    pub(crate) views: HashSet<VarId>,
}

impl Gaps {
    pub(crate) fn of(selection: &Selection, metas: &[Option<Meta>], device: &dyn Device) -> Gaps {
        let is_seen = |var: &VarId| {
            selection.feeds.contains(var)
                || selection.fetches.contains(var)
                || selection.vars[*var].persists()
        };
        let mut gaps = Gaps::default();
        for (var, meta) in metas.iter().enumerate() {
            let Some(meta) = meta else { continue };
            let (pitch, is_rows) = (pitch(meta), meta.kind == VarKind::SelectedRows);
            let uses = |op: &&SelectedOp| op.inputs.contains(&var) || op.outputs.contains(&var);
            let is_free = (pitch.is_some() || is_rows) && !is_seen(&var);
            let slots = |op: &SelectedOp| match is_rows {
                true => device.takes_views(&op.op.kind),
                false => device.takes_gaps(&op.op.kind),
            };
            if is_free && selection.ops.iter().filter(uses).all(|op| takes(slots(op), op, var)) {
                gaps.pitches.extend(pitch.map(|pitch| (var, pitch)));
                gaps.views.extend(is_rows.then_some(var));
            }
        }
        gaps
    }

    /// Leaves out values that `is_touched` by an op that takes no gaps after all; says whether there were some.
    pub(crate) fn remove(&mut self, is_touched: impl Fn(&VarId) -> bool) -> bool {
        let before = (self.pitches.len(), self.views.len());
        self.pitches.retain(|var, _| !is_touched(var));
        self.views.retain(|var| !is_touched(var));
        before != (self.pitches.len(), self.views.len())
    }
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

/// Whether `slots` are all slots of an op that hold `var`.
pub(super) fn takes(slots: &[&str], op: &SelectedOp, var: VarId) -> bool {
    let signature = &op.def.signature;
    let fits = |name: &str, vars: &[VarId]| !vars.contains(&var) || slots.contains(&name);
    !op.guarded
        && signature.inputs.iter().all(|slot| fits(slot.name, op.inputs_of(slot.name)))
        && signature.outputs.iter().all(|slot| fits(slot.name, op.outputs_of(slot.name)))
}
