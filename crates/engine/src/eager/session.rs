//! Runs ops on eager tensors and puts them on the tape.

#![expect(unsafe_code, reason = "kernels reach values by pointer; see `op::Run`")]

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::cache::Ready;
use super::card::EagerCard;
use super::held::Held;
use super::prepared::unwritten;
use super::tape::{Backward, CustomGradient, Edge, Node, Saved, Traced};
use super::{EagerTensor, Form, OpCache, Prepared};
use crate::device::{Device, Operand};
use crate::finite::{NotFinite, not_finite};
use crate::op::{GradRule, OpDef, Slot};
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Error, Result, autodiff};

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
    /// Cards that were asked for.
    cards: Mutex<Vec<Arc<EagerCard>>>,
    /// Where ops without inputs run.
    current: RwLock<Option<Arc<EagerCard>>>,
    /// Single ones on cards, by card, type and shape: the weight of every loss, which so is not copied in every step.
    ones: Mutex<Vec<Arc<Held>>>,
}

/// Single ones that are kept.
const MAX_ONES: usize = 16;

impl Default for Session {
    fn default() -> Session {
        Session {
            seed: AtomicU64::new(0),
            step: AtomicU64::new(0),
            nodes: AtomicU64::new(0),
            checks_finite: AtomicBool::new(false),
            collects: AtomicBool::new(false),
            sum: OpCache::new("sum").expect("`sum` is an op"),
            cards: Mutex::default(),
            current: RwLock::default(),
            ones: Mutex::default(),
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

    /// A card for eager tensors; the same one whenever it is asked for.
    ///
    /// # Errors
    /// When the card cannot be used.
    pub fn card(&self, device: &Arc<dyn Device>) -> Result<Arc<EagerCard>> {
        let mut cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(card) = cards.iter().find(|card| is_same(card.device(), device)) {
            return Ok(Arc::clone(card));
        }
        let card = Arc::new(EagerCard::new(Arc::clone(device))?);
        cards.push(Arc::clone(&card));
        Ok(card)
    }

    /// Lets ops without inputs run on a card, and parameters begin there; on the host for none.
    pub fn set_current(&self, card: Option<Arc<EagerCard>>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = card;
    }

    /// The card that ops without inputs run on.
    pub fn current(&self) -> Option<Arc<EagerCard>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ones where `home` is; a single one on a card is kept and shared.
    pub(super) fn ones(&self, ones: Tensor, home: Option<&Arc<EagerCard>>) -> Arc<Held> {
        let Some(card) = home.filter(|_| ones.numel() == 1) else {
            return Arc::new(Held::at(ones, home.cloned()));
        };
        let (shape, place) = ((ones.dtype(), ones.dims()), card.place());
        let mut known = self.ones.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |held: &&Arc<Held>| held.shape() == shape && held.place() == place;
        if let Some(found) = known.iter().find(is_it) {
            return Arc::clone(found);
        }
        let held = Arc::new(Held::at(ones, home.cloned()));
        known.truncate(MAX_ONES - 1);
        known.insert(0, Arc::clone(&held));
        held
    }

    /// Refuses a value that is not finite, where that is asked for; `name` is what it is called. One on a card is
    /// waited for: who asks for this looks for a mistake.
    pub(super) fn check_finite(
        &self,
        kind: &str,
        held: &Held,
        step: u64,
        name: impl FnOnce() -> String,
    ) -> Result<()> {
        if !self.checks_finite() || is_finite_on_card(held)? {
            return Ok(());
        }
        let tensor = match held.host()? {
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
        let inputs = inputs.iter().map(|tensor| Traced::of(tensor, differentiable)).collect();
        self.execute(cache.def(), &ready, inputs)
    }

    /// Runs a prepared op, and puts it on the tape if one of its inputs wants a gradient.
    pub(super) fn execute(
        &self,
        op: &'static OpDef,
        ready: &Ready,
        inputs: Vec<Traced>,
    ) -> Result<Vec<EagerTensor>> {
        let step = self.next_step();
        let home = match inputs.as_slice() {
            [] => self.current(),
            inputs => inputs.iter().find_map(|input| input.held.home().cloned()),
        };
        let written = &ready.forward.op().outputs;
        let count = written.values().map(Vec::len).sum();
        let outputs = run(&ready.forward, &inputs, count, step, home)?;
        if self.checks_finite() {
            let slots = op.signature.outputs.iter();
            let named = |slot: &Slot| written.get(slot.name).map_or(0, Vec::len);
            let names = slots.flat_map(|slot| std::iter::repeat_n(slot.name, named(slot)));
            for (value, name) in outputs.iter().zip(names) {
                self.check_finite(op.name, value, step, || name.to_owned())?;
            }
        }
        // What does not change smoothly has no past; a gradient op has one, also if it has no gradient itself.
        let constant = matches!(op.grad, GradRule::None) && !autodiff::is_gradient(op.name);
        if constant || !inputs.iter().any(|input| input.edge.is_some()) {
            return Ok(outputs.into_iter().map(EagerTensor::from_held).collect());
        }
        self.record(op, ready, inputs, outputs)
    }

    /// Puts something on the tape that is no op: it made `outputs` of `inputs`, and `gradient` is its gradient. Returns
    /// the outputs with that past; nothing changes where no input wants a gradient.
    pub fn record_custom(
        &self,
        kind: &'static str,
        inputs: &[EagerTensor],
        outputs: &[EagerTensor],
        gradient: Arc<dyn CustomGradient>,
    ) -> Vec<EagerTensor> {
        let recording = self.is_grad_enabled();
        let edges: Vec<_> = inputs.iter().map(|one| Traced::of(one, recording).edge).collect();
        if edges.iter().all(Option::is_none) {
            return outputs.to_vec();
        }
        let held: Vec<Arc<Held>> = outputs.iter().map(EagerTensor::held).collect();
        let saved = Saved { inputs: Vec::new(), outputs: Vec::new() };
        self.note(kind, Backward::Custom(gradient), edges, held, saved)
    }

    /// The first value of a parameter: what `op`, an initialiser without inputs, gives its output.
    /// It depends on seed and name alone, as in a startup program.
    ///
    /// # Errors
    /// When the op refuses its attributes.
    pub fn initial_value(&self, op: &bireme_ir::Op) -> Result<EagerTensor> {
        let forward = Prepared::new(op.clone(), self.seed())?;
        // Drawn on the host in any case: a model starts from the same bits wherever it is.
        let mut value = unwritten();
        // SAFETY: there are no inputs, and the output is nobody else's.
        unsafe { forward.run(&[], &[NonNull::from(&mut value)], 0)? };
        Ok(EagerTensor::from_held(Held::at(value, self.current())))
    }

    /// The number of the next op.
    pub(super) fn next_step(&self) -> u64 {
        self.step.fetch_add(1, Ordering::Relaxed)
    }

    /// Puts an op that has run on the tape.
    fn record(
        &self,
        op: &'static OpDef,
        ready: &Ready,
        inputs: Vec<Traced>,
        outputs: Vec<Arc<Held>>,
    ) -> Result<Vec<EagerTensor>> {
        let edges = || inputs.iter().map(|input| input.edge.clone()).collect();
        if matches!(op.grad, GradRule::None) {
            let nothing = Saved { inputs: Vec::new(), outputs: Vec::new() };
            return Ok(self.note(op.name, Backward::Missing, edges(), outputs, nothing));
        }
        let wanted: Vec<bool> = inputs.iter().map(|input| input.edge.is_some()).collect();
        let gradient = match ready.gradients.find(&wanted) {
            Some(gradient) => gradient,
            None => {
                let input_metas: Vec<_> = inputs.iter().map(|i| i.held.meta()).collect();
                let output_metas: Vec<_> = outputs.iter().map(|o| o.meta()).collect();
                ready.gradients.get(ready.forward.op(), &wanted, &input_metas, &output_metas)?
            }
        };
        let kept = |held: &Arc<Held>, keep: &bool| keep.then(|| Arc::clone(held));
        let saved = Saved {
            inputs: inputs
                .iter()
                .zip(&gradient.saves_input)
                .map(|(i, k)| kept(&i.held, k))
                .collect(),
            outputs: outputs.iter().zip(&gradient.saves_output).map(|(o, k)| kept(o, k)).collect(),
        };
        let edges = inputs.into_iter().map(|input| input.edge).collect();
        Ok(self.note(op.name, Backward::Rule(gradient), edges, outputs, saved))
    }

    /// Makes a node of the tape, and its outputs tensors.
    fn note(
        &self,
        kind: &'static str,
        backward: Backward,
        edges: Vec<Option<Edge>>,
        outputs: Vec<Arc<Held>>,
        saved: Saved,
    ) -> Vec<EagerTensor> {
        let number = self.nodes.fetch_add(1, Ordering::Relaxed);
        let shapes = outputs.iter().map(|held| held.shape()).collect();
        let node = Arc::new(Node::new(kind, number, backward, edges, shapes, saved));
        let tensor = |(at, value)| {
            // An output that does not depend on what wants gradients, a mask, or state has none. One
            // whose gradient the op does not read is followed, so that it does not vanish unseen.
            let origin = node.follows(at).then(|| (Arc::clone(&node), at));
            EagerTensor::with(value, origin.is_none(), origin)
        };
        outputs.into_iter().enumerate().map(tensor).collect()
    }
}

/// Runs an op where `home` says; what the card has no kernel for, on the host.
fn run(
    op: &Prepared,
    inputs: &[Traced],
    outputs: usize,
    step: u64,
    home: Option<Arc<EagerCard>>,
) -> Result<Vec<Arc<Held>>> {
    if let Some(card) = &home
        && let Some(made) = run_on_card(op, inputs, step, card)?
    {
        return Ok(made);
    }
    let mut made: Vec<Arc<Held>> =
        (0..outputs).map(|_| Arc::new(Held::unwritten().at_home(home.clone()))).collect();
    let inputs = inputs.iter().map(|input| input.held.host().map(NonNull::from));
    let inputs = inputs.collect::<Result<Vec<NonNull<Value>>>>()?;
    let mut outputs = Vec::with_capacity(made.len());
    for held in &mut made {
        let held = Arc::get_mut(held).expect("made above, not shared");
        outputs.push(NonNull::from(held.host_mut()?));
    }
    // SAFETY: inputs are held by the caller and only read; outputs are new and nobody else's.
    unsafe { op.run(&inputs, &outputs, step)? };
    Ok(made)
}

/// Runs an op on a card; nothing when the card has no kernel for it.
fn run_on_card(
    op: &Prepared,
    inputs: &[Traced],
    step: u64,
    card: &Arc<EagerCard>,
) -> Result<Option<Vec<Arc<Held>>>> {
    card.check()?;
    let held: Vec<&Held> = inputs.iter().map(|input| &*input.held).collect();
    let form = op.on_card(card, &held)?;
    if form.is_for_host() {
        return Ok(None);
    }
    let operands = held.iter().map(|held| Ok(held.card(card)?.operand()));
    let operands = operands.collect::<Result<Vec<Operand>>>()?;
    let made = form.outputs.iter().map(|outline| card.unwritten(outline));
    let made = made.collect::<Result<Vec<_>>>()?;
    let written: Vec<Operand> = made.iter().map(|value| value.operand()).collect();
    op.launch(&form, card, &operands, &written, step)?;
    Ok(Some(made.into_iter().map(|value| Arc::new(Held::on_card(card, value))).collect()))
}

/// Whether a value was found to be finite on its card; no when that is for the host to say.
fn is_finite_on_card(held: &Held) -> Result<bool> {
    let (Some(card), Some(value)) = (held.home(), held.known_on_card()) else { return Ok(false) };
    card.synchronize()?;
    let (dtype, count, at) = value.elements();
    let complaints = card.device().complaints()?;
    card.device().check_finite(at, dtype, count, 0, complaints.address())?;
    card.device().synchronize()?;
    Ok(complaints.take()?.is_none())
}

fn is_same(a: &Arc<dyn Device>, b: &Arc<dyn Device>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}
