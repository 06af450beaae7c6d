//! A hash table in the memory of a card: rows of floats by any 64-bit key, as GPU parameter servers keep them.
//!
//! Keys are looked up in an index, which gives the number of a row; rows lie apart, each with its weights and
//! accumulators side by side, and never move while the table grows (`kernels/table.cuh` says how a key is found).
//! Calls give work to the table's stream and return; only those that say so wait for the card. Nothing that can be
//! seen depends on the order in which the card does its work, but for the numbers of rows.

mod call;
mod error;
mod init;
mod launch;
mod plan;
mod records;
mod remove;
mod storage;
mod update;

use std::sync::Arc;

pub use self::error::{Error, Result};
pub use self::init::Init;
pub use self::plan::{Plan, RowShape};
pub use self::update::{Rule, Step};

use self::call::{Call, Complaints};
use self::launch::Launch;
use self::plan::{MAX_ROWS, PIECE, groups_for, least_groups_for};
use self::storage::{Blocks, Index};
use crate::driver::{self, Memory, Span, Stream};
use crate::lower::divider;

/// The number of a row that is not there.
pub const NO_ROW: u32 = u32::MAX;

/// Bytes of a key, and of the number of a row.
const KEY: usize = size_of::<u64>();
const NUMBER: usize = size_of::<u32>();

/// A table on a card.
///
/// Memory that callers give must be of the table's card. It is used in the order of the table's stream.
pub struct Table {
    stream: Arc<Stream>,
    shape: RowShape,
    index: Index,
    blocks: Blocks,
    /// On the card: how many rows have been made, and a count for whoever needs one.
    counts: Memory,
    /// How many rows there are at most: the host does not wait to know it better.
    made_at_most: usize,
    complaints: Complaints,
}

impl Table {
    /// A table without rows, and with room for so many; it grows beyond.
    ///
    /// # Errors
    /// When rows cannot have this shape, or the card has no memory: [`Plan`] says what it takes.
    pub fn new(stream: &Arc<Stream>, shape: RowShape, capacity: usize) -> Result<Table> {
        shape.check()?;
        check_rows(capacity)?;
        let made = (|| {
            let blocks = Blocks::new(stream, shape, capacity)?;
            let index = Index::empty(stream, groups_for(capacity))?;
            let counts = stream.allocate(2 * NUMBER)?;
            stream.fill(counts.whole(), 0)?;
            Ok((blocks, index, counts))
        })();
        let full = |error| no_room(error, shape, 0, capacity);
        let (blocks, index, counts) = made.map_err(full)?;
        let complaints = Complaints::new(stream)?;
        let stream = Arc::clone(stream);
        Ok(Table { stream, shape, index, blocks, counts, made_at_most: 0, complaints })
    }

    /// The columns of its rows.
    pub fn shape(&self) -> RowShape {
        self.shape
    }

