//! Tables that a card has no memory for, and so stay on the host with the ops that use them.
//!
//! Only variables that all their ops reach row by row (lookups, updates), or that are just being made, may stay:
//! what an op reads as a whole would have to be copied in every step.

use std::collections::HashSet;

use bireme_ir::{Attr, VarKind};

use crate::op::Meta;
use crate::plan::layout::Source;
use crate::plan::select::{SelectedOp, VarId};

/// The variables of a step that stay on the host: those that did so before.
pub(super) fn known(source: &Source<'_>) -> HashSet<VarId> {
    let stay = source.cells.iter().filter(|(_, cell)| cell.stays_home());
    stay.map(|(var, _)| *var).collect()
}

/// Tables whose rows a geo trainer exchanges with its servers. The host does that in every step, for the rows of the
/// step alone: on a card the whole table would have to be copied there and back.
pub(super) fn exchanged(source: &Source<'_>) -> HashSet<VarId> {
    let ops = source.selection.ops.iter().filter(|op| op.op.kind == "geo_exchange");
    let tables = ops.flat_map(|op| {
        let ids = match op.op.attrs.get("ids_per_param") {
            Some(Attr::Ints(ids)) => ids.as_slice(),
            _ => &[],
        };
        let pairs = op.inputs_of("Param").iter().zip(ids);
        pairs.filter(|(_, ids)| **ids >= 0).map(|(var, _)| *var).collect::<Vec<_>>()
    });
    tables.filter(|var| is_table(source, *var)).collect()
}

/// Adds the largest table that is not at home yet, with what its ops use beside it. `least` is the size from which
/// on it is worth it. Says whether there was one.
pub(super) fn add_largest(
    source: &Source<'_>,
    metas: &[Option<Meta>],
    least: usize,
    at_home: &mut HashSet<VarId>,
) -> bool {
    let size = |var: &VarId| metas[*var].as_ref().map_or(0, bytes);
    let candidates = source.cells.keys().filter(|var| {
        !at_home.contains(var) && size(var) >= least.max(1) && is_table(source, **var)
    });
    // Of two that are as large, the first of the program: every run decides alike.
    let largest = candidates.max_by_key(|var| (size(var), std::cmp::Reverse(**var)));
    let Some(largest) = largest.copied() else { return false };
    let mut added = vec![largest];
    while let Some(var) = added.pop() {
        at_home.insert(var);
        let users = source.selection.ops.iter().filter(|op| uses(op, var));
        let beside: HashSet<VarId> =
            users.flat_map(|op| op.inputs.iter().chain(&op.outputs)).copied().collect();
        let beside = beside.into_iter().filter(|var| {
            source.cells.contains_key(var) && !at_home.contains(var) && size(var) >= least.max(1)
        });
        let beside: Vec<VarId> = beside.filter(|var| is_table(source, *var)).collect();
        added.extend(beside);
    }
    true
}

fn uses(op: &SelectedOp, var: VarId) -> bool {
    op.inputs.contains(&var) || op.outputs.contains(&var)
}

/// Whether every op that uses a variable reaches it row by row, or makes it from nothing.
fn is_table(source: &Source<'_>, var: VarId) -> bool {
    let mut users = source.selection.ops.iter().filter(|op| uses(op, var)).peekable();
    users.peek().is_some() && users.all(|op| op.inputs.is_empty() || by_rows(op, var))
}

fn by_rows(op: &SelectedOp, var: VarId) -> bool {
    let def = op.def;
    let is_shared = |slot: &str| def.shared.contains(&slot);
    let continues = |output: &str| {
        is_shared(output) || def.inplace.iter().any(|(from, to)| *to == output && is_shared(from))
    };
    let (inputs, outputs) = (def.signature.inputs, def.signature.outputs);
    inputs.iter().all(|slot| is_shared(slot.name) || !op.inputs_of(slot.name).contains(&var))
        && outputs
            .iter()
            .all(|slot| continues(slot.name) || !op.outputs_of(slot.name).contains(&var))
}

fn bytes(meta: &Meta) -> usize {
    let elements = meta.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0));
    match meta.kind {
        VarKind::LodTensor => elements.product::<usize>() * meta.dtype.size(),
        _ => 0,
    }
}
