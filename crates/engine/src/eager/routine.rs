//! A short list of prepared ops over a table of values: the gradient of an op, an optimizer step,
//! a block of a parameter server.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use bireme_ir::{DType, Op};

use super::Prepared;
use super::card::EagerCard;
use super::table::{Entry, Waiting};
use crate::op::OpView;
use crate::tensor::{Dims, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// Prepared ops over a table of values: every variable that they name has a place in it.
pub struct Routine {
    calls: Vec<Call>,
    /// Each variable's place in the table.
    places: HashMap<String, usize>,
}

/// One op, with the places of its variables.
pub(super) struct Call {
    pub(super) op: Prepared,
    pub(super) inputs: Box<[usize]>,
    pub(super) outputs: Box<[usize]>,
}

impl Routine {
    /// Prepares `ops` in their order.
    ///
    /// # Errors
    /// When an op does not exist or refuses its slots or attributes.
    pub fn new(ops: &[Op], seed: u64) -> Result<Routine> {
        Routine::over(HashMap::new(), ops, seed)
    }

    /// Other ops over the same table: every variable of this routine keeps its place, new ones
    /// come after them.
    ///
    /// # Errors
    /// As [`Routine::new`].
    pub fn variant(&self, ops: &[Op], seed: u64) -> Result<Routine> {
        Routine::over(self.places.clone(), ops, seed)
    }

    fn over(places: HashMap<String, usize>, ops: &[Op], seed: u64) -> Result<Routine> {
        let mut routine = Routine { calls: Vec::new(), places };
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
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the ops use no variable.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The place of variable `name`, if an op uses it.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The ops in their order.
    pub(super) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Names and places.
    pub fn places(&self) -> impl Iterator<Item = (&String, usize)> {
        self.places.iter().map(|(name, place)| (name, *place))
    }

    /// Whether an op writes the variable at `place`.
    pub fn writes(&self, place: usize) -> bool {
        self.calls.iter().any(|call| call.outputs.contains(&place))
    }

    /// Runs the ops on a table of values, one for each place; those that no op has written yet may
    /// hold anything. `step` gives random ops fresh numbers.
    ///
    /// # Errors
    /// When the table is too short, or an op refuses its inputs.
    #[expect(unsafe_code, reason = "kernels reach values by pointer; see `op::Run`")]
    pub fn run_on(&self, table: &mut [Value], step: u64) -> Result<()> {
        if table.len() < self.places.len() {
            let (has, needs) = (table.len(), self.places.len());
            return Err(Error::kernel(format!("a table of {has} values where {needs} are used")));
        }
        let table: Vec<NonNull<Value>> = table.iter_mut().map(NonNull::from).collect();
        // SAFETY: the values are borrowed exclusively for the call, and differ.
        unsafe { self.run(&table, step) }
    }

    /// As [`Routine::run_on`], with the bytes of somebody else as the elements of the tensor (or
    /// of the selected rows) at `place`: nothing is copied. The table's own value there, which
    /// gives type and shape, stays as it was.
    ///
    /// # Errors
    /// As [`Routine::run_on`]; when an op writes that place, or the bytes do not fit.
    #[expect(unsafe_code, reason = "a tensor in borrowed memory; see `Tensor::foreign`")]
    pub fn run_lending(
        &self,
        table: &mut [Value],
        step: u64,
        place: usize,
        lent: Lent<'_>,
    ) -> Result<()> {
        let Lent { dtype, dims, bytes } = lent;
        let fits = dims.bytes(dtype) == Some(bytes.len());
        let aligned = bytes.as_ptr().align_offset(dtype.size()) == 0;
        if self.writes(place) || !fits || !aligned || place >= table.len() {
            return Err(Error::kernel("bytes that cannot be lent to these ops"));
        }
        // SAFETY: the bytes are borrowed for longer than the tensor exists, they are as many and as
        // aligned as it needs, and no op of this routine writes them.
        let tensor = unsafe { Tensor::foreign(dtype, dims, NonNull::from(bytes).cast())? };
        let table = Lending::new(table, place, tensor);
        self.run_on(table.values, step)
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

    /// Runs the ops on what a table of eager mode holds: on the card `home`, where it has kernels, or on the host. What
    /// they write is new, or nobody else's ([`Entry`]).
    ///
    /// # Errors
    /// When an op refuses its inputs, or the card has no memory.
    pub(super) fn run_held(
        &self,
        table: &mut [Entry<'_>],
        home: Option<&Arc<EagerCard>>,
        step: u64,
    ) -> Result<()> {
        for call in &self.calls {
            let on_card = match home {
                Some(card) => call.run_on_card(table, card, step)?,
                None => false,
            };
            if !on_card {
                call.run_on_host(table, home, step)?;
            }
        }
        Ok(())
    }

    /// As [`Routine::run_held`], with few launches for many ops of one kind: for the updates of all parameters.
    ///
    /// # Errors
    /// As [`Routine::run_held`].
    pub(super) fn run_together(
        &self,
        table: &mut [Entry<'_>],
        home: Option<&Arc<EagerCard>>,
        step: u64,
    ) -> Result<()> {
        let Some(card) = home else { return self.run_held(table, home, step) };
        // Nothing is copied to the card while runs wait.
        for place in self.calls.iter().flat_map(|call| &call.inputs) {
            table[*place].bring_to(card)?;
        }
        let mut waiting = Waiting::default();
        for call in &self.calls {
            if waiting.take(call, table, card)? {
                continue;
            }
            waiting.flush(card)?;
            if !call.run_on_card(table, card, step)? {
                call.run_on_host(table, home, step)?;
                // What the host has written must be there before others wait again.
                for place in &call.outputs {
                    table[*place].bring_to(card)?;
                }
            }
        }
        waiting.flush(card)
    }

    fn place(&mut self, name: &str) -> usize {
        let next = self.places.len();
        *self.places.entry(name.to_owned()).or_insert(next)
    }
}

/// Elements that stay where they are while a routine reads them.
#[derive(Clone, Copy, Debug)]
pub struct Lent<'a> {
    /// Their type.
    pub dtype: DType,
    /// The dimensions of the tensor, or of the rows that are selected.
    pub dims: Dims,
    /// The elements, aligned to their size.
    pub bytes: &'a [u8],
}

/// A table with a tensor that is not its own; the own one comes back in any case, so that no
/// borrowed memory stays behind.
struct Lending<'a> {
    values: &'a mut [Value],
    place: usize,
    own: Option<Tensor>,
}

impl<'a> Lending<'a> {
    fn new(values: &'a mut [Value], place: usize, lent: Tensor) -> Lending<'a> {
        let own = std::mem::replace(elements(&mut values[place]), lent);
        Lending { values, place, own: Some(own) }
    }

    fn give_back(&mut self) {
        if let Some(own) = self.own.take() {
            *elements(&mut self.values[self.place]) = own;
        }
    }
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn elements(value: &mut Value) -> &mut Tensor {
    match value {
        Value::Tensor(tensor) => tensor,
        Value::Rows(rows) => &mut rows.value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sgd() -> Vec<Op> {
        vec![
            Op::new("sgd")
                .input("Param", ["w"])
                .input("Grad", ["g"])
                .input("LearningRate", ["rate"])
                .output("ParamOut", ["w"]),
        ]
    }

    fn table(routine: &Routine) -> Vec<Value> {
        let mut table = vec![Value::Tensor(Tensor::empty(DType::F32)); routine.len()];
        let values = [("w", &[1.0f32, 2.0][..]), ("g", &[7.0, 7.0]), ("rate", &[0.5])];
        for (name, values) in values {
            let tensor = Tensor::from_slice([values.len()], values).unwrap();
            table[routine.find(name).unwrap()] = Value::Tensor(tensor);
        }
        table
    }

    #[test]
    fn lent_bytes_are_read_and_go_back() {
        let routine = Routine::new(&sgd(), 0).unwrap();
        let (mut table, grad) = (table(&routine), routine.find("g").unwrap());
        let own = table[grad].clone();
        let bytes = bytemuck::cast_slice(&[2.0f32, 4.0]);
        let lent = Lent { dtype: DType::F32, dims: [2].into(), bytes };
        routine.run_lending(&mut table, 0, grad, lent).unwrap();
        let w = table[routine.find("w").unwrap()].tensor().unwrap();
        assert_eq!(w.as_slice::<f32>().unwrap(), [0.0, 0.0]);
        assert_eq!(table[grad], own);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let routine = Routine::new(&sgd(), 0).unwrap();
        let (mut table, grad) = (table(&routine), routine.find("g").unwrap());
        let own = table.clone();
        let bytes = bytemuck::cast_slice(&[2.0f32, 4.0, 6.0]);
        let lend = |dims: usize| Lent { dtype: DType::F32, dims: [dims].into(), bytes };
        // More bytes than dimensions, a gradient of another shape, a variable that is written.
        routine.run_lending(&mut table, 0, grad, lend(2)).unwrap_err();
        routine.run_lending(&mut table, 0, grad, lend(3)).unwrap_err();
        let w = routine.find("w").unwrap();
        routine.run_lending(&mut table, 0, w, lend(3)).unwrap_err();
        assert_eq!(table, own);
        routine.run_on(&mut table[..1], 0).unwrap_err();
    }

    #[test]
    fn a_variant_uses_the_same_places() {
        let routine = Routine::new(&sgd(), 0).unwrap();
        let scale = Op::new("scale").input("X", ["g"]).output("Out", ["h"]).attr("scale", 2.0f32);
        let variant = routine.variant(&[scale], 0).unwrap();
        assert_eq!(variant.find("g"), routine.find("g"));
        assert_eq!(variant.find("h"), Some(3));
        assert!(variant.writes(3) && !variant.writes(0));
    }
}
