//! The rows of a parameter whose gradients are selected rows, in ranges with a lock each.
//!
//! What an optimizer does to a row depends on that row, on its gradient and on a few numbers (the
//! learning rate, powers of decay rates). So every range runs the block's ops on windows into the
//! parameter and its accumulators, with the same bits as one run over all rows: a barrier's update
//! is shared out to threads, and pushes and pulls that come at once wait for one another only
//! where they meet. The numbers that an update raises are kept with the block, and raised once.
//!
//! Rows are reached by whoever shares the block's lock and holds that of the range; who has the
//! block's lock alone may look at all of them.

#![expect(unsafe_code, reason = "ranges are windows into tensors that threads share")]

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use bireme_engine::Value;
use bireme_engine::eager::Routine;
use bireme_engine::prefetch::prefetch;
use bireme_engine::tensor::{Dims, SelectedRows, Tensor};
use bireme_ir::{Attr, DType, Op, Var, VarKind};

use super::merge::Merge;
use crate::message::Array;
use crate::{Error, Result};

/// Rows that a range has at least.
const LEAST: usize = 1024;
/// Ranges at most: as many as threads may update at once.
const MOST: usize = 16;
/// A row that lies anywhere takes as long as so many that follow one another.
const ROW: usize = 8;
/// How many rows ahead of its use a row is asked for.
const AHEAD: usize = 16;

/// The ranges of one parameter.
pub(super) struct Ranges {
    ops: Vec<Op>,
    merge: Option<Merge>,
    seed: u64,
    /// Rows of the parameter, and elements in one.
    height: usize,
    width: usize,
    /// A row's range is its number without so many of the lower bits.
    shift: u32,
    places: Places,
    /// Whether rows without a gradient stay as they are.
    leaves_others: bool,
    each: Vec<RwLock<Range>>,
    /// A range without rows: what it runs raises the numbers.
    raising: Mutex<Range>,
    arrived: Mutex<Arrived>,
    /// Where the next push begins, so that pushes do not queue up behind one another.
    turn: AtomicUsize,
}

/// Where the variables of the optimizer's op are among the block's values.
struct Places {
    param: usize,
    /// The parameter, and accumulators of its shape.
    tall: Vec<usize>,
    /// Numbers that the op raises.
    raised: Vec<usize>,
    /// Numbers that it only reads.
    read: Vec<usize>,
    /// What trainers send.
    received: Vec<usize>,
}

/// Some consecutive rows.
struct Range {
    first: usize,
    rows: usize,
    routine: Routine,
    /// Ops for some of the trainers, by the names that came.
    variants: HashMap<Vec<String>, Routine>,
    /// Windows, copies of numbers, gradients of these rows, and what the ops compute between.
    values: Vec<Value>,
}

/// What has come for the next update.
#[derive(Default)]
struct Arrived {
    /// Names of received variables.
    names: Vec<String>,
    /// Rows of all of them.
    rows: usize,
}

/// One update of all ranges.
pub(super) struct Round {
    /// The received variables that have come, in the order of the ops.
    came: Vec<String>,
    /// The raised numbers as this update uses them.
    numbers: Vec<Tensor>,
    /// Elements that it touches.
    elements: usize,
    step: u64,
}

impl Round {
    /// Elements that it touches, a measure of its work.
    pub(super) fn elements(&self) -> usize {
        self.elements
    }
}

/// What a block is, as far as its ranges depend on it.
pub(super) struct Source<'a> {
    pub(super) ops: &'a [Op],
    pub(super) merge: Option<Merge>,
    pub(super) seed: u64,
    pub(super) routine: &'a Routine,
    pub(super) received: &'a BTreeMap<String, &'a Var>,
    pub(super) values: &'a [Value],
    /// Names of the values that outlive a step.
    pub(super) kept: &'a [(String, usize)],
}

