//! What every fusion asks: who writes a variable, who reads it, is it seen from outside.

use std::collections::{HashMap, HashSet};

use bireme_ir::{Op, Program};

/// Writers and readers of the variables of a list of ops.
pub(super) struct Uses<'a> {
    ops: &'a [Op],
    program: &'a Program,
    kept: &'a HashSet<&'a str>,
    readers: HashMap<&'a str, Vec<usize>>,
    writers: HashMap<&'a str, Vec<usize>>,
}

/// Ops to take out and ops to put in: each new op stands at the position of one it replaces.
#[derive(Default)]
pub(super) struct Edits {
    removed: HashSet<usize>,
    inserted: HashMap<usize, Op>,
}

impl<'a> Uses<'a> {
    pub(super) fn new(ops: &'a [Op], program: &'a Program, kept: &'a HashSet<&'a str>) -> Uses<'a> {
        let (mut readers, mut writers) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for (position, op) in ops.iter().enumerate() {
            for var in op.input_vars() {
                readers.entry(var.as_str()).or_default().push(position);
            }
            for var in op.output_vars() {
                writers.entry(var.as_str()).or_default().push(position);
            }
        }
        Uses { ops, program, kept, readers, writers }
    }

    /// The positions of the ops that read `var`, each as often as it reads it.
    pub(super) fn readers(&self, var: &str) -> &[usize] {
        self.readers.get(var).map_or(&[], Vec::as_slice)
    }

    /// The only op that writes `var`.
    pub(super) fn writer(&self, var: &str) -> Option<usize> {
        match self.writers.get(var)?.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Whether `var` may go: nobody outside the step sees it, and only `ops` read it.
    pub(super) fn inner(&self, var: &str, ops: &[usize]) -> bool {
        let persists = self.program.global().var(var).is_some_and(|var| var.persistable);
        !persists
            && !self.kept.contains(var)
            && self.writer(var).is_some()
            && self.readers(var).iter().all(|reader| ops.contains(reader))
    }

    /// Whether `var` is written between positions `first` and `last`: reading it later than the
    /// program does would then read something else.
    pub(super) fn written_between(&self, var: &str, first: usize, last: usize) -> bool {
        let writers = self.writers.get(var).map_or(&[][..], Vec::as_slice);
        writers.iter().any(|at| first < *at && *at < last)
    }

    /// The reader of `var` that is of type `kind` and has it in slot `slot`, if there is only one.
    pub(super) fn reader_of_kind(&self, var: &str, kind: &str, slot: &str) -> Option<usize> {
        let mut found = self
            .readers(var)
            .iter()
            .copied()
            .filter(|at| self.ops[*at].kind == kind && self.ops[*at].inputs_of(slot) == [var]);
        let only = found.next()?;
        found.next().is_none().then_some(only)
    }

    /// The only op of type `kind` that reads `var`, in whatever slot.
    pub(super) fn reader_of(&self, var: &str, kind: &str) -> Option<usize> {
        let mut found = self.readers(var).iter().copied().filter(|at| self.ops[*at].kind == kind);
        let only = found.next()?;
        found.next().is_none().then_some(only)
    }

    /// The declared shape of `var`; empty when it is not declared.
    pub(super) fn shape(&self, var: &str) -> &'a [i64] {
        self.program.global().var(var).map_or(&[], |var| &var.shape)
    }
}

impl Edits {
    /// Replaces the ops at `positions` by `op`, which stands at `at`, one of them.
    pub(super) fn replace(&mut self, positions: &[usize], at: usize, op: Op) {
        self.removed.extend(positions);
        self.inserted.insert(at, op);
    }

    /// Whether the op at `position` is part of a pattern already.
    pub(super) fn taken(&self, position: usize) -> bool {
        self.removed.contains(&position)
    }

    /// The ops after the edits.
    pub(super) fn apply(mut self, ops: Vec<Op>) -> Vec<Op> {
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

/// The only variable in input slot `slot`.
pub(super) fn input<'o>(op: &'o Op, slot: &str) -> Option<&'o str> {
    match op.inputs_of(slot) {
        [only] => Some(only),
        _ => None,
    }
}

/// The only variable in output slot `slot`.
pub(super) fn output<'o>(op: &'o Op, slot: &str) -> Option<&'o str> {
    match op.outputs_of(slot) {
        [only] => Some(only),
        _ => None,
    }
}
