//! Gradients as ops: appends the backward pass of a loss to a program, as Paddle does.
//!
//! The gradient of `x` is `x@GRAD`. A variable that several ops use gets one contribution from each
//! (`x@GRAD@RENAME@block0@k`), and a `sum` op right before their first reader, or at the end when
//! nobody reads it. Only ops on a path from something that needs a gradient to a target are
//! differentiated. A program is changed wholly or, on an error, not at all.

mod blocks;
mod emit;
mod flat;
mod formula;
mod path;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use bireme_ir::{Attr, Block, DType, Op, OpRole, Program, Var, grad_name};

use crate::graph::{Variable, infer_into};
use crate::{Error, Result};

use blocks::set_kinds;
use emit::Emitter;
pub(crate) use emit::{is_unread, no_gradient_through};
use flat::Flat;
use path::{Path, Roots};
pub(crate) use path::{is_gradient, no_gradient_of};

/// Appends the gradients of `loss` with respect to `parameters` (or all trainable ones) to the
/// graph's main program, and returns each parameter with its gradient.
///
/// Variables in `no_grad` are treated as constants.
///
/// # Errors
/// When `loss` is no single number, a listed parameter (or every parameter) is out of its reach, or
/// an op on the way has no gradient.
pub fn append_backward(
    loss: &Variable,
    parameters: Option<&[&Variable]>,
    no_grad: &[&Variable],
) -> Result<Vec<(Variable, Variable)>> {
    let graph = loss.graph();
    let parameters: Option<Vec<&str>> = parameters.map(|vars| names(vars));
    let pairs = graph.edit_main(|main| {
        append_backward_to(main, loss.name(), parameters.as_deref(), &names(no_grad))
    })?;
    let handles =
        |(param, grad): (String, String)| Ok((graph.variable(&param)?, graph.variable(&grad)?));
    pairs.into_iter().map(handles).collect()
}

/// Appends the gradients of the sum of `targets` with respect to `inputs`; `None` for an input that
/// no target depends on, or at which gradients stop.
///
/// `target_gradients` weighs the targets, one to one; a missing weight means ones.
///
/// # Errors
/// When the numbers of targets and weights differ, or an op on the way has no gradient.
pub fn gradients(
    targets: &[&Variable],
    inputs: &[&Variable],
    target_gradients: Option<&[Option<Variable>]>,
    no_grad: &[&Variable],
) -> Result<Vec<Option<Variable>>> {
    let Some(first) = targets.first() else {
        return Err(Error::kernel("gradients of nothing: name at least one target"));
    };
    let graph = first.graph();
    let weights: Option<Vec<Option<&str>>> =
        target_gradients.map(|all| all.iter().map(|w| w.as_ref().map(Variable::name)).collect());
    let (targets, inputs) = (names(targets), names(inputs));
    let found = graph.edit_main(|main| {
        gradients_in(main, &targets, &inputs, weights.as_deref(), &names(no_grad))
    })?;
    found.into_iter().map(|grad| grad.map(|name| graph.variable(&name)).transpose()).collect()
}

/// [`append_backward`] on a program and names.
///
/// # Errors
/// As there, and when a name is not declared.
pub fn append_backward_to(
    program: &mut Program,
    loss: &str,
    parameters: Option<&[&str]>,
    no_grad: &[&str],
) -> Result<Vec<(String, String)>> {
    let loss_var = declared(program.global(), loss)?;
    if loss_var.shape.iter().any(|dim| *dim != 1) {
        return Err(Error::kernel(format!(
            "loss `{loss}` has shape {:?}: a loss is a single number, as `mean` makes one",
            loss_var.shape
        )));
    }
    let fill = Op::new("fill_constant")
        .output("Out", [grad_name(loss)])
        .attr("shape", loss_var.shape.clone())
        .attr("dtype", loss_var.dtype.code())
        .attr("value", 1.0f32)
        .role(OpRole(OpRole::BACKWARD.0 | OpRole::LOSS.0));
    let flat = Flat::global(program)?;
    let stopped = all_names(&flat, no_grad);
    let no_grad = stopped.iter().map(String::as_str).collect();
    let end = flat.single.at_end(loss);
    let path = Path::find(&flat.block, &[end], Roots::Leaves, &no_grad)?;
    let mut emitter = Emitter::new(program, &flat, &path, stopped.clone());
    emitter.start(end, fill);
    emitter.run()?;
    let (mut ops, finals, blocks) = emitter.finish();
    let block = program.global();
    let grad_of = |name: &str| finals.get(&grad_name(name)).cloned();
    let trained: Vec<(String, String)> = block
        .parameters()
        .filter(|var| parameters.is_none_or(|listed| listed.contains(&var.name.as_str())))
        .filter_map(|var| Some((var.name.clone(), grad_of(&var.name)?)))
        .collect();
    check_reached(loss, parameters, &trained)?;
    name_parameters(&mut ops, &trained);
    append(program, &flat, ops, blocks)?;
    let block = program.global_mut();
    // The schedule and the transpilers find the loss by this mark.
    if let Some(op) = block.ops.iter_mut().rev().find(|op| op.output_vars().any(|out| out == loss))
    {
        let role = op.op_role().0 | OpRole::LOSS.0;
        op.attrs.insert("op_role".to_owned(), Attr::Int(role));
    }
    Ok(trained)
}

