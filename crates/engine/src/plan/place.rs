//! Decides where each op of a step runs when there is a card, and what is copied between the two.
//!
//! An op is the host's when the card has no kernel for it, when it asks servers or prints, when
//! a condition decides whether it runs, when its shapes are known only as it runs, or when it uses a table that
//! the card has no memory for. Values are copied where
//! somebody needs them that another has made, once, and only then.
//! What ranks reduce is the card's own where cards exchange among themselves (`collective/on_card.rs`); otherwise it
//! leaves the card and comes back beside the step (`card/staged.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::Result;
use crate::collective::{Link, on_card};
use crate::device::{Device, DeviceKernel, DeviceMeta, RowValues};
use crate::op::{Meta, OpView};
use crate::ops::collective::ring;
use crate::plan::gaps::Gaps;
use crate::plan::lines::Lines;
use crate::plan::select::{SelectedOp, Selection, VarId};
use bireme_ir::VarKind;

/// What places are decided by.
#[derive(Clone, Copy)]
pub(crate) struct Deciding<'a> {
    /// The program's seed, which random ops take over.
    pub(crate) seed: u64,
    /// Who is asked.
    pub(crate) device: &'a dyn Device,
    /// Variables that the card has no memory for: ops that use them run on the host.
    pub(crate) at_home: &'a HashSet<VarId>,
    /// Variables that lie, or should lie, in lines.
    pub(crate) lines: &'a Lines,
    /// The way to the other ranks.
    pub(crate) link: Option<&'a Arc<Link>>,
}

/// One thing to do in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Runs an op on the host.
    Host(usize),
    /// Runs an op on the card.
    Card(usize),
    /// Runs an op of values on the card by way of the host's memory.
    Staged(usize),
    /// Copies a value to the host.
    Down(VarId),
    /// Copies a value to the card.
    Up(VarId),
}

/// Where the ops of a step run.
pub(crate) struct Places {
    /// The kernel of each op that runs on the card.
    pub(crate) kernels: Vec<Option<Arc<dyn DeviceKernel>>>,
    /// Ops whose values are the card's, and which the host runs through memory of its own.
    pub(crate) staged: HashSet<usize>,
    /// What is known of each value, with the rows that are selected on the card.
    pub(crate) metas: Vec<Option<DeviceMeta>>,
    /// What lies in lines.
    pub(crate) lines: Lines,
}

impl Places {
    /// Asks the card for each op of `selection`, whose values have the shapes `metas`.
    ///
    /// # Errors
    /// When an op refuses its attributes or inputs.
    pub(crate) fn assign(
        selection: &Selection,
        metas: &[Option<Meta>],
        by: Deciding<'_>,
    ) -> Result<Places> {
        let mut gaps = Gaps::of(selection, metas, by.device);
        let mut lines = by.lines.clone();
        loop {
            let places = Places::with_gaps(selection, metas, by, &gaps, &lines)?;
            // An op that the host runs after all takes neither gaps nor lines.
            let ops = selection.ops.iter().enumerate();
            let on_host = ops.filter(|(at, _)| places.kernels[*at].is_none());
            let touched: HashSet<VarId> =
                on_host.flat_map(|(_, op)| op.inputs.iter().chain(&op.outputs)).copied().collect();
            let is_touched = |var: &VarId| touched.contains(var);
            if !(gaps.remove(is_touched) | lines.remove(is_touched)) {
                return Ok(Places { lines, ..places });
            }
        }
    }

    fn with_gaps(
        selection: &Selection,
        metas: &[Option<Meta>],
        by: Deciding<'_>,
        gaps: &Gaps,
        lines: &Lines,
    ) -> Result<Places> {
        let on_card = metas.iter().enumerate().map(|(var, meta)| {
            let may_be_view = gaps.views.contains(&var);
            let line = lines.pitches.get(&var);
            meta.clone().map(|meta| DeviceMeta {
                pitch: gaps.pitches.get(&var).or(line).copied(),
                in_line: line.is_some(),
                zeros_follow: selection.vars[var].persists() && line.is_none(),
                values: if may_be_view { RowValues::OwnOrView } else { RowValues::Own },
                ..DeviceMeta::new(meta)
            })
        });
        let (metas, kernels) = (on_card.collect(), Vec::with_capacity(selection.ops.len()));
        let (staged, lines) = (HashSet::new(), Lines::default());
        let mut places = Places { kernels, staged, metas, lines };
        for (at, op) in selection.ops.iter().enumerate() {
            let kernel = places.kernel(selection, op, by).map_err(|error| error.in_op(&op.op))?;
            if kernel.is_none() && places.stage(selection, op, by)? {
                places.staged.insert(at);
            }
            places.kernels.push(kernel);
        }
        Ok(places)
    }