/// Optimizers that treat each row by itself; the others need norms of whole parameters.
const BY_ROW: [&str; 10] = [
    "sgd",
    "momentum",
    "adam",
    "adamw",
    "adamax",
    "adagrad",
    "decayed_adagrad",
    "adadelta",
    "rmsprop",
    "ftrl",
];

impl Ranges {
    /// The ranges of a block; none for one that must be updated as a whole, or is small.
    pub(super) fn of(source: &Source<'_>) -> Result<Option<Ranges>> {
        let Some((optimizer, places)) = Places::find(source) else { return Ok(None) };
        let param = source.values[places.param].tensor()?;
        let (height, dtype, dims) = (param.rows(), param.dtype(), param.dims());
        if height < 2 * LEAST {
            return Ok(None);
        }
        let rows = height.div_ceil(MOST).max(LEAST).next_power_of_two();
        let range = |first: usize, rows: usize| -> Result<Range> {
            let routine = Routine::new(source.ops, source.seed)?;
            let mut values = vec![Value::Tensor(Tensor::empty(dtype)); routine.len()];
            for place in &places.received {
                let value = Tensor::zeros(dtype, dims.with_rows(0));
                let none = SelectedRows { rows: Vec::new(), height: rows, value };
                values[*place] = Value::Rows(none);
            }
            Ok(Range { first, rows, routine, variants: HashMap::new(), values })
        };
        let each = (0..height).step_by(rows).map(|first| {
            let range = range(first, rows.min(height - first))?;
            Ok(RwLock::new(range))
        });
        Ok(Some(Ranges {
            ops: source.ops.to_vec(),
            merge: source.merge,
            seed: source.seed,
            height,
            width: dims.tail(1),
            shift: rows.trailing_zeros(),
            leaves_others: leaves_others(optimizer),
            each: each.collect::<Result<Vec<_>>>()?,
            raising: Mutex::new(range(0, 0)?),
            places,
            arrived: Mutex::default(),
            turn: AtomicUsize::new(0),
        }))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.each.len()
    }

    /// Elements in a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Whether the parameter is the value at `place`.
    pub(super) fn is_param(&self, place: usize) -> bool {
        self.places.param == place
    }

    /// Keeps what a trainer sent for the next update; rows of one name add up.
    pub(super) fn store(&self, place: usize, name: &str, array: &Array<'_>) -> Result<()> {
        let rows = Sent::of(name, array, self.width)?;
        self.sorted(rows.rows.iter().map(|row| *row as u64), |sorted| {
            for at in 0..self.each.len() {
                let mine = sorted.of(at);
                if !mine.is_empty() {
                    self.write(at).take(place, &rows, mine)?;
                }
            }
            Ok(())
        })?;
        let mut arrived = self.arrived();
        arrived.rows += rows.rows.len();
        if !arrived.names.iter().any(|known| known == name) {
            arrived.names.push(name.to_owned());
        }
        Ok(())
    }

    /// Whether something has come since the last update.
    pub(super) fn has_arrived(&self) -> bool {
        !self.arrived().names.is_empty()
    }

    /// Begins the update by what has come, whose parts are then run by [`Ranges::run`].
    pub(super) fn begin(&self, values: &[Value], step: u64) -> Result<Round> {
        let arrived = std::mem::take(&mut *self.arrived());
        self.round(arrived, values, step)
    }

    /// Updates one range.
    pub(super) fn run(&self, at: usize, values: &[Value], round: &Round) -> Result<()> {
        self.write(at).run(self, values, round)
    }

    /// Applies a push at once, range by range. Another thread may do so at the same time.
    pub(super) fn apply(
        &self,
        place: usize,
        name: &str,
        array: &Array<'_>,
        values: &[Value],
        step: u64,
    ) -> Result<()> {
        let rows = Sent::of(name, array, self.width)?;
        let count = self.each.len();
        self.sorted(rows.rows.iter().map(|row| *row as u64), |sorted| {
            let arrived = Arrived { names: vec![name.to_owned()], rows: rows.rows.len() };
            let round = self.round(arrived, values, step)?;
            let first = self.turn.fetch_add(count / 3 + 1, Ordering::Relaxed);
            for at in (first..first + count).map(|at| at % count) {
                let mine = sorted.of(at);
                if mine.is_empty() && self.leaves_others {
                    continue;
                }
                let mut range = self.write(at);
                range.take(place, &rows, mine)?;
                range.run(self, values, &round)?;
            }
            Ok(())
        })
    }

