//! Gradients of gradient ops that many ops have: of those whose results are linear in what they are
//! linear in.
//!
//! A gradient op maps the gradient of an output (`dout`) to gradients of inputs (`dx`). Its own
//! gradient is given those of `dx`, here `ddx`, and gives that of `dout`, here `ddout`.

use bireme_ir::{GRAD_SUFFIX, Op, grad_name};

use super::{OpDef, OpView};
use crate::{Error, Result, ops};

/// Of the gradient of an op that is linear in all inputs that have gradients: `ddout` is the op
/// itself, applied to `ddx`.
///
/// # Errors
/// When the gradient op reads too little to run the op again.
pub(crate) fn linear(view: &OpView<'_>) -> Result<Vec<Op>> {
    let forward = forward_of(view)?;
    let mut ops = Vec::new();
    let mut again = Op::new(forward.name);
    for slot in forward.signature.inputs {
        let gradients = view.op.outputs_of(&with_grad(slot.name));
        let vars = if !gradients.is_empty() {
            gradients.iter().map(|var| grad_name(var)).collect()
        } else if has_gradient(view.def, slot.name) {
            // The op is linear in it, but nobody wanted its gradient: it counts nothing.
            zeros(view, slot.name, &mut ops)
        } else {
            view.op.inputs_of(slot.name).to_vec()
        };
        if !vars.is_empty() {
            again = again.input(slot.name, vars);
        }
    }
    ops.push(finish(view, forward, again)?);
    Ok(ops)
}

/// Of the gradient of an op that multiplies each element by something, or not: `ddout` is the
/// gradient op itself, applied to `ddx`.
///
/// # Errors
/// When the op has no output gradient.
pub(crate) fn self_adjoint(view: &OpView<'_>) -> Result<Vec<Op>> {
    let (dout_slot, dout) = output_gradient(view)?;
    let (dx_slot, dx) = only_output(view)?;
    let again = Op { outputs: bireme_ir::Slots::new(), ..plain(view) };
    let again = again.input(dout_slot, [grad_name(dx)]).output(dx_slot, [grad_name(dout)]);
    Ok(vec![again])
}

/// Of the gradient of an op that gives the same elements another shape: so does its gradient.
///
/// # Errors
/// When the op has no output gradient.
pub(crate) fn relabelled(view: &OpView<'_>) -> Result<Vec<Op>> {
    let (_, dout) = output_gradient(view)?;
    let (_, dx) = only_output(view)?;
    Ok(vec![
        Op::new("reshape_grad")
            .input("X", [dout])
            .input("Out@GRAD", [grad_name(dx)])
            .output("X@GRAD", [grad_name(dout)]),
    ])
}

/// Of the gradient of an op that repeats elements until they have another shape: `ddout` is `ddx`,
/// repeated.
///
/// # Errors
/// When the op has no output gradient.
pub(crate) fn repeated(view: &OpView<'_>) -> Result<Vec<Op>> {
    let (_, dout) = output_gradient(view)?;
    let (_, dx) = only_output(view)?;
    let nothing = temporary(dx, "zeros");
    Ok(vec![
        Op::new("fill_zeros_like").input("X", [dout]).output("Out", [nothing.as_str()]),
        Op::new("elementwise_add")
            .input("X", [nothing])
            .input("Y", [grad_name(dx)])
            .output("Out", [grad_name(dout)]),
    ])
}