    fn kernel(
        &mut self,
        selection: &Selection,
        op: &SelectedOp,
        by: Deciding<'_>,
    ) -> Result<Option<Arc<dyn DeviceKernel>>> {
        let is_at_home = |var: &VarId| by.at_home.contains(var);
        let is_alone = op.def.side_effect && !op.def.ordered;
        let has_nobody = op.def.ordered && by.link.is_none();
        if op.guarded
            || op.def.flow.is_some()
            || is_alone
            || has_nobody
            || op.inputs.iter().chain(&op.outputs).any(is_at_home)
        {
            return Ok(None);
        }
        let known = |vars: &[VarId]| -> Option<Vec<DeviceMeta>> {
            vars.iter().map(|var| self.metas[*var].clone().filter(is_fixed)).collect()
        };
        let (Some(inputs), Some(mut outputs)) = (known(&op.inputs), known(&op.outputs)) else {
            return Ok(None);
        };
        // Which rows the host selects is known only when it has done so.
        let is_open =
            |meta: &DeviceMeta| meta.meta.kind == VarKind::SelectedRows && meta.rows.is_none();
        if inputs.iter().any(is_open) {
            return Ok(None);
        }
        let versions: Vec<u32> =
            op.outputs.iter().map(|var| selection.vars[*var].version).collect();
        let view = OpView { seed: by.seed, link: by.link, versions: &versions, ..op.view() };
        if op.def.ordered {
            let kernel = on_card::kernel(&view, by.device, &inputs, &mut outputs)?;
            if kernel.is_some() {
                self.note(op, outputs);
            }
            return Ok(kernel);
        }
        let mut kernel = by.device.kernel(&view, &inputs, &mut outputs)?;
        if outputs.iter().any(|output| views_what_stays(selection, op, output)) {
            for output in &mut outputs {
                output.values = RowValues::Own;
            }
            kernel = by.device.kernel(&view, &inputs, &mut outputs)?;
        }
        if kernel.is_some() {
            self.note(op, outputs);
        }
        Ok(kernel)
    }

    /// Notes what an op of the card says of its outputs.
    fn note(&mut self, op: &SelectedOp, outputs: Vec<DeviceMeta>) {
        for (var, meta) in op.outputs.iter().zip(outputs) {
            self.metas[*var] = Some(meta);
        }
    }

    /// Whether an op reduces values of the card through the host's memory, and how many rows then come back.
    fn stage(&mut self, selection: &Selection, op: &SelectedOp, by: Deciding<'_>) -> Result<bool> {
        let Some(link) = by.link.filter(|_| op.def.ordered && !op.guarded) else {
            return Ok(false);
        };
        let is_reduction = matches!(op.op.kind.as_str(), "c_bucket_start" | "c_bucket_wait")
            || op.op.kind.starts_with("c_allreduce_");
        let ([x], true) = (op.inputs_of("X"), is_reduction) else { return Ok(false) };
        let (x, out) = (*x, op.outputs[0]);
        // Where a feed lies is known only when it is fed.
        if selection.feeds.contains(&x) {
            return Ok(false);
        }
        let is_at_home = op.inputs.iter().chain(&op.outputs).any(|var| by.at_home.contains(var));
        let Some(meta) = self.metas[x].clone().filter(|meta| is_fixed(meta) && !is_at_home) else {
            return Ok(false);
        };
        if meta.meta.kind == VarKind::LodTensor {
            return Ok(true);
        }
        let (Some(rows), "c_allreduce_sum") = (meta.rows, op.op.kind.as_str()) else {
            return Ok(false);
        };
        let size = link.peers().size(ring(&op.view())?)?;
        let room = size * link.most_rows(&selection.vars[x].name, rows);
        self.metas[out] = Some(DeviceMeta { rows: Some(room), values: RowValues::Own, ..meta });
        Ok(true)
    }

    /// Whether the values of op `at` are the card's.
    pub(crate) fn is_on_card(&self, at: usize) -> bool {
        self.kernels[at].is_some() || self.staged.contains(&at)
    }
}

