//! Completes ops that run blocks: their slots name all that the block reads and writes around it, as it is known by
//! then, and their attributes what the block calls each of them. Programs may name less, and passes may have renamed
//! what they name.

use std::collections::HashSet;

use bireme_ir::{Attr, Op, Program, VarKind};

use super::{INNER_CONDITION, INNER_INPUTS, INNER_OUTPUTS, KEPT, Wiring, flow_of, sub_block};
use crate::op::Flow;
use crate::{Error, Result, ops};

/// What a block uses of the blocks around it, in the order of use.
#[derive(Default)]
struct Around {
    reads: Vec<String>,
    writes: Vec<String>,
}

/// The op as it runs: with the variables of its block in its slots if it has one, and with the array that it continues
/// if it writes one. `has_value` says which variables have a value by then.
///
/// # Errors
/// When its block does not exist.
pub(crate) fn complete(program: &Program, op: &Op, has_value: &dyn Fn(&str) -> bool) -> Result<Op> {
    let mut op = op.clone();
    if op.kind == "write_to_array" {
        let written = op.outputs_of("Out").to_vec();
        if op.inputs_of("Array").is_empty() && written.iter().all(|array| has_value(array)) {
            op.inputs.insert("Array".to_owned(), written);
        }
        return Ok(op);
    }
    let Some(flow) = flow_of(&op.kind).filter(|flow| flow.gradient.is_some()) else {
        return Ok(op);
    };
    let around = around(program, sub_block(program, &op)?)?;
    let (carried, made): (Vec<String>, Vec<String>) =
        around.writes.into_iter().partition(|name| has_value(name));
    let only_read = |name: &String| !carried.contains(name) && has_value(name);
    let reads: Vec<String> =
        carried.iter().chain(around.reads.iter().filter(|name| only_read(name))).cloned().collect();
    let writes: Vec<String> = carried.iter().chain(&made).cloned().collect();
    let condition = op.inputs_of(flow.condition).to_vec();
    op.attrs.insert(INNER_INPUTS.to_owned(), Attr::Strings(reads.clone()));
    op.attrs.insert(INNER_OUTPUTS.to_owned(), Attr::Strings(writes.clone()));
    op.attrs.insert(INNER_CONDITION.to_owned(), Attr::Strings(condition));
    op.inputs.insert(flow.reads.to_owned(), reads);
    op.outputs.insert("Out".to_owned(), writes);
    keep(program, &mut op, flow)?;
    Ok(op)
}

/// Ops that make the arrays which `op` of block `idx` reads, or writes in a block of its own, though nothing was written
/// to them before.
///
/// # Errors
/// When its block does not exist.
pub(crate) fn empty_arrays(
    program: &Program,
    idx: usize,
    op: &Op,
    has_value: &dyn Fn(&str) -> bool,
) -> Result<Vec<Op>> {
    let mut names: Vec<String> = op.input_vars().cloned().collect();
    if flow_of(&op.kind).is_some_and(|flow| flow.gradient.is_some()) {
        let around = around(program, sub_block(program, op)?)?;
        names = around.reads;
        add(&mut names, around.writes);
    }
    let empty = |name: &String| {
        let var = program.find_var(idx, name)?;
        let is_empty = var.kind == VarKind::LodTensorArray && !has_value(name);
        let op = || Op::new("empty_array").output("Out", [name.as_str()]);
        is_empty.then(|| op().attr("dtype", var.dtype.code()))
    };
    Ok(names.iter().filter_map(empty).collect())
}

