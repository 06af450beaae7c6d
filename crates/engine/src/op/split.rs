//! How an op behaves when a batch is split by rows over worker threads.
//!
//! Each variable of a step is *whole* (the same for every worker), *rows* (each worker has its rows
//! of it) or *partial* (each worker has a full-size piece; their sum is the value). A rule says
//! what an op's outputs are, given its inputs; an op with no answer runs once, after the workers
//! have met, on the whole batch. So a missing rule costs speed, never correctness.

use bireme_ir::VarKind;

use super::{Meta, OpView};

/// How the value of a variable is spread over the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The same for everyone.
    Whole,
    /// Dimension 0 is the batch (or a multiple of it); each worker has its rows.
    Rows,
    /// The sum of the workers' pieces.
    Partial,
}

/// How an op behaves under a split.
#[derive(Clone, Copy, Debug)]
pub enum SplitRule {
    /// It must see the whole batch.
    Whole,
    /// Row `i` of each output depends on row `i` of each `Rows` input, and on whole inputs that
    /// have no batch dimension.
    RowWise,
    /// Inputs in slots `rows` are spread by rows, and all others are whole. Outputs in slots
    /// `partial` are sums over the batch, of which each worker has its piece; the others are rows.
    Batch {
        /// Input slots.
        rows: &'static [&'static str],
        /// Output slots.
        partial: &'static [&'static str],
    },
    /// Computed: the spread of each output in flat order, or `None` to see the whole batch.
    Fn(fn(&SplitView<'_>) -> Option<Vec<Spread>>),
}

/// The inputs of a split rule.
pub struct SplitView<'a> {
    /// The op.
    pub op: &'a OpView<'a>,
    /// Spread of each input, in flat order.
    pub spreads: &'a [Spread],
    /// Concrete shapes of the inputs, in flat order.
    pub inputs: &'a [Meta],
    /// Concrete shapes of the outputs, in flat order.
    pub outputs: &'a [Meta],
    /// Rows of the batch.
    pub batch: usize,
    /// How many shares it is cut into.
    pub shares: usize,
}

impl SplitView<'_> {
    /// The spread of the variable in input slot `slot`; whole when the slot is empty.
    pub fn spread(&self, slot: &str) -> Spread {
        self.spreads[self.op.input_positions(slot)].first().copied().unwrap_or(Spread::Whole)
    }

    /// The shape of the variable in input slot `slot`.
    pub fn meta(&self, slot: &str) -> Option<&Meta> {
        self.inputs[self.op.input_positions(slot)].first()
    }

    /// Whether every input is spread by rows or has no batch dimension, and none is partial.
    pub fn inputs_fit_rows(&self) -> bool {
        let inputs = || self.spreads.iter().zip(self.inputs);
        // Rows may be a multiple of the batch; a whole value with as many is one of theirs.
        let is_rows = |dim: Option<&i64>| {
            dim == Some(&(self.batch as i64))
                || inputs().any(|(other, meta)| {
                    *other == Spread::Rows && dim.is_some() && meta.dims.first() == dim
                })
        };
        inputs().all(|(spread, meta)| match spread {
            Spread::Rows => true,
            Spread::Whole => !is_rows(meta.dims.first()),
            Spread::Partial => false,
        })
    }

    /// The outputs' spreads, by slot: what `of` says for each output slot.
    pub fn outputs_by_slot(&self, of: impl Fn(&str) -> Spread) -> Option<Vec<Spread>> {
        let mut spreads = Vec::new();
        for slot in self.op.def.signature.outputs {
            spreads.extend(self.op.output_positions(slot.name).map(|_| of(slot.name)));
        }
        Some(spreads)
    }
}

impl SplitRule {
    /// Rows of the outputs follow from rows of these inputs and from all of the others.
    pub const fn batch(rows: &'static [&'static str]) -> SplitRule {
        SplitRule::Batch { rows, partial: &[] }
    }

    /// What the outputs are, or `None` when the op must see the whole batch.
    pub fn apply(&self, view: &SplitView<'_>) -> Option<Vec<Spread>> {
        match self {
            SplitRule::Whole => None,
            SplitRule::RowWise => {
                let rows = view.outputs.iter().all(|meta| {
                    meta.kind == VarKind::LodTensor
                        && meta.dims.first().is_some_and(|d| *d > 0 && *d % view.batch as i64 == 0)
                });
                (rows && view.inputs_fit_rows()).then(|| vec![Spread::Rows; view.outputs.len()])
            }
            SplitRule::Batch { rows, partial } => {
                let fits = view.op.def.signature.inputs.iter().all(|slot| {
                    let rows = rows.contains(&slot.name);
                    let needed = if rows { Spread::Rows } else { Spread::Whole };
                    let spreads = &view.spreads[view.op.input_positions(slot.name)];
                    spreads.iter().all(|spread| *spread == needed)
                });
                let of = |slot: &str| {
                    if partial.contains(&slot) { Spread::Partial } else { Spread::Rows }
                };
                if fits { view.outputs_by_slot(of) } else { None }
            }
            SplitRule::Fn(rule) => rule(view),
        }
    }
}