impl Places {
    /// How op `at` runs.
    pub(crate) fn task(&self, at: usize) -> Task {
        match (self.kernels[at].is_some(), self.staged.contains(&at)) {
            (true, _) => Task::Card(at),
            (false, true) => Task::Staged(at),
            (false, false) => Task::Host(at),
        }
    }
}

/// Whether an output lies in a variable that is not a temporary: a feed may lie elsewhere in the next step, and what
/// outlives the step may be written before the view is read.
fn views_what_stays(selection: &Selection, op: &SelectedOp, output: &DeviceMeta) -> bool {
    let RowValues::View(view) = output.values else { return false };
    let var = op.inputs[view.input];
    selection.feeds.contains(&var) || selection.vars[var].persists()
}

/// Whether a card can hold the value: its size is known, and no sequences lie in it.
fn is_fixed(meta: &DeviceMeta) -> bool {
    meta.meta.kind.is_tensor() && meta.meta.is_static() && meta.meta.lod_level == 0
}

/// Who has a value as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holders {
    pub(crate) host: bool,
    pub(crate) card: bool,
}

impl Holders {
    pub(crate) const HOST: Holders = Holders { host: true, card: false };
    pub(crate) const CARD: Holders = Holders { host: false, card: true };
}

/// The ops of a step in order, with the copies between them. `holders` says who has what when the step
/// begins, and then who has it when it ends; a value of `kept` is on the card then. What the host has from the
/// beginning goes to the card first of all, so that nothing of the card is cut in two by it.
pub(crate) fn schedule(
    ops: &[SelectedOp],
    runs: impl Fn(usize) -> Task,
    holders: &mut HashMap<VarId, Holders>,
    kept: &[VarId],
) -> Vec<Task> {
    let (mut first, mut tasks) = (Vec::new(), Vec::new());
    let mut given: HashSet<VarId> = holders.keys().copied().collect();
    for (at, op) in ops.iter().enumerate() {
        let task = runs(at);
        let card = !matches!(task, Task::Host(_));
        for var in &op.inputs {
            match copy_for(holders, *var, card) {
                Some(copy @ Task::Up(_)) if given.contains(var) => first.push(copy),
                copy => tasks.extend(copy),
            }
        }
        tasks.push(task);
        for var in &op.outputs {
            given.remove(var);
            holders.insert(*var, if card { Holders::CARD } else { Holders::HOST });
        }
    }
    tasks.extend(kept.iter().filter_map(|var| copy_for(holders, *var, true)));
    first.extend(tasks);
    first
}

/// The copy that somebody needs who wants to read `var`, if any.
fn copy_for(holders: &mut HashMap<VarId, Holders>, var: VarId, card: bool) -> Option<Task> {
    let holders = holders.get_mut(&var)?;
    let (has, task) = match card {
        true => (&mut holders.card, Task::Up(var)),
        false => (&mut holders.host, Task::Down(var)),
    };
    (!std::mem::replace(has, true)).then_some(task)
}

#[cfg(test)]
mod tests {
    use bireme_ir::{DType, Op, Program, Var};

    use super::*;

    #[test]
    fn values_are_copied_once_and_where_they_are_needed() {
        let mut program = Program::new();
        for name in ["x", "a", "b", "c", "d"] {
            program.global_mut().add_var(Var::tensor(name, DType::F32, [2]));
        }
        let op = |from: &str, to: &str| Op::new("relu").input("X", [from]).output("Out", [to]);
        program.global_mut().ops = vec![op("x", "a"), op("a", "b"), op("a", "c"), op("c", "d")];
        let mut selection = Selection::new(&program, &["x"], &["d"]).unwrap();
        selection.finish().unwrap();
        let [x, a, b, c, d] = [0, 1, 2, 3, 4];
        let mut holders = HashMap::from([(x, Holders::HOST)]);
        // The second and the third run on the host.
        let runs = |at: usize| if at == 0 || at == 3 { Task::Card(at) } else { Task::Host(at) };
        let tasks = schedule(&selection.ops, runs, &mut holders, &[b]);
        let expected = [
            Task::Up(x),
            Task::Card(0),
            Task::Down(a),
            Task::Host(1),
            Task::Host(2),
            Task::Up(c),
            Task::Card(3),
            Task::Up(b),
        ];
        assert_eq!(tasks, expected);
        assert_eq!(holders[&d], Holders::CARD);
        assert_eq!(holders[&c], Holders { host: true, card: true });
    }
}