/// Has the op keep what gradient ops of the program read of its block; nothing if there are none.
fn keep(program: &Program, op: &mut Op, flow: &Flow) -> Result<()> {
    let saved = op.outputs_of(flow.saved).to_vec();
    let mut kept: Vec<String> = Vec::new();
    let mut is_read = false;
    for other in program.blocks.iter().flat_map(|block| &block.ops) {
        let reads = || other.inputs_of(flow.saved).iter().any(|name| saved.contains(name));
        if Some(other.kind.as_str()) == flow.gradient && reads() {
            is_read = true;
            let wanted = Wiring::of(other, flow)?.kept(program, other)?;
            kept.extend(wanted.into_iter().filter(|name| !kept.contains(name)).collect::<Vec<_>>());
        }
    }
    match is_read {
        true => op.attrs.insert(KEPT.to_owned(), Attr::Strings(kept)).map_or((), drop),
        false => drop(op.outputs.remove(flow.saved)),
    }
    Ok(())
}

/// What block `idx` of `program` reads of the blocks around it before it writes it, and what it writes there: what the
/// op that runs it names in its slots.
///
/// # Errors
/// When it has an op that names a block which does not exist.
pub fn outside(program: &Program, idx: usize) -> Result<(Vec<String>, Vec<String>)> {
    around(program, idx).map(|Around { reads, writes }| (reads, writes))
}

/// What block `idx` uses of those around it.
fn around(program: &Program, idx: usize) -> Result<Around> {
    let block = &program.blocks[idx];
    let mut around = Around::default();
    // What has been written by then, whatever conditions hold.
    let mut certain: HashSet<String> = HashSet::new();
    let outer = |name: &String| block.var(name).is_none() && name != bireme_ir::EMPTY_VAR;
    for op in &block.ops {
        let (mut reads, mut writes): (Vec<String>, Vec<String>) =
            (op.input_vars().cloned().collect(), op.output_vars().cloned().collect());
        if let Some(flow) = flow_of(&op.kind).filter(|flow| flow.gradient.is_some()) {
            let inner = sub_block(program, op)?;
            if inner <= idx {
                return Err(Error::kernel(format!("block {inner} is not inside of block {idx}")));
            }
            let inner = self::around(program, inner)?;
            reads = op.inputs_of(flow.condition).to_vec();
            reads.extend(inner.reads);
            writes = inner.writes;
        }
        if op.kind == "write_to_array" {
            reads.extend(writes.iter().cloned());
        }
        reads.retain(|name| outer(name) && !certain.contains(name));
        writes.retain(outer);
        if flow_of(&op.kind).is_none() {
            certain.extend(writes.iter().cloned());
        }
        add(&mut around.reads, reads);
        add(&mut around.writes, writes);
    }
    Ok(around)
}

fn add(names: &mut Vec<String>, more: Vec<String>) {
    for name in more {
        if !names.contains(&name) {
            names.push(name);
        }
    }
}

/// Whether a block that `op` runs, at any depth, holds an op that must run even if nothing uses what it writes.
pub(crate) fn has_effect(program: &Program, op: &Op) -> bool {
    let mut seen = HashSet::new();
    let mut waiting: Vec<usize> = sub_block(program, op).into_iter().collect();
    while let Some(block) = waiting.pop().filter(|block| seen.insert(*block)) {
        for inner in &program.blocks[block].ops {
            if ops::find(&inner.kind).is_ok_and(|def| def.side_effect) {
                return true;
            }
            if flow_of(&inner.kind).is_some() {
                waiting.extend(sub_block(program, inner));
            }
        }
    }
    false
}

/// Whether `op` is a condition over plain ops that hands nothing on: its ops can stand where it stands.
pub(crate) fn is_empty_handed(program: &Program, op: &Op) -> bool {
    let hands_on = op.outputs_of("Out").iter().any(|name| name != bireme_ir::EMPTY_VAR);
    let scalar = op.attrs.get("is_scalar_condition") != Some(&Attr::Bool(false));
    let plain = |block: usize| {
        let arrays = |op: &Op| op.kind == "write_to_array";
        program.blocks[block].ops.iter().all(|op| flow_of(&op.kind).is_none() && !arrays(op))
    };
    op.kind == "conditional_block" && !hands_on && scalar && sub_block(program, op).is_ok_and(plain)
}