    /// Copies rows of the parameter, one after the other, to `out`.
    pub(super) fn copy(&self, values: &[Value], wanted: &[u64], out: &mut Vec<f32>) -> Result<()> {
        let (param, width) = (values[self.places.param].tensor()?, self.width);
        // What is left of an earlier answer is overwritten, so it need not be cleared.
        out.resize(wanted.len() * width, 0.0);
        let count = self.each.len();
        let first = self.turn.fetch_add(count / 3 + 1, Ordering::Relaxed);
        self.sorted(wanted.iter().copied(), |sorted| {
            for at in (first..first + count).map(|at| at % count) {
                let mine = sorted.of(at);
                if mine.is_empty() {
                    continue;
                }
                let range = self.each[at].read().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the caller shares the block's lock, and nobody writes these rows while
                // this range's lock is held.
                let window = unsafe { param.rows_window(range.first, range.rows) };
                let from = window.as_slice::<f32>()?;
                let start =
                    |position: u32| (wanted[position as usize] as usize - range.first) * width;
                for (number, position) in mine.iter().enumerate() {
                    if let Some(later) = mine.get(number + AHEAD) {
                        prefetch(from, start(*later), width);
                    }
                    let to = &mut out[*position as usize * width..][..width];
                    to.copy_from_slice(&from[start(*position)..][..width]);
                }
            }
            Ok(())
        })
    }

    /// What an update by these received variables uses; raises the numbers for the next.
    fn round(&self, arrived: Arrived, values: &[Value], step: u64) -> Result<Round> {
        let Arrived { names: arrived, rows } = arrived;
        let elements = self.width * if self.leaves_others { rows * ROW } else { self.height };
        let came = match &self.merge {
            None => arrived,
            // In the order of the block, that of trainers, whatever the order of arrival was.
            Some(merge) => {
                let inputs = merge.inputs(&self.ops).iter();
                inputs.filter(|name| arrived.contains(name)).cloned().collect()
            }
        };
        let raised = &self.places.raised;
        let mut raising = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = raised.iter().map(|place| Ok(values[*place].tensor()?.clone()));
        let round = Round { came, numbers: numbers.collect::<Result<_>>()?, elements, step };
        if !raised.is_empty() {
            raising.run(self, values, &round)?;
            for place in raised {
                // SAFETY: numbers are touched under this lock alone by those who share the block's.
                let mut number = unsafe { values[*place].tensor()?.rows_window(0, 1) };
                number.as_mut_bytes().copy_from_slice(raising.values[*place].tensor()?.as_bytes());
            }
        }
        Ok(round)
    }

    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, at: usize) -> RwLockWriteGuard<'_, Range> {
        // A panic inside an op leaves at worst a half-made update of some rows.
        self.each[at].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the positions of rows, sorted by range, each range's in their order.
    fn sorted(
        &self,
        rows: impl Iterator<Item = u64> + Clone,
        show: impl FnOnce(&Sorted) -> Result<()>,
    ) -> Result<()> {
        let mut sorted = SORTED.take();
        let done = sorted.sort(rows, self).and_then(|()| show(&sorted));
        SORTED.set(sorted);
        done
    }
}

thread_local! {
    /// Memory that a thread keeps from push to push.
    static SORTED: Cell<Sorted> =
        const { Cell::new(Sorted { positions: Vec::new(), starts: Vec::new() }) };
}

/// Positions of rows, by range.
#[derive(Default)]
struct Sorted {
    positions: Vec<u32>,
    /// Where each range starts, and the end.
    starts: Vec<u32>,
}

