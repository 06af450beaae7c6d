//! Tables of what eager tensors hold, and how the ops of a routine run on them: on a card where it has kernels, on the
//! host otherwise.

use std::ptr::NonNull;
use std::sync::Arc;

use super::card::EagerCard;
use super::held::Held;
use super::on_card::{CardForm, Planned};
use super::routine::Call;
use crate::device::DeviceValue;
use crate::{Error, Result};

/// A variable of a table of eager mode.
pub(super) enum Entry<'a> {
    /// Nothing was written yet.
    Empty,
    /// A value that others may have, too; who writes it makes another.
    Shared(Arc<Held>),
    /// A value that is changed where it is.
    Mut(&'a mut Held),
}

impl Entry<'_> {
    /// What it holds.
    fn held(&self) -> Result<&Held> {
        match self {
            Entry::Shared(held) => Ok(held),
            Entry::Mut(held) => Ok(held),
            Entry::Empty => Err(Error::kernel("an op reads a variable that nothing has written")),
        }
    }

    /// Copies what it holds to a card, if anything was written.
    pub(super) fn bring_to(&self, card: &Arc<EagerCard>) -> Result<()> {
        match self {
            Entry::Shared(held) => held.card(card).map(drop),
            Entry::Mut(held) => held.card(card).map(drop),
            Entry::Empty => Ok(()),
        }
    }

    /// What it holds, to be written; `keep` what is there already.
    fn writable(&mut self, keep: bool, home: Option<&Arc<EagerCard>>) -> Result<&mut Held> {
        let is_ours = match self {
            Entry::Empty => false,
            Entry::Mut(_) => true,
            Entry::Shared(held) => keep || Arc::get_mut(held).is_some(),
        };
        if !is_ours {
            *self = Entry::Shared(Arc::new(Held::unwritten().at_home(home.cloned())));
        }
        match self {
            Entry::Mut(held) => Ok(held),
            Entry::Shared(held) => Held::make_mut(held),
            Entry::Empty => unreachable!("filled above"),
        }
    }
}

impl Call {
    /// Runs the op on the host.
    #[expect(unsafe_code, reason = "kernels reach values by pointer; see `op::Run`")]
    pub(super) fn run_on_host(
        &self,
        table: &mut [Entry<'_>],
        home: Option<&Arc<EagerCard>>,
        step: u64,
    ) -> Result<()> {
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for place in &self.outputs {
            let keep = self.inputs.contains(place);
            outputs.push(NonNull::from(table[*place].writable(keep, home)?.host_mut()?));
        }
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for place in &self.inputs {
            // A variable that is read and written is reached by one pointer.
            inputs.push(match self.outputs.iter().position(|output| output == place) {
                Some(at) => outputs[at],
                None => NonNull::from(table[*place].held()?.host()?),
            });
        }
        // SAFETY: the table holds all values during the call; what is written is new or nobody else's (`writable`),
        // and different places are different values.
        unsafe { self.op.run(&inputs, &outputs, step) }
    }

    /// Runs the op on a card; does nothing, and says no, when the card has no kernel for it.
    pub(super) fn run_on_card(
        &self,
        table: &mut [Entry<'_>],
        card: &Arc<EagerCard>,
        step: u64,
    ) -> Result<bool> {
        let Some(form) = self.form(table, card)? else { return Ok(false) };
        let (planned, _) = self.plan(table, card, form)?;
        self.op.launch(&planned.form, card, &planned.inputs, &planned.outputs, step)?;
        Ok(true)
    }

    /// How the card runs the op; none when the host must.
    pub(super) fn form(
        &self,
        table: &[Entry<'_>],
        card: &Arc<EagerCard>,
    ) -> Result<Option<Arc<CardForm>>> {
        let held = self.inputs.iter().map(|place| table[*place].held());
        let form = self.op.on_card(card, &held.collect::<Result<Vec<&Held>>>()?)?;
        Ok((!form.is_for_host()).then_some(form))
    }

    /// Whether it writes what it reads in a value that others may have, too, so that it must be copied first.
    pub(super) fn changes_shared(&self, table: &[Entry<'_>]) -> bool {
        let is_shared = |place: &usize| matches!(table[*place], Entry::Shared(_));
        self.outputs.iter().any(|place| self.inputs.contains(place) && is_shared(place))
    }

    /// Finds inputs and memory for outputs, which count as written from now on; returns memory that outputs lay in
    /// before, too.
    pub(super) fn plan(
        &self,
        table: &mut [Entry<'_>],
        card: &Arc<EagerCard>,
        form: Arc<CardForm>,
    ) -> Result<(Planned, Vec<DeviceValue>)> {
        // What is read and written must be nobody else's before its address is known.
        for place in self.outputs.iter().filter(|place| self.inputs.contains(place)) {
            table[*place].writable(true, Some(card))?;
        }
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for place in &self.inputs {
            inputs.push(table[*place].held()?.card(card)?.operand());
        }
        let mut outputs = Vec::with_capacity(self.outputs.len());
        let mut before = Vec::new();
        for (place, outline) in self.outputs.iter().zip(&form.outputs) {
            let is_read = self.inputs.iter().position(|input| input == place);
            let there = table[*place].writable(is_read.is_some(), Some(card))?;
            let known = match is_read {
                Some(at) => Some(inputs[at]),
                None => there.card_to_write(card, outline).map(DeviceValue::operand),
            };
            let made = match known {
                Some(_) => None,
                None => Some(card.unwritten(outline)?),
            };
            outputs.extend(known.or_else(|| made.as_ref().map(DeviceValue::operand)));
            before.extend(there.written(made));
        }
        Ok((Planned { form, inputs, outputs, scratch: None }, before))
    }
}

/// Runs of ops that wait to be given to a card together, so that those which can be one launch are.
#[derive(Default)]
pub(super) struct Waiting<'a> {
    runs: Vec<(&'a Call, Planned)>,
    /// Memory that the runs may still use; others must not have it before they are given to the card.
    kept: Vec<DeviceValue>,
}

impl<'a> Waiting<'a> {
    /// Takes the run of an op, if it can wait: says no, and does nothing, otherwise.
    pub(super) fn take(
        &mut self,
        call: &'a Call,
        table: &mut [Entry<'_>],
        card: &Arc<EagerCard>,
    ) -> Result<bool> {
        let Some(form) = call.form(table, card)? else { return Ok(false) };
        if form.counts_steps() || call.changes_shared(table) {
            return Ok(false);
        }
        let scratch = form.scratch(card)?;
        let (planned, before) = call.plan(table, card, form)?;
        self.kept.extend(before);
        self.runs.push((call, Planned { scratch, ..planned }));
        Ok(true)
    }

    /// Gives all that waits to the card.
    pub(super) fn flush(&mut self, card: &EagerCard) -> Result<()> {
        if self.runs.is_empty() {
            return Ok(());
        }
        let runs = std::mem::take(&mut self.runs);
        let mut launch =
            || runs.iter().try_for_each(|(call, planned)| call.op.launch_planned(planned, card));
        let done = match runs.len() {
            1 => launch(),
            _ => card.device().joined(&mut launch),
        };
        self.kept.clear();
        done
    }
}
