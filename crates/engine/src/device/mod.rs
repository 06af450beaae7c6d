//! What a step asks of a card. The engine puts the questions and knows no CUDA; who answers them is
//! given to the executor ([`crate::Executor::device`]).
//!
//! A card runs what it is given in order, beside the host: calls return before the work is done, and
//! only [`Device::download`] and [`Device::synchronize`] wait for it.

mod exchange;
mod feeds;
mod locked;
mod memory;
mod once;
mod value;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

pub use exchange::{Elements, Exchange};
pub use feeds::{FeedBlock, FeedMemory};
pub use locked::{LockedTensor, locked_room};
pub use memory::{MemoryPlan, OnMemory, SegmentMemory};
pub use once::run_once_on;
pub(crate) use once::{refused, unwritten};
use value::bytes_with_room;
pub use value::{DeviceRows, DeviceTensor, DeviceValue, NO_ROW};

use bireme_ir::{DType, VarKind};

use crate::op::{Meta, OpView};
use crate::{Error, Place, Result};

/// A place in the memory of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u64);

impl Address {
    /// No place: what a kernel gets for a variable that is not there.
    pub const NULL: Address = Address(0);

    /// So many bytes further on.
    pub fn plus(self, bytes: usize) -> Address {
        Address(self.0 + bytes as u64)
    }
}

/// A block of a card's memory; given back when it is dropped, after the work that uses it.
pub trait Region: Send + Sync + fmt::Debug {
    /// Its first byte.
    fn address(&self) -> Address;

    /// Its size.
    fn bytes(&self) -> usize;

    /// Whose memory it is.
    fn device(&self) -> &Arc<dyn Device>;
}

/// Memory of the host that cards copy from by themselves, while the host goes on.
pub trait PageLocked: Send + Sync + fmt::Debug {
    /// Its first byte, on a multiple of 256 bytes.
    fn start(&self) -> NonNull<u8>;

    /// Its size.
    fn bytes(&self) -> usize;
}

/// A copy from a card on its way.
pub trait Arrival: Send {
    /// Waits until it is there.
    ///
    /// # Errors
    /// When the card is lost, or an earlier kernel failed.
    fn wait(self: Box<Self>) -> Result<()>;
}

/// What is there already.
struct Arrived;

impl Arrival for Arrived {
    fn wait(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// How much memory a card has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes that nobody uses.
    pub free: usize,
    /// Bytes in all.
    pub total: usize,
}

/// What is known of a variable that a card works on.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceMeta {
    /// Kind, type and dimensions, all of them known. Of selected rows: of the whole tensor.
    pub meta: Meta,
    /// How many rows are selected, for selected rows.
    pub rows: Option<usize>,
    /// Elements from one row of a matrix to the next, where there are gaps between rows, which hold zeros: rows then
    /// begin where a card reads fastest ([`Device::takes_gaps`]).
    pub pitch: Option<usize>,
    /// Whether the gaps hold rows of other variables instead of zeros ([`Device::lines`]).
    pub in_line: bool,
    /// Whether the room behind a matrix ([`ROW_ROOM`]) holds zeros.
    pub zeros_follow: bool,
    /// Where the values of selected rows are.
    pub values: RowValues,
}

impl DeviceMeta {
    /// Of a variable in memory of its own, one row behind the other.
    pub fn new(meta: Meta) -> DeviceMeta {
        let values = RowValues::Own;
        DeviceMeta { meta, rows: None, pitch: None, in_line: false, zeros_follow: false, values }
    }

    /// The bytes that its elements lie in, with the room behind them, and the row numbers of selected rows.
    pub fn extent(&self) -> [usize; 2] {
        let dims: Vec<usize> =
            self.meta.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect();
        let dtype = self.meta.dtype;
        if let ([rows, width], Some(pitch), true) = (&dims[..], self.pitch, self.in_line) {
            // The last row ends before the line does.
            return [(rows.saturating_sub(1) * pitch + width) * dtype.size(), 0];
        }
        if self.meta.kind != VarKind::SelectedRows {
            return [bytes_with_room(dtype, &dims, self.pitch), 0];
        }
        let (count, width) = (self.rows.unwrap_or(0), dims.iter().skip(1).product::<usize>());
        let bytes = match self.values {
            RowValues::View(view) if count > 0 => {
                let (run, last) = (view.run.min(count), (count - 1) / view.run);
                (last * view.run_step + (run - 1) * view.step + width) * view.dtype.size()
            }
            _ => count * width * dtype.size(),
        };
        [bytes, count * size_of::<i64>()]
    }
}