impl Sorted {
    /// A counting sort.
    fn sort(&mut self, rows: impl Iterator<Item = u64> + Clone, ranges: &Ranges) -> Result<()> {
        let Ranges { shift, height, each, .. } = ranges;
        self.starts.clear();
        self.starts.resize(each.len() + 1, 0);
        let mut count = 0;
        for row in rows.clone() {
            // As unsigned numbers, negative rows are too large as well.
            if row >= *height as u64 {
                return Err(outside(row, *height));
            }
            self.starts[(row >> shift) as usize + 1] += 1;
            count += 1;
        }
        for range in 0..each.len() {
            self.starts[range + 1] += self.starts[range];
        }
        self.positions.clear();
        self.positions.resize(count, 0);
        // Each start is moved to its end while the range is filled, and moved back then.
        for (position, row) in (0..).zip(rows) {
            let next = &mut self.starts[(row >> shift) as usize];
            self.positions[*next as usize] = position;
            *next += 1;
        }
        self.starts.rotate_right(1);
        self.starts[0] = 0;
        Ok(())
    }

    fn of(&self, range: usize) -> &[u32] {
        &self.positions[self.starts[range] as usize..self.starts[range + 1] as usize]
    }
}

fn outside(row: u64, height: usize) -> Error {
    let row = row as i64;
    Error::Request(format!(
        "row {row} lies outside a table of {height} rows: are there ids larger than the table's \
         size?"
    ))
}

/// Selected rows as they were sent.
struct Sent<'a> {
    dtype: DType,
    dims: Dims,
    rows: &'a [i64],
    bytes: &'a [u8],
    /// Bytes of a row.
    row: usize,
}

impl<'a> Sent<'a> {
    fn of(name: &str, array: &Array<'a>, width: usize) -> Result<Sent<'a>> {
        match *array {
            Array::Rows { dtype, dims, rows, bytes, .. } if dims.tail(1) == width => {
                Ok(Sent { dtype, dims, rows, bytes, row: width * dtype.size() })
            }
            _ => Err(Error::Request(format!(
                "`{name}` is selected rows of {width} elements in the server's program, but \
                 something else came: do trainer and server run programs of the same model?"
            ))),
        }
    }
}

impl Range {
    /// Adds the gradients at these positions.
    fn take(&mut self, place: usize, sent: &Sent<'_>, positions: &[u32]) -> Result<()> {
        let Value::Rows(mine) = &mut self.values[place] else {
            return Err(Error::Request("a gradient of rows has no place".to_owned()));
        };
        let before = mine.rows.len();
        if before == 0 {
            mine.value.resize(sent.dtype, sent.dims.with_rows(0));
        }
        mine.value.grow_rows(before + positions.len());
        let first = self.first as i64;
        mine.rows.extend(positions.iter().map(|at| sent.rows[*at as usize] - first));
        let to = &mut mine.value.as_mut_bytes()[before * sent.row..];
        for (to, at) in to.chunks_exact_mut(sent.row.max(1)).zip(positions) {
            to.copy_from_slice(&sent.bytes[*at as usize * sent.row..][..sent.row]);
        }
        Ok(())
    }

    /// Runs the ops on these rows, which the caller has locked; forgets the gradients.
    fn run(&mut self, ranges: &Ranges, all: &[Value], round: &Round) -> Result<()> {
        let Places { tall, raised, read, received, .. } = &ranges.places;
        for place in tall {
            // SAFETY: the caller shares the block's lock, so that the tensor stays where it is, and
            // has locked this range: nobody else reaches these rows while the window is used.
            let window = unsafe { all[*place].tensor()?.rows_window(self.first, self.rows) };
            self.values[*place] = Value::Tensor(window);
        }
        for (place, number) in raised.iter().zip(&round.numbers) {
            self.values[*place].tensor_mut()?.copy_from(number);
        }
        for place in read {
            self.values[*place].tensor_mut()?.copy_from(all[*place].tensor()?);
        }
        let done = self.run_ops(ranges, round);
        for place in tall {
            self.values[*place] = Value::Tensor(Tensor::empty(DType::F32));
        }
        for place in received {
            if let Value::Rows(rows) = &mut self.values[*place] {
                rows.rows.clear();
                rows.value.grow_rows(0);
            }
        }
        done
    }