/// Of the gradient of a product of two inputs: with `(x, y, dout)` it gives `(dx, dy)`, and each of
/// the three is multiplied by the gradients of the other two.
///
/// # Errors
/// When the op is no product of two.
pub(crate) fn product(view: &OpView<'_>) -> Result<Vec<Op>> {
    let forward = forward_of(view)?;
    let slots: Vec<&str> = forward.signature.inputs.iter().map(|slot| slot.name).collect();
    let factors: Vec<&str> =
        slots.iter().copied().filter(|slot| has_gradient(view.def, slot)).collect();
    let [first, second] = factors[..] else {
        return Err(Error::kernel(format!("`{}` is no product of two", forward.name)));
    };
    let (dout_slot, dout) = output_gradient(view)?;
    let mut ops = Vec::new();
    let mut parts = Vec::new();
    for (mine, other) in [(first, second), (second, first)] {
        let Some(dx) = view.op.outputs_of(&with_grad(mine)).first() else { continue };
        // What multiplies `dout`: the gradient of one factor with the other factor.
        let part = temporary(dx, "part");
        let mut again = Op { outputs: bireme_ir::Slots::new(), ..plain(view) };
        again.kind = forward.name.to_owned();
        again.inputs.retain(|slot, _| slots.contains(&slot.as_str()));
        again = again.input(mine, [grad_name(dx)]);
        ops.push(again.output(forward_slot(dout_slot), [part.as_str()]));
        parts.push(part);
        // What multiplies the other factor.
        let mut again = Op { outputs: bireme_ir::Slots::new(), ..plain(view) };
        again = again.input(mine, [grad_name(dx)]);
        let others = view.op.inputs_of(other).iter().map(|var| grad_name(var));
        ops.push(again.output(&with_grad(other), others));
    }
    ops.push(Op::new("sum").input("X", parts).output("Out", [grad_name(dout)]));
    Ok(ops)
}

/// The op whose gradient the op of `view` computes.
fn forward_of(view: &OpView<'_>) -> Result<&'static OpDef> {
    let name = view.op.kind.strip_suffix("_grad");
    ops::find(name.ok_or_else(|| Error::kernel("is no gradient op"))?)
}

/// The op with its forward attributes, without what a program says of its place.
fn plain(view: &OpView<'_>) -> Op {
    let mut op = view.op.clone();
    op.attrs.retain(|name, _| !matches!(name.as_str(), "op_role" | "op_role_var"));
    op.site = None;
    op
}

/// Gives the op that was run again its attributes, and `ddout` as its output.
fn finish(view: &OpView<'_>, forward: &OpDef, mut again: Op) -> Result<Op> {
    let (slot, dout) = output_gradient(view)?;
    again.attrs = plain(view).attrs;
    again = again.output(forward_slot(slot), [grad_name(dout)]);
    for slot in forward.signature.outputs {
        // What the gradient of this op reads must be there for the gradient after the next.
        let needed = slot.required || forward.grad.reads(slot.name);
        if needed && again.outputs_of(slot.name).is_empty() {
            again = again.output(slot.name, [temporary(dout, slot.name)]);
        }
    }
    Ok(again)
}

fn zeros(view: &OpView<'_>, slot: &str, ops: &mut Vec<Op>) -> Vec<String> {
    let like = |var: &String| {
        let name = temporary(&grad_name(var), "zeros");
        ops.push(Op::new("fill_zeros_like").input("X", [var]).output("Out", [name.as_str()]));
        name
    };
    view.op.inputs_of(slot).iter().map(like).collect()
}

/// The slot and the variable of the only output gradient that the op reads.
fn output_gradient<'a>(view: &OpView<'a>) -> Result<(&'a str, &'a String)> {
    let mut found = view.op.inputs.iter().filter(|(slot, _)| slot.ends_with(GRAD_SUFFIX));
    match (found.next(), found.next()) {
        (Some((slot, vars)), None) if vars.len() == 1 => Ok((slot, &vars[0])),
        _ => Err(Error::kernel("has no gradient of a gradient with several outputs")),
    }
}

fn only_output<'a>(view: &OpView<'a>) -> Result<(&'a str, &'a String)> {
    let mut found =
        view.op.outputs.iter().flat_map(|(slot, vars)| vars.iter().map(move |v| (slot, v)));
    match (found.next(), found.next()) {
        (Some((slot, var)), None) => Ok((slot, var)),
        _ => Err(Error::kernel("computes several gradients, where one was expected")),
    }
}

fn has_gradient(def: &OpDef, slot: &str) -> bool {
    def.signature.outputs.iter().any(|output| output.name == with_grad(slot))
}

fn with_grad(slot: &str) -> String {
    format!("{slot}{GRAD_SUFFIX}")
}

fn forward_slot(slot: &str) -> &str {
    slot.strip_suffix(GRAD_SUFFIX).unwrap_or(slot)
}

/// A name for a value on the way: every gradient has one op that computes it, and so one of these.
fn temporary(gradient: &str, what: &str) -> String {
    format!("{gradient}@SECOND@{what}")
}
