//! The ops of a step in the plan's own form: every value is a number, and each op says which it reads
//! and which it writes. Passes rewrite numbers; names are kept for messages.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use bireme_ir::{EMPTY_VAR, Op, Program, Slot, Slots, Var};

use crate::op::{OpDef, OpView};
use crate::plan::inline;
use crate::{Error, Result, flow};

/// A value, by its position in [`Selection::vars`].
pub(crate) type VarId = usize;

/// The ops to run and the values they use.
pub(crate) struct Selection {
    pub(crate) vars: Vec<PlanVar>,
    /// Ops in program order.
    pub(crate) ops: Vec<SelectedOp>,
    /// The value of each feed.
    pub(crate) feeds: Vec<VarId>,
    /// The value of each fetch.
    pub(crate) fetches: Vec<VarId>,
}

/// A value of the step.
pub(crate) struct PlanVar {
    /// What the program calls it; a variable that is written again is several values of one name.
    pub(crate) name: String,
    /// Its declaration in the program; none for a value that the plan added.
    pub(crate) declared: Option<Var>,
    /// Values of the same name before this one: random ops key their generator by it.
    pub(crate) version: u32,
}

/// One op with its values resolved.
pub(crate) struct SelectedOp {
    /// Type, attributes and site. Its variables are named as the program names them.
    pub(crate) op: Op,
    pub(crate) def: &'static OpDef,
    /// Those of its slots in the order of its definition, then its guard if it has one.
    pub(crate) inputs: Vec<VarId>,
    /// Those of its slots in the order of its definition.
    pub(crate) outputs: Vec<VarId>,
    /// Whether it stands inside a condition.
    pub(crate) guarded: bool,
    /// Whether it runs a block in which something must run even if nobody uses what it writes.
    pub(crate) has_effect: bool,
}

impl PlanVar {
    /// Whether it outlives the step, unless it is fed.
    pub(crate) fn persists(&self) -> bool {
        self.declared.as_ref().is_some_and(|var| var.persistable)
    }

    /// The declared shape; empty when it is not declared.
    pub(crate) fn shape(&self) -> &[i64] {
        self.declared.as_ref().map_or(&[], |var| &var.shape)
    }

    /// Whether it stands for no value at all.
    pub(crate) fn is_nothing(&self) -> bool {
        self.name == EMPTY_VAR
    }
}

impl SelectedOp {
    /// The op as rules and kernels see it.
    pub(crate) fn view(&self) -> OpView<'_> {
        OpView::of(&self.op, self.def)
    }

    /// What says whether it runs, for an op inside a condition.
    pub(crate) fn guard(&self) -> Option<VarId> {
        self.inputs.last().copied().filter(|_| self.guarded)
    }

    /// The values in input slot `slot`.
    pub(crate) fn inputs_of(&self, slot: &str) -> &[VarId] {
        &self.inputs[span(self.def.signature.inputs, &self.op.inputs, slot)]
    }

    /// The values in output slot `slot`.
    pub(crate) fn outputs_of(&self, slot: &str) -> &[VarId] {
        &self.outputs[span(self.def.signature.outputs, &self.op.outputs, slot)]
    }

    /// The only value in input slot `slot`.
    pub(crate) fn input(&self, slot: &str) -> Option<VarId> {
        <[VarId; 1]>::try_from(self.inputs_of(slot)).ok().map(|[only]| only)
    }

    /// The only value in output slot `slot`.
    pub(crate) fn output(&self, slot: &str) -> Option<VarId> {
        <[VarId; 1]>::try_from(self.outputs_of(slot)).ok().map(|[only]| only)
    }

    /// As [`OpView::check_aliases`], of values instead of names.
    pub(crate) fn check_aliases(&self) -> Result<()> {
        self.view().check_aliases_of(&self.inputs, &self.outputs)
    }
}

/// Where the variables of a slot lie in flat order.
fn span(table: &[Slot], slots: &Slots, name: &str) -> Range<usize> {
    let count = |slot: &Slot| slots.get(slot.name).map_or(0, Vec::len);
    let first = table.iter().take_while(|slot| slot.name != name).map(count).sum();
    first..first + table.iter().find(|slot| slot.name == name).map_or(0, count)
}