/// Matrices of floats on a card have room for so many rows that their number is a multiple of this: products of
/// matrices are fastest with such sizes, and may write there.
pub const ROW_ROOM: usize = 8;

/// Where the values of selected rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowValues {
    /// In memory of their own.
    Own,
    /// Of an output: where the kernel says, for all who read them take views ([`Device::takes_views`]).
    OwnOrView,
    /// In an input of the op that selected them, as they were found there.
    View(View),
}

/// Rows that lie in another variable: row `i` begins at element `offset + i / run * run_step + i % run * step` of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The variable, by its position among the inputs of the op that makes the view.
    pub input: usize,
    /// The type of its elements, which become those of the rows as they are read.
    pub dtype: DType,
    /// Elements before the first row.
    pub offset: usize,
    /// Rows of a run.
    pub run: usize,
    /// Elements from one row of a run to the next.
    pub step: usize,
    /// Elements from one run to the next.
    pub run_step: usize,
}

/// Where a card finds a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Nowhere: the variable is not wanted.
    None,
    /// A dense tensor.
    Dense(Address),
    /// Selected rows: their numbers (64-bit), and their values.
    Rows {
        /// The numbers.
        rows: Address,
        /// The values.
        values: Address,
    },
}

/// The arguments of one run of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct DeviceCall<'a> {
    /// Inputs in flat order.
    pub inputs: &'a [Operand],
    /// Outputs in flat order.
    pub outputs: &'a [Operand],
    /// As much memory as [`DeviceKernel::scratch`] says.
    pub scratch: Address,
    /// Where the number of the step lies (64-bit), by which random ops choose their numbers.
    pub step: Address,
    /// What the op calls itself when it complains, and where it does so ([`Complaints`]).
    pub op: u32,
    /// As above.
    pub complaints: Address,
}

/// An op made ready to run on a card, for certain shapes.
pub trait DeviceKernel: Send + Sync {
    /// Bytes of memory that a run needs beside its variables.
    fn scratch(&self) -> usize;

    /// Whether it looks at the number of the step.
    fn counts_steps(&self) -> bool;

    /// Gives the work to the card.
    ///
    /// # Errors
    /// When the card takes no more work.
    fn launch(&self, call: &DeviceCall<'_>) -> Result<()>;
}

/// Work that was recorded, to be given to the card at once and again.
pub trait Recording: Send {
    /// Gives it to the card.
    ///
    /// # Errors
    /// When the card takes no more work.
    fn replay(&self) -> Result<()>;
}

/// The way of feeds to the card: what the next step is fed is copied while the one before still runs.
pub trait Uploads: Send {
    /// Copies feeds to the card, those that are given, and says in `places` where each lies there. Work that is given to
    /// the card from now on finds them there.
    ///
    /// # Errors
    /// When the card is lost.
    fn send(&mut self, feeds: &[Option<&[u8]>], places: &mut [Option<Address>]) -> Result<()>;

    /// Says that the work has been given to the card which reads what was sent last. The feeds may be changed when this
    /// returns.
    ///
    /// # Errors
    /// When the card is lost.
    fn finish(&mut self) -> Result<()>;
}

/// Distinct keys, found by a card.
pub trait KeySet: Send {
    /// Adds keys, those among them that it does not have; they may be changed at once.
    ///
    /// # Errors
    /// When the card is lost, or has no memory for them.
    fn add(&mut self, keys: &[u64]) -> Result<()>;

