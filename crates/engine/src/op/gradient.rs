//! Gradient ops whose definitions follow from their forward ops: what they read and write is named,
//! and the rest (slots, attributes, shapes, split) is taken over.

use bireme_ir::{GRAD_SUFFIX, Signature, Slot};

use super::{Formula, GradOps, GradRule, Infer, InferRule, Kernel, OpDef, OpView, SplitRule};
use crate::Result;

/// The op `<type>_grad`, given by its kernel and by how it differs from what is usual.
#[derive(Clone, Copy, Debug)]
pub struct Gradient {
    /// Forward inputs whose gradients it writes, those that are asked for.
    of: &'static [&'static str],
    /// Forward slots that it reads. Outputs must be there, even those that the forward op may
    /// leave out.
    reads: &'static [&'static str],
    /// Slots among those that programs may leave out.
    optional: &'static [&'static str],
    /// Forward slots that Paddle's programs may fill, and which mean nothing.
    accepts: &'static [&'static str],
    /// Forward outputs whose gradients it reads; empty for the first one.
    from: &'static [&'static str],
    /// How its outputs get their shape, where each is not like its forward input.
    infer: Option<Shape>,
    /// Its behaviour under a batch split, where it does not follow from the forward op's.
    split: Option<SplitRule>,
    lod_from: Option<&'static str>,
    shared: &'static [&'static str],
    /// The gradient of this op itself, for gradients of gradients.
    second: Second,
    kernel: fn(&OpView<'_>) -> Result<Kernel>,
}

/// The gradient of a gradient op.
#[derive(Clone, Copy, Debug)]
enum Second {
    None,
    Ops(GradOps),
    Formula(fn(&mut Formula<'_>) -> Result<()>),
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Like(&'static str),
    Fn(fn(&mut Infer<'_>) -> Result<()>),
}

impl Gradient {
    /// An op that writes the gradients of these forward inputs.
    pub const fn new(
        of: &'static [&'static str],
        kernel: fn(&OpView<'_>) -> Result<Kernel>,
    ) -> Gradient {
        let none: &'static [&'static str] = &[];
        Gradient {
            of,
            reads: none,
            optional: none,
            accepts: none,
            from: none,
            infer: None,
            split: None,
            lod_from: None,
            shared: none,
            second: Second::None,
            kernel,
        }
    }

    /// Sets the forward slots that it reads.
    pub const fn reads(mut self, slots: &'static [&'static str]) -> Gradient {
        self.reads = slots;
        self
    }

    /// Lets programs leave out some of the slots that it reads.
    pub const fn optional(mut self, slots: &'static [&'static str]) -> Gradient {
        self.optional = slots;
        self
    }

    /// Lets programs fill forward slots that it does not read.
    pub const fn accepts(mut self, slots: &'static [&'static str]) -> Gradient {
        self.accepts = slots;
        self
    }

    /// Sets the forward outputs whose gradients it reads, where it is not the first one alone.
    pub const fn from(mut self, slots: &'static [&'static str]) -> Gradient {
        self.from = slots;
        self
    }

    /// All outputs look like what is in slot `slot`.
    pub const fn like(mut self, slot: &'static str) -> Gradient {
        self.infer = Some(Shape::Like(slot));
        self
    }

    /// Sets a computed shape rule.
    pub const fn infer(mut self, rule: fn(&mut Infer<'_>) -> Result<()>) -> Gradient {
        self.infer = Some(Shape::Fn(rule));
        self
    }

    /// Sets a behaviour under a batch split that does not follow from the forward op's.
    pub const fn split(mut self, rule: SplitRule) -> Gradient {
        self.split = Some(rule);
        self
    }

    /// Outputs take over the sequence offsets of slot `slot`.
    pub const fn lod_from(mut self, slot: &'static str) -> Gradient {
        self.lod_from = Some(slot);
        self
    }

    /// Allows the memory of these slots to be shared by training threads.
    pub const fn shared(mut self, slots: &'static [&'static str]) -> Gradient {
        self.shared = slots;
        self
    }

    /// Sets the ops that compute the gradient of this op; `op::second` has the usual ones.
    pub const fn second(mut self, rule: GradOps) -> Gradient {
        self.second = Second::Ops(rule);
        self
    }

