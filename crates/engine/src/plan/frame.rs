//! The variables of one worker, and ops bound to them.

#![expect(unsafe_code, reason = "ops reach their variables by pointers that were bound once")]

use std::cell::UnsafeCell;
use std::ptr::NonNull;

use bireme_ir::DType;

use crate::error::site_text;
use crate::finite::not_finite;
use crate::op::{Infer, Kernel, OpView, Run, Share, meta_of, shape_like};
use crate::plan::beside::Copies;
use crate::plan::layout::Source;
use crate::plan::select::SelectedOp;
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Error, Result, flow};

/// Values at fixed addresses. Held by a pointer, for a `Box` claims what it owns for itself
/// whenever it is moved, and the addresses handed out before would be void.
pub(crate) struct Frame(NonNull<[UnsafeCell<Value>]>);

impl Frame {
    /// A frame of `len` empty values.
    pub(crate) fn new(len: usize) -> Frame {
        let empty = || UnsafeCell::new(Value::Tensor(Tensor::empty(DType::F32)));
        let values: Box<[_]> = (0..len).map(|_| empty()).collect();
        Frame(NonNull::from(Box::leak(values)))
    }

    /// The address of a value, good while the frame lives.
    pub(crate) fn at(&self, var: usize) -> NonNull<Value> {
        // SAFETY: the frame owns the values, of which only the cells are looked at.
        let cell = unsafe { &self.0.as_ref()[var] };
        NonNull::new(cell.get()).expect("a cell's address is not null")
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the values were leaked from a box in `new`, and nobody uses their addresses any
        // more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// One op bound to the variables of one worker.
pub(crate) struct Call {
    /// Position in the selection.
    pub(crate) op: usize,
    kernel: Kernel,
    inputs: Box<[NonNull<Value>]>,
    outputs: Box<[NonNull<Value>]>,
    share: Share,
    /// Output shapes depend on values, so they are inferred before each run.
    dynamic: bool,
    /// The input whose sequence offsets the outputs take over.
    lod_input: Option<usize>,
    /// What says whether the op runs, for one inside a condition.
    guard: Option<NonNull<Value>>,
    /// Variables that training threads share, copied before and after each run.
    copies: Copies,
}

impl Call {
    /// Prepares the kernel of `selected` for these variables.
    ///
    /// # Errors
    /// When the op refuses its attributes.
    pub(crate) fn new(
        position: usize,
        selected: &SelectedOp,
        source: &Source<'_>,
        address: impl Fn(usize) -> NonNull<Value>,
        share: Share,
        shapes: Shapes,
        copies: Copies,
    ) -> Result<Call> {
        let Source { selection, seed, remote, link, held, flow, .. } = *source;
        let versions: Vec<u32> =
            selected.outputs.iter().map(|var| selection.vars[*var].version).collect();
        let view = OpView { seed, remote, link, held, versions: &versions, ..selected.view() };
        let kernel = match selected.def.flow {
            Some(of) => flow::kernel(flow, &view, of),
            None => view.kernel(),
        };
        let kernel = kernel.map_err(|error| error.in_op(&selected.op))?;
        let lod_input = view
            .def
            .lod_from
            .filter(|_| shapes.ragged)
            .and_then(|slot| view.input_positions(slot).next());
        Ok(Call {
            op: position,
            kernel,
            inputs: selected.inputs.iter().map(|var| address(*var)).collect(),
            outputs: selected.outputs.iter().map(|var| address(*var)).collect(),
            share,
            dynamic: shapes.dynamic,
            lod_input,
            guard: selected.guard().map(&address),
            copies,
        })
    }

    /// Runs the op once.
    ///
    /// # Errors
    /// When the kernel refuses its inputs, or, with the number of the step in `check`, when it
    /// produces a value that is not finite.
    pub(crate) fn run(
        &mut self,
        selected: &SelectedOp,
        step: u64,
        check: Option<u64>,
    ) -> Result<()> {
        self.copies.load();
        if let Some(guard) = self.guard
            && !holds(guard).map_err(|error| error.in_op(&selected.op))?
        {
            return Ok(());
        }
        if self.dynamic {
            self.shape_outputs(selected).map_err(|error| error.in_op(&selected.op))?;
        }
        if let Some(input) = self.lod_input {
            self.pass_lod(input);
        }
        // SAFETY: the frames and cells outlive the call, and the plan's stages keep other ops from
        // what this one uses; aliases were checked when the program was.
        let run = unsafe { Run::new(&self.inputs, &self.outputs, self.share, step) };
        (self.kernel)(&run).map_err(|error| error.in_op(&selected.op))?;
        self.copies.store();
        check.map_or(Ok(()), |number| self.check_finite(selected, number))
    }

    fn shape_outputs(&mut self, selected: &SelectedOp) -> Result<()> {
        let view = selected.view();
        // SAFETY: the frame or scope that holds the values outlives the call; nothing else runs
        // on them (the plan's stages see to that).
        let inputs: Vec<_> = self.inputs.iter().map(|v| meta_of(unsafe { v.as_ref() })).collect();
        for (output, meta) in self.outputs.iter_mut().zip(Infer::run(&view, &inputs)?) {
            if self.inputs.contains(output) {
                continue;
            }
            // SAFETY: as above, and an output is reached by this op alone.
            shape_like(unsafe { output.as_mut() }, &meta);
        }
        Ok(())
    }

    fn pass_lod(&mut self, input: usize) {
        // SAFETY: as in `shape_outputs`; in-place pairs are skipped, so the two do not overlap.
        let Value::Tensor(source) = (unsafe { self.inputs[input].as_ref() }) else { return };
        for output in self.outputs.iter_mut().filter(|output| **output != self.inputs[input]) {
            // SAFETY: as above.
            if let Value::Tensor(target) = unsafe { output.as_mut() } {
                target.set_lod(source.lod());
            }
        }
    }

    fn check_finite(&self, selected: &SelectedOp, step: u64) -> Result<()> {
        for (output, var) in self.outputs.iter().zip(selected.view().flat_outputs()) {
            // SAFETY: as in `shape_outputs`.
            let tensor = match unsafe { output.as_ref() } {
                Value::Tensor(tensor) if tensor.list().is_some() => continue,
                Value::Tensor(tensor) => tensor,
                Value::Rows(rows) => &rows.value,
            };
            if let Some(bad) = not_finite(tensor) {
                return Err(Error::NotFinite {
                    step,
                    op: selected.op.kind.clone(),
                    site: site_text(&selected.op),
                    var: var.clone(),
                    what: bad.what,
                });
            }
        }
        Ok(())
    }
}

/// Whether a condition is true.
fn holds(guard: NonNull<Value>) -> Result<bool> {
    // SAFETY: the frame or scope that holds the value outlives the call; who writes it has run.
    let condition = unsafe { guard.as_ref() }.tensor()?;
    match condition.as_bytes() {
        [truth] if condition.dtype() == DType::Bool => Ok(*truth != 0),
        _ => Err(Error::kernel(format!(
            "the condition under which it runs must be one bool, not {} of shape {}",
            condition.dtype(),
            condition.dims()
        ))),
    }
}

/// What the plan knows of an op's shapes.
#[derive(Clone, Copy)]
pub(crate) struct Shapes {
    /// Some output shape is known only at run time.
    pub(crate) dynamic: bool,
    /// Some input may carry sequence offsets.
    pub(crate) ragged: bool,
}
