//! What every fusion asks: who writes a variable, who reads it, is it seen from outside.

use std::collections::{HashMap, HashSet};

use crate::plan::select::{PlanVar, SelectedOp, Selection, VarId};

/// Writers and readers of the values of a list of ops.
pub(super) struct Uses<'a> {
    pub(super) selection: &'a Selection,
    pub(super) ops: &'a [SelectedOp],
    /// By value: the positions of the ops.
    readers: Vec<Vec<usize>>,
    writers: Vec<Vec<usize>>,
}

/// Ops to take out and ops to put in: each new op stands at the position of one it replaces.
#[derive(Default)]
pub(super) struct Edits {
    removed: HashSet<usize>,
    inserted: HashMap<usize, SelectedOp>,
}

impl<'a> Uses<'a> {
    pub(super) fn new(selection: &'a Selection) -> Uses<'a> {
        let none = || vec![Vec::new(); selection.vars.len()];
        let (mut readers, mut writers) = (none(), none());
        for (position, op) in selection.ops.iter().enumerate() {
            op.inputs.iter().for_each(|var| readers[*var].push(position));
            op.outputs.iter().for_each(|var| writers[*var].push(position));
        }
        Uses { selection, ops: &selection.ops, readers, writers }
    }

    /// What is known of a value.
    pub(super) fn var(&self, var: VarId) -> &'a PlanVar {
        &self.selection.vars[var]
    }

    /// The positions of the ops that read `var`, each as often as it reads it.
    pub(super) fn readers(&self, var: VarId) -> &[usize] {
        &self.readers[var]
    }

    /// The only op that writes `var`.
    pub(super) fn writer(&self, var: VarId) -> Option<usize> {
        match self.writers[var].as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Whether `var` may go: nobody outside the step sees it, and only `ops` read it.
    pub(super) fn inner(&self, var: VarId, ops: &[usize]) -> bool {
        !self.var(var).persists()
            && !self.selection.fetches.contains(&var)
            && self.writer(var).is_some()
            && self.readers(var).iter().all(|reader| ops.contains(reader))
    }

    /// Whether `var` is written between positions `first` and `last`: reading it later than the
    /// program does would then read something else.
    pub(super) fn written_between(&self, var: VarId, first: usize, last: usize) -> bool {
        self.writers[var].iter().any(|at| first < *at && *at < last)
    }

    /// The reader of `var` that is of type `kind` and has it in slot `slot`, if there is only one.
    pub(super) fn reader_of_kind(&self, var: VarId, kind: &str, slot: &str) -> Option<usize> {
        self.only_reader(var, |op| op.op.kind == kind && op.inputs_of(slot) == [var])
    }

    /// The only op of type `kind` that reads `var`, in whatever slot.
    pub(super) fn reader_of(&self, var: VarId, kind: &str) -> Option<usize> {
        self.only_reader(var, |op| op.op.kind == kind)
    }

    fn only_reader(&self, var: VarId, is_it: impl Fn(&SelectedOp) -> bool) -> Option<usize> {
        let mut found = self.readers(var).iter().copied().filter(|at| is_it(&self.ops[*at]));
        let only = found.next()?;
        found.next().is_none().then_some(only)
    }
}

impl Edits {
    /// Replaces the ops at `positions` by `op`, which stands at `at`, one of them.
    pub(super) fn replace(&mut self, positions: &[usize], at: usize, op: SelectedOp) {
        self.removed.extend(positions);
        self.inserted.insert(at, op);
    }

    /// Whether the op at `position` is part of a pattern already.
    pub(super) fn taken(&self, position: usize) -> bool {
        self.removed.contains(&position)
    }

    /// The ops after the edits.
    pub(super) fn apply(mut self, ops: Vec<SelectedOp>) -> Vec<SelectedOp> {
        let mut edited = Vec::with_capacity(ops.len());
        for (position, op) in ops.into_iter().enumerate() {
            if let Some(new) = self.inserted.remove(&position) {
                edited.push(new);
            } else if !self.removed.contains(&position) {
                edited.push(op);
            }
        }
        edited
    }
}
