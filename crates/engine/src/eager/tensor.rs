//! A tensor with a past: its value, its gradient, and how it was computed.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_ir::{DType, Param};

use super::collector::Collected;
use super::held::{Held, HostValue};
use super::tape::{Node, Watch};
use crate::tensor::{Dims, Tensor};
use crate::value::Value;
use crate::{Error, Place, Result};

/// A tensor of eager mode; a handle, whose clones are the same tensor.
#[derive(Clone)]
pub struct EagerTensor(Arc<Mutex<State>>);

/// A function that sees the gradient of a tensor when it is known, and may replace it.
pub type Hook = Arc<dyn Fn(EagerTensor) -> Result<Option<EagerTensor>> + Send + Sync>;

/// What a tensor is at the moment.
pub(super) struct State {
    /// Shared with the tape; never changed while somebody else holds it.
    pub(super) held: Arc<Held>,
    pub(super) stop_gradient: bool,
    grad: Grad,
    /// The op that computed it, and which of its outputs it is.
    pub(super) origin: Option<(Arc<Node>, usize)>,
    /// What few tensors have.
    pub(super) rare: Option<Box<Rare>>,
}

/// The gradient of a tensor.
#[derive(Default)]
enum Grad {
    #[default]
    Unknown,
    /// Zeros that nobody has looked at: the next backward pass need not add to them.
    Zero,
    Known(EagerTensor),
}

/// What few tensors have.
#[derive(Default)]
pub(super) struct Rare {
    pub(super) name: Option<String>,
    pub(super) persistable: bool,
    pub(super) param: Option<Param>,
    /// Hooks of a leaf; those of other tensors are on the tape.
    hooks: Vec<(u64, Hook)>,
    /// Who collects the gradients of this leaf.
    pub(super) collected: Option<Collected>,
}

impl EagerTensor {
    /// A tensor that nothing computed; gradients stop at it until told otherwise.
    pub fn new(value: impl Into<Value>) -> EagerTensor {
        EagerTensor::from_held(Arc::new(Held::new(value)))
    }

    /// As [`EagerTensor::new`], of a value that others may share, on whichever side.
    pub fn from_held(held: impl Into<Arc<Held>>) -> EagerTensor {
        EagerTensor::with(held.into(), true, None)
    }

    pub(super) fn with(
        held: Arc<Held>,
        stop_gradient: bool,
        origin: Option<(Arc<Node>, usize)>,
    ) -> EagerTensor {
        let state = State { held, stop_gradient, grad: Grad::Unknown, origin, rare: None };
        EagerTensor(Arc::new(Mutex::new(state)))
    }

    /// What it holds; stays as it is when the tensor changes.
    pub fn held(&self) -> Arc<Held> {
        Arc::clone(&self.lock().held)
    }

    /// Its value on the host; stays as it is when the tensor changes. What lies on a card is waited for.
    ///
    /// # Errors
    /// When it cannot be copied from the card, or an op failed there that ran before.
    pub fn value(&self) -> Result<HostValue> {
        HostValue::of(self.held())
    }

    /// Where it belongs.
    pub fn place(&self) -> Place {
        self.lock().held.place()
    }

    /// Gives it another value, and forgets how the old one was computed.
    pub fn set_value(&self, value: impl Into<Arc<Held>>) {
        let value = value.into();
        let mut state = self.lock();
        let before = (mem::replace(&mut state.held, value), state.origin.take());
        // A tape may hold anything, hooks of the user too: it is dropped when the lock is not held.
        drop(state);
        drop(before);
    }

    /// Gives it another value without a word to the tape, as ops of Paddle that write their input
    /// do; returns the old one.
    pub fn replace_value(&self, value: impl Into<Arc<Held>>) -> Arc<Held> {
        mem::replace(&mut self.lock().held, value.into())
    }

