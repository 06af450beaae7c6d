//! A block that runs op by op: every value is its own, and its shape is found when its op runs.

#![expect(unsafe_code, reason = "kernels reach values by pointer; see `op::Run`")]

use std::collections::HashMap;
use std::ptr::NonNull;

use bireme_ir::{DType, EMPTY_VAR, Op, VarKind};

use super::Context;
use crate::op::{Infer, Kernel, Meta, OpDef, OpView, Run, Share, meta_of, shape_like};
use crate::tensor::{List, SelectedRows, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// A variable of a block, by number.
pub(super) type Number = usize;

/// A block, ready to run.
pub(super) struct BlockRun {
    ops: Vec<BlockOp>,
    /// What its ops write, by number; nothing of use at the numbers of what comes from outside.
    values: Vec<Value>,
    numbers: HashMap<String, Number>,
}

/// An op of a block, bound to its variables.
struct BlockOp {
    op: Op,
    def: &'static OpDef,
    kernel: Kernel,
    inputs: Vec<Number>,
    outputs: Vec<Number>,
    /// The input whose sequence offsets the outputs take over.
    lod_input: Option<Number>,
    /// The shapes of the last run: inputs, outputs.
    shapes: Option<(Vec<Meta>, Vec<Meta>)>,
}

// SAFETY: it holds values and kernels, which may move between threads, and no pointers between runs.
unsafe impl Send for BlockRun {}

impl BlockRun {
    /// Prepares `ops`, each of which writes variables of its own; `enters` are the variables that come from outside.
    ///
    /// # Errors
    /// When an op does not exist, refuses its attributes, or reads a variable that has no value.
    pub(super) fn new(cx: &Context, ops: &[Op], enters: &[String]) -> Result<BlockRun> {
        let mut run = BlockRun { ops: Vec::new(), values: Vec::new(), numbers: HashMap::new() };
        for name in enters {
            run.declare(name);
        }
        for op in ops {
            let bound = run.bind(cx, op).map_err(|error| error.in_op(op))?;
            run.ops.push(bound);
        }
        Ok(run)
    }

    fn bind(&mut self, cx: &Context, op: &Op) -> Result<BlockOp> {
        let view = OpView::new(op)?;
        let view =
            OpView { seed: cx.seed, remote: cx.remote.as_ref(), link: cx.link.as_ref(), ..view };
        let find = |name: &String| {
            self.numbers.get(name).copied().ok_or_else(|| {
                Error::kernel(format!(
                    "`{name}` has no value here: nothing writes it before this op, in its block or \
                     around it"
                ))
            })
        };
        let inputs = view.flat_inputs().map(find).collect::<Result<Vec<_>>>()?;
        view.check_aliases()?;
        let kernel = match view.def.flow {
            Some(flow) => super::kernel(cx, &view, flow)?,
            None => view.kernel()?,
        };
        let lod_input = view.def.lod_from.and_then(|slot| view.input_positions(slot).next());
        let lod_input = lod_input.map(|at| inputs[at]);
        let outputs = view.flat_outputs().map(|name| self.declare(name)).collect();
        let (op, def) = (op.clone(), view.def);
        Ok(BlockOp { op, def, kernel, inputs, outputs, lod_input, shapes: None })
    }

    fn declare(&mut self, name: &str) -> Number {
        self.values.push(Value::Tensor(Tensor::empty(DType::F32)));
        let number = self.values.len() - 1;
        // Not a variable but the lack of one.
        if name != EMPTY_VAR {
            self.numbers.insert(name.to_owned(), number);
        }
        number
    }

    /// The number of variable `name`, if the block has one.
    pub(super) fn number(&self, name: &str) -> Option<Number> {
        self.numbers.get(name).copied()
    }

    /// A variable that the block has written.
    pub(super) fn value(&mut self, number: Number) -> &mut Value {
        &mut self.values[number]
    }

    /// Runs the ops once on what `enters` holds: number and value of each variable that comes from outside.
    ///
    /// # Errors
    /// When an op refuses its inputs.
    ///
    /// # Safety
    /// The pointers are valid, and nobody writes what they point to during the call.
    pub(super) unsafe fn run(
        &mut self,
        enters: &[(Number, NonNull<Value>)],
        step: u64,
    ) -> Result<()> {
        let start = NonNull::new(self.values.as_mut_ptr()).expect("a vector's start is not null");
        // SAFETY: the numbers lie inside the vector, which is not touched otherwise before the ops have run.
        let own = |number: Number| unsafe { start.add(number) };
        let mut places: Vec<NonNull<Value>> = (0..self.values.len()).map(own).collect();
        for (number, value) in enters {
            places[*number] = *value;
        }
        for op in &mut self.ops {
            // SAFETY: the caller's promise for what comes from outside; all else is this block's, each op writes
            // values that no other does, and ops run one after the other.
            unsafe { op.run(&places, step) }.map_err(|error| error.in_op(&op.op))?;
        }
        Ok(())
    }
}

impl BlockOp {
    /// Runs the op.
    ///
    /// # Safety
    /// The places are valid, nobody else writes the inputs or touches the outputs, which differ from one another and
    /// from the inputs.
    unsafe fn run(&mut self, places: &[NonNull<Value>], step: u64) -> Result<()> {
        let at = |numbers: &[Number]| numbers.iter().map(|at| places[*at]).collect::<Vec<_>>();
        let (inputs, outputs) = (at(&self.inputs), at(&self.outputs));
        if self.def.flow.is_none() {
            if !self.def.sizes_itself {
                // SAFETY: as the caller promises.
                unsafe { self.shape(&inputs, &outputs)? };
            }
            let lod = self.lod_input.map(|at| places[at]);
            for output in &outputs {
                // SAFETY: as the caller promises; the two differ.
                unsafe { pass_lod(lod, *output) };
            }
        }
        // SAFETY: as the caller promises; aliases were checked when the op was bound.
        let run = unsafe { Run::new(&inputs, &outputs, Share::WHOLE, step) };
        (self.kernel)(&run)
    }

    /// Gives the outputs their shapes.
    ///
    /// # Safety
    /// As [`BlockOp::run`].
    unsafe fn shape(
        &mut self,
        inputs: &[NonNull<Value>],
        outputs: &[NonNull<Value>],
    ) -> Result<()> {
        // SAFETY: as the caller promises; so below.
        let metas: Vec<Meta> =
            inputs.iter().map(|value| meta_of(unsafe { value.as_ref() })).collect();
        if self.shapes.as_ref().is_none_or(|(known, _)| *known != metas) {
            let found = Infer::run(&OpView::of(&self.op, self.def), &metas)?;
            self.shapes = Some((metas, found));
        }
        let found = self.shapes.as_ref().map(|(_, found)| found.as_slice()).unwrap_or_default();
        for (output, meta) in outputs.iter().zip(found) {
            let value = unsafe { &mut *output.as_ptr() };
            if meta_of(value) != *meta {
                shape_like(value, meta);
            }
        }
        Ok(())
    }
}

/// Gives an output the sequence offsets of an input, or none.
///
/// # Safety
/// Both are valid, they differ, and nobody else touches the output.
unsafe fn pass_lod(from: Option<NonNull<Value>>, to: NonNull<Value>) {
    // SAFETY: the caller's promise.
    let (from, to) = unsafe { (from.as_ref().map(|from| from.as_ref()), &mut *to.as_ptr()) };
    let Value::Tensor(to) = to else { return };
    match from {
        Some(Value::Tensor(from)) => to.set_lod(from.lod()),
        _ => to.set_lod(&[]),
    }
}

/// Makes `to` a copy of `from`, in the memory that it has if it can.
pub(super) fn copy(from: &Value, to: &mut Value) {
    match (from, to) {
        (Value::Tensor(from), Value::Tensor(to)) => to.copy_from(from),
        (from, to) => *to = from.clone(),
    }
}

/// Takes a value away, and leaves one of no use.
pub(super) fn take(value: &mut Value) -> Value {
    std::mem::replace(value, Value::Tensor(Tensor::empty(DType::F32)))
}

/// A gradient of zero for `value`: selected rows, of which there are none, for one of kind `kind`.
pub(super) fn zeros_like(value: &Value, kind: VarKind) -> Value {
    let tensor = match value {
        Value::Tensor(tensor) => tensor,
        Value::Rows(rows) => {
            let (height, value) =
                (rows.height, Tensor::zeros(rows.value.dtype(), rows.value.dims().with_rows(0)));
            return Value::Rows(SelectedRows { rows: Vec::new(), height, value });
        }
    };
    if let Some(list) = tensor.list() {
        return Tensor::of_list(tensor.dtype(), List::empty(list.kind)).into();
    }
    if kind == VarKind::SelectedRows {
        let value = Tensor::zeros(tensor.dtype(), tensor.dims().with_rows(0));
        return Value::Rows(SelectedRows { rows: Vec::new(), height: tensor.rows(), value });
    }
    Tensor::zeros(tensor.dtype(), tensor.dims()).into()
}

/// The number by which random ops choose their stream in run `run` of a block: in every run another.
pub(super) fn step_of_run(step: u64, run: u64) -> u64 {
    /// Spreads numbers that are near one another (SplitMix64).
    fn spread(number: u64) -> u64 {
        let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }
    if run == 0 { step } else { spread(step ^ spread(run)) }
}
