//! Tables of what eager tensors hold, and how the ops of a routine run on them: on a card where it has kernels, on the
//! host otherwise.

use std::ptr::NonNull;
use std::sync::Arc;

use super::card::EagerCard;
use super::held::Held;
use super::routine::Call;
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
        let held = self.inputs.iter().map(|place| table[*place].held());
        let held = held.collect::<Result<Vec<&Held>>>()?;
        let form = self.op.on_card(card, &held)?;
        if form.is_for_host() {
            return Ok(false);
        }
        // What is read and written must be nobody else's before its address is known.
        for place in self.outputs.iter().filter(|place| self.inputs.contains(place)) {
            table[*place].writable(true, Some(card))?;
        }
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for place in &self.inputs {
            inputs.push(table[*place].held()?.card(card)?.operand());
        }
        let mut outputs = Vec::with_capacity(self.outputs.len());
        let mut made = Vec::with_capacity(self.outputs.len());
        for (place, outline) in self.outputs.iter().zip(&form.outputs) {
            if let Some(at) = self.inputs.iter().position(|input| input == place) {
                outputs.push(inputs[at]);
                made.push(None);
                continue;
            }
            let there = table[*place].writable(false, Some(card))?;
            match there.card_to_write(card, outline) {
                Some(memory) => {
                    outputs.push(memory.operand());
                    made.push(None);
                }
                None => {
                    let memory = card.unwritten(outline)?;
                    outputs.push(memory.operand());
                    made.push(Some(memory));
                }
            }
        }
        self.op.launch(&form, card, &inputs, &outputs, step)?;
        for (place, memory) in self.outputs.iter().zip(made) {
            table[*place].writable(true, Some(card))?.written(memory);
        }
        Ok(true)
    }
}
