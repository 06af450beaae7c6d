//! Runs a block once under a condition, or as long as one holds, and keeps what its gradient will need of each run.

#![expect(unsafe_code, reason = "values around a block are read where they lie; see `op::Run`")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bireme_ir::{DType, VarKind};

use super::block::{BlockRun, Number, copy, step_of_run, take};
use super::{Context, INNER_CONDITION, INNER_INPUTS, INNER_OUTPUTS, KEPT, names, sub_block};
use crate::op::{Flow, Kernel, OpView, Run};
use crate::plan::Question;
use crate::tensor::{List, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// Between two questions whether a loop should stop.
const ASK_EVERY: Duration = Duration::from_millis(20);

struct Forward {
    block: BlockRun,
    /// Positions of the conditions among the inputs of the op.
    conditions: Vec<usize>,
    /// Which output the block computes the condition of the next run in, in a loop.
    next_condition: Option<usize>,
    is_scalar: bool,
    repeats: bool,
    /// Position among the inputs, and number, of what the block reads and does not write.
    reads: Vec<(usize, Number)>,
    writes: Vec<Written>,
    /// What is kept of each run, by number.
    kept: Vec<Number>,
    /// Position of the list of what is kept among the outputs.
    saved: Option<usize>,
    question: Option<Question>,
}

/// A variable that the block writes.
struct Written {
    /// Position among the outputs of the op.
    output: usize,
    /// Position among the inputs, and number before the block has run, if it has a value by then.
    before: Option<(usize, Number)>,
    /// Number when the block has run.
    after: Number,
    /// What the last run left.
    held: Value,
}

/// What runs a completed op.
///
/// # Errors
/// As [`super::kernel`].
pub(super) fn kernel(cx: &Context, view: &OpView<'_>, flow: &'static Flow) -> Result<Kernel> {
    let mut forward = Forward::new(cx, view, flow)?;
    Ok(Box::new(move |run| forward.run(run)))
}

impl Forward {
    fn new(cx: &Context, view: &OpView<'_>, flow: &Flow) -> Result<Forward> {
        let (inner_in, inner_out) = (names(view.op, INNER_INPUTS), names(view.op, INNER_OUTPUTS));
        let enters = |name: &str| inner_in.iter().any(|known| known == name);
        let single =
            super::single_assignment(&cx.program, sub_block(&cx.program, view.op)?, &enters)?;
        let block = BlockRun::new(cx, &single.ops, &inner_in)?;
        let number = |name: &str| {
            block.number(name).ok_or_else(|| Error::kernel(format!("its block has no `{name}`")))
        };
        let (first_in, first_out) =
            (view.input_positions(flow.reads).start, view.output_positions("Out").start);
        let mut writes = Vec::new();
        for (at, name) in inner_out.iter().enumerate() {
            let continues = inner_in.get(at) == Some(name);
            let before = if continues { Some((first_in + at, number(name)?)) } else { None };
            let after = number(single.at_end(name))?;
            let held = Value::Tensor(Tensor::empty(DType::F32));
            writes.push(Written { output: first_out + at, before, after, held });
        }
        let only_read =
            inner_in.iter().enumerate().filter(|(at, name)| inner_out.get(*at) != Some(*name));
        let reads = only_read.map(|(at, name)| Ok((first_in + at, number(name)?)));
        let condition = names(view.op, INNER_CONDITION);
        let next_condition = inner_out.iter().position(|name| condition.first() == Some(name));
        if flow.repeats && next_condition.is_none() {
            return Err(Error::kernel(format!(
                "its block does not write the condition `{}`, so it would run for ever: compute \
                 the condition anew at the end of the block, into the same variable",
                condition.first().map_or("", String::as_str)
            )));
        }
        Ok(Forward {
            conditions: view.input_positions(flow.condition).collect(),
            next_condition,
            is_scalar: flow.repeats || view.bool("is_scalar_condition")?,
            repeats: flow.repeats,
            reads: reads.collect::<Result<_>>()?,
            writes,
            kept: names(view.op, KEPT).iter().map(|name| number(name)).collect::<Result<_>>()?,
            saved: view.output_positions(flow.saved).next(),
            question: cx.question.clone(),
            block,
        })
    }

    fn run(&mut self, run: &Run<'_>) -> Result<()> {
        let (inputs, outputs) = run.places();
        let mut runs: Vec<Option<Arc<Value>>> = Vec::new();
        let (mut count, mut asked) = (0, Instant::now());
        while self.holds(inputs, count)? {
            self.enter(inputs, count, run.step)?;
            if self.saved.is_some() {
                runs.push(Some(Arc::new(self.keep(inputs, count))));
            }
            for write in &mut self.writes {
                std::mem::swap(&mut write.held, self.block.value(write.after));
            }
            count += 1;
            if !self.repeats {
                break;
            }
            if asked.elapsed() > ASK_EVERY {
                asked = Instant::now();
                if self.question.as_ref().is_some_and(|question| question()) {
                    return Err(Error::Interrupted);
                }
            }
        }
        self.leave(inputs, outputs, count);
        if let Some(saved) = self.saved {
            let list = List { kind: VarKind::StepScopes, items: runs };
            // SAFETY: the output is this op's alone during the call.
            unsafe { *outputs[saved].as_ptr() = Tensor::of_list(DType::F32, list).into() };
        }
        Ok(())
    }

    /// Whether the block runs once more, after `count` runs.
    fn holds(&self, inputs: &[NonNull<Value>], count: u64) -> Result<bool> {
        // SAFETY: inputs are valid during the call, and nobody writes them before it ends.
        let given = |at: &usize| unsafe { inputs[*at].as_ref() }.tensor();
        if !self.is_scalar {
            let mut all = self.conditions.iter().map(given);
            return all.try_fold(true, |all, condition| Ok(all && condition?.numel() > 0));
        }
        let condition = match self.next_condition.filter(|_| count > 0) {
            Some(write) => self.writes[write].held.tensor()?,
            None => match self.conditions.as_slice() {
                [one] => given(one)?,
                _ => return Err(Error::kernel("takes one condition")),
            },
        };
        match (condition.dtype(), condition.numel()) {
            (DType::Bool, 1) => Ok(condition.as_bytes()[0] != 0),
            (dtype, _) => Err(Error::kernel(format!(
                "its condition must be one bool, not {dtype} of shape {}: compare it with \
                 something first",
                condition.dims()
            ))),
        }
    }

    /// Runs the block on what the last run left.
    fn enter(&mut self, inputs: &[NonNull<Value>], count: u64, step: u64) -> Result<()> {
        let mut enters: Vec<(Number, NonNull<Value>)> =
            self.reads.iter().map(|(at, number)| (*number, inputs[*at])).collect();
        for write in &mut self.writes {
            if let Some((at, number)) = write.before {
                let now = if count == 0 { inputs[at] } else { NonNull::from(&mut write.held) };
                enters.push((number, now));
            }
        }
        // SAFETY: inputs are valid and only read during the call, and so is what the last run left.
        unsafe { self.block.run(&enters, step_of_run(step, count)) }
    }

    /// What the gradient needs of the run that has just ended, before what it left takes the place of what it found.
    fn keep(&mut self, inputs: &[NonNull<Value>], count: u64) -> Value {
        let mut kept = List::empty(VarKind::StepScopes);
        for (at, number) in self.kept.iter().enumerate() {
            let before = self.writes.iter().find_map(|write| {
                let (input, _) = write.before.filter(|(_, before)| before == number)?;
                // SAFETY: as in `enter`.
                let first = || unsafe { inputs[input].as_ref() }.clone();
                Some(if count == 0 { first() } else { write.held.clone() })
            });
            let is_left = self.writes.iter().any(|write| write.after == *number);
            let value = match before {
                Some(before) => before,
                None if is_left => self.block.value(*number).clone(),
                // The next run makes it anew.
                None => take(self.block.value(*number)),
            };
            kept.set(at, Arc::new(value));
        }
        Tensor::of_list(DType::F32, kept).into()
    }

    /// Hands on what the last of `count` runs left; where there was none, what was there before, or zeros.
    fn leave(&mut self, inputs: &[NonNull<Value>], outputs: &[NonNull<Value>], count: u64) {
        for write in &self.writes {
            let out = outputs[write.output];
            let before = write.before.map(|(at, _)| inputs[at]);
            if count == 0 && before == Some(out) {
                continue;
            }
            // SAFETY: the output is this op's alone during the call, and differs from what is copied into it: from
            // `held`, which is not around, and from `before` as was just seen.
            let out = unsafe { &mut *out.as_ptr() };
            match before {
                _ if count > 0 => copy(&write.held, out),
                // SAFETY: inputs are valid and only read.
                Some(before) => copy(unsafe { before.as_ref() }, out),
                None => clear(out),
            }
        }
    }
}

/// Makes a value that nobody is meant to read zero: what lay in its memory before is none of a reader's business.
fn clear(value: &mut Value) {
    match value {
        Value::Tensor(tensor) if tensor.list().is_none() => tensor.as_mut_bytes().fill(0),
        value => *value = Value::Tensor(Tensor::empty(value.dtype())),
    }
}
