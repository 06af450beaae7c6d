//! The block that describes a keyed table to a server: how rows begin, who is admitted, and the
//! rule of their updates.
//!
//! The table's first values, copied from the startup program; a `lookup_sparse_table` with the
//! table's settings; and, if rows are updated, the first values of their state and the update. The
//! server reads these ops; it never runs them on a whole table.

use bireme_ir::{Attr, Op, OpRole, Program};

use crate::analysis::Update;
use crate::plan::Plan;
use crate::sparse::{Table, padding, string};
use crate::{Error, Result};

/// What gives rows their first values by key.
const INITIAL: [&str; 4] =
    ["fill_constant", "uniform_random", "gaussian_random", "truncated_gaussian_random"];

/// Appends the block of `table` to a server's program and returns its index.
///
/// # Errors
/// When rows cannot begin as the startup program says, or the update is more than a rule.
pub(crate) fn append_block(
    plan: &Plan,
    program: &mut Program,
    table: &Table,
    update: Option<&Update>,
) -> Result<usize> {
    let problem = |problem: String| Error::Program(format!("table `{}`: {problem}", table.name));
    let var = plan.program.global().var(&table.name);
    let var = var.ok_or_else(|| problem("it is not declared".to_owned()))?.clone();
    let init = initial(&plan.startup, &table.name).map_err(problem)?;
    let lookup = &plan.program.global().ops[table.lookups[0]];
    let text = |name: &str| match string(lookup, name) {
        none if none == "none" => String::new(),
        text => text,
    };
    let mut describe = Op::new("lookup_sparse_table")
        .input("W", [table.name.as_str()])
        .attr("entry", text("entry"))
        .attr("table_class", text("table_class"))
        .attr("accessor", text("entry_config"))
        .attr("padding_idx", padding(lookup))
        .attr("shard_num", plan.config.shard_num)
        .role(OpRole::OPTIMIZE);
    let index = program.append_block(0).idx;
    program.global_mut().add_var(var);
    let mut ops = vec![init];
    if let Some(update) = update {
        let (rule, factor) = rule(update).map_err(problem)?;
        describe = describe.attr("learning_rate_factor", factor);
        for var in update.states.iter().chain([&update.grad]) {
            // Declared in this block only: rows hold their own state, so no tensor of this shape
            // is ever made, nor given a first value.
            let mut var = var.clone();
            var.stop_gradient = true;
            program.blocks[index].add_var(var);
        }
        ops.push(describe);
        ops.extend(state_values(plan, update));
        ops.push(rule);
    } else {
        ops.push(describe);
    }
    program.blocks[index].ops = ops;
    Ok(index)
}

/// The op that gives the table its first values.
fn initial(startup: &Program, table: &str) -> std::result::Result<Op, String> {
    let writes = |op: &&Op| op.output_vars().any(|out| out == table);
    let mut writers = startup.global().ops.iter().filter(writes);
    match (writers.next(), writers.next()) {
        (Some(op), None) if INITIAL.contains(&op.kind.as_str()) => Ok(op.clone()),
        (None, _) => Err("the startup program gives it no first values".to_owned()),
        (Some(op), _) => Err(format!(
            "its rows begin when they are first met, by a constant, uniform or normal \
             initialiser; `{}` is none",
            op.kind
        )),
    }
}

/// The update op, reading the program's learning rate, and the parameter's factor on it.
fn rule(update: &Update) -> std::result::Result<(Op, f32), String> {
    let mut rule = update.op().clone();
    let mut factor = 1.0;
    for (index, op) in update.ops.iter().enumerate().filter(|(index, _)| *index != update.at) {
        let scales_rate = op.op_role().0 & OpRole::LR_SCHED.0 != 0 && op.kind == "scale";
        if let (true, Some(Attr::Float(scale))) = (scales_rate, op.attrs.get("scale")) {
            factor *= *scale;
            rule.inputs.insert("LearningRate".to_owned(), op.inputs_of("X").to_vec());
        } else if index < update.at {
            return Err(format!(
                "op `{}` changes its gradients before the update, but rows are updated by the \
                 rule of the optimizer alone: give the parameter no regularizer",
                op.kind
            ));
        }
        // What follows an update raises powers of beta, which rows count themselves.
    }
    Ok((rule, factor))
}

/// What the startup program gives each state of a row.
fn state_values<'a>(plan: &'a Plan, update: &'a Update) -> impl Iterator<Item = Op> + 'a {
    let writes = |op: &&Op| {
        let out = op.outputs_of("Out");
        update.states.iter().any(|state| out.first() == Some(&state.name))
    };
    plan.startup.global().ops.iter().filter(writes).cloned()
}