    /// As [`EagerTensor::replace_value`], with a value of the host that belongs to where the old one does.
    pub fn replace_on_host(&self, value: impl Into<Value>) -> Arc<Held> {
        let home = self.lock().held.home().cloned();
        self.replace_value(Held::at(value, home))
    }

    /// Takes its value, on the host, and leaves an empty one; it is copied only when somebody shares it.
    ///
    /// # Errors
    /// As [`EagerTensor::value`]; the tensor is then as it was.
    pub fn take_value(&self) -> Result<Value> {
        self.held().host()?;
        Held::into_host(self.replace_on_host(Tensor::empty(self.dtype())))
    }

    /// Becomes what `other` is: its value, and how that was computed.
    ///
    /// # Errors
    /// When this is a leaf that wants a gradient, and `other` was computed: the leaf would lose the
    /// gradient that is its own.
    pub fn take_over(&self, other: &EagerTensor) -> Result<()> {
        let (held, origin) = {
            let other = other.lock();
            (Arc::clone(&other.held), other.origin.clone())
        };
        let mut state = self.lock();
        if origin.is_some() && state.origin.is_none() && !state.stop_gradient {
            return Err(Error::kernel(
                "a leaf that wants a gradient cannot be changed in place: do it under `no_grad`",
            ));
        }
        if origin.is_some() {
            state.stop_gradient = false;
        }
        let before = (mem::replace(&mut state.held, held), mem::replace(&mut state.origin, origin));
        drop(state);
        drop(before);
        Ok(())
    }

    /// Its shape.
    pub fn dims(&self) -> Dims {
        self.shape().1
    }

    /// Its element type.
    pub fn dtype(&self) -> DType {
        self.shape().0
    }

    /// Element type and shape; of selected rows, that of the whole.
    pub fn shape(&self) -> (DType, Dims) {
        self.lock().held.shape()
    }

    /// Whether it holds selected rows.
    pub fn is_rows(&self) -> bool {
        self.lock().held.is_rows()
    }

    /// A copy of its value as a dense tensor.
    ///
    /// # Errors
    /// When it holds selected rows, or as [`EagerTensor::value`].
    pub fn to_tensor(&self) -> Result<Tensor> {
        self.value()?.tensor().cloned()
    }

    /// Whether gradients stop here.
    pub fn stop_gradient(&self) -> bool {
        self.lock().stop_gradient
    }

    /// Stops gradients here, or lets them pass.
    pub fn set_stop_gradient(&self, stop: bool) {
        self.lock().stop_gradient = stop;
    }

    /// Whether no op computed it, as far as gradients know.
    pub fn is_leaf(&self) -> bool {
        self.lock().origin.is_none()
    }

    /// The same value without a past.
    pub fn detach(&self) -> EagerTensor {
        EagerTensor::from_held(self.held())
    }

    /// The gradient that backward passes have added up.
    pub fn grad(&self) -> Option<EagerTensor> {
        let mut state = self.lock();
        if matches!(state.grad, Grad::Zero) {
            let ((dtype, dims), home) = (state.held.shape(), state.held.home().cloned());
            // A card that has no memory for them may have it when they are wanted there.
            let on_card = home.as_ref().and_then(|card| card.zeros(dtype, dims).ok());
            let zeros = on_card.unwrap_or_else(|| Held::at(Tensor::zeros(dtype, dims), home));
            state.grad = Grad::Known(EagerTensor::from_held(zeros));
        }
        match &state.grad {
            Grad::Known(grad) => Some(grad.clone()),
            Grad::Unknown | Grad::Zero => None,
        }
    }

    /// The gradient, if there is one that is not zero: what a backward pass adds to.
    pub fn known_grad(&self) -> Option<EagerTensor> {
        match &self.lock().grad {
            Grad::Known(grad) => Some(grad.clone()),
            Grad::Unknown | Grad::Zero => None,
        }
    }

