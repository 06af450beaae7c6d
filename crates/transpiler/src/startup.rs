//! Startup programs: a server gives first values to what it holds, a trainer fetches them.
//!
//! First values do not depend on how parameters are cut: the generator is keyed by seed, variable
//! and element, so a slice's op says which variable it is part of (`init_name`) and where it begins
//! (`init_offset`). Paddle draws each slice anew.

use std::collections::{BTreeSet, HashMap};

use bireme_ir::{Attr, Op, OpRole, Program, Var};

use crate::analysis::Update;
use crate::names::Dummies;
use crate::plan::{Piece, Placed, Plan};
use crate::server::{cut_shape, kept};
use crate::slice::elements;
use crate::sparse::Spread;
use crate::trainer::{control, fetch, fetch_barrier};
use crate::{lr, names};

const RANDOM: [&str; 3] = ["uniform_random", "gaussian_random", "truncated_gaussian_random"];

/// Attributes that list the values of `assign_value`.
const VALUES: [&str; 6] =
    ["fp32_values", "fp64_values", "int32_values", "int64_values", "bool_values", "values"];

/// Whether the first values of a parameter and its state can be made slice by slice.
pub(crate) fn can_slice(startup: &Program, update: &Update) -> bool {
    let large = update.states.iter().filter(|state| state.shape == update.param.shape);
    large.chain([&update.param]).all(|var| {
        let writes = |op: &&Op| op.output_vars().any(|out| *out == var.name);
        let mut writers = startup.global().ops.iter().filter(writes);
        match (writers.next(), writers.next()) {
            (Some(op), None) => is_sliceable(op),
            // Not initialised: then a checkpoint will be loaded.
            (None, _) => true,
            (Some(_), Some(_)) => false,
        }
    })
}

fn is_sliceable(op: &Op) -> bool {
    let kind = op.kind.as_str();
    let known = RANDOM.contains(&kind) || matches!(kind, "fill_constant" | "assign_value");
    // A diagonal is not a function of the element alone, nor is a shape that a tensor gives.
    let diagonal = matches!(op.attrs.get("diag_num"), Some(Attr::Int(count)) if *count != 0);
    known && !diagonal && op.input_vars().next().is_none()
}

/// Writes the startup program of the server whose program is `main`.
pub(crate) fn server(plan: &Plan, server: usize, main: &Program) -> Program {
    let mut program = plan.empty_program(&plan.startup);
    for var in kept(main.global()) {
        let keyed = plan.table(&var.name).is_some_and(|table| table.spread == Spread::Keys);
        if !keyed {
            program.global_mut().add_var(var.clone());
        }
    }
    let cuts = cuts(plan, server, main);
    let old = &plan.startup.global().ops;
    let needed = needed(old, |var| cuts.contains_key(var));
    for index in needed {
        let op = &old[index];
        let slices = op.output_vars().next().and_then(|out| cuts.get(out.as_str()));
        match slices.filter(|_| op.output_vars().count() == 1) {
            Some(slices) => {
                let ops = slices.iter().map(|slice| slice.op(op));
                program.global_mut().ops.extend(ops);
            }
            None => {
                for var in op.output_vars().filter_map(|out| plan.startup.global().var(out)) {
                    program.global_mut().vars.entry(var.name.clone()).or_insert(var.clone());
                }
                program.global_mut().ops.push(op.clone());
            }
        }
    }
    if !plan.mode.sends_deltas() {
        own_values(plan, &mut program);
    }
    program
}

/// One variable of a server as it is made from the original's startup op.
struct Cut<'a> {
    name: String,
    whole: &'a Var,
    piece: Option<&'a Piece>,
}

impl Cut<'_> {
    fn op(&self, op: &Op) -> Op {
        let mut op = op.clone();
        op.outputs.values_mut().flatten().for_each(|out| out.clone_from(&self.name));
        let Some(piece) = self.piece.filter(|_| self.name != self.whole.name) else { return op };
        if elements(&self.whole.shape) == 1 {
            return op;
        }
        cut_shape(&mut op, &self.whole.shape, &piece.shape);
        if RANDOM.contains(&op.kind.as_str()) {
            return op
                .attr("init_name", self.whole.name.as_str())
                .attr("init_offset", piece.slice.offset);
        }
        for name in VALUES {
            if let Some(values) = op.attrs.get_mut(name) {
                let first = usize::try_from(piece.slice.offset).unwrap_or(0);
                let count = usize::try_from(piece.slice.size).unwrap_or(0);
                cut_values(values, first, count);
            }
        }
        op
    }
}

fn cut_values(values: &mut Attr, first: usize, count: usize) {
    fn cut<T>(values: &mut Vec<T>, first: usize, count: usize) {
        if values.len() >= first + count {
            values.truncate(first + count);
            values.drain(..first);
        }
    }
    match values {
        Attr::Floats(values) => cut(values, first, count),
        Attr::Float64s(values) => cut(values, first, count),
        Attr::Ints(values) => cut(values, first, count),
        Attr::Longs(values) => cut(values, first, count),
        Attr::Bools(values) => cut(values, first, count),
        Attr::Scalars(values) => cut(values, first, count),
        _ => {}
    }
}