/// [`gradients`] on a program and names.
///
/// # Errors
/// As there, and when a name is not declared.
pub fn gradients_in(
    program: &mut Program,
    targets: &[&str],
    inputs: &[&str],
    target_gradients: Option<&[Option<&str>]>,
    no_grad: &[&str],
) -> Result<Vec<Option<String>>> {
    let block = program.global();
    if let Some(weights) = target_gradients.filter(|weights| weights.len() != targets.len()) {
        return Err(Error::kernel(format!(
            "{} targets, but {} target gradients: give one for each, or none",
            targets.len(),
            weights.len()
        )));
    }
    for name in inputs {
        declared(block, name)?;
    }
    let roots = Roots::Vars(inputs.iter().copied().collect());
    let flat = Flat::global(program)?;
    let stopped = all_names(&flat, no_grad);
    let no_grad = stopped.iter().map(String::as_str).collect();
    let ends: Vec<&str> = targets.iter().map(|target| flat.single.at_end(target)).collect();
    let path = Path::find(&flat.block, &ends, roots, &no_grad)?;
    let mut emitter = Emitter::new(program, &flat, &path, stopped.clone());
    for (index, (end, target)) in ends.iter().zip(targets).enumerate() {
        if !path.wanted.contains(*end) {
            continue;
        }
        let dtype = declared(block, target)?.dtype;
        match target_gradients.and_then(|weights| weights[index]) {
            Some(weight) => {
                same_shape(block, target, weight)?;
                emitter.start_with(end, weight);
            }
            None => emitter.start(end, ones_like(end, dtype)),
        }
    }
    emitter.run()?;
    let (ops, finals, blocks) = emitter.finish();
    append(program, &flat, ops, blocks)?;
    Ok(inputs.iter().map(|name| finals.get(&grad_name(name)).cloned()).collect())
}

fn names<'a>(vars: &[&'a Variable]) -> Vec<&'a str> {
    vars.iter().map(|var| var.name()).collect()
}

fn declared<'b>(block: &'b Block, name: &str) -> Result<&'b Var> {
    block.var(name).ok_or_else(|| Error::kernel(format!("the program has no variable `{name}`")))
}

fn ones_like(target: &str, dtype: DType) -> Op {
    Op::new("fill_any_like")
        .input("X", [target])
        .output("Out", [grad_name(target)])
        .attr("value", 1.0f32)
        .attr("dtype", dtype.code())
        .role(OpRole::BACKWARD)
}

fn same_shape(block: &Block, target: &str, weight: &str) -> Result<()> {
    let (target, weight) = (declared(block, target)?, declared(block, weight)?);
    if target.shape.len() == weight.shape.len() && target.dtype == weight.dtype {
        return Ok(());
    }
    Err(Error::kernel(format!(
        "target gradient `{}` is {} {:?}, but target `{}` is {} {:?}",
        weight.name, weight.dtype, weight.shape, target.name, target.dtype, target.shape
    )))
}

fn check_reached(loss: &str, listed: Option<&[&str]>, trained: &[(String, String)]) -> Result<()> {
    let reached: HashSet<&str> = trained.iter().map(|(param, _)| param.as_str()).collect();
    if let Some(lost) = listed.into_iter().flatten().find(|name| !reached.contains(**name)) {
        return Err(Error::kernel(format!(
            "parameter `{lost}` has no gradient: is it trainable, and reachable from `{loss}`?"
        )));
    }
    if trained.is_empty() {
        return Err(Error::kernel(format!(
            "loss `{loss}` depends on no trainable parameter: is a variable on the way marked \
             `stop_gradient`?"
        )));
    }
    Ok(())
}

/// Records on each op that finally writes a parameter's gradient which pair it serves: transpilers
/// send the gradient from there.
fn name_parameters(ops: &mut [Op], trained: &[(String, String)]) {
    for op in ops {
        let written: Vec<String> = op.output_vars().cloned().collect();
        let pairs = written.iter().filter_map(|out| trained.iter().find(|(_, grad)| grad == out));
        let vars: Vec<String> = pairs.flat_map(|(p, g)| [p.clone(), g.clone()]).collect();
        if !vars.is_empty() {
            op.attrs.insert("op_role_var".to_owned(), Attr::Strings(vars));
        }
    }
}

/// All that variables listed by the program's names are called while each is written once.
fn all_names(flat: &Flat, listed: &[&str]) -> HashSet<String> {
    let of = |(name, original): (&String, &String)| {
        listed.contains(&original.as_str()).then(|| name.clone())
    };
    let renamed = flat.single.original.iter().filter_map(of);
    listed.iter().map(|name| (*name).to_owned()).chain(renamed).collect()
}

/// Appends the ops of a backward pass and the blocks that they run, and has the forward pass copy what they read of
/// variables that are written over. On an error the program is as it was.
fn append(program: &mut Program, flat: &Flat, mut ops: Vec<Op>, blocks: Vec<Block>) -> Result<()> {
    let copies = flat.restore(&mut ops);
    let first = program.blocks.len();
    let block = program.global_mut();
    let (vars_before, ops_before) = (block.vars.len(), block.ops.len());
    for op in copies.iter().map(|(_, op)| op).chain(&ops) {
        if let Err(error) = infer_into(block, op) {
            block.vars.truncate(vars_before);
            block.ops.truncate(ops_before);
            return Err(error);
        }
        set_kinds(block, op, &blocks, first);
    }
    block.ops.extend(ops);
    // Last first, so that places stay what they are.
    let mut copies = copies;
    copies.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, op) in copies {
        let role = block.ops[at].op_role();
        block.ops.insert(at, op.role(role));
    }
    for block in blocks {
        program.blocks.push(block);
    }
    Ok(())
}
