//! Copies between a card and the host's side of a step: the values that host ops write for the card and read from it.
//!
//! Those lie in page-locked memory, so that the card copies them by itself: rows that an op pulled go up from where
//! they arrived, and gradients come down to where they are sent from. Several copies down are waited for at once, when
//! an op of the host is next; what goes up is left alone until it has gone.

#![expect(unsafe_code, reason = "values of the frame are reached by their addresses")]

use std::collections::{HashMap, HashSet};
use std::ptr::NonNull;
use std::sync::Arc;

use bireme_ir::{DType, VarKind};

use crate::device::{Arrival, Device, DeviceMeta, DeviceValue, NO_ROW, locked_room};
use crate::plan::place::Task;
use crate::plan::select::VarId;
use crate::remote::Held;
use crate::scope::Cell;
use crate::tensor::{Dims, SelectedRows, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// The most bytes that a layout page-locks: what locks more takes memory away from the whole machine.
const MOST_LOCKED: usize = 1 << 30;

/// Values of the host's side of a step that lie in page-locked memory.
#[derive(Default)]
pub(super) struct Locked {
    bytes: usize,
    /// Those that go to the card.
    going: HashSet<VarId>,
    /// Memory for the numbers of rows that come.
    numbers: HashMap<VarId, Tensor>,
}

impl Locked {
    /// Puts a value of the frame that `task` copies into page-locked memory, where the device has some to spare.
    pub(super) fn add(
        &mut self,
        device: &dyn Device,
        task: Task,
        meta: &DeviceMeta,
        value: &mut Value,
    ) {
        let (var, goes) = match task {
            Task::Up(var) => (var, true),
            Task::Down(var) => (var, false),
            Task::Host(_) | Task::Card(_) | Task::Staged(_) => return,
        };
        let is_rows = meta.meta.kind == VarKind::SelectedRows;
        let known = self.going.contains(&var) || self.numbers.contains_key(&var);
        if known || !meta.meta.is_static() || (goes && is_rows) {
            return;
        }
        let dims: Vec<usize> = meta.meta.dims.iter().map(|dim| *dim as usize).collect();
        let (dims, dtype) = (Dims::new(&dims), meta.meta.dtype);
        let height = dims.first().copied().unwrap_or(0);
        let count = meta.rows.filter(|_| is_rows);
        let dims = count.map_or(dims, |count| dims.with_rows(count));
        let bytes = dims.numel() * dtype.size() + count.unwrap_or(0) * size_of::<i64>();
        if bytes == 0 || self.bytes + bytes > MOST_LOCKED {
            return;
        }
        // A device without such memory, or a machine that is short of it, does without.
        let Ok(room) = locked_room(device, dtype, dims) else { return };
        if let Some(count) = count {
            let Ok(numbers) = locked_room(device, DType::I64, Dims::new(&[count])) else { return };
            self.numbers.insert(var, numbers);
            *value = Value::Rows(SelectedRows { rows: Vec::new(), height, value: room });
        } else {
            *value = Value::Tensor(room);
        }
        self.bytes += bytes;
        if goes {
            self.going.insert(var);
        }
    }

    /// Whether one of these goes to the card from page-locked memory.
    pub(super) fn goes(&self, vars: &[VarId]) -> bool {
        vars.iter().any(|var| self.going.contains(var))
    }

    /// A copy of `var` to the host.
    pub(super) fn down(&mut self, var: VarId, from: DeviceValue, to: NonNull<Value>) -> Down {
        Down { from, to, numbers: self.numbers.remove(&var) }
    }
}

/// Copies that are on their way.
#[derive(Default)]
pub(super) struct Traffic {
    /// The last one to the host: those before it are there when it is.
    coming: Option<Box<dyn Arrival>>,
    /// Pieces whose rows are to be looked at when it is.
    rows: Vec<usize>,
    /// What has passed when those to the card are done.
    going: Option<Box<dyn Arrival>>,
    /// Whether more went since.
    is_unmarked: bool,
}

impl Traffic {
    /// Waits for what comes to the host; says which pieces have brought rows.
    ///
    /// # Errors
    /// When the card is lost, or an earlier kernel failed.
    pub(super) fn land(&mut self) -> Result<Vec<usize>> {
        let rows = std::mem::take(&mut self.rows);
        self.coming.take().map_or(Ok(()), Arrival::wait)?;
        Ok(rows)
    }

    /// Forgets what a step that failed has left on its way, when it is there.
    pub(super) fn begin(&mut self) {
        self.rows.clear();
        // An error of the card comes again with the next call.
        let _ = self.coming.take().map(Arrival::wait);
    }

    /// Notes what goes to the card.
    ///
    /// # Errors
    /// When the card is lost.
    pub(super) fn mark(&mut self, device: &dyn Device) -> Result<()> {
        if std::mem::take(&mut self.is_unmarked) {
            self.going = Some(device.mark()?);
        }
        Ok(())
    }

    /// Waits until what went to the card has gone, so that it can be written again.
    ///
    /// # Errors
    /// As [`Traffic::land`].
    pub(super) fn leave(&mut self, device: &dyn Device) -> Result<()> {
        self.mark(device)?;
        self.going.take().map_or(Ok(()), Arrival::wait)
    }
}

/// A copy to the host.
pub(super) struct Down {
    from: DeviceValue,
    to: NonNull<Value>,
    /// Page-locked memory for the numbers of rows.
    numbers: Option<Tensor>,
}

impl Down {
    /// Begins piece `at`.
    ///
    /// # Errors
    /// As [`Traffic::land`].
    pub(super) fn run(&mut self, at: usize, traffic: &mut Traffic) -> Result<()> {
        // SAFETY: the frame is the layout's own, and no op runs.
        let arrival = match (&self.from, unsafe { self.to.as_mut() }, &mut self.numbers) {
            (DeviceValue::Tensor(from), Value::Tensor(to), _) => from.download_later(to)?,
            (DeviceValue::Rows(from), Value::Rows(to), Some(numbers))
                if to.value.page_locked().is_some() =>
            {
                from.rows.download_later(numbers)?;
                to.height = from.height;
                traffic.rows.push(at);
                from.value.download_later(&mut to.value)?
            }
            (from, to, _) => {
                *to = from.download()?;
                None
            }
        };
        if arrival.is_some() {
            traffic.coming = arrival;
        }
        Ok(())
    }

    /// Leaves out rows that are none, once all are there.
    ///
    /// # Errors
    /// When it is no copy of rows.
    pub(super) fn finish(&mut self) -> Result<()> {
        // SAFETY: as above.
        let Value::Rows(to) = (unsafe { self.to.as_mut() }) else { return Err(Error::NotDense) };
        let Some(numbers) = &self.numbers else { return Err(Error::NotDense) };
        leave_out_none(numbers.as_slice()?, to);
        Ok(())
    }
}

/// Makes `to`, which has a value for each of `numbers`, the rows that are some.
pub(super) fn leave_out_none(numbers: &[i64], to: &mut SelectedRows) {
    let (dtype, dims) = (to.value.dtype(), to.value.dims());
    let row_bytes = to.width() * dtype.size();
    to.rows.clear();
    for (at, number) in numbers.iter().enumerate().filter(|(_, number)| **number != NO_ROW) {
        let kept = to.rows.len();
        if kept < at {
            let from = at * row_bytes..(at + 1) * row_bytes;
            to.value.as_mut_bytes().copy_within(from, kept * row_bytes);
        }
        to.rows.push(*number);
    }
    to.value.resize(dtype, dims.with_rows(to.rows.len()));
}

/// A copy to the card.
pub(super) struct Up {
    pub(super) from: NonNull<Value>,
    pub(super) to: DeviceValue,
    /// For what a `recv` op brings, whose memory on the card nobody else writes in a step.
    pub(super) news: Option<News>,
}

/// What tells whether the card has what a `recv` op brought.
pub(super) struct News {
    /// What the op has brought, and which of it this is.
    pub(super) held: Arc<Held>,
    pub(super) at: usize,
    /// The variable, where it outlives the step.
    pub(super) cell: Option<Arc<Cell>>,
    /// What was copied last, and how often the variable had been written then.
    pub(super) copied: (u64, u64),
}

impl News {
    /// What is here now, and how often the variable has been written.
    fn now(&self) -> (u64, u64) {
        (self.held.get(self.at), self.cell.as_ref().map_or(0, |cell| cell.writes()))
    }
}

impl Up {
    /// # Errors
    /// When the card is lost.
    pub(super) fn run(&mut self, traffic: &mut Traffic) -> Result<()> {
        if let Some(news) = &self.news
            && news.now() == news.copied
            && news.copied.0 != 0
        {
            return Ok(());
        }
        // SAFETY: the frame is the layout's own, and no op runs.
        match (unsafe { self.from.as_ref() }, &mut self.to) {
            (Value::Tensor(from), DeviceValue::Tensor(to)) => {
                traffic.is_unmarked |= to.write_later(from)?;
            }
            _ => return Err(Error::kernel("selected rows of the host go to no card")),
        }
        if let Some(news) = &mut self.news {
            if let Some(cell) = &news.cell {
                cell.card_writes();
            }
            news.copied = news.now();
        }
        Ok(())
    }
}
