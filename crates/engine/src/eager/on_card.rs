//! Prepared ops on cards: a kernel for each set of input shapes met so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Prepared;
use super::card::EagerCard;
use super::held::{Held, Outline};
use super::prepared::at_call;
use crate::device::{Address, DeviceCall, DeviceKernel, DeviceMeta, DeviceTensor, Operand, Region};
use crate::op::{Infer, OpView};
use crate::tensor::Tensor;
use crate::{Place, Result};

/// Shapes that one prepared op remembers on cards; a loop over batches rarely meets more.
const MAX_SHAPES: usize = 8;

/// An op on cards, by the shapes of its inputs; most recently used first.
#[derive(Default)]
pub(super) struct CardForms(Mutex<Vec<Arc<CardForm>>>);

/// An op on one card, for inputs of certain shapes.
pub(super) struct CardForm {
    place: Place,
    inputs: Box<[Outline]>,
    /// What it makes; nothing when the host runs it.
    pub(super) outputs: Box<[Outline]>,
    /// None when the host runs it.
    kernel: Option<Ready>,
}

struct Ready {
    kernel: Arc<dyn DeviceKernel>,
    scratch: usize,
    counts_steps: bool,
    /// What it calls itself when it complains: its place in the list of definitions.
    number: u32,
}

/// A run of an op for which everything is found.
pub(super) struct Planned {
    pub(super) form: Arc<CardForm>,
    pub(super) inputs: Vec<Operand>,
    pub(super) outputs: Vec<Operand>,
    pub(super) scratch: Option<Arc<dyn Region>>,
}

impl CardForm {
    /// Whether the card has no kernel for it.
    pub(super) fn is_for_host(&self) -> bool {
        self.kernel.is_none()
    }

    fn fits(&self, place: Place, inputs: &[&Held]) -> bool {
        self.place == place
            && self.inputs.len() == inputs.len()
            && self.inputs.iter().zip(inputs).all(|(known, held)| *known == held.outline())
    }

    /// Whether it looks at the number of the step.
    pub(super) fn counts_steps(&self) -> bool {
        self.kernel.as_ref().is_some_and(|ready| ready.counts_steps)
    }

    /// Memory that a run needs for itself.
    pub(super) fn scratch(&self, card: &EagerCard) -> Result<Option<Arc<dyn Region>>> {
        match self.kernel.as_ref().map_or(0, |ready| ready.scratch) {
            0 => Ok(None),
            bytes => card.device().allocate(bytes).map(Some),
        }
    }

    /// Gives the op to the card. The memory that it needs for itself may be used by others at once: the card does what
    /// it is given in order.
    fn launch(
        &self,
        card: &EagerCard,
        inputs: &[Operand],
        outputs: &[Operand],
        scratch: Option<&Arc<dyn Region>>,
        step: u64,
    ) -> Result<()> {
        let Some(ready) = &self.kernel else { return Ok(()) };
        let device = card.device().as_ref();
        let number = match ready.counts_steps {
            false => None,
            true => Some(DeviceTensor::upload(device, &Tensor::scalar(step as i64))?),
        };
        ready.kernel.launch(&DeviceCall {
            inputs,
            outputs,
            scratch: scratch.map_or(Address::NULL, |region| region.address()),
            step: number.as_ref().map_or(Address::NULL, DeviceTensor::address),
            op: ready.number,
            complaints: card.complaints_at(),
        })
    }
}

impl Prepared {
    /// How `card` runs this op on values like `inputs`.
    ///
    /// # Errors
    /// When shape rule or kernel refuse the inputs.
    pub(super) fn on_card(&self, card: &EagerCard, inputs: &[&Held]) -> Result<Arc<CardForm>> {
        let place = card.place();
        let mut known = self.card_forms();
        match known.iter().position(|form| form.fits(place, inputs)) {
            Some(0) => {}
            Some(at) => known.swap(0, at),
            None => {
                let inputs: Vec<Outline> = inputs.iter().map(|held| held.outline()).collect();
                let form = self.make_form(card, inputs).map_err(|error| self.refused(error))?;
                known.truncate(MAX_SHAPES - 1);
                known.insert(0, Arc::new(form));
            }
        }
        Ok(Arc::clone(&known[0]))
    }

    fn make_form(&self, card: &EagerCard, inputs: Vec<Outline>) -> Result<CardForm> {
        let place = card.place();
        let view = OpView { seed: self.seed(), ..OpView::new(self.op())? };
        let metas: Vec<DeviceMeta> = inputs.iter().map(Outline::meta).collect();
        let known: Vec<_> = metas.iter().map(|input| input.meta.clone()).collect();
        let inputs: Box<[Outline]> = inputs.into();
        let outputs = Infer::run(&view, &known)?;
        let is_plain = |meta: &crate::op::Meta| meta.is_static() && meta.lod_level == 0;
        let mut made = None;
        if known.iter().chain(&outputs).all(is_plain) {
            let mut outputs: Vec<DeviceMeta> = outputs.into_iter().map(DeviceMeta::new).collect();
            let kernel = card.device().kernel(&view, &metas, &mut outputs)?;
            let outputs: Option<Vec<Outline>> = outputs.iter().map(Outline::of).collect();
            made = kernel.zip(outputs);
        }
        let Some((kernel, outputs)) = made else {
            return Ok(CardForm { place, inputs, outputs: Box::default(), kernel: None });
        };
        let number = crate::ops::all().position(|def| def.name == view.def.name).unwrap_or(0);
        let (scratch, counts_steps) = (kernel.scratch(), kernel.counts_steps());
        let kernel = Some(Ready { kernel, scratch, counts_steps, number: number as u32 });
        Ok(CardForm { place, inputs, outputs: outputs.into(), kernel })
    }

    /// Gives the op to the card, in a form that [`Prepared::on_card`] gave for these values.
    ///
    /// # Errors
    /// When the card has no memory, or takes no more work.
    pub(super) fn launch(
        &self,
        form: &CardForm,
        card: &EagerCard,
        inputs: &[Operand],
        outputs: &[Operand],
        step: u64,
    ) -> Result<()> {
        let done = form
            .scratch(card)
            .and_then(|scratch| form.launch(card, inputs, outputs, scratch.as_ref(), step));
        done.map_err(|error| self.refused(error))
    }

    /// As [`Prepared::launch`], with memory that was taken before, for a form that does not look at the step.
    pub(super) fn launch_planned(&self, planned: &Planned, card: &EagerCard) -> Result<()> {
        let Planned { form, inputs, outputs, scratch } = planned;
        let done = form.launch(card, inputs, outputs, scratch.as_ref(), 0);
        done.map_err(|error| self.refused(error))
    }

    fn refused(&self, error: crate::Error) -> crate::Error {
        at_call(error, &self.op().kind, &["on the card".to_owned()])
    }

    fn card_forms(&self) -> MutexGuard<'_, Vec<Arc<CardForm>>> {
        self.card_forms.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