/// Original variable to what a server has of it.
fn cuts<'a>(plan: &'a Plan, server: usize, main: &Program) -> HashMap<&'a str, Vec<Cut<'a>>> {
    let mut cuts: HashMap<&str, Vec<Cut<'_>>> = HashMap::new();
    for placed in &plan.placed {
        let geo = plan.mode.sends_deltas();
        let states = placed.update.states.iter().filter(|_| !geo);
        let vars: Vec<&Var> = states.chain([&placed.update.param]).collect();
        for piece in placed.pieces.iter().filter(|piece| piece.server == server) {
            for var in &vars {
                let name = format!("{}{}", var.name, piece.suffix);
                let cut = Cut { name, whole: var, piece: Some(piece) };
                cuts.entry(&var.name).or_default().push(cut);
            }
        }
    }
    if plan.mode.sends_deltas() {
        return cuts;
    }
    let global = plan.program.global();
    let kept = lr::persistables(plan);
    for var in kept.iter().filter_map(|name| global.var(name)) {
        if main.global().var(&var.name).is_some() {
            let cut = Cut { name: var.name.clone(), whole: var, piece: None };
            cuts.entry(&var.name).or_default().push(cut);
        }
    }
    cuts
}

/// Ops that write what is `wanted`, and those that they read from, in order.
fn needed(ops: &[Op], wanted: impl Fn(&str) -> bool) -> BTreeSet<usize> {
    let mut read: BTreeSet<&String> = BTreeSet::new();
    let mut needed = BTreeSet::new();
    for (index, op) in ops.iter().enumerate().rev() {
        if op.output_vars().any(|out| wanted(out) || read.contains(out)) {
            read.extend(op.input_vars());
            needed.insert(index);
        }
    }
    needed
}

/// First values that only servers have: counters of trainers, and rates that trainers compute.
fn own_values(plan: &Plan, program: &mut Program) {
    let mut fill = |var: &Var, value: f32| program.global_mut().ops.push(constant(var, value));
    for name in &plan.analysis.computed_rates {
        if let Some(var) = plan.program.global().var(name) {
            fill(var, 0.0);
        }
    }
    if !plan.counts_steps() {
        return;
    }
    for counter in lr::counters(plan) {
        let writes = |op: &&Op| op.outputs_of("Out").first() == Some(&counter.name);
        let first = plan.startup.global().ops.iter().find(writes);
        let start = match first.and_then(|op| op.attrs.get("value")) {
            Some(Attr::Float(value)) => *value,
            _ => 0.0,
        };
        for trainer in 0..plan.trainers {
            let mut var = counter.var.clone();
            var.name = names::of_trainer(&counter.name, trainer);
            fill(&var, if trainer == 0 { start } else { 0.0 });
        }
    }
}

fn constant(var: &Var, value: f32) -> Op {
    Op::new("fill_constant")
        .output("Out", [var.name.as_str()])
        .attr("shape", var.shape.clone())
        .attr("dtype", var.dtype.code())
        .attr("value", value)
        .role(OpRole::FORWARD)
}

/// Writes the startup program of the trainer whose program is `main`.
pub(crate) fn trainer(plan: &Plan, main: &Program) -> Program {
    let mut program = plan.startup.clone();
    let before = plan.program.global();
    let gone = |name: &str| before.var(name).is_some() && main.global().var(name).is_none();
    let global = program.global_mut();
    global
        .ops
        .retain(|op| op.output_vars().next().is_none() || op.output_vars().any(|out| !gone(out)));
    global.vars.retain(|name, _| !gone(name));
    for table in &plan.tables {
        fake_init(&mut program, &table.name);
    }
    if plan.counts_steps() && plan.trainer_id < plan.trainers {
        for counter in lr::counters(plan) {
            let var = lr::steps_var(plan, &counter);
            program.global_mut().ops.push(constant(&var, counter.step));
            program.global_mut().add_var(var);
        }
    }
    append_fetch(plan, main, &mut program);
    program
}

/// Gives a table of the servers no rows, in place of its first values.
fn fake_init(program: &mut Program, table: &str) {
    let global = program.global_mut();
    let Some(var) = global.var(table) else { return };
    let fake = Op::new("fake_init")
        .output("Out", [table])
        .attr("shape", var.shape.clone())
        .attr("dtype", var.dtype.code())
        .role(OpRole::FORWARD);
    let writes = |op: &Op| op.output_vars().any(|out| out == table);
    let at = global.ops.iter().position(writes).unwrap_or(global.ops.len());
    global.ops.retain(|op| !writes(op));
    global.ops.insert(at.min(global.ops.len()), fake);
}

/// Whether a program has a parameter; those of other stages it has not.
fn program_has(main: &Program, placed: &Placed) -> bool {
    main.global().var(&placed.update.param.name).is_some()
}

/// Fetches all parameters that the trainer holds: the servers' values win.
fn append_fetch(plan: &Plan, main: &Program, program: &mut Program) {
    let mut dummies = Dummies::default();
    let (mut received, mut joins) = (Vec::new(), Vec::new());
    let holds = |placed: &&Placed| !placed.is_table && program_has(main, placed);
    for placed in plan.placed.iter().filter(holds) {
        let dummy = dummies.next();
        let fetch = fetch(plan, placed, &[], &dummy);
        let global = program.global_mut();
        global.ops.push(fetch.recv);
        for var in fetch.vars {
            global.add_var(var);
        }
        joins.extend(fetch.join);
        received.push(dummy);
    }
    if received.is_empty() {
        return;
    }
    let dummy = dummies.next();
    let global = program.global_mut();
    global.ops.push(fetch_barrier(plan, &received, &dummy));
    global.add_var(control(&dummy));
    global.ops.extend(joins);
}