    /// The stream that does its work.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Bytes of the card's memory that it has.
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.blocks.bytes()
    }

    /// Rows that it has room for without growing.
    pub fn capacity(&self) -> usize {
        let fits = |rows: &usize| least_groups_for(*rows) <= self.index.groups();
        let mut rows = self.blocks.capacity();
        while !fits(&rows) {
            rows -= rows.div_ceil(64);
        }
        rows
    }

    /// How many rows there are. Waits for the card.
    ///
    /// # Errors
    /// When the card fails, or an earlier call was given the number of a row that is not there.
    pub fn len(&self) -> Result<usize> {
        let made = self.count(0)?;
        self.complaints.heed()?;
        Ok(made)
    }

    /// Whether there are no rows. Waits for the card.
    ///
    /// # Errors
    /// As [`Table::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes room for so many rows more. Waits for the card if it grows.
    ///
    /// # Errors
    /// When there is no memory for them; the table is then as it was.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        self.complaints.heed()?;
        if self.has_room(self.made_at_most + more) {
            return Ok(());
        }
        self.made_at_most = self.count(0)?;
        self.grow(self.made_at_most + more)
    }

    /// Copies the weights of each key's row to `out`; zeros for keys without a row.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn find(&mut self, keys: Span<'_>, out: Span<'_>) -> Result<()> {
        let count = self.keys(Call::Find, keys)?;
        let width = self.shape.width;
        self.check_size(Call::Find, "rows", out, count * width * 4)?;
        let launch = Launch::new(format!("table_find_{}", suffix(width)));
        let launch = launch.value(self.index.raw()).value(self.blocks.raw());
        let launch = launch.value(keys.address()).value(count as i64).value(pieces(width));
        Ok(launch.value(out.address()).each(&self.stream, count)?)
    }

    /// Writes the number of each key's row to `numbers` (32 bits each), [`NO_ROW`] for keys without a row. A number
    /// stays right until rows are removed, also when the table grows.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn rows(&mut self, keys: Span<'_>, numbers: Span<'_>) -> Result<()> {
        let count = self.keys(Call::Rows, keys)?;
        self.check_size(Call::Rows, "numbers", numbers, count * NUMBER)?;
        let launch = Launch::new("table_numbers").value(self.index.raw()).value(keys.address());
        let launch = launch.value(count as i64).value(numbers.address());
        Ok(launch.each(&self.stream, count)?)
    }

    /// Copies the weights of each key's row to `out`; makes the rows that are missing.
    ///
    /// # Errors
    /// When the sizes do not fit, or there is no memory for new rows; no row is then made.
    pub fn find_or_insert(&mut self, keys: Span<'_>, init: &Init, out: Span<'_>) -> Result<()> {
        let count = self.keys(Call::FindOrInsert, keys)?;
        let bytes = count * self.shape.width * 4;
        self.check_size(Call::FindOrInsert, "rows", out, bytes)?;
        let numbers = self.stream.allocate(count * NUMBER)?;
        self.make(keys, count, init, numbers.whole())?;
        self.settle(keys, numbers.whole(), count, Some(out))
    }

    /// Writes the number of each key's row to `numbers`; makes the rows that are missing.
    ///
    /// # Errors
    /// As [`Table::find_or_insert`].
    pub fn rows_or_insert(&mut self, keys: Span<'_>, init: &Init, numbers: Span<'_>) -> Result<()> {
        let count = self.keys(Call::RowsOrInsert, keys)?;
        self.check_size(Call::RowsOrInsert, "numbers", numbers, count * NUMBER)?;
        self.make(keys, count, init, numbers)?;
        self.settle(keys, numbers, count, None)
    }

    /// Copies the first columns of rows, as many as fit `out`, by their numbers; zeros for [`NO_ROW`]. A number that
    /// no row has is an error of a later call.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn gather(&mut self, numbers: Span<'_>, out: Span<'_>) -> Result<()> {
        let (count, columns) = self.columns(Call::Gather, numbers, out)?;
        self.gather_rows(Call::Gather, 0, numbers, count, columns, Some(out))
    }

    /// Overwrites the first columns of rows, as many as `values` has for each, by their numbers, none of which may
    /// occur twice; [`NO_ROW`] is passed over. A number that no row has is an error of a later call.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn scatter(&mut self, numbers: Span<'_>, values: Span<'_>) -> Result<()> {
        let (count, columns) = self.columns(Call::Scatter, numbers, values)?;
        let launch = Launch::new("table_scatter").value(self.blocks.raw());
        let launch = launch.value(self.counts.address()).value(numbers.address());
        let launch = launch.value(count as i64).value(pieces(columns)).value(values.address());
        let launch = launch.value(self.complaints.address()).value(Call::Scatter as u32);
        Ok(launch.over(&self.stream, count * columns / PIECE)?)
    }

    /// Numbers the rows of keys, and makes those that are missing. Where it meets a row that another thread makes, it
    /// leaves the number to [`Table::settle`].
    fn make(&mut self, keys: Span<'_>, count: usize, init: &Init, numbers: Span<'_>) -> Result<()> {
        let (first, is_normal) = init.raw(self.shape)?;
        self.make_room(keys, count)?;
        let kernel = if is_normal { "table_make_normal" } else { "table_make_plain" };
        let launch = Launch::new(kernel).value(self.index.raw()).value(self.blocks.raw());
        let launch = launch.value(self.counts.address()).value(first);
        let launch = launch.value(pieces(self.shape.pitch())).value(keys.address());
        let launch = launch.value(count as i64).value(numbers.address());
        Ok(launch.each(&self.stream, count)?)
    }

    fn settle(
        &mut self,
        keys: Span<'_>,
        numbers: Span<'_>,
        count: usize,
        out: Option<Span<'_>>,
    ) -> Result<()> {
        let width = self.shape.width;
        self.gather_rows(Call::FindOrInsert, keys.address(), numbers, count, width, out)
    }

    fn gather_rows(
        &self,
        call: Call,
        keys: u64,
        numbers: Span<'_>,
        count: usize,
        columns: usize,
        out: Option<Span<'_>>,
    ) -> Result<()> {
        let launch = Launch::new(format!("table_gather_{}", suffix(columns)));
        let launch = launch.value(self.index.raw()).value(self.blocks.raw());
        let launch = launch.value(self.counts.address()).value(keys).value(numbers.address());
        let launch = launch.value(count as i64).value(pieces(columns));
        let launch = launch.value(out.map_or(0, |out| out.address()));
        let launch = launch.value(self.complaints.address()).value(call as u32);
        Ok(launch.each(&self.stream, count)?)
    }

    /// Grows if not all of these keys might find a place. The host asks the card how many rows there are, and how many
    /// keys have none, only when what it knows is not enough.
    fn make_room(&mut self, keys: Span<'_>, count: usize) -> Result<()> {
        if !self.has_room(self.made_at_most + count) {
            self.made_at_most = self.count(0)?;
        }
        let mut more = count;
        if !self.has_room(self.made_at_most + more) {
            more = self.missing(keys, count)?;
        }
        if !self.has_room(self.made_at_most + more) {
            self.grow(self.made_at_most + more)?;
        }
        self.made_at_most += more;
        Ok(())
    }

    fn has_room(&self, rows: usize) -> bool {
        rows <= self.blocks.capacity() && least_groups_for(rows) <= self.index.groups()
    }

    /// How many keys have no row, repeats counted. Waits for the card.
    fn missing(&self, keys: Span<'_>, count: usize) -> Result<usize> {
        let slot = self.counts.span(NUMBER..2 * NUMBER);
        let slot = slot.ok_or_else(|| argument(Call::FindOrInsert, "no count".to_owned()))?;
        self.stream.fill(slot, 0)?;
        let launch = Launch::new("table_missing").value(self.index.raw()).value(keys.address());
        launch.value(count as i64).value(slot.address()).each(&self.stream, count)?;
        self.count(1)
    }

    /// One of the counts on the card. Waits for it.
    fn count(&self, which: usize) -> Result<usize> {
        let mut counts = [0u32; 2];
        self.stream.download(bytemuck::cast_slice_mut(&mut counts), self.counts.whole())?;
        Ok(counts[which] as usize)
    }

    /// Makes room for so many rows in all: half as many more as there were, or what is asked for if that is all that
    /// fits. What was there is as it was if there is not even that.
    fn grow(&mut self, wanted: usize) -> Result<()> {
        check_rows(wanted)?;
        let (rows, shape) = (self.made_at_most, self.shape);
        let generous =
            (self.blocks.capacity() + self.blocks.capacity() / 2).clamp(wanted, MAX_ROWS);
        if wanted > self.blocks.capacity() {
            first_that_fits([generous, wanted], |rows| self.blocks.grow(&self.stream, rows))
                .map_err(|error| no_room(error, shape, rows, wanted))?;
        }
        if least_groups_for(wanted) > self.index.groups() {
            let sizes = [groups_for(generous), groups_for(wanted), least_groups_for(wanted)];
            let rebuilt =
                first_that_fits(sizes, |groups| self.index.rebuilt(&self.stream, groups, None));
            self.index = rebuilt.map_err(|error| no_room(error, shape, rows, wanted))?;
        }
        Ok(())
    }

    /// How many keys these are, if there are not too many for one call.
    fn keys(&self, call: Call, keys: Span<'_>) -> Result<usize> {
        self.complaints.heed()?;
        self.items(call, "keys", keys, KEY)
    }

    fn items(&self, call: Call, what: &str, span: Span<'_>, size: usize) -> Result<usize> {
        let (bytes, most) = (span.len(), MAX_ROWS / (self.shape.pitch() / PIECE));
        if !bytes.is_multiple_of(size) {
            return Err(argument(
                call,
                format!("{bytes} bytes are no whole {what} of {size} bytes"),
            ));
        }
        if bytes / size > most {
            let problem = format!("{} {what}: one call takes at most {most}", bytes / size);
            return Err(argument(call, problem));
        }
        Ok(bytes / size)
    }

    /// How many numbers these are, and how many columns of each row `values` has.
    fn columns(&self, call: Call, numbers: Span<'_>, values: Span<'_>) -> Result<(usize, usize)> {
        self.complaints.heed()?;
        let count = self.items(call, "row numbers", numbers, NUMBER)?;
        if count == 0 {
            self.check_size(call, "rows", values, 0)?;
            return Ok((0, PIECE));
        }
        let columns = values.len() / 4 / count;
        let is_whole = columns > 0 && columns.is_multiple_of(PIECE);
        if !is_whole || columns * count * 4 != values.len() || columns > self.shape.columns() {
            let most = self.shape.columns();
            let problem = format!(
                "{} bytes for {count} rows: of each row there must be 4, 8, … or {most} columns of 4 bytes",
                values.len()
            );
            return Err(argument(call, problem));
        }
        Ok((count, columns))
    }

    fn check_size(&self, call: Call, what: &str, span: Span<'_>, bytes: usize) -> Result<()> {
        if span.len() == bytes {
            return Ok(());
        }
        Err(argument(call, format!("{} bytes for {what} that take {bytes}", span.len())))
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (shape, card) = (self.shape, self.stream.card());
        write!(f, "Table({shape:?}, up to {} rows, {card:?})", self.made_at_most)
    }
}