impl Selection {
    /// All ops of `program`, completed: those of a condition that hands nothing on stand where it stands.
    /// `feed` and `fetch` ops are left out, for the executor does their work.
    ///
    /// # Errors
    /// When an op does not exist, or a condition holds what cannot run inside one.
    pub(crate) fn new(program: &Program, feeds: &[&str], fetches: &[&str]) -> Result<Selection> {
        let mut numbers = Numbers { program, by_name: HashMap::new(), vars: Vec::new() };
        let feeds_named: HashSet<&str> = feeds.iter().copied().collect();
        let feeds = feeds.iter().map(|name| numbers.of(name)).collect();
        let mut ops = Vec::new();
        let mut known = Known::new(program, &feeds_named);
        for op in &program.global().ops {
            if flow::is_empty_handed(program, op) {
                let found = inline::condition(program, op).map_err(|error| error.in_op(op))?;
                for inner in &found.block.ops {
                    known.written.extend(inner.output_vars().map(String::as_str));
                    ops.extend(numbers.op(Cow::Borrowed(inner), Some(found.guard))?);
                }
            } else {
                for op in known.complete(op)? {
                    ops.extend(numbers.op(op, None)?);
                }
            }
        }
        let fetches = fetches.iter().map(|name| numbers.of(name)).collect();
        Ok(Selection { vars: numbers.vars, ops, feeds, fetches })
    }

    /// Drops ops that lead to no fetch, no persistable variable and no side effect.
    pub(crate) fn drop_unneeded(&mut self) {
        let mut wanted: HashSet<VarId> = self.fetches.iter().copied().collect();
        let mut needed = Vec::with_capacity(self.ops.len());
        for op in std::mem::take(&mut self.ops).into_iter().rev() {
            let used = |var: &VarId| wanted.contains(var) || self.vars[*var].persists();
            if op.outputs.iter().any(used) || op.def.side_effect || op.has_effect {
                wanted.extend(&op.inputs);
                needed.push(op);
            }
        }
        needed.reverse();
        self.ops = needed;
    }

    /// Checks that no op writes a value twice, or one that it reads without being made for that, and
    /// drops the values that no op uses any more: the rest are numbered in the order of their use.
    ///
    /// # Errors
    /// When an op does.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let (mut old, mut new) = (std::mem::take(&mut self.vars), HashMap::new());
        let vars = &mut self.vars;
        let mut renumber = |ids: &mut [VarId]| {
            for id in ids {
                *id = *new.entry(*id).or_insert_with(|| {
                    let nothing = PlanVar { name: String::new(), declared: None, version: 0 };
                    vars.push(std::mem::replace(&mut old[*id], nothing));
                    vars.len() - 1
                });
            }
        };
        renumber(&mut self.feeds);
        for op in &mut self.ops {
            op.check_aliases().map_err(|error| error.in_op(&op.op))?;
            renumber(&mut op.inputs);
            renumber(&mut op.outputs);
        }
        renumber(&mut self.fetches);
        Ok(())
    }

    /// A new value that takes the place, and the name, of `var`.
    pub(crate) fn another(&mut self, var: VarId) -> VarId {
        let PlanVar { name, version, .. } = &self.vars[var];
        let var = PlanVar { name: name.clone(), declared: None, version: version + 1 };
        self.vars.push(var);
        self.vars.len() - 1
    }

    /// Puts values into the slots of an op of the plan's own; it is attributed to `site`.
    pub(crate) fn op(
        &self,
        mut op: Op,
        site: &SelectedOp,
        inputs: &[(&str, &[VarId])],
        outputs: &[(&str, &[VarId])],
    ) -> SelectedOp {
        let def = crate::ops::find(&op.kind).expect("the plan's own ops are defined");
        let names = |vars: &[VarId]| vars.iter().map(|var| self.vars[*var].name.clone()).collect();
        let named = |slots: &[(&str, &[VarId])]| {
            slots.iter().map(|(slot, vars)| ((*slot).to_owned(), names(vars))).collect()
        };
        let flat = |table: &[Slot], slots: &[(&str, &[VarId])]| {
            let named = |name| slots.iter().filter(move |slot| slot.0 == name);
            let vars = table.iter().flat_map(|slot| named(slot.name)).flat_map(|slot| slot.1);
            vars.copied().collect()
        };
        (op.inputs, op.outputs) = (named(inputs), named(outputs));
        op.site.clone_from(&site.op.site);
        let (inputs, outputs) =
            (flat(def.signature.inputs, inputs), flat(def.signature.outputs, outputs));
        SelectedOp { op, def, inputs, outputs, guarded: false, has_effect: false }
    }
}

