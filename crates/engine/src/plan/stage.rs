//! Decides where each op of a step runs when a batch is cut into shares.
//!
//! *Before*: ops on whole values only, run once. *Split*: ops that run on the rows of each share, which
//! threads take as they come free. *After*: everything else, run once when all shares are done and their
//! partial results are summed; grouped in levels, so that ops of one level may run side by side.

use std::collections::{HashMap, HashSet};

use crate::op::{Meta, SplitView, Spread};
use crate::plan::select::{SelectedOp, VarId};

/// Where an op runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Once, before the split.
    Before,
    /// For every share, on its rows.
    Split,
    /// Once, in this level after the split.
    After(usize),
}

/// The outcome for a whole step.
#[derive(Debug)]
pub(crate) struct Stages {
    /// One for each op.
    pub(crate) ops: Vec<Stage>,
    /// How each variable is spread; whole when absent.
    pub(crate) spreads: HashMap<VarId, Spread>,
}

impl Stages {
    /// Everything at once, on one thread.
    pub(crate) fn single(ops: usize) -> Stages {
        Stages { ops: vec![Stage::Before; ops], spreads: HashMap::new() }
    }

    /// The spread of a variable.
    pub(crate) fn spread(&self, var: VarId) -> Spread {
        self.spreads.get(&var).copied().unwrap_or(Spread::Whole)
    }
}

/// Assigns the ops of a step with `batch` rows in each of `feeds`, which is cut into so many shares.
pub(crate) fn assign(
    ops: &[SelectedOp],
    metas: &[Option<Meta>],
    persistable: &[bool],
    feeds: &[VarId],
    (batch, shares): (usize, usize),
) -> Stages {
    let mut hazards = Hazards::default();
    let mut stages = Stages {
        ops: Vec::with_capacity(ops.len()),
        spreads: feeds.iter().map(|var| (*var, Spread::Rows)).collect(),
    };
    for selected in ops {
        let spreads: Vec<Spread> = selected.inputs.iter().map(|var| stages.spread(*var)).collect();
        let (stage, outputs) = if hazards.needs_after(selected) || hazards.has_turn(selected) {
            (None, None)
        } else if spreads.iter().all(|spread| *spread == Spread::Whole) {
            let stage = (!hazards.overtakes(selected)).then_some(Stage::Before);
            (stage, None)
        } else {
            let outputs = split_outputs(selected, &spreads, metas, (batch, shares))
                .filter(|_| !selected.outputs.iter().any(|var| persistable[*var]))
                .filter(|_| !hazards.overtakes(selected));
            (outputs.as_ref().map(|_| Stage::Split), outputs)
        };
        let stage = stage.unwrap_or_else(|| Stage::After(hazards.level(selected)));
        hazards.record(selected, stage);
        for (i, var) in selected.outputs.iter().enumerate() {
            stages.spreads.insert(*var, outputs.as_ref().map_or(Spread::Whole, |o| o[i]));
        }
        stages.ops.push(stage);
    }
    stages
}

fn split_outputs(
    selected: &SelectedOp,
    spreads: &[Spread],
    metas: &[Option<Meta>],
    (batch, shares): (usize, usize),
) -> Option<Vec<Spread>> {
    let known = |vars: &[VarId]| -> Option<Vec<Meta>> {
        vars.iter().map(|var| metas[*var].clone().filter(Meta::is_static)).collect()
    };
    let (inputs, outputs) = (known(&selected.inputs)?, known(&selected.outputs)?);
    let op = selected.view();
    let view = SplitView { op: &op, spreads, inputs: &inputs, outputs: &outputs, batch, shares };
    op.def.split.apply(&view)
}

/// Which variables ops outside the first stage have touched, in program order.
#[derive(Default)]
struct Hazards {
    /// The level after which a variable written in the last stage can be read.
    written_after: HashMap<VarId, usize>,
    /// The level after which a variable read in the last stage can be written.
    read_after: HashMap<VarId, usize>,
    /// Variables read or written in the split stage.
    split: HashSet<VarId>,
    /// The level of the last ordered op: the next has a later one, whoever else could run beside it.
    turn: Option<usize>,
}

impl Hazards {
    /// Whether an input comes from the last stage.
    fn needs_after(&self, op: &SelectedOp) -> bool {
        op.inputs.iter().any(|var| self.written_after.contains_key(var))
    }

    /// Whether it must run after an ordered op of the last stage.
    fn has_turn(&self, op: &SelectedOp) -> bool {
        op.def.ordered && self.turn.is_some()
    }

    /// Whether running this op earlier would overwrite what an op before it still reads or wrote.
    fn overtakes(&self, op: &SelectedOp) -> bool {
        op.outputs.iter().any(|var| {
            self.split.contains(var)
                || self.written_after.contains_key(var)
                || self.read_after.contains_key(var)
        })
    }

    fn level(&self, op: &SelectedOp) -> usize {
        let after = |map: &HashMap<VarId, usize>, var: &VarId| map.get(var).map_or(0, |l| l + 1);
        let reads = op.inputs.iter().map(|var| after(&self.written_after, var));
        let writes = op
            .outputs
            .iter()
            .map(|var| after(&self.written_after, var).max(after(&self.read_after, var)));
        let turn = self.turn.filter(|_| op.def.ordered).map_or(0, |level| level + 1);
        reads.chain(writes).max().unwrap_or(0).max(turn)
    }

    fn record(&mut self, op: &SelectedOp, stage: Stage) {
        match stage {
            Stage::Before => {}
            Stage::Split => self.split.extend(op.inputs.iter().chain(&op.outputs)),
            Stage::After(level) => {
                if op.def.ordered {
                    self.turn = Some(level);
                }
                for var in &op.outputs {
                    self.written_after.insert(*var, level);
                }
                for var in &op.inputs {
                    let last = self.read_after.entry(*var).or_insert(level);
                    *last = level.max(*last);
                }
            }
        }
    }
}
