//! What a kernel sees in one step: its inputs, its outputs, and its share of the batch.

#![expect(unsafe_code, reason = "the one place where a step's variables are reached by pointer")]

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{In, Out};
use crate::tensor::{Dims, Element, SelectedRows, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// What runs each step. Scratch memory lives in the closure, so a step allocates nothing.
pub type Kernel = Box<dyn FnMut(&Run<'_>) -> Result<()> + Send>;

/// The rows of the batch that this call works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The first row.
    pub first: usize,
    /// The number of rows.
    pub rows: usize,
    /// Rows of the whole batch.
    pub total: usize,
}

impl Share {
    /// The whole batch.
    pub const WHOLE: Share = Share { first: 0, rows: 1, total: 1 };

    /// This share as a fraction of the batch: what a mean over the share counts in the mean over
    /// the batch.
    pub fn fraction(self) -> f64 {
        self.rows as f64 / self.total as f64
    }
}

/// The arguments of one kernel call.
///
/// The pointers come from a plan (or an eager call) that checked when it was made: outputs are
/// distinct from one another, and from the inputs except for the pairs a definition declares as
/// `inplace`, whose kernels go through [`Run::update`]. A kernel may ask for an output again, but
/// has done with what it got before: only the engine's own kernels are given a `Run`, and their
/// tests under Miri show one that has not.
pub struct Run<'a> {
    pub(super) inputs: &'a [NonNull<Value>],
    pub(super) outputs: &'a [NonNull<Value>],
    /// This call's part of the batch.
    pub share: Share,
    /// The number of the step among those of its program, from 0 for the first training thread:
    /// gives random ops fresh numbers every step.
    pub step: u64,
    lifetime: PhantomData<&'a mut Value>,
}

impl<'a> Run<'a> {
    /// A call on these variables.
    ///
    /// # Safety
    /// All pointers are valid for the lifetime, nobody writes the inputs or touches the outputs,
    /// and outputs differ from one another and from inputs, except for pairs that the op updates
    /// in place.
    pub(crate) unsafe fn new(
        inputs: &'a [NonNull<Value>],
        outputs: &'a [NonNull<Value>],
        share: Share,
        step: u64,
    ) -> Run<'a> {
        Run { inputs, outputs, share, step, lifetime: PhantomData }
    }

    /// What an input variable holds.
    pub fn value(&self, input: In) -> &'a Value {
        // SAFETY: the pointer is valid during the call, and nothing writes an input (see above).
        unsafe { self.inputs[usize::from(input.0)].as_ref() }
    }

    /// An input tensor.
    ///
    /// # Errors
    /// When the variable holds selected rows.
    pub fn tensor(&self, input: In) -> Result<&'a Tensor> {
        self.value(input).tensor()
    }

    /// The elements of an input tensor.
    ///
    /// # Errors
    /// When they are of another type.
    pub fn get<T: Element>(&self, input: In) -> Result<&'a [T]> {
        self.tensor(input)?.as_slice()
    }

    /// The first element of an input tensor: a learning rate, a counter.
    ///
    /// # Errors
    /// When it is of another type or there is none.
    pub fn first<T: Element>(&self, input: In) -> Result<T> {
        let values = self.get::<T>(input)?;
        values.first().copied().ok_or_else(|| Error::kernel("an empty tensor stands for a number"))
    }

    /// The shape of an input tensor.
    ///
    /// # Errors
    /// When the variable holds selected rows.
    pub fn dims(&self, input: In) -> Result<Dims> {
        Ok(self.tensor(input)?.dims())
    }

    /// What an output variable holds, to be changed.
    ///
    /// # Safety
    /// The kernel uses nothing any more that it got of this output before.
    pub(crate) unsafe fn value_mut(&self, output: Out) -> &'a mut Value {
        // SAFETY: valid during the call, and of this kernel alone; the planner checked that outputs
        // alias nothing.
        unsafe { &mut *self.outputs[usize::from(output.0)].as_ptr() }
    }

    /// An output tensor; already of its final shape unless the shape rule left it open.
    ///
    /// # Errors
    /// When the variable holds selected rows.
    pub fn out(&self, output: Out) -> Result<&'a mut Tensor> {
        // SAFETY: kernels keep the rule above.
        unsafe { self.value_mut(output) }.tensor_mut()
    }

    /// The elements of an output tensor.
    ///
    /// # Errors
    /// When they are of another type.
    pub fn set<T: Element>(&self, output: Out) -> Result<&'a mut [T]> {
        self.out(output)?.as_mut_slice()
    }

    /// An output as selected rows of `height` rows; what it held is kept for its memory.
    pub fn out_rows(&self, output: Out, dtype: bireme_ir::DType) -> &'a mut SelectedRows {
        // SAFETY: kernels keep the rule above.
        as_rows(unsafe { self.value_mut(output) }, dtype)
    }

    /// Makes an output a copy of an input, unless the two are one variable: the first half of any
    /// kernel that may work in place.
    ///
    /// # Errors
    /// When one holds selected rows and the other cannot.
    pub fn carry_over(&self, input: In, output: Out) -> Result<()> {
        if self.inputs[usize::from(input.0)] == self.outputs[usize::from(output.0)] {
            return Ok(());
        }
        // SAFETY: kernels keep the rule above.
        let out = unsafe { self.value_mut(output) };
        match self.value(input) {
            Value::Tensor(tensor) => out.tensor_mut()?.copy_from(tensor),
            Value::Rows(rows) => {
                let out = as_rows(out, rows.value.dtype());
                out.rows.clone_from(&rows.rows);
                out.height = rows.height;
                out.value.copy_from(&rows.value);
            }
        }
        Ok(())
    }

    /// An output that continues an input of the same shape (a parameter, an accumulator): when the
    /// two are different variables, the input is copied over first.
    ///
    /// # Errors
    /// When one holds selected rows.
    pub fn continued(&self, input: In, output: Out) -> Result<&'a mut Tensor> {
        self.carry_over(input, output)?;
        self.out(output)
    }

    /// The elements of an output that continues an input; see [`Run::continued`].
    ///
    /// # Errors
    /// When the elements are of another type.
    pub fn update<T: Element>(&self, input: In, output: Out) -> Result<&'a mut [T]> {
        self.continued(input, output)?.as_mut_slice()
    }
}

/// The value as selected rows; what it held is kept for its memory.
fn as_rows(value: &mut Value, dtype: bireme_ir::DType) -> &mut SelectedRows {
    if value.rows().is_none() {
        *value = Value::Rows(SelectedRows::empty(dtype));
    }
    match value {
        Value::Rows(rows) => rows,
        Value::Tensor(_) => unreachable!("made selected rows above"),
    }
}
