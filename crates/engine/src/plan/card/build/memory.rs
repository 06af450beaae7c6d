//! What a sketch takes of a card's memory, by purpose.

use std::ops::Range;

use super::{Builder, Sketch, sizes};
use crate::Result;
use crate::device::{MemoryPlan, SegmentMemory};
use crate::plan::card::tables;
use crate::plan::place::Task;
use crate::plan::select::VarId;

/// What memory is for, within a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Activation,
    Scratch,
}

impl Builder<'_> {
    /// What the step will take.
    pub(in super::super) fn memory(&self, sketch: &Sketch) -> Result<MemoryPlan> {
        let mut plan = MemoryPlan {
            device: self.device.describe(),
            memory: self.device.memory().ok(),
            arena: sketch.packing.bytes,
            // Those of the next step arrive while this one runs.
            feeds: 2 * self.fed_bytes()?.iter().sum::<usize>(),
            ..MemoryPlan::default()
        };
        for var in &self.kept {
            let bytes = sizes(self.meta(*var)?).iter().sum::<usize>();
            match self.is_state(*var) {
                true => plan.state += bytes,
                false => plan.parameters += bytes,
            }
            plan.there += self.source.cells[var].bytes_on(self.device).min(bytes);
        }
        // Those are there for another reason than memory.
        let exchanged = tables::exchanged(self.source);
        for var in self.at_home.difference(&exchanged) {
            let bytes = self.places.metas[*var].as_ref().map_or(0, |meta| sizes(meta).iter().sum());
            plan.at_home.push((self.selection.vars[*var].name.clone(), bytes));
        }
        let in_lines = self.places.lines.pitches.keys();
        plan.in_lines = in_lines.map(|var| self.selection.vars[*var].name.clone()).collect();
        plan.in_lines.sort();
        plan.at_home.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), name.clone()));
        self.measure(sketch, &mut plan);
        Ok(plan)
    }

    /// Whether only updates of parameters use a variable, so that it is theirs.
    fn is_state(&self, var: VarId) -> bool {
        let users = self.selection.ops.iter();
        let users = users.filter(|op| op.inputs.contains(&var) || op.outputs.contains(&var));
        let mut params = users.map(|op| op.inputs_of("Param")).peekable();
        params.peek().is_some() && params.all(|params| !params.is_empty() && !params.contains(&var))
    }

    /// Finds the moment of the step that needs most, and the most that each segment does.
    fn measure(&self, sketch: &Sketch, plan: &mut MemoryPlan) {
        let purpose = |at: usize| match sketch.vars.get(at / 2) {
            Some(_) => Purpose::Activation,
            None => Purpose::Scratch,
        };
        let at_moment = |moment: usize, wanted: Purpose| -> usize {
            let needs = sketch.needs.iter().enumerate();
            let alive = needs.filter(|(at, need)| {
                (need.first..=need.last).contains(&moment) && purpose(*at) == wanted
            });
            alive.map(|(_, need)| need.bytes).sum()
        };
        let whole = alive(sketch, 0..self.tasks.len());
        if let Some((moment, _)) = whole.iter().enumerate().max_by_key(|(_, bytes)| **bytes) {
            plan.activations = at_moment(moment, Purpose::Activation);
            plan.scratch = at_moment(moment, Purpose::Scratch);
        }
        for span in self.segments() {
            let peak = whole[span.clone()].iter().copied().max().unwrap_or(0);
            let op = |at: usize| match self.tasks[at] {
                Task::Card(op) => self.selection.ops[op].op.kind.clone(),
                _ => String::new(),
            };
            plan.segments.push(SegmentMemory {
                ops: span.len(),
                first: op(span.start),
                last: op(span.end - 1),
                bytes: peak,
            });
        }
    }

    /// Runs of tasks that become one segment each.
    fn segments(&self) -> Vec<Range<usize>> {
        let mut segments: Vec<Range<usize>> = Vec::new();
        for (at, task) in self.tasks.iter().enumerate() {
            match (task, segments.last_mut()) {
                (Task::Card(_), Some(last)) if last.end == at => last.end = at + 1,
                (Task::Card(_), _) => segments.push(at..at + 1),
                _ => {}
            }
        }
        segments
    }
}

/// Bytes that are alive at each of some moments.
fn alive(sketch: &Sketch, moments: Range<usize>) -> Vec<usize> {
    let mut bytes = vec![0; moments.len()];
    for need in &sketch.needs {
        let last = need.last.min(moments.end.saturating_sub(1));
        for at in need.first..=last {
            if let Some(bytes) = bytes.get_mut(at) {
                *bytes += need.bytes;
            }
        }
    }
    bytes
}
