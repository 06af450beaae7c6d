//! Gradients as ops: appends the backward pass of a loss to a program, as Paddle does.
//!
//! The gradient of `x` is `x@GRAD`. A variable that several ops use gets one contribution from each
//! (`x@GRAD@RENAME@block0@k`), and a `sum` op right before their first reader, or at the end when
//! nobody reads it. Only ops on a path from something that needs a gradient to a target are
//! differentiated. A program is changed wholly or, on an error, not at all.

mod emit;
mod formula;
mod path;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use bireme_ir::{Attr, Block, DType, Op, OpRole, Program, Var, grad_name};

use crate::graph::{Variable, infer_into};
use crate::{Error, Result};

use emit::Emitter;
pub(crate) use emit::{is_unread, no_gradient_through};
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
    let block = program.global_mut();
    let loss_var = declared(block, loss)?;
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
    let path = Path::find(block, &[loss], Roots::Leaves, &no_grad.iter().copied().collect())?;
    let mut emitter = Emitter::new(block, &path);
    emitter.start(loss, fill);
    emitter.run()?;
    let (mut ops, finals) = emitter.finish();
    let grad_of = |name: &str| finals.get(&grad_name(name)).cloned();
    let trained: Vec<(String, String)> = block
        .parameters()
        .filter(|var| parameters.is_none_or(|listed| listed.contains(&var.name.as_str())))
        .filter_map(|var| Some((var.name.clone(), grad_of(&var.name)?)))
        .collect();
    check_reached(loss, parameters, &trained)?;
    name_parameters(&mut ops, &trained);
    append(block, ops)?;
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
    let block = program.global_mut();
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
    let path = Path::find(block, targets, roots, &no_grad.iter().copied().collect())?;
    let mut emitter = Emitter::new(block, &path);
    for (index, target) in targets.iter().enumerate() {
        if !path.wanted.contains(*target) {
            continue;
        }
        let dtype = declared(block, target)?.dtype;
        match target_gradients.and_then(|weights| weights[index]) {
            Some(weight) => {
                same_shape(block, target, weight)?;
                emitter.start_with(target, weight);
            }
            None => emitter.start(target, ones_like(target, dtype)),
        }
    }
    emitter.run()?;
    let (ops, finals) = emitter.finish();
    append(block, ops)?;
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

fn append(block: &mut Block, ops: Vec<Op>) -> Result<()> {
    let (vars_before, ops_before) = (block.vars.len(), block.ops.len());
    for op in ops {
        if let Err(error) = infer_into(block, &op) {
            block.vars.truncate(vars_before);
            block.ops.truncate(ops_before);
            return Err(error);
        }
        block.ops.push(op);
    }
    Ok(())
}
