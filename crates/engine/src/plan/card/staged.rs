//! Reductions of values that lie on a card, through memory of the host: how ranks reduce that share a card, or have no
//! library by which cards exchange.
//!
//! The start of a reduction has the card copy into page-locked memory, and the thread that reduces waits for the copy:
//! neither this thread nor the card does. The end has the card copy back. Rows are gathered on the spot, also by way of
//! page-locked memory.

#![expect(unsafe_code, reason = "page-locked memory is reduced where it lies")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bireme_ir::DType;

use super::passage::leave_out_none;
use crate::collective::{Carried, Collective, Link, Reduction};
use crate::device::{
    Arrival, Device, DeviceRows, DeviceTensor, DeviceValue, NO_ROW, PageLocked, locked_room,
};
use crate::op::OpView;
use crate::ops::collective::{reduction, ring, rows};
use crate::plan::select::{SelectedOp, VarId};
use crate::tensor::{Dims, SelectedRows, Tensor};
use crate::{Error, Result};

/// An op that reduces.
pub(super) struct Staged {
    op: usize,
    link: Arc<Link>,
    ring: i32,
    what: What,
}

enum What {
    /// Starts a reduction of `from`.
    Start { from: DeviceTensor, flight: Flight, how: Reduction },
    /// Waits for it, and copies the result to the card.
    Wait { to: DeviceTensor, flight: Flight },
    /// Both at once.
    Reduce { from: DeviceTensor, to: DeviceTensor, through: Arc<dyn PageLocked>, how: Reduction },
    /// Gathers the rows of all ranks.
    Rows(Box<Rows>),
}

/// Rows on their way from the card to those of all ranks, and back.
struct Rows {
    from: DeviceRows,
    to: DeviceRows,
    /// Page-locked where there is such memory: the numbers of rows, and the rows with their values.
    numbers: Tensor,
    rows: SelectedRows,
}

/// What the start and the end of a reduction share.
#[derive(Clone)]
pub(super) struct Flight {
    through: Arc<dyn PageLocked>,
    /// The number of the reduction that the step has started.
    ticket: Arc<AtomicI64>,
}

/// Reductions by the variables of their tickets.
pub(super) type Flights = HashMap<VarId, Flight>;

impl Staged {
    /// # Errors
    /// When the op refuses its attributes, or the host has no memory that the card can copy to.
    pub(super) fn new(
        at: usize,
        op: &SelectedOp,
        view: &OpView<'_>,
        device: &Arc<dyn Device>,
        values: &HashMap<VarId, DeviceValue>,
        flights: &mut Flights,
    ) -> Result<Staged> {
        let x = values.get(&op.inputs_of("X")[0]);
        let out = op.output("Out").and_then(|var| values.get(&var));
        let how = match op.op.kind.as_str() {
            "c_bucket_start" | "c_bucket_wait" => reduction(&view.string("reduce")?)?,
            other => reduction(other.rsplit('_').next().unwrap_or(other))?,
        };
        let what = match (op.op.kind.as_str(), x, out) {
            ("c_bucket_start", Some(DeviceValue::Tensor(from)), _) => {
                let through = device.page_locked_room(from.bytes())?;
                let flight = Flight { through, ticket: Arc::default() };
                flights.insert(op.outputs[0], flight.clone());
                What::Start { from: from.alias(), flight, how }
            }
            (_, Some(DeviceValue::Tensor(from)), Some(DeviceValue::Tensor(to))) => {
                match op.input("Ticket").map(|ticket| flights.get(&ticket).cloned()) {
                    Some(Some(flight)) => What::Wait { to: to.alias(), flight },
                    Some(None) => return Err(Error::kernel("waits for what nothing has started")),
                    None => {
                        let through = device.page_locked_room(from.bytes())?;
                        What::Reduce { from: from.alias(), to: to.alias(), through, how }
                    }
                }
            }
            (_, Some(from @ DeviceValue::Rows(_)), Some(to @ DeviceValue::Rows(_))) => {
                let (DeviceValue::Rows(from), DeviceValue::Rows(to)) = (from.alias(), to.alias())
                else {
                    return Err(Error::NotDense);
                };
                What::Rows(Box::new(Rows::new(device.as_ref(), from, to)))
            }
            _ => return Err(Error::kernel("what it reduces is not on the card")),
        };
        Ok(Staged { op: at, link: view.link()?, ring: ring(view)?, what })
    }

