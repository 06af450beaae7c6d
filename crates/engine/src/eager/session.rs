//! Runs ops on eager tensors and puts them on the tape.

#![expect(unsafe_code, reason = "kernels reach values by pointer; see `op::Run`")]

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::cache::Ready;
use super::prepared::unwritten;
use super::tape::{Edge, Node, Saved};
use super::{EagerTensor, Form, OpCache, Prepared};
use crate::finite::{NotFinite, not_finite};
use crate::op::{GradRule, meta_of};
use crate::value::Value;
use crate::{Error, Result};

thread_local! {
    /// Whether ops of this thread are put on the tape: a thread that only evaluates must not stop
    /// another one's training.
    static RECORDS: Cell<bool> = const { Cell::new(true) };
}

/// What a program would hold for the ops of eager mode: a seed, a count, a switch.
pub struct Session {
    seed: AtomicU64,
    /// Ops run since the seed was set: gives random ops fresh numbers.
    step: AtomicU64,
    nodes: AtomicU64,
    /// Whether the outputs of ops, and gradients, are checked for NaN and infinity.
    checks_finite: AtomicBool,
    /// Whether there ever was a collector: only then does a backward pass look for them.
    pub(super) collects: AtomicBool,
    /// Adds gradients.
    pub(super) sum: OpCache,
}

/// An input as an op sees it.
struct Input {
    value: Arc<Value>,
    /// Where its gradient goes, if it wants one.
    edge: Option<Edge>,
}

impl Default for Session {
    fn default() -> Session {
        Session {
            seed: AtomicU64::new(0),
            step: AtomicU64::new(0),
            nodes: AtomicU64::new(0),
            checks_finite: AtomicBool::new(false),
            collects: AtomicBool::new(false),
            sum: OpCache::new("sum").expect("`sum` is an op"),
        }
    }
}