    /// All keys, in order.
    ///
    /// # Errors
    /// As [`KeySet::add`].
    fn sorted(self: Box<Self>) -> Result<Vec<u64>>;
}

/// What a kernel found wrong with its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The op ([`DeviceCall::op`]).
    pub op: u32,
    /// What is wrong.
    pub problem: Problem,
    /// The number that is.
    pub value: i64,
    /// Where it stands in its tensor.
    pub position: i64,
    /// What it must be below.
    pub bound: i64,
}

/// A place where kernels complain, which the host reads without asking the card.
pub trait Complaints: Send {
    /// The place.
    fn address(&self) -> Address;

    /// What was complained of first, among what is known to be done; this waits for nothing unless there
    /// is something.
    ///
    /// # Errors
    /// When the card is lost.
    fn take(&self) -> Result<Option<Complaint>>;
}

/// What can be wrong with the inputs of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// An id lies outside of its table, or an index outside of its tensor.
    OutOfRange,
    /// A label lies outside of the classes that there are.
    Label,
    /// An element is NaN or infinite, where that is asked for.
    NotFinite,
    /// A whole number would be divided by zero.
    ZeroDivisor,
    /// A key is none of the pass; the bound is the slot that it stands in.
    UnknownKey,
    /// So many distinct rows of a batch lie with one rank, whose number is the position; the bound is the room for
    /// them.
    TooManyRows,
}

/// A card.
pub trait Device: Send + Sync + fmt::Debug {
    /// Which one.
    fn place(&self) -> Place;

    /// Its name and number, for people.
    fn describe(&self) -> String;

    /// How much memory it has.
    ///
    /// # Errors
    /// When the card is lost; so for all that follow.
    fn memory(&self) -> Result<DeviceMemory>;

    /// Takes memory; what it holds is unspecified.
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Region>>;

    /// Copies to the card; `from` may be changed at once.
    fn upload(&self, from: &[u8], to: Address) -> Result<()>;

    /// Page-locked memory with a copy of `from`; given back when it is dropped.
    fn page_locked(&self, from: &[u8]) -> Result<Arc<dyn PageLocked>> {
        Err(no_page_locked_memory(from.len()))
    }

    /// Copies the first `bytes` bytes of page-locked memory to the card some time later; the card holds `from` until
    /// then, and nobody may write it.
    fn upload_page_locked(
        &self,
        from: &Arc<dyn PageLocked>,
        bytes: usize,
        to: Address,
    ) -> Result<()> {
        let _ = (from, to);
        Err(no_page_locked_memory(bytes))
    }

    /// Page-locked memory of which nothing is known; given back when it is dropped.
    fn page_locked_room(&self, bytes: usize) -> Result<Arc<dyn PageLocked>> {
        Err(no_page_locked_memory(bytes))
    }

    /// Copies to the first `bytes` bytes of page-locked memory some time later; the card holds `to` until then, and
    /// nobody may look at it.
    fn download_page_locked(
        &self,
        from: Address,
        bytes: usize,
        to: &Arc<dyn PageLocked>,
    ) -> Result<Box<dyn Arrival>> {
        let _ = (from, to);
        Err(no_page_locked_memory(bytes))
    }

    /// Arrives when all work that was given so far is done.
    fn mark(&self) -> Result<Box<dyn Arrival>> {
        self.synchronize()?;
        Ok(Box::new(Arrived))
    }

    /// A set of keys in the memory of the card, with room for so many at first; `None` where there is no such thing. It
    /// waits for no step.
    fn key_set(&self, expected: usize) -> Result<Option<Box<dyn KeySet>>> {
        let _ = expected;
        Ok(None)
    }

    /// A way for the feeds of steps, which are at most so many bytes each.
    fn uploads(&self, bytes: &[usize]) -> Result<Box<dyn Uploads>>;

    /// Copies from the card, and waits for that.
    fn download(&self, from: Address, to: &mut [u8]) -> Result<()>;

    /// Copies within the card.
    fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<()>;

    /// Copies rows within the card: where the first lies, and the bytes from each to the next, of both sides.
    fn copy_rows(
        &self,
        from: (Address, usize),
        to: (Address, usize),
        rows: usize,
        row_bytes: usize,
    ) -> Result<()> {
        let place = |(first, pitch): (Address, usize), row: usize| first.plus(row * pitch);
        (0..rows).try_for_each(|row| self.copy(place(from, row), place(to, row), row_bytes))
    }

