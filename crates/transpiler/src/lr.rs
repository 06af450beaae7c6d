//! Learning-rate schedules on servers: the block that runs before updates, and the counters that
//! stand for its own when trainers do not keep step.
//!
//! In sync modes the block is the schedule as it is: it counts one step each time it runs. In async
//! modes a step is a step of any trainer, so trainers send how many they have made: a server adds
//! that to `<counter>.trainer_<i>` and runs the block, which begins with the sum of all of them.
//! The counter of trainer 0 starts at the schedule's own start, the others at 0, so the first step
//! gets the rate it would get in a single process. (Paddle starts them at 1 and the sum at
//! `-trainers`, which counts other trainers' steps again with each message.)

use std::collections::{BTreeSet, HashMap};

use bireme_ir::{Attr, Op, Program, Var};

use crate::plan::Plan;
use crate::{Error, Result, names};

/// A counter of steps, which an op of a schedule raises.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) name: String,
    pub(crate) var: Var,
    /// How much a step counts.
    pub(crate) step: f32,
    /// The op that raises it, by position.
    op: usize,
}

/// The counters of the program's schedules.
pub(crate) fn counters(plan: &Plan) -> Vec<Counter> {
    let global = plan.program.global();
    let counter = |index: &usize| {
        let op = &global.ops[*index];
        let name = op.outputs_of("Out").first()?;
        let var = global.var(name).filter(|var| var.persistable)?;
        let step = match op.attrs.get("step") {
            Some(Attr::Float(step)) => *step,
            _ => 1.0,
        };
        (op.kind == "increment").then(|| Counter {
            name: name.clone(),
            var: var.clone(),
            step,
            op: *index,
        })
    };
    plan.analysis.lr_ops.iter().filter_map(counter).collect()
}

/// What a trainer sends of `counter` each step: the number of steps it has made since, one.
pub(crate) fn steps_var(plan: &Plan, counter: &Counter) -> Var {
    let mut var = counter.var.clone();
    var.name = names::of_trainer(&counter.name, plan.trainer_id);
    var
}

/// Names of the counters that servers are sent.
pub(crate) fn sent_counters(plan: &Plan) -> Vec<String> {
    if !plan.counts_steps() {
        return Vec::new();
    }
    let of_trainers = |counter: Counter| {
        let name = move |trainer| names::of_trainer(&counter.name, trainer);
        (0..plan.trainers).map(name)
    };
    counters(plan).into_iter().flat_map(of_trainers).collect()
}

/// Variables that schedules keep from step to step, or that updates read.
pub(crate) fn persistables(plan: &Plan) -> BTreeSet<String> {
    let global = plan.program.global();
    let ops = plan.analysis.lr_ops.iter().map(|index| &global.ops[*index]);
    let mut vars: BTreeSet<String> = ops
        .flat_map(|op| op.input_vars().chain(op.output_vars()))
        .filter(|name| global.var(name).is_some_and(|var| var.persistable))
        .cloned()
        .collect();
    vars.extend(plan.analysis.rates.iter().cloned());
    vars
}

/// Appends the block of the schedules to a server's program; its index, if there are any.
///
/// # Errors
/// When a schedule reads what only trainers have.
pub(crate) fn append_block(plan: &Plan, program: &mut Program) -> Result<Option<usize>> {
    if plan.analysis.lr_ops.is_empty() {
        return Ok(None);
    }
    let old = plan.program.global();
    let summed: HashMap<usize, Counter> = match plan.counts_steps() {
        true => counters(plan).into_iter().map(|counter| (counter.op, counter)).collect(),
        false => HashMap::new(),
    };
    let index = program.append_block(0).idx;
    for position in &plan.analysis.lr_ops {
        let op = &old.ops[*position];
        for name in op.input_vars().chain(op.output_vars()) {
            declare(plan, program, index, name, op)?;
        }
        let op = match summed.get(position) {
            None => copy_with_blocks(&plan.program, op, program, index),
            Some(counter) => {
                let of_trainer = |trainer| names::of_trainer(&counter.name, trainer);
                let counters: Vec<String> = (0..plan.trainers).map(of_trainer).collect();
                for name in &counters {
                    let mut var = counter.var.clone();
                    var.name.clone_from(name);
                    program.global_mut().add_var(var);
                }
                let sum = Op::new("sum").input("X", counters).output("Out", [&counter.name]);
                sum.role(op.op_role())
            }
        };
        program.blocks[index].ops.push(op);
    }
    Ok(Some(index))
}

/// Declares what an op of a schedule uses: for all blocks what is kept or read by updates.
fn declare(plan: &Plan, program: &mut Program, block: usize, name: &str, op: &Op) -> Result<()> {
    if program.find_var(block, name).is_some() {
        return Ok(());
    }
    let old = plan.program.global();
    let Some(var) = old.var(name) else {
        return Err(Error::Program(format!("the program has no variable `{name}`")));
    };
    let written = |name: &str| {
        plan.analysis.lr_ops.iter().any(|op| old.ops[*op].output_vars().any(|out| out == name))
    };
    if !var.persistable && !written(name) {
        return Err(Error::Program(format!(
            "the learning rate is computed on servers, but op `{}` reads `{name}`, which only \
             trainers have",
            op.kind
        )));
    }
    let mut var = var.clone();
    let read = plan.analysis.updates.iter().flat_map(|update| &update.ops);
    let outlives = read.flat_map(Op::input_vars).any(|read| read == name);
    // The rate of the last run of this block holds until the next.
    var.persistable |= outlives;
    let home = if var.persistable { 0 } else { block };
    program.blocks[home].add_var(var);
    Ok(())
}

/// The blocks that `op` runs.
pub(crate) fn sub_blocks(op: &Op) -> impl Iterator<Item = usize> {
    let blocks = op.attrs.values().flat_map(|value| match value {
        Attr::Block(block) => vec![*block],
        Attr::Blocks(blocks) => blocks.clone(),
        _ => Vec::new(),
    });
    blocks.filter_map(|block| usize::try_from(block).ok())
}

/// A copy of `op` for block `parent` of `target`, with copies of the blocks that it runs.
fn copy_with_blocks(source: &Program, op: &Op, target: &mut Program, parent: usize) -> Op {
    let mut op = op.clone();
    for value in op.attrs.values_mut() {
        let blocks: Vec<&mut i32> = match value {
            Attr::Block(block) => vec![block],
            Attr::Blocks(blocks) => blocks.iter_mut().collect(),
            _ => continue,
        };
        for block in blocks {
            let old = usize::try_from(*block).ok().and_then(|index| source.blocks.get(index));
            // A parent comes before its sub-blocks, so this ends even in a damaged program.
            let Some(old) = old.filter(|old| old.idx > 0) else { continue };
            let new = target.append_block(parent).idx;
            target.blocks[new].vars = old.vars.clone();
            for inner in &old.ops {
                let deeper = sub_blocks(inner).all(|inner| inner > old.idx);
                let copy = match deeper {
                    true => copy_with_blocks(source, inner, target, new),
                    false => inner.clone(),
                };
                target.blocks[new].ops.push(copy);
            }
            *block = new as i32;
        }
    }
    op
}