/// The first of several sizes for which there is memory.
fn first_that_fits<T, const N: usize>(
    sizes: [usize; N],
    mut make: impl FnMut(usize) -> Result<T>,
) -> Result<T> {
    let last = sizes[N - 1];
    for size in &sizes[..N - 1] {
        match make(*size) {
            Err(Error::Driver(driver::Error::OutOfMemory { .. })) => {}
            made => return made,
        }
    }
    make(last)
}

/// The error of a table that cannot have so many rows, if it is memory that lacks.
fn no_room(error: Error, shape: RowShape, rows: usize, wanted: usize) -> Error {
    match error {
        Error::Driver(driver::Error::OutOfMemory { free, .. }) => {
            Error::Full { rows, wanted, plan: Plan::new(shape, wanted), free }
        }
        other => other,
    }
}

fn check_rows(wanted: usize) -> Result<()> {
    match wanted <= MAX_ROWS {
        true => Ok(()),
        false => Err(Error::TooManyRows { most: MAX_ROWS, wanted }),
    }
}

fn argument(call: Call, problem: String) -> Error {
    Error::Argument { call: call.name(), problem }
}

/// What kernels divide by the pieces of so many columns with.
fn pieces(columns: usize) -> [u32; 3] {
    divider(columns / PIECE)
}

/// What names of kernels end in that copy so many columns.
fn suffix(columns: usize) -> &'static str {
    match columns {
        8 => "8",
        16 => "16",
        32 => "32",
        _ => "any",
    }
}
