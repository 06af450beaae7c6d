//! Prepared ops of one op type, found again by their attributes and the number of their variables.

use std::sync::{Arc, Mutex, PoisonError};

use bireme_ir::{Attr, Op};

use super::Prepared;
use super::gradient::Gradients;
use crate::Result;
use crate::op::OpDef;

/// Forms that one op type remembers.
const MAX_FORMS: usize = 64;

/// One op type, with the forms in which it has been called.
pub struct OpCache {
    def: &'static OpDef,
    /// Most recently used first.
    entries: Mutex<Vec<Entry>>,
}

/// The form of a call: everything but the values.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    /// The attributes that differ from their defaults.
    pub attrs: &'a [(&'static str, Attr)],
    /// Variables in each input slot, in the order of the signature.
    pub inputs: &'a [usize],
    /// Variables in each output slot, in the order of the signature.
    pub outputs: &'a [usize],
}

/// A prepared op with its gradients.
pub(super) struct Ready {
    pub(super) forward: Prepared,
    pub(super) gradients: Gradients,
}

struct Entry {
    attrs: Vec<(&'static str, Attr)>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    ready: Arc<Ready>,
}

impl OpCache {
    /// An empty cache for op type `kind`.
    ///
    /// # Errors
    /// When there is no such op.
    pub fn new(kind: &str) -> Result<OpCache> {
        Ok(OpCache { def: crate::ops::find(kind)?, entries: Mutex::new(Vec::new()) })
    }

    /// The definition.
    pub fn def(&self) -> &'static OpDef {
        self.def
    }

    /// Whether an output slot that may be empty is needed for the gradient.
    pub fn gradient_reads(&self, slot: &str) -> bool {
        self.def.grad.reads(slot)
    }

    /// The op in this form.
    pub(super) fn get(&self, form: Form<'_>, seed: u64) -> Result<Arc<Ready>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |entry: &Entry| {
            entry.inputs == form.inputs
                && entry.outputs == form.outputs
                && entry.attrs == form.attrs
                && entry.ready.forward.seed() == seed
        };
        if let Some(at) = entries.iter().position(same) {
            entries.swap(0, at);
            return Ok(Arc::clone(&entries[0].ready));
        }
        let forward = Prepared::new(self.op(form), seed)?;
        let ready = Arc::new(Ready { forward, gradients: Gradients::default() });
        // What was drawn from another seed is not asked for again.
        entries.retain(|entry| entry.ready.forward.seed() == seed);
        entries.truncate(MAX_FORMS - 1);
        let entry = Entry {
            attrs: form.attrs.to_vec(),
            inputs: form.inputs.to_vec(),
            outputs: form.outputs.to_vec(),
            ready: Arc::clone(&ready),
        };
        entries.insert(0, entry);
        Ok(ready)
    }

    /// The op with its variables named by position: `i0`, `i1`, ..., `o0`, ...
    fn op(&self, form: Form<'_>) -> Op {
        let mut op = Op::new(self.def.name);
        let mut next = 0;
        for (slot, count) in self.def.signature.inputs.iter().zip(form.inputs) {
            op = op.input(slot.name, (next..next + count).map(input_name));
            next += count;
        }
        next = 0;
        for (slot, count) in self.def.signature.outputs.iter().zip(form.outputs) {
            op = op.output(slot.name, (next..next + count).map(output_name));
            next += count;
        }
        op.inputs.retain(|_, vars| !vars.is_empty());
        op.outputs.retain(|_, vars| !vars.is_empty());
        for (name, attr) in form.attrs {
            op = op.attr(name, attr.clone());
        }
        op
    }
}

/// An op with its variables named by position, as those of a form are.
pub(super) fn by_position(def: &OpDef, op: &Op) -> Op {
    let mut named = Op::new(def.name);
    let mut next = 0;
    for slot in def.signature.inputs {
        let count = op.inputs_of(slot.name).len();
        named = named.input(slot.name, (next..next + count).map(input_name));
        next += count;
    }
    next = 0;
    for slot in def.signature.outputs {
        let count = op.outputs_of(slot.name).len();
        named = named.output(slot.name, (next..next + count).map(output_name));
        next += count;
    }
    named.inputs.retain(|_, vars| !vars.is_empty());
    named.outputs.retain(|_, vars| !vars.is_empty());
    Op { attrs: op.attrs.clone(), ..named }
}

/// The name of a flat input.
pub(super) fn input_name(position: usize) -> String {
    format!("i{position}")
}

/// The name of a flat output.
pub(super) fn output_name(position: usize) -> String {
    format!("o{position}")
}
