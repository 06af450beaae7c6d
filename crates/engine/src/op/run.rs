//! What a kernel sees in one step: its inputs, its outputs, and its share of the batch.

#![expect(unsafe_code, reason = "the one place where a step's variables are reached by pointer")]

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{In, InOut, Out};
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
/// A kernel holds at most one exclusive reference to a variable, and no other beside it, because:
///
/// - The pointers come from a plan (or an eager call) that checked when it was made that outputs are distinct from one
///   another and from the inputs, except for the pairs that a definition declares as `inplace`
///   (`OpView::check_aliases`): each input with the output at its place.
/// - `OpView::kernel` gives a kernel one handle for each output, [`Out`], and the two
///   variables of such a pair as one handle, [`InOut`]; neither can be copied.
/// - What is lent of an output borrows its handle exclusively, and what is lent of the input of a pair borrows the
///   handle of the pair: the compiler refuses a second loan while the first is in use.
///
/// So a kernel needs no `unsafe`, and these do not compile:
///
/// ```compile_fail,E0499
/// use bireme_engine::op::{Out, Run};
///
/// fn holds_an_output_twice(run: &Run<'_>, mut out: Out) -> bireme_engine::Result<()> {
///     let (one, other) = (run.out(&mut out)?, run.out(&mut out)?);
///     one.copy_from(other);
///     Ok(())
/// }
/// ```
///
/// ```compile_fail,E0502
/// use bireme_engine::op::{InOut, Run};
///
/// fn reads_what_it_writes(run: &Run<'_>, mut pair: InOut) -> bireme_engine::Result<()> {
///     let (before, after) = (run.before(&pair)?, run.continued(&mut pair)?);
///     after.copy_from(before);
///     Ok(())
/// }
/// ```
///
/// What the compiler does not see is a kernel that calls another on its own `Run`. That is sound where both were made
/// from the same [`OpView`](super::OpView), as they then have different handles (`optimizer/rmsprop.rs`), or where the
/// caller has none (`op/halves.rs`).
pub struct Run<'a> {
    pub(super) inputs: &'a [NonNull<Value>],
    pub(super) outputs: &'a [NonNull<Value>],
    /// This call's part of the batch.
    pub share: Share,
    /// The number of the step among those of its program, from 0 for the first training thread:
    /// gives random ops fresh numbers every step.
    pub step: u64,
    /// Whether products round their factors to `bfloat16`, where this processor multiplies those faster.
    pub(crate) rounds_factors: bool,
    lifetime: PhantomData<&'a mut Value>,
}

impl<'a> Run<'a> {
    /// A call on these variables.
    ///
    /// # Safety
    /// All pointers are valid for the lifetime, nobody writes the inputs or touches the outputs,
    /// and outputs differ from one another and from inputs, except for pairs that the op updates
    /// in place. The kernel that is given the call was made by [`OpView::kernel`](super::OpView::kernel) for this op.
    pub(crate) unsafe fn new(
        inputs: &'a [NonNull<Value>],
        outputs: &'a [NonNull<Value>],
        share: Share,
        step: u64,
    ) -> Run<'a> {
        Run { inputs, outputs, share, step, rounds_factors: false, lifetime: PhantomData }
    }

    /// The variables of the call, inputs and outputs in flat order; for ops that run blocks, which hand them on.
    pub(crate) fn places(&self) -> (&'a [NonNull<Value>], &'a [NonNull<Value>]) {
        (self.inputs, self.outputs)
    }

    /// The call with products that round their factors, or not.
    pub(super) fn rounding(self, rounds_factors: bool) -> Run<'a> {
        Run { rounds_factors, ..self }
    }

    /// What an input variable holds.
    pub fn value(&self, input: In) -> &'a Value {
        // SAFETY: the pointer is valid during the call, and nothing writes the variable: it is no output, or that of a
        // pair whose handle is borrowed (see above).
        unsafe { self.inputs[input.at()].as_ref() }
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

    /// What an output variable holds, to be changed: a tensor or selected rows.
    pub fn out_value<'r>(&self, output: &'r mut Out) -> &'r mut Value
    where
        'a: 'r,
    {
        // SAFETY: valid during the call, and of this kernel alone, which has no other handle to this output and has
        // lent it for as long as the reference lives (see above).
        unsafe { &mut *self.outputs[output.at()].as_ptr() }
    }

    /// An output tensor; already of its final shape unless the shape rule left it open.
    ///
    /// # Errors
    /// When the variable holds selected rows.
    pub fn out<'r>(&self, output: &'r mut Out) -> Result<&'r mut Tensor>
    where
        'a: 'r,
    {
        self.out_value(output).tensor_mut()
    }

    /// The elements of an output tensor.
    ///
    /// # Errors
    /// When they are of another type.
    pub fn set<'r, T: Element>(&self, output: &'r mut Out) -> Result<&'r mut [T]>
    where
        'a: 'r,
    {
        self.out(output)?.as_mut_slice()
    }

    /// An output as selected rows of `height` rows; what it held is kept for its memory.
    pub fn out_rows<'r>(&self, output: &'r mut Out, dtype: bireme_ir::DType) -> &'r mut SelectedRows
    where
        'a: 'r,
    {
        as_rows(self.out_value(output), dtype)
    }

    /// Makes an output a copy of an input.
    ///
    /// # Errors
    /// When one holds selected rows and the other cannot.
    pub fn copy(&self, input: In, output: &mut Out) -> Result<()> {
        let out = self.out_value(output);
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

    /// The input tensor that an output continues.
    ///
    /// # Errors
    /// When the variable holds selected rows.
    pub fn before<'r>(&self, pair: &'r InOut) -> Result<&'r Tensor>
    where
        'a: 'r,
    {
        self.tensor(pair.input())
    }

    /// Makes an output a copy of the input that it continues, unless the two are one variable: the first half of any
    /// kernel that may work in place.
    ///
    /// # Errors
    /// When one holds selected rows and the other cannot.
    pub fn carry_over(&self, pair: &mut InOut) -> Result<()> {
        if self.inputs[pair.input().at()] == self.outputs[pair.out.at()] {
            return Ok(());
        }
        self.copy(pair.input(), &mut pair.out)
    }

    /// An output that continues an input of the same shape (a parameter, an accumulator): when the
    /// two are different variables, the input is copied over first.
    ///
    /// # Errors
    /// When one holds selected rows.
    pub fn continued<'r>(&self, pair: &'r mut InOut) -> Result<&'r mut Tensor>
    where
        'a: 'r,
    {
        self.carry_over(pair)?;
        self.out(&mut pair.out)
    }

    /// The elements of an output that continues an input; see [`Run::continued`].
    ///
    /// # Errors
    /// When the elements are of another type.
    pub fn update<'r, T: Element>(&self, pair: &'r mut InOut) -> Result<&'r mut [T]>
    where
        'a: 'r,
    {
        self.continued(pair)?.as_mut_slice()
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