/// Gives every variable of a program a number.
struct Numbers<'a> {
    program: &'a Program,
    by_name: HashMap<String, VarId>,
    vars: Vec<PlanVar>,
}

impl<'a> Numbers<'a> {
    fn of(&mut self, name: &str) -> VarId {
        // Not a variable but the lack of one: each place is on its own.
        if let Some(id) = self.by_name.get(name).filter(|_| name != EMPTY_VAR) {
            return *id;
        }
        let declared = self.program.global().var(name).cloned();
        self.vars.push(PlanVar { name: name.to_owned(), declared, version: 0 });
        self.by_name.insert(name.to_owned(), self.vars.len() - 1);
        self.vars.len() - 1
    }

    fn op(&mut self, op: Cow<'_, Op>, guard: Option<&str>) -> Result<Option<SelectedOp>> {
        if matches!(op.kind.as_str(), "feed" | "fetch") {
            return Ok(None);
        }
        let view = OpView::new(&op).map_err(|error| error.in_op(&op))?;
        let inputs = view.flat_inputs().map(String::as_str).chain(guard);
        let inputs = inputs.map(|name| self.of(name)).collect();
        let outputs = view.flat_outputs().map(|name| self.of(name)).collect();
        let (def, guarded) = (view.def, guard.is_some());
        let has_effect = def.flow.is_some() && flow::has_effect(self.program, &op);
        let op = op.into_owned();
        Ok(Some(SelectedOp { op, def, inputs, outputs, guarded, has_effect }))
    }
}

/// Which variables have a value by then.
struct Known<'a> {
    program: &'a Program,
    feeds: &'a HashSet<&'a str>,
    written: HashSet<&'a str>,
    /// Whether the program has ops that run blocks, or write arrays: no others need to be completed.
    needed: bool,
}

impl<'a> Known<'a> {
    fn new(program: &'a Program, feeds: &'a HashSet<&'a str>) -> Known<'a> {
        let incomplete = |op: &Op| {
            let of_arrays = matches!(op.kind.as_str(), "write_to_array" | "lod_array_length");
            of_arrays || flow::flow_of(&op.kind).is_some()
        };
        let needed = program.global().ops.iter().any(incomplete);
        Known { program, feeds, written: HashSet::new(), needed }
    }

    /// The op, completed, after those that make the arrays which it lacks.
    fn complete(&mut self, op: &'a Op) -> Result<Vec<Cow<'a, Op>>> {
        if !self.needed {
            return Ok(vec![Cow::Borrowed(op)]);
        }
        let persists =
            |name: &str| self.program.global().var(name).is_some_and(|var| var.persistable);
        let has_value =
            |name: &str| self.written.contains(name) || self.feeds.contains(name) || persists(name);
        let in_op = |error: Error| error.in_op(op);
        let mut ops = flow::empty_arrays(self.program, 0, op, &has_value).map_err(in_op)?;
        let arrays: Vec<&str> = ops.iter().flat_map(Op::output_vars).map(String::as_str).collect();
        let known = |name: &str| has_value(name) || arrays.contains(&name);
        let complete = flow::complete(self.program, op, &known).map_err(in_op)?;
        ops.push(complete);
        self.written.extend(op.output_vars().map(String::as_str));
        Ok(ops.into_iter().map(Cow::Owned).collect())
    }
}