    fn run_ops(&mut self, ranges: &Ranges, round: &Round) -> Result<()> {
        let all = match &ranges.merge {
            Some(merge) => round.came.len() == merge.inputs(&ranges.ops).len(),
            None => true,
        };
        if all {
            return Ok(self.routine.run_on(&mut self.values, round.step)?);
        }
        let merge = ranges.merge.as_ref().filter(|_| !round.came.is_empty());
        let merge = merge.ok_or_else(|| {
            Error::Request("nothing came that the update of a table adds up".to_owned())
        })?;
        if !self.variants.contains_key(&round.came) {
            let ops = merge.only(&ranges.ops, &round.came);
            let variant = self.routine.variant(&ops, ranges.seed)?;
            self.variants.insert(round.came.clone(), variant);
        }
        Ok(self.variants[&round.came].run_on(&mut self.values, round.step)?)
    }
}

impl Places {
    /// The optimizer's op and where its variables are; none where rows cannot be updated by
    /// themselves.
    fn find<'a>(source: &Source<'a>) -> Option<(&'a Op, Places)> {
        let Source { ops, merge, routine, received, values, kept, .. } = source;
        let (optimizer, head) = ops.split_last()?;
        let is_by_row = BY_ROW.contains(&optimizer.kind.as_str());
        let is_rows = |var: &&Var| var.kind == VarKind::SelectedRows;
        let heads = merge.as_ref().map_or(0, Merge::head);
        if !is_by_row || head.len() != heads || !received.values().all(is_rows) {
            return None;
        }
        let grad = optimizer.inputs_of("Grad").first()?;
        let is_grad = match head.last() {
            Some(last) => last.outputs_of("Out").first() == Some(grad),
            None => received.len() == 1 && received.contains_key(grad),
        };
        let param = routine.find(optimizer.inputs_of("Param").first()?)?;
        let tensor = |place: usize| values[place].tensor().ok();
        let dims = tensor(param)?.dims();
        if !is_grad || dims.len() != 2 || !matches!(tensor(param)?.dtype(), DType::F32 | DType::F64)
        {
            return None;
        }
        let (mut tall, mut raised, mut read) = (Vec::new(), Vec::new(), Vec::new());
        for name in optimizer.output_vars() {
            let place = routine.find(name)?;
            let is_kept = kept.iter().any(|(_, known)| *known == place);
            let value = tensor(place).filter(|_| is_kept)?;
            match value.dims() {
                own if own == dims => tall.push(place),
                own if own.len() == 1 && value.numel() == 1 => raised.push(place),
                _ => return None,
            }
        }
        for name in optimizer.input_vars().filter(|name| *name != grad) {
            let place = routine.find(name)?;
            if !tall.contains(&place) && !raised.contains(&place) {
                // Of a shared value nothing is known yet; a rate is a number.
                let is_kept = kept.iter().any(|(_, known)| *known == place);
                let is_number = !is_kept || tensor(place)?.numel() == 1;
                is_number.then(|| read.push(place))?;
            }
        }
        let received = received.keys().filter_map(|name| routine.find(name)).collect();
        let is_updated = tall.contains(&param);
        is_updated.then_some((optimizer, Places { param, tall, raised, read, received }))
    }
}

/// Whether an optimizer leaves rows alone that have no gradient; the others are updated as if
/// theirs were zero.
fn leaves_others(op: &Op) -> bool {
    match op.kind.as_str() {
        "sgd" | "adagrad" | "ftrl" => true,
        "adam" | "adamw" => matches!(op.attrs.get("lazy_mode"), Some(Attr::Bool(true))),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
