//! A short list of prepared ops over a table of values: the gradient of an op, an optimizer step.

use std::collections::HashMap;
use std::ptr::NonNull;

use bireme_ir::Op;

use super::Prepared;
use crate::Result;
use crate::op::OpView;
use crate::value::Value;

/// Prepared ops over a table of values.
pub(super) struct Routine {
    calls: Vec<Call>,
    /// Each variable's place in the table.
    places: HashMap<String, usize>,
}

struct Call {
    op: Prepared,
    inputs: Box<[usize]>,
    outputs: Box<[usize]>,
}

impl Routine {
    /// Prepares `ops` in their order.
    ///
    /// # Errors
    /// When an op does not exist or refuses its slots or attributes.
    pub(super) fn new(ops: &[Op], seed: u64) -> Result<Routine> {
        let mut routine = Routine { calls: Vec::new(), places: HashMap::new() };
        for op in ops {
            let view = OpView::new(op)?;
            let inputs = view.flat_inputs().map(|name| routine.place(name)).collect();
            let outputs = view.flat_outputs().map(|name| routine.place(name)).collect();
            let op = Prepared::new(op.clone(), seed)?;
            routine.calls.push(Call { op, inputs, outputs });
        }
        Ok(routine)
    }

    /// The size of the table.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The place of variable `name`, if an op uses it.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Names and places.
    pub(super) fn places(&self) -> impl Iterator<Item = (&String, usize)> {
        self.places.iter().map(|(name, place)| (name, *place))
    }

    /// Runs the ops on the values that the table points to.
    ///
    /// # Errors
    /// When an op refuses its inputs.
    ///
    /// # Safety
    /// The pointers are valid, point to different values, and those that an op of this routine
    /// writes are reached by nobody else during the call.
    #[expect(unsafe_code, reason = "kernels reach values by pointer; see `op::Run`")]
    pub(super) unsafe fn run(&self, table: &[NonNull<Value>], step: u64) -> Result<()> {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for call in &self.calls {
            inputs.clear();
            inputs.extend(call.inputs.iter().map(|place| table[*place]));
            outputs.clear();
            outputs.extend(call.outputs.iter().map(|place| table[*place]));
            // SAFETY: different variables are different values, by the caller's promise; ops were
            // checked for reading and writing one variable.
            unsafe { call.op.run(&inputs, &outputs, step)? };
        }
        Ok(())
    }

    fn place(&mut self, name: &str) -> usize {
        let next = self.places.len();
        *self.places.entry(name.to_owned()).or_insert(next)
    }
}
