//! An op made ready to run: kernel, and the output shapes of the input shapes met so far.

#![expect(unsafe_code, reason = "kernels reach values by pointer; see `op::Run`")]

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bireme_ir::{Op, VarKind};

use super::on_card::CardForms;
use crate::op::{Infer, Kernel, Meta, OpView, Run, Share, meta_of, shape_like};
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Error, Result};

/// Shapes that one prepared op remembers; a loop over batches rarely meets more.
const MAX_SHAPES: usize = 8;

/// An op made ready to run on any values.
pub struct Prepared {
    op: Op,
    /// The seed that its kernel draws from.
    seed: u64,
    /// The input whose sequence offsets the outputs take over.
    lod_input: Option<usize>,
    state: Mutex<State>,
    /// The op on cards.
    pub(super) card_forms: CardForms,
}

/// What a run changes.
struct State {
    kernel: Kernel,
    /// Most recently used first.
    shapes: Vec<Shapes>,
}

struct Shapes {
    inputs: Vec<Meta>,
    outputs: Vec<Meta>,
}

impl Prepared {
    /// Prepares the kernel of `op`.
    ///
    /// # Errors
    /// When there is no such op, or it refuses its slots or attributes.
    pub fn new(op: Op, seed: u64) -> Result<Prepared> {
        let view = OpView { seed, ..OpView::new(&op)? };
        let in_op = |error: Error| error.in_op(&op);
        view.check_aliases().map_err(in_op)?;
        check_inputs(&view).map_err(in_op)?;
        let kernel = view.kernel().map_err(in_op)?;
        let lod_input = view.def.lod_from.and_then(|slot| view.input_positions(slot).next());
        let state = Mutex::new(State { kernel, shapes: Vec::new() });
        Ok(Prepared { op, seed, lod_input, state, card_forms: CardForms::default() })
    }

    /// The op.
    pub fn op(&self) -> &Op {
        &self.op
    }

    /// The seed it was prepared with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Shapes the outputs and runs the kernel on values of the caller, without tensors or a tape:
    /// what a call of eager mode costs at the least.
    ///
    /// # Errors
    /// When shape rule or kernel refuse the inputs; names the op and the inputs' shapes.
    pub fn run_on(&self, inputs: &[&Value], outputs: &mut [Value], step: u64) -> Result<()> {
        let inputs: Vec<_> = inputs.iter().map(|input| NonNull::from(*input)).collect();
        let outputs: Vec<_> = outputs.iter_mut().map(NonNull::from).collect();
        // SAFETY: all are borrowed for the call; outputs exclusively, so they differ.
        unsafe { self.run(&inputs, &outputs, step) }
    }

    /// Shapes the outputs and runs the kernel. `step` gives random ops fresh numbers.
    ///
    /// # Errors
    /// When shape rule or kernel refuse the inputs; names the op and the inputs' shapes.
    ///
    /// # Safety
    /// All pointers are valid during the call, in the order of the op's flat inputs and outputs;
    /// nobody writes the inputs; outputs are reached by nobody else, and differ from one another
    /// and from the inputs, except where the op's variables are the same.
    pub(super) unsafe fn run(
        &self,
        inputs: &[NonNull<Value>],
        outputs: &[NonNull<Value>],
        step: u64,
    ) -> Result<()> {
        let mut state = self.lock();
        // SAFETY: the caller's promise.
        let done = unsafe {
            self.shape(&mut state, inputs, outputs).and_then(|()| {
                let run = Run::new(inputs, outputs, Share::WHOLE, step);
                (state.kernel)(&run)
            })
        };
        done.map_err(|error| {
            // SAFETY: the caller's promise.
            let shapes: Vec<_> = inputs.iter().map(|v| describe(unsafe { v.as_ref() })).collect();
            at_call(error, &self.op.kind, &shapes)
        })
    }

    /// Gives the outputs their shapes and sequence offsets.
    unsafe fn shape(
        &self,
        state: &mut State,
        inputs: &[NonNull<Value>],
        outputs: &[NonNull<Value>],
    ) -> Result<()> {
        // SAFETY: valid and not written, by the caller's promise.
        let value = |input: &NonNull<Value>| unsafe { input.as_ref() };
        let fits = |shapes: &Shapes| shapes.inputs.iter().zip(inputs).all(|(m, v)| is(m, value(v)));
        match state.shapes.iter().position(fits) {
            Some(0) => {}
            Some(at) => state.shapes.swap(0, at),
            None => {
                let metas: Vec<Meta> = inputs.iter().map(|input| meta_of(value(input))).collect();
                let outputs = Infer::run(&OpView::new(&self.op)?, &metas)?;
                state.shapes.truncate(MAX_SHAPES - 1);
                state.shapes.insert(0, Shapes { inputs: metas, outputs });
            }
        }
        let lod = self.lod_input.map(|input| value(&inputs[input]));
        for (output, meta) in outputs.iter().zip(&state.shapes[0].outputs) {
            if inputs.contains(output) {
                continue;
            }
            // SAFETY: reached by nobody else, by the caller's promise.
            let output = unsafe { &mut *output.as_ptr() };
            shape_like(output, meta);
            if let (Some(Value::Tensor(source)), Value::Tensor(target)) = (lod, output) {
                target.set_lod(source.lod());
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A kernel that panicked left only its scratch memory in an unknown state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value before an op writes it.
pub(super) fn unwritten() -> Value {
    Value::Tensor(Tensor::empty(bireme_ir::DType::F32))
}

/// The element type and shape of a value, for messages.
fn describe(value: &Value) -> String {
    match value {
        Value::Tensor(tensor) => format!("{} {}", tensor.dtype(), tensor.dims()),
        Value::Rows(rows) => format!("{} rows of {}", rows.rows.len(), rows.height),
    }
}

/// Adds op and shapes; there are no variable names in eager mode that would help.
pub(super) fn at_call(error: Error, kind: &str, shapes: &[String]) -> Error {
    error.at(kind, || shapes.join(", "), String::new)
}

fn check_inputs(view: &OpView<'_>) -> Result<()> {
    for slot in view.def.signature.inputs.iter().filter(|slot| slot.required) {
        if view.op.inputs_of(slot.name).is_empty() {
            return Err(Error::kernel(format!("input slot `{}` is empty", slot.name)));
        }
    }
    Ok(())
}

/// Whether `meta` is [`meta_of`] `value`, without making one.
fn is(meta: &Meta, value: &Value) -> bool {
    let same_dims = |dims: &[usize]| {
        dims.len() == meta.dims.len()
            && dims.iter().zip(&meta.dims).all(|(dim, known)| *dim as i64 == *known)
    };
    match value {
        Value::Tensor(tensor) => {
            meta.kind == VarKind::LodTensor
                && meta.dtype == tensor.dtype()
                && meta.lod_level as usize == tensor.lod().len()
                && same_dims(&tensor.dims())
        }
        Value::Rows(_) => meta.kind == VarKind::SelectedRows && *meta == meta_of(value),
    }
}
