//! An op definition: everything the engine knows about one op type, as one static value.
//!
//! A definition is written as a constant in the op's own file, from [`OpDef::new`] and the `const`
//! setters below, and listed by its family. That of a gradient op mostly follows from its forward op
//! ([`Gradient`]).

use bireme_ir::{AttrDefault, AttrKind, AttrSpec, Signature, Slot};

use super::{GradOps, GradRule, Gradient, Infer, Kernel, OpView, SplitRule};
use crate::Result;

/// Everything the engine knows about one op type.
#[derive(Clone, Copy, Debug)]
pub struct OpDef {
    /// Paddle's op type.
    pub name: &'static str,
    /// Slots and attributes.
    pub signature: Signature,
    /// How output shapes follow from input shapes.
    pub infer: InferRule,
    /// Which op computes its gradient.
    pub grad: GradRule,
    /// Gradient ops for outputs whose gradients `grad` does not read.
    pub side_grad: Option<GradOps>,
    /// How it behaves when a batch is split over workers.
    pub split: SplitRule,
    /// Output slots that may be the same variable as an input slot: `(input, output)`.
    pub inplace: &'static [(&'static str, &'static str)],
    /// Slots that its kernel reaches by [`crate::tensor::Tensor::load`] and `store` or their
    /// kin, so that training threads may share the memory behind them and behind the outputs that
    /// continue them. Variables of other slots are copied for such a step: in before it, out after
    /// it.
    pub shared: &'static [&'static str],
    /// The slot whose sequence offsets the outputs take over.
    pub lod_from: Option<&'static str>,
    /// Whether its kernel takes floats of 16 bits as they are; others are given copies of 32 bits.
    pub any_width: bool,
    /// Whether it must run even if nothing uses its outputs (`print`).
    pub side_effect: bool,
    /// Whether it keeps its turn among the other ordered ops of a program: other ranks run the same
    /// ones and expect them so.
    pub ordered: bool,
    /// Whether its kernel gives its outputs their shapes, which its rule knows only roughly: inputs that it does not
    /// look at may have no value.
    pub sizes_itself: bool,
    /// Which of its slots mean what, for an op that runs a block of the program.
    pub flow: Option<&'static Flow>,
    /// Prepares the kernel: reads attributes and slots once, returns what runs each step.
    pub kernel: fn(&OpView<'_>) -> Result<Kernel>,
}

/// The slots of an op that runs the block in its attribute `sub_block`.
#[derive(Debug)]
pub struct Flow {
    /// What says whether the block runs.
    pub condition: &'static str,
    /// Variables around the block that it reads.
    pub reads: &'static str,
    /// What its gradient needs of each run of the block.
    pub saved: &'static str,
    /// Whether the block runs again as long as the condition holds.
    pub repeats: bool,
    /// The op of its gradient; none for that op itself.
    pub gradient: Option<&'static str>,
}