impl Session {
    /// Random numbers start anew from `seed`.
    pub fn set_seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
        self.step.store(0, Ordering::Relaxed);
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }

    /// Says whether an op, or its gradient, that produces NaN or infinity is an error.
    pub fn set_check_finite(&self, check: bool) {
        self.checks_finite.store(check, Ordering::Relaxed);
    }

    /// Whether an op that produces NaN or infinity is an error.
    pub fn checks_finite(&self) -> bool {
        self.checks_finite.load(Ordering::Relaxed)
    }

    /// Refuses a value that is not finite, where that is asked for; `name` is what it is called.
    pub(super) fn check_finite(
        &self,
        kind: &str,
        value: &Value,
        step: u64,
        name: impl FnOnce() -> String,
    ) -> Result<()> {
        let tensor = match value {
            _ if !self.checks_finite() => return Ok(()),
            Value::Tensor(tensor) => tensor,
            Value::Rows(rows) => &rows.value,
        };
        match not_finite(tensor) {
            None => Ok(()),
            Some(NotFinite { what, .. }) => Err(Error::NotFinite {
                step: step + 1,
                op: kind.to_owned(),
                site: String::new(),
                var: name(),
                what,
            }),
        }
    }

    /// Says whether ops of this thread are put on the tape; returns what was before.
    pub fn set_grad_enabled(&self, enabled: bool) -> bool {
        RECORDS.replace(enabled)
    }

    /// Whether ops of this thread are put on the tape.
    pub fn is_grad_enabled(&self) -> bool {
        RECORDS.get()
    }

    /// Runs an op of the type of `cache` in the form `form`; inputs and outputs are flat, in the
    /// order of the signature.
    ///
    /// # Errors
    /// When the op refuses its attributes or its inputs.
    pub fn apply(
        &self,
        cache: &OpCache,
        form: Form<'_>,
        inputs: &[EagerTensor],
    ) -> Result<Vec<EagerTensor>> {
        let cast = self.cast_inputs(cache.def(), form, inputs)?;
        let inputs = cast.as_deref().unwrap_or(inputs);
        let ready = cache.get(form, self.seed())?;
        let differentiable = self.is_grad_enabled() && !matches!(cache.def().grad, GradRule::None);
        let inputs: Vec<Input> = inputs.iter().map(|tensor| look(tensor, differentiable)).collect();
        let (op, step) = (cache.def(), self.next_step());
        let outputs = run(&ready, &inputs, form.outputs.iter().sum(), step)?;
        if self.checks_finite() {
            let slots = op.signature.outputs.iter().zip(form.outputs);
            let names = slots.flat_map(|(slot, count)| std::iter::repeat_n(slot.name, *count));
            for (value, name) in outputs.iter().zip(names) {
                self.check_finite(op.name, value, step, || name.to_owned())?;
            }
        }
        if !inputs.iter().any(|input| input.edge.is_some()) {
            return Ok(outputs.into_iter().map(EagerTensor::from_shared).collect());
        }
        self.record(cache.def().name, &ready, inputs, outputs)
    }

    /// The first value of a parameter: what `op`, an initialiser without inputs, gives its output.
    /// It depends on seed and name alone, as in a startup program.
    ///
    /// # Errors
    /// When the op refuses its attributes.
    pub fn initial_value(&self, op: &bireme_ir::Op) -> Result<EagerTensor> {
        let forward = Prepared::new(op.clone(), self.seed())?;
        let mut value = unwritten();
        // SAFETY: there are no inputs, and the output is nobody else's.
        unsafe { forward.run(&[], &[NonNull::from(&mut value)], 0)? };
        Ok(EagerTensor::new(value))
    }

    /// The number of the next op.
    pub(super) fn next_step(&self) -> u64 {
        self.step.fetch_add(1, Ordering::Relaxed)
    }

    /// Puts an op that has run on the tape.
    fn record(
        &self,
        kind: &'static str,
        ready: &Ready,
        inputs: Vec<Input>,
        outputs: Vec<Arc<Value>>,
    ) -> Result<Vec<EagerTensor>> {
        let wanted: Vec<bool> = inputs.iter().map(|input| input.edge.is_some()).collect();
        let gradient = match ready.gradients.find(&wanted) {
            Some(gradient) => gradient,
            None => {
                let input_metas: Vec<_> = inputs.iter().map(|i| meta_of(&i.value)).collect();
                let output_metas: Vec<_> = outputs.iter().map(|o| meta_of(o)).collect();
                ready.gradients.get(ready.forward.op(), &wanted, &input_metas, &output_metas)?
            }
        };
        let kept = |value: &Arc<Value>, keep: &bool| keep.then(|| Arc::clone(value));
        let saved = Saved {
            inputs: inputs
                .iter()
                .zip(&gradient.saves_input)
                .map(|(i, k)| kept(&i.value, k))
                .collect(),
            outputs: outputs.iter().zip(&gradient.saves_output).map(|(o, k)| kept(o, k)).collect(),
        };
        let node = Arc::new(Node::new(
            kind,
            self.nodes.fetch_add(1, Ordering::Relaxed),
            gradient,
            inputs.into_iter().map(|input| input.edge).collect(),
            outputs.iter().map(|value| shape_of(value)).collect(),
            saved,
        ));
        let tensor = |(at, value)| {
            // An output that does not depend on what wants gradients, a mask, or state has none. One
            // whose gradient the op does not read is followed, so that it does not vanish unseen.
            let gradient = &node.gradient;
            let differentiable = gradient.reads_output_grad(at) || gradient.unread[at].is_some();
            let origin = differentiable.then(|| (Arc::clone(&node), at));
            EagerTensor::with(value, !differentiable, origin)
        };
        Ok(outputs.into_iter().enumerate().map(tensor).collect())
    }
}

fn look(tensor: &EagerTensor, differentiable: bool) -> Input {
    let state = tensor.lock();
    let wants = differentiable && !state.stop_gradient && shape_of(&state.value).0.is_float();
    let edge = wants.then(|| match &state.origin {
        Some((node, output)) => Edge::Output(Arc::clone(node), *output),
        None => Edge::Leaf(tensor.clone()),
    });
    Input { value: Arc::clone(&state.value), edge }
}

/// Element type and shape of a value.
pub(super) fn shape_of(value: &Value) -> (bireme_ir::DType, crate::tensor::Dims) {
    match value {
        Value::Tensor(tensor) => (tensor.dtype(), tensor.dims()),
        Value::Rows(rows) => (rows.value.dtype(), rows.value.dims().with_rows(rows.height)),
    }
}

fn run(ready: &Ready, inputs: &[Input], outputs: usize, step: u64) -> Result<Vec<Arc<Value>>> {
    let mut values: Vec<Arc<Value>> = (0..outputs).map(|_| Arc::new(unwritten())).collect();
    let inputs: Vec<NonNull<Value>> = inputs.iter().map(|i| NonNull::from(&*i.value)).collect();
    let outputs: Vec<NonNull<Value>> = values
        .iter_mut()
        .map(|value| NonNull::from(Arc::get_mut(value).expect("made above, not shared")))
        .collect();
    // SAFETY: inputs are held by `inputs` and only read; outputs are new and nobody else's.
    unsafe { ready.forward.run(&inputs, &outputs, step)? };
    Ok(values)
}
