//! Operators: a type, named slots of variables, and attributes.

use std::collections::BTreeMap;

use crate::Attr;

/// Slot name to the variables in it, in order. An absent slot and an empty one mean the same.
pub type Slots = BTreeMap<String, Vec<String>>;

/// One step of a block.
#[derive(Clone, Debug, Default)]
pub struct Op {
    /// Paddle's op type: `mul`, `elementwise_add`, `adam`.
    pub kind: String,
    /// Variables read, by slot.
    pub inputs: Slots,
    /// Variables written, by slot.
    pub outputs: Slots,
    /// Attributes that differ from, or repeat, the op's defaults.
    pub attrs: BTreeMap<String, Attr>,
    /// Whether pruning must keep it.
    pub is_target: bool,
    /// The line of user code that created it (`file:line`); no part of the op's identity.
    pub site: Option<String>,
}

/// The part of a training step that an op belongs to; the values of Paddle's `op_role`, which are
/// bit flags (a loss op's gradient is `LOSS | BACKWARD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpRole(pub i32);

impl OpRole {
    /// Computes the prediction and the loss.
    pub const FORWARD: OpRole = OpRole(0);
    /// Computes gradients.
    pub const BACKWARD: OpRole = OpRole(1);
    /// Updates parameters.
    pub const OPTIMIZE: OpRole = OpRole(2);
    /// Talks to servers.
    pub const RPC: OpRole = OpRole(3);
    /// Prepares data for servers.
    pub const DIST: OpRole = OpRole(4);
    /// Computes the learning rate.
    pub const LR_SCHED: OpRole = OpRole(16);
    /// Computes the loss (or-ed with forward or backward).
    pub const LOSS: OpRole = OpRole(256);

    /// The role without the loss flag.
    pub const fn base(self) -> OpRole {
        OpRole(self.0 & !OpRole::LOSS.0)
    }
}

impl PartialEq for Op {
    fn eq(&self, other: &Op) -> bool {
        self.kind == other.kind
            && self.inputs == other.inputs
            && self.outputs == other.outputs
            && self.attrs == other.attrs
            && self.is_target == other.is_target
    }
}

impl Op {
    /// An op of type `kind` with no variables yet.
    pub fn new(kind: impl Into<String>) -> Op {
        Op { kind: kind.into(), ..Op::default() }
    }

    /// Puts variables into input slot `slot`.
    pub fn input<S: Into<String>>(mut self, slot: &str, vars: impl IntoIterator<Item = S>) -> Op {
        self.inputs.insert(slot.to_owned(), vars.into_iter().map(Into::into).collect());
        self
    }

    /// Puts variables into output slot `slot`.
    pub fn output<S: Into<String>>(mut self, slot: &str, vars: impl IntoIterator<Item = S>) -> Op {
        self.outputs.insert(slot.to_owned(), vars.into_iter().map(Into::into).collect());
        self
    }

    /// Sets attribute `name`.
    pub fn attr(mut self, name: &str, value: impl Into<Attr>) -> Op {
        self.attrs.insert(name.to_owned(), value.into());
        self
    }

    /// Sets `op_role`.
    pub fn role(self, role: OpRole) -> Op {
        self.attr("op_role", role.0)
    }

    /// The part of the step this op belongs to; forward when it does not say.
    pub fn op_role(&self) -> OpRole {
        match self.attrs.get("op_role") {
            Some(Attr::Int(role)) => OpRole(*role),
            _ => OpRole::FORWARD,
        }
    }

    /// The variables in input slot `slot`; empty when absent.
    pub fn inputs_of(&self, slot: &str) -> &[String] {
        self.inputs.get(slot).map_or(&[], Vec::as_slice)
    }

    /// The variables in output slot `slot`; empty when absent.
    pub fn outputs_of(&self, slot: &str) -> &[String] {
        self.outputs.get(slot).map_or(&[], Vec::as_slice)
    }

    /// Every variable read, slot by slot.
    pub fn input_vars(&self) -> impl Iterator<Item = &String> {
        self.inputs.values().flatten()
    }

    /// Every variable written, slot by slot.
    pub fn output_vars(&self) -> impl Iterator<Item = &String> {
        self.outputs.values().flatten()
    }

    /// Renames a variable wherever this op reads it.
    pub fn rename_input(&mut self, from: &str, to: &str) {
        rename(&mut self.inputs, from, to);
    }

    /// Renames a variable wherever this op writes it.
    pub fn rename_output(&mut self, from: &str, to: &str) {
        rename(&mut self.outputs, from, to);
    }
}

fn rename(slots: &mut Slots, from: &str, to: &str) {
    for var in slots.values_mut().flatten().filter(|var| *var == from) {
        to.clone_into(var);
    }
}