/// How output shapes follow from input shapes.
#[derive(Clone, Copy, Debug)]
pub enum InferRule {
    /// Each `(output, input)`: the outputs look like the inputs, one to one.
    Like(&'static [(&'static str, &'static str)]),
    /// The outputs look like the inputs that they continue (`inplace`).
    Continued,
    /// Computed.
    Fn(fn(&mut Infer<'_>) -> Result<()>),
}

impl OpDef {
    /// A definition with no slots, no attributes, no gradient, and no outputs to shape.
    pub const fn new(name: &'static str, kernel: fn(&OpView<'_>) -> Result<Kernel>) -> OpDef {
        OpDef {
            name,
            signature: Signature { inputs: &[], outputs: &[], attrs: &[] },
            infer: InferRule::Like(&[]),
            grad: GradRule::None,
            side_grad: None,
            split: SplitRule::Whole,
            inplace: &[],
            shared: &[],
            lod_from: None,
            any_width: false,
            side_effect: false,
            ordered: false,
            sizes_itself: false,
            flow: None,
            kernel,
        }
    }

    /// Sets the input slots.
    pub const fn inputs(mut self, slots: &'static [Slot]) -> OpDef {
        self.signature.inputs = slots;
        self
    }

    /// Sets the output slots.
    pub const fn outputs(mut self, slots: &'static [Slot]) -> OpDef {
        self.signature.outputs = slots;
        self
    }

    /// Sets the attributes.
    pub const fn attrs(mut self, attrs: &'static [AttrSpec]) -> OpDef {
        self.signature.attrs = attrs;
        self
    }

    /// Outputs look like inputs: pairs `(output slot, input slot)`.
    pub const fn like(mut self, pairs: &'static [(&'static str, &'static str)]) -> OpDef {
        self.infer = InferRule::Like(pairs);
        self
    }

    /// Sets a computed shape rule.
    pub const fn infer(mut self, rule: fn(&mut Infer<'_>) -> Result<()>) -> OpDef {
        self.infer = InferRule::Fn(rule);
        self
    }

    /// Sets the gradient rule.
    pub const fn grad(mut self, rule: GradRule) -> OpDef {
        self.grad = rule;
        self
    }

    /// Sets a gradient op whose definition follows from this one.
    pub const fn gradient(mut self, gradient: Gradient) -> OpDef {
        self.grad = GradRule::Follows(gradient);
        self
    }

    /// Adds gradient ops for outputs whose gradients the rule does not read; they are used where the loss depends on
    /// such an output.
    pub const fn side_gradient(mut self, rule: GradOps) -> OpDef {
        self.side_grad = Some(rule);
        self
    }

    /// Sets the behaviour under a batch split.
    pub const fn split(mut self, rule: SplitRule) -> OpDef {
        self.split = rule;
        self
    }

    /// Allows outputs to be the same variable as inputs: pairs `(input slot, output slot)`.
    pub const fn inplace(mut self, pairs: &'static [(&'static str, &'static str)]) -> OpDef {
        self.inplace = pairs;
        self
    }

    /// Outputs continue inputs, in place or not, and look like them: pairs
    /// `(input slot, output slot)`.
    pub const fn updates(mut self, pairs: &'static [(&'static str, &'static str)]) -> OpDef {
        (self.inplace, self.infer) = (pairs, InferRule::Continued);
        self
    }

    /// Allows the memory of these slots, and of outputs that continue them, to be shared by training
    /// threads.
    pub const fn shared(mut self, slots: &'static [&'static str]) -> OpDef {
        self.shared = slots;
        self
    }

    /// Whether the memory behind slot `slot` may be shared by training threads.
    pub fn shares(&self, slot: &str) -> bool {
        let continues =
            |(input, output): &(&str, &str)| *output == slot && self.shared.contains(input);
        self.shared.contains(&slot) || self.inplace.iter().any(continues)
    }

    /// Outputs take over the sequence offsets of input slot `slot`.
    pub const fn lod_from(mut self, slot: &'static str) -> OpDef {
        self.lod_from = Some(slot);
        self
    }

    /// Marks an op whose kernel takes elements of any width, 16-bit floats among them.
    pub const fn any_width(mut self) -> OpDef {
        self.any_width = true;
        self
    }

    /// Marks an op whose kernel gives its outputs their shapes.
    pub const fn sizes_itself(mut self) -> OpDef {
        self.sizes_itself = true;
        self
    }

    /// Marks an op that runs a block of the program.
    pub const fn runs_block(mut self, flow: &'static Flow) -> OpDef {
        self.flow = Some(flow);
        self
    }

    /// Marks an op that must run even if nothing uses its outputs.
    pub const fn side_effect(mut self) -> OpDef {
        self.side_effect = true;
        self
    }

    /// Marks an op that every rank of a job runs in the same turn, even if nothing uses its outputs.
    pub const fn ordered(mut self) -> OpDef {
        (self.side_effect, self.ordered) = (true, true);
        self
    }
}

macro_rules! attr_spec {
    ($($(#[$doc:meta])* $name:ident($type:ty) => $variant:ident;)*) => {$(
        $(#[$doc])*
        pub const fn $name(name: &'static str, default: $type) -> AttrSpec {
            AttrSpec { name, default: AttrDefault::$variant(default) }
        }
    )*};
}

/// Attribute tables read best when their entries are calls: `attr::float("scale", 1.0)`.
pub mod attr {
    use super::{AttrDefault, AttrKind, AttrSpec};

    attr_spec! {
        /// A 32-bit integer.
        int(i32) => Int;
        /// A 64-bit integer.
        long(i64) => Long;
        /// A single-precision number.
        float(f32) => Float;
        /// A double-precision number.
        float64(f64) => Float64;
        /// A truth value.
        bool(bool) => Bool;
        /// A text.
        str(&'static str) => Str;
        /// 32-bit integers.
        ints(&'static [i32]) => Ints;
        /// 64-bit integers.
        longs(&'static [i64]) => Longs;
        /// Single-precision numbers.
        floats(&'static [f32]) => Floats;
        /// Texts.
        strings(&'static [&'static str]) => Strings;
        /// An attribute that must be given.
        required(AttrKind) => Required;
        /// An attribute that may be missing.
        absent(AttrKind) => Absent;
    }
}