    /// Sets or forgets the gradient.
    pub fn set_grad(&self, grad: Option<EagerTensor>) {
        let grad = grad.map_or(Grad::Unknown, Grad::Known);
        let before = mem::replace(&mut self.lock().grad, grad);
        drop(before);
    }

    /// Makes the gradient zero where there is one; of selected rows, which then are none, it is
    /// forgotten.
    pub fn zero_grad(&self) {
        let mut state = self.lock();
        let zero = match &state.grad {
            Grad::Known(grad) if grad.is_rows() => Grad::Unknown,
            Grad::Known(_) | Grad::Zero => Grad::Zero,
            Grad::Unknown => Grad::Unknown,
        };
        let before = mem::replace(&mut state.grad, zero);
        drop(state);
        drop(before);
    }

    /// Keeps the gradient of this tensor although an op computed it.
    pub fn retain_grad(&self) {
        let origin = self.lock().origin.clone();
        if let Some((node, output)) = origin {
            node.watch(output, Watch::Keep(self.downgrade()));
        }
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<String> {
        self.lock().rare.as_ref().and_then(|rare| rare.name.clone())
    }

    /// Names it.
    pub fn set_name(&self, name: impl Into<String>) {
        let name = name.into();
        self.rare(|rare| rare.name = Some(name));
    }

    /// Whether a model keeps it.
    pub fn persistable(&self) -> bool {
        self.lock().rare.as_ref().is_some_and(|rare| rare.persistable)
    }

    /// Says whether a model keeps it.
    pub fn set_persistable(&self, persistable: bool) {
        self.rare(|rare| rare.persistable = persistable);
    }

    /// What optimizers need to know, if it is a parameter.
    pub fn param(&self) -> Option<Param> {
        self.lock().rare.as_ref().and_then(|rare| rare.param.clone())
    }

    /// Makes it a parameter, or changes what optimizers know of it.
    pub fn set_param(&self, param: Param) {
        self.set_stop_gradient(!param.trainable);
        self.rare(|rare| rare.param = Some(param));
    }

    /// Calls `hook` with each gradient of this tensor as it is now; returns a number to remove it
    /// by.
    pub fn add_hook(&self, hook: Hook) -> u64 {
        // Numbers are only ever compared, so all tensors may draw from one source.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let origin = self.lock().origin.clone();
        match origin {
            Some((node, output)) => node.watch(output, Watch::Hook(number, hook)),
            None => self.rare(|rare| rare.hooks.push((number, hook))),
        }
        number
    }

    /// Removes a hook; whether there was one.
    pub fn remove_hook(&self, number: u64) -> bool {
        let origin = self.lock().origin.clone();
        let on_tape = origin.and_then(|(node, _)| node.unwatch(number));
        let on_leaf = self.rare(|rare| {
            let at = rare.hooks.iter().position(|(known, _)| *known == number)?;
            Some(rare.hooks.remove(at))
        });
        on_tape.is_some() || on_leaf.is_some()
    }

    /// Something that is equal for clones of one tensor, and for nothing else that lives.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The hooks of a leaf.
    pub(super) fn hooks(&self) -> Vec<Hook> {
        let state = self.lock();
        let hooks = state.rare.iter().flat_map(|rare| &rare.hooks);
        hooks.map(|(_, hook)| Arc::clone(hook)).collect()
    }

    pub(super) fn downgrade(&self) -> WeakTensor {
        WeakTensor(Arc::downgrade(&self.0))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock leaves a state half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rare<T>(&self, change: impl FnOnce(&mut Rare) -> T) -> T {
        change(self.lock().rare.get_or_insert_default())
    }
}

/// A tensor that the tape knows but does not keep alive.
#[derive(Clone)]
pub(super) struct WeakTensor(std::sync::Weak<Mutex<State>>);

impl WeakTensor {
    pub(super) fn upgrade(&self) -> Option<EagerTensor> {
        self.0.upgrade().map(EagerTensor)
    }
}
