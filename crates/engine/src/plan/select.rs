//! The ops of a program that a run needs, with variables as numbers instead of names.

use std::collections::{HashMap, HashSet};

use bireme_ir::{EMPTY_VAR, Op, Program};

use crate::Result;
use crate::op::OpView;
use crate::plan::inline;

/// A variable, by its position in [`Selection::vars`].
pub(crate) type VarId = usize;

/// The ops to run and the variables they use.
pub(crate) struct Selection {
    /// Variable names.
    pub(crate) vars: Vec<String>,
    /// Ops in program order.
    pub(crate) ops: Vec<SelectedOp>,
    /// The variable of each feed.
    pub(crate) feeds: Vec<VarId>,
    /// The variable of each fetch.
    pub(crate) fetches: Vec<VarId>,
}

/// One op with its variables resolved.
pub(crate) struct SelectedOp {
    pub(crate) op: Op,
    /// Those of its slots, then its guard if it has one.
    pub(crate) inputs: Vec<VarId>,
    pub(crate) outputs: Vec<VarId>,
    /// What says whether it runs, for an op inside a condition.
    pub(crate) guard: Option<VarId>,
    /// Whether it keeps its turn among the others that are ordered.
    pub(crate) ordered: bool,
}

/// Ops of the global block that lead to a fetch, a persistable variable or a side effect; `feed`
/// and `fetch` ops are left out, for the executor does their work.
///
/// # Errors
/// When an op does not exist.
pub(crate) fn needed_ops(program: &Program, fetches: &[&str]) -> Result<Vec<Op>> {
    let block = program.global();
    let ops = inline::all_ops(program)?;
    let mut wanted: HashSet<&str> = fetches.iter().copied().collect();
    let mut needed = Vec::new();
    for op in ops.iter().rev() {
        if matches!(op.kind.as_str(), "feed" | "fetch") {
            continue;
        }
        let def = OpView::new(op).map_err(|error| error.in_op(op))?.def;
        let persists = |var: &String| block.var(var).is_some_and(|var| var.persistable);
        let used = op.output_vars().any(|var| wanted.contains(var.as_str()) || persists(var));
        if used || def.side_effect {
            wanted.extend(op.input_vars().map(String::as_str));
            wanted.extend(inline::guard(op));
            needed.push(op.clone());
        }
    }
    needed.reverse();
    inline::check_reads(&needed, program, fetches)?;
    Ok(needed)
}

impl Selection {
    /// Numbers the variables of `ops`.
    ///
    /// # Errors
    /// When an op writes a variable twice, or writes one it reads without being made for that.
    pub(crate) fn new(ops: Vec<Op>, feeds: &[&str], fetches: &[&str]) -> Result<Selection> {
        let mut numbers = Numbers::default();
        let feeds = feeds.iter().map(|name| numbers.of(name)).collect();
        let mut selected = Vec::with_capacity(ops.len());
        for op in ops {
            let view = OpView::new(&op)?;
            view.check_aliases().map_err(|error| error.in_op(&op))?;
            let mut inputs: Vec<VarId> = view.flat_inputs().map(|name| numbers.of(name)).collect();
            let outputs = view.flat_outputs().map(|name| numbers.of(name)).collect();
            let guard = inline::guard(&op).map(|name| numbers.of(name));
            inputs.extend(guard);
            let ordered = view.def.ordered;
            selected.push(SelectedOp { op, inputs, outputs, guard, ordered });
        }
        let fetches = fetches.iter().map(|name| numbers.of(name)).collect();
        Ok(Selection { vars: numbers.names, ops: selected, feeds, fetches })
    }
}

#[derive(Default)]
struct Numbers {
    names: Vec<String>,
    by_name: HashMap<String, VarId>,
}

impl Numbers {
    fn of(&mut self, name: &str) -> VarId {
        // Not a variable but the lack of one: each place is on its own.
        let id = self.by_name.get(name).filter(|_| name != EMPTY_VAR);
        if let Some(id) = id {
            return *id;
        }
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }
}
