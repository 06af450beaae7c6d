//! Gradient rules: which ops compute the gradient of an op.

use bireme_ir::{GRAD_SUFFIX, Op};

use super::{Formula, Gradient, OpView};
use crate::{Error, Result};

/// Computes the gradient ops of an op, with full input and output slots.
pub type GradOps = fn(&OpView<'_>) -> Result<Vec<Op>>;

/// Which ops compute the gradient of an op.
#[derive(Clone, Copy, Debug)]
pub enum GradRule {
    /// None: the op's outputs do not depend on its inputs smoothly, or it is itself a gradient.
    None,
    /// One op, `<type>_grad`, that reads the named slots of the forward op, all output gradients
    /// (`<slot>@GRAD`), and the forward op's attributes, and writes the input gradients it
    /// declares as outputs.
    Op(&'static [&'static str]),
    /// The same, and its definition follows from the forward op's.
    Follows(Gradient),
    /// Something else: the ops, with full input and output slots. Output gradients of inputs that
    /// need none are dropped afterwards.
    Fn(GradOps),
    /// The gradient of what the op computes, written as other ops.
    Formula(fn(&mut Formula<'_>) -> Result<()>),
}

impl GradRule {
    /// Whether a gradient op is given what the forward op has in slot `slot`.
    pub(crate) fn reads(&self, slot: &str) -> bool {
        match self {
            GradRule::None => false,
            GradRule::Op(reads) => reads.contains(&slot),
            GradRule::Follows(gradient) => gradient.slots_read().contains(&slot),
            GradRule::Fn(_) | GradRule::Formula(_) => true,
        }
    }

    /// The gradient ops of `view`, as if every input needed a gradient. Those of a formula depend on
    /// shapes, which autodiff knows.
    ///
    /// # Errors
    /// When a computed rule refuses the op, and for a formula.
    pub fn ops(&self, view: &OpView<'_>) -> Result<Vec<Op>> {
        match self {
            GradRule::None => Ok(Vec::new()),
            GradRule::Op(reads) => Ok(vec![default_op(view, reads)?]),
            GradRule::Follows(gradient) => Ok(vec![default_op(view, gradient.slots_read())?]),
            GradRule::Fn(rule) => rule(view),
            GradRule::Formula(_) => Err(Error::kernel("has a gradient by a formula alone")),
        }
    }
}

/// The default gradient op; computed rules start from it too.
///
/// # Errors
/// When `<type>_grad` is not defined.
pub fn default_op(view: &OpView<'_>, reads: &[&str]) -> Result<Op> {
    let forward = view.op;
    let kind = format!("{}_grad", forward.kind);
    let def = crate::ops::find(&kind)?;
    let mut grad = Op::new(kind);
    for slot in reads {
        let is_input = view.def.signature.inputs.iter().any(|input| input.name == *slot);
        let vars = if is_input { forward.inputs_of(slot) } else { forward.outputs_of(slot) };
        copy_slot(&mut grad.inputs, slot, vars);
    }
    for slot in view.def.signature.outputs {
        let grad_slot = format!("{}{GRAD_SUFFIX}", slot.name);
        // An output whose gradient nobody reads (batch statistics, masks) is not declared.
        if def.signature.inputs.iter().any(|slot| slot.name == grad_slot) {
            copy_slot(&mut grad.inputs, &grad_slot, &gradients(forward.outputs_of(slot.name)));
        }
    }
    for slot in def.signature.outputs {
        if let Some(forward_slot) = slot.name.strip_suffix(GRAD_SUFFIX) {
            copy_slot(&mut grad.outputs, slot.name, &gradients(forward.inputs_of(forward_slot)));
        }
    }
    grad.attrs.clone_from(&forward.attrs);
    grad.attrs.retain(|name, _| !matches!(name.as_str(), "op_role" | "op_role_var"));
    grad.site.clone_from(&forward.site);
    Ok(grad)
}

fn gradients(vars: &[String]) -> Vec<String> {
    vars.iter().map(|var| bireme_ir::grad_name(var)).collect()
}

fn copy_slot(slots: &mut bireme_ir::Slots, slot: &str, vars: &[String]) {
    if !vars.is_empty() {
        slots.insert(slot.to_owned(), vars.to_vec());
    }
}