    /// Says what this op computes in terms of other ops, from which its own gradient follows.
    pub const fn formula(mut self, formula: fn(&mut Formula<'_>) -> Result<()>) -> Gradient {
        self.second = Second::Formula(formula);
        self
    }

    /// The forward slots that a gradient op of ours is given.
    pub(super) fn slots_read(&self) -> &'static [&'static str] {
        self.reads
    }

    /// The definition. It lives as long as the process: definitions are made once, for the table of
    /// all ops.
    pub(crate) fn define(&self, forward: &OpDef) -> OpDef {
        let Signature { inputs, outputs, attrs } = forward.signature;
        let find = |name: &&str| {
            let slot = inputs.iter().chain(outputs).find(|slot| slot.name == *name).copied();
            slot.unwrap_or_else(|| panic!("`{}` has no slot `{name}`", forward.name))
        };
        let read = |name| {
            let slot = find(name);
            let written = outputs.iter().any(|output| output.name == *name);
            Slot { required: (slot.required || written) && !self.optional.contains(name), ..slot }
        };
        let gradient = |slot: Slot, required| Slot {
            name: with_suffix(slot.name, GRAD_SUFFIX),
            required,
            ..slot
        };
        let mut reads: Vec<Slot> = self.reads.iter().map(read).collect();
        reads.extend(self.accepts.iter().map(|name| Slot { required: false, ..find(name) }));
        let given = self.outputs_given(forward);
        reads.extend(given.iter().map(|name| gradient(find(name), true)));
        let alone = self.of.len() == 1;
        let writes: Vec<Slot> = self.of.iter().map(|name| gradient(find(name), alone)).collect();
        let infer = match self.infer {
            Some(Shape::Fn(rule)) => InferRule::Fn(rule),
            Some(Shape::Like(slot)) => like(writes.iter().map(|write| (write.name, slot))),
            None => like(writes.iter().zip(self.of).map(|(write, of)| (write.name, *of))),
        };
        let (inputs, outputs): (&[Slot], &[Slot]) = (reads.leak(), writes.leak());
        OpDef {
            signature: Signature { inputs, outputs, attrs },
            infer,
            split: self.split.unwrap_or_else(|| self.split_after(forward)),
            lod_from: self.lod_from,
            shared: self.shared,
            grad: match self.second {
                Second::None => GradRule::None,
                Second::Ops(rule) => GradRule::Fn(rule),
                Second::Formula(formula) => GradRule::Formula(formula),
            },
            ..OpDef::new(with_suffix(forward.name, "_grad"), self.kernel)
        }
    }

    /// What the forward op's split means here: gradients are rows where their values are, and those
    /// of whole inputs are sums over the batch.
    fn split_after(&self, forward: &OpDef) -> SplitRule {
        let SplitRule::Batch { rows, partial } = forward.split else { return forward.split };
        let outputs = forward.signature.outputs;
        let is_rows = |name: &str| {
            let written = outputs.iter().any(|slot| slot.name == name);
            if written { !partial.contains(&name) } else { rows.contains(&name) }
        };
        let gradient = |name: &&'static str| with_suffix(name, GRAD_SUFFIX);
        let read = self.reads.iter().copied().filter(|name| is_rows(name));
        let given = self.outputs_given(forward).into_iter().filter(|name| is_rows(name));
        let rows: Vec<_> = read.chain(given.map(|name| gradient(&name))).collect();
        let sums = self.of.iter().filter(|name| !is_rows(name)).map(gradient);
        SplitRule::Batch { rows: rows.leak(), partial: sums.collect::<Vec<_>>().leak() }
    }

    /// The forward outputs whose gradients it reads.
    fn outputs_given(&self, forward: &OpDef) -> Vec<&'static str> {
        let first = forward.signature.outputs.first().map(|slot| slot.name);
        if self.from.is_empty() { first.into_iter().collect() } else { self.from.to_vec() }
    }
}

fn with_suffix(name: &str, suffix: &str) -> &'static str {
    format!("{name}{suffix}").leak()
}

fn like(pairs: impl Iterator<Item = (&'static str, &'static str)>) -> InferRule {
    InferRule::Like(pairs.collect::<Vec<_>>().leak())
}