    /// The position of the op.
    pub(super) fn op(&self) -> usize {
        self.op
    }

    /// Runs the op in step `step`.
    ///
    /// # Errors
    /// When the card or another rank is lost.
    pub(super) fn run(&mut self, device: &dyn Device, step: u64) -> Result<()> {
        let (link, ring) = (&self.link, self.ring);
        match &mut self.what {
            What::Start { from, flight, how } => {
                let (dtype, dims) = (from.dtype(), from.dims());
                let arrival =
                    device.download_page_locked(from.address(), from.bytes(), &flight.through)?;
                let through = Arc::clone(&flight.through);
                let bring = Box::new(move || {
                    arrival.wait()?;
                    carried(dtype, dims, through)
                });
                flight.ticket.store(link.start(ring, bring, *how, step)?, Ordering::Relaxed);
                Ok(())
            }
            What::Wait { to, flight } => {
                link.wait(flight.ticket.load(Ordering::Relaxed))?;
                device.upload_page_locked(&flight.through, to.bytes(), to.address())
            }
            What::Reduce { from, to, through, how } => {
                let peers = link.settled();
                device.download_page_locked(from.address(), from.bytes(), through)?.wait()?;
                let mut data = carried(from.dtype(), from.dims(), Arc::clone(through))?;
                peers.all_reduce(ring, &mut data.data, *how)?;
                device.upload_page_locked(through, to.bytes(), to.address())
            }
            What::Rows(rows) => rows.gather(link.settled(), ring, device),
        }
    }
}

/// A tensor in page-locked memory, which it takes along.
fn carried(dtype: DType, dims: Dims, memory: Arc<dyn PageLocked>) -> Result<Carried> {
    // SAFETY: the memory is at least as large and aligned to 256 bytes; it is kept beside the tensor, and a flight has
    // it to itself between the copy that fills it and the one that empties it.
    let data = unsafe { Tensor::foreign(dtype, dims, memory.start())? };
    Ok(Carried { data, memory: Some(memory) })
}

impl Rows {
    fn new(device: &dyn Device, from: DeviceRows, to: DeviceRows) -> Rows {
        // A device without page-locked memory does without.
        let room = |like: &DeviceTensor| {
            let locked = locked_room(device, like.dtype(), like.dims());
            locked.unwrap_or_else(|_| Tensor::empty(like.dtype()))
        };
        let (numbers, value) = (room(&to.rows), room(&to.value));
        let rows = SelectedRows { rows: Vec::new(), height: from.height, value };
        Rows { from, to, numbers, rows }
    }

    /// Makes `to` the rows of all ranks; places that are left over hold none.
    fn gather(&mut self, peers: &dyn Collective, ring: i32, device: &dyn Device) -> Result<()> {
        let Rows { from, to, numbers, rows: all } = self;
        let first = from.rows.download_later(numbers)?;
        let second = from.value.download_later(&mut all.value)?;
        second.or(first).map_or(Ok(()), Arrival::wait)?;
        all.height = from.height;
        leave_out_none(numbers.as_slice()?, all);
        rows::all_gather(peers, ring, all)?;
        let room = to.rows.dims().numel();
        if all.rows.len() > room {
            return Err(Error::kernel(format!(
                "the ranks have {} rows of a sparse gradient, and the card has room for {room}: give every rank \
                 batches of one size, the largest first",
                all.rows.len()
            )));
        }
        numbers.resize(DType::I64, [room]);
        let (own, none) = numbers.as_mut_slice::<i64>()?.split_at_mut(all.rows.len());
        own.copy_from_slice(&all.rows);
        none.fill(NO_ROW);
        for (tensor, to) in [(&all.value, to.value.address()), (&*numbers, to.rows.address())] {
            // Both are written again when the card has copied to them, and so has copied from them.
            match tensor.page_locked() {
                Some(memory) => {
                    device.upload_page_locked(memory, tensor.as_bytes().len(), to)?;
                }
                None => device.upload(tensor.as_bytes(), to)?,
            }
        }
        Ok(())
    }
}