    /// Fills memory with zeros.
    fn clear(&self, at: Address, bytes: usize) -> Result<()>;

    /// Makes an op ready for variables of these shapes, and says in `outputs` how many rows it
    /// selects. `None` when the host must run it.
    fn kernel(
        &self,
        op: &OpView<'_>,
        inputs: &[DeviceMeta],
        outputs: &mut [DeviceMeta],
    ) -> Result<Option<Arc<dyn DeviceKernel>>>;

    /// Slots of an op type in which a matrix may have gaps between its rows.
    fn takes_gaps(&self, op: &str) -> &'static [&'static str];

    /// Inputs of an update op, by their slots, whose rows a card changes together, and so reaches fastest where they lie
    /// side by side: a row of the first, then that of the next. The op changes them in place. Nothing for most ops.
    fn lines(&self, _op: &str) -> &'static [&'static str] {
        &[]
    }

    /// Rows up to which products of 16-bit floats take the gradient of an input through the relu that made it, with less
    /// work than who reads it next would have; none where that is never so.
    fn rows_through_relu(&self) -> usize {
        0
    }

    /// Slots of an op type in which a matrix may lie in lines with others.
    fn takes_lines(&self, _op: &str) -> &'static [&'static str] {
        &[]
    }

    /// Slots of an op type in which the values of selected rows may be a view.
    fn takes_views(&self, op: &str) -> &'static [&'static str];

    /// Records the work that `work` gives to this card instead of doing it.
    fn record(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Recording>>;

    /// Does the work that `work` gives to this card, in as few launches as it can become. Kernels that it launches run
    /// when it returns: until then it must not copy, clear, upload or wait.
    fn joined(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        work()
    }

    /// Waits until all work is done.
    fn synchronize(&self) -> Result<()>;

    /// What other libraries of this process call the queue that all work is given to (of CUDA: the stream).
    fn queue(&self) -> u64 {
        0
    }

    /// Lets a queue of another library wait for the work that was given so far; without one, this waits itself.
    fn hand_over(&self, to: Option<u64>) -> Result<()> {
        let _ = to;
        self.synchronize()
    }

    /// Lets the work that is given from now on wait for what a queue of another library was given so far; without
    /// one, for everything that was given to the card.
    fn take_over(&self, from: Option<u64>) -> Result<()> {
        let _ = from;
        self.synchronize()
    }

    /// A number that no other card has, wherever it is; none where that is not known.
    fn identity(&self) -> Option<[u8; 16]> {
        None
    }

    /// What all cards must say alike that [`Device::join`] joins.
    ///
    /// # Errors
    /// What is missing.
    fn can_join(&self) -> Result<String> {
        Err(Error::Device { problem: "this device exchanges nothing with others".to_owned() })
    }

    /// What names a group of cards that is about to meet: one rank asks for it, and tells the others.
    fn name_group(&self) -> Result<Vec<u8>> {
        self.can_join().map(String::into_bytes)
    }

    /// Joins the group of that name as one of so many ranks. This waits for all of them, as long as `goes_on` says so.
    fn join(
        &self,
        name: &[u8],
        rank: usize,
        size: usize,
        goes_on: &dyn Fn() -> Result<()>,
    ) -> Result<Arc<dyn Exchange>> {
        let _ = (name, rank, size, goes_on);
        Err(Error::Device { problem: "this device exchanges nothing with others".to_owned() })
    }

    /// A place where kernels may complain.
    fn complaints(&self) -> Result<Box<dyn Complaints>>;

    /// Complains in the name of `op` when one of `count` floats is NaN or infinite.
    fn check_finite(
        &self,
        at: Address,
        dtype: DType,
        count: usize,
        op: u32,
        complaints: Address,
    ) -> Result<()>;
}

fn no_page_locked_memory(bytes: usize) -> Error {
    Error::Device { problem: format!("this device has no page-locked memory, for {bytes} bytes") }
}
