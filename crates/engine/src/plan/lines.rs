//! Tables of a card side by side with the state of their optimizers.
//!
//! An update of rows reads and writes a row of the table and the same row of every accumulator. Where they lie one behind
//! the other, in a line, the card moves one stretch of memory for all of them instead of one for each, far apart.
//! Only who reaches such variables row by row can find them there: where another op of a program uses one, it lies by
//! itself, and stays so, for programs that take turns on a scope would else move it in every step.

use std::collections::HashMap;

use bireme_ir::VarKind;

use crate::device::Device;
use crate::op::Meta;
use crate::plan::gaps::takes;
use crate::plan::layout::Source;
use crate::plan::select::{SelectedOp, VarId};

/// What a card moves at once, in bytes: rows as long as this gain nothing by their neighbours.
const LONG_ROW: usize = 128;

/// Variables of a step that lie in lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lines {
    /// Elements from row to row, of each of them.
    pub(crate) pitches: HashMap<VarId, usize>,
    /// Those that do not lie so yet, by line: in the order in which they are to lie.
    pub(crate) new: Vec<Vec<VarId>>,
}

impl Lines {
    /// Which variables lie in lines, and if `may_move` which others should.
    pub(crate) fn of(
        source: &Source<'_>,
        metas: &[Option<Meta>],
        device: &dyn Device,
        may_move: bool,
    ) -> Lines {
        let mut lines = Lines::default();
        for (var, cell) in source.cells {
            let pitch = metas[*var].as_ref().and_then(|meta| cell.pitch_on(device, meta));
            if let Some(pitch) = pitch.filter(|_| all_take(source, device, *var)) {
                lines.pitches.insert(*var, pitch);
            }
        }
        // What lay in a line with a variable that has left it would keep the memory of both.
        for members in source.selection.ops.iter().filter_map(|op| members(device, op)) {
            if members.iter().any(|var| source.cells.get(var).is_some_and(|c| c.stays_apart())) {
                members.iter().for_each(|var| _ = lines.pitches.remove(var));
            }
        }
        for op in source.selection.ops.iter().filter(|_| may_move) {
            if let Some((members, pitch)) = line(source, metas, device, op)
                && !members.iter().any(|var| lines.pitches.contains_key(var))
            {
                lines.pitches.extend(members.iter().map(|var| (*var, pitch)));
                lines.new.push(members);
            }
        }
        lines
    }

    /// Leaves out variables that `is_touched` by an op that does not find them in lines after all; says whether there
    /// were some.
    pub(crate) fn remove(&mut self, is_touched: impl Fn(&VarId) -> bool) -> bool {
        let before = self.pitches.len();
        let (gone, kept) = std::mem::take(&mut self.new)
            .into_iter()
            .partition(|line| line.iter().any(&is_touched));
        self.new = kept;
        let gone: Vec<Vec<VarId>> = gone;
        self.pitches.retain(|var, _| !is_touched(var) && !gone.iter().flatten().any(|v| v == var));
        before != self.pitches.len()
    }
}

/// Variables of an update `op` that could lie in one line, by their slots.
fn members(device: &dyn Device, op: &SelectedOp) -> Option<Vec<VarId>> {
    device.lines(&op.op.kind).iter().map(|slot| op.input(slot)).collect()
}

/// What the update `op` would have in one line, and elements from line to line.
fn line(
    source: &Source<'_>,
    metas: &[Option<Meta>],
    device: &dyn Device,
    op: &SelectedOp,
) -> Option<(Vec<VarId>, usize)> {
    let members = members(device, op)?;
    let first = metas[*members.first()?].as_ref()?;
    let [rows, width] = first.dims[..] else { return None };
    let row_bytes = usize::try_from(width).ok()? * first.dtype.size();
    let is_table = first.kind == VarKind::LodTensor && first.dtype.is_float() && rows > 1;
    if !is_table || members.len() < 2 || row_bytes == 0 || row_bytes >= LONG_ROW {
        return None;
    }
    let fits = |(at, var): (usize, &VarId)| {
        let cell = source.cells.get(var);
        metas[*var].as_ref() == Some(first)
            && !members[..at].contains(var)
            && op.outputs.contains(var)
            && cell
                .is_some_and(|cell| !cell.stays_apart() && cell.pitch_on(device, first).is_none())
            && all_take(source, device, *var)
    };
    members.iter().enumerate().all(fits).then(|| {
        let pitch = width as usize * members.len();
        (members.clone(), pitch)
    })
}

/// Whether all ops of a step that use a variable find it in lines.
fn all_take(source: &Source<'_>, device: &dyn Device, var: VarId) -> bool {
    let mut users = source
        .selection
        .ops
        .iter()
        .filter(|op| op.inputs.contains(&var) || op.outputs.contains(&var));
    users.all(|op| takes(device.takes_lines(&op.op.kind), op, var))
}
