//! Makes the layout of a step on a card: where values lie, and what is done in which order.

#![expect(unsafe_code, reason = "binds variables to memory that the layout owns")]

mod lines;
mod memory;

use std::collections::{HashMap, HashSet};
use std::ptr::NonNull;
use std::sync::Arc;

use bireme_ir::{DType, VarKind};

use super::passage::{Locked, News, Traffic, Up};
use super::staged::{Flights, Staged};
use super::{Bound, CardCall, CardLayout, FeedTarget, Fetch, Piece, Segment};
use crate::collective::alone;
use crate::device::{
    Address, Device, DeviceMeta, DeviceRows, DeviceTensor, DeviceValue, Operand, Region, RowValues,
    Uploads, View, unwritten,
};
use crate::op::{OpView, Share, meta_of, shape_like};
use crate::plan::beside::Copies;
use crate::plan::frame::{Call, Frame};
use crate::plan::layout::{FeedShape, Source, no_value, shapes_of};
use crate::plan::memory::{Need, Packing, lay_out, pack};
use crate::plan::place::{Holders, Places, Task, schedule};
use crate::plan::select::{Selection, VarId};
use crate::remote::Held;
use crate::scope::{Cell, Seat};
use crate::tensor::{Dims, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// Where blocks of a card's memory begin.
const ALIGN: usize = 256;

/// The part of a card's free memory up to which a step's values share none.
const SHARE_OF_FREE: usize = 16;

/// Memory of a layout that is not taken yet.
pub(super) struct Sketch {
    /// Values that live for a part of the step; two needs each, of elements and of row numbers.
    vars: Vec<VarId>,
    /// Ops with scratch memory; their needs follow.
    scratch: Vec<usize>,
    needs: Vec<Need>,
    packing: Packing,
}

/// Memory of a layout, taken.
struct Placed {
    arena: Arc<dyn Region>,
    /// Where the scratch memory of each op begins.
    scratches: HashMap<usize, Address>,
    /// Whether every value has its memory for itself.
    is_apart: bool,
}

/// A persistable variable, and its new memory on the card.
type NewOnCard = (Arc<Cell>, DeviceValue);

/// What pieces are made from.
struct Parts<'a> {
    frame: &'a Frame,
    values: &'a HashMap<VarId, DeviceValue>,
    scratches: &'a HashMap<usize, Address>,
    locked: Locked,
    received: HashMap<VarId, (Arc<Held>, usize)>,
    is_apart: bool,
}

/// A layout in the making.
pub(super) struct Builder<'a> {
    source: &'a Source<'a>,
    selection: &'a Selection,
    places: &'a Places,
    device: &'a Arc<dyn Device>,
    check_finite: bool,
    tasks: Vec<Task>,
    /// Who has what when the step ends.
    holders: HashMap<VarId, Holders>,
    /// Persistable variables on the card.
    kept: Vec<VarId>,
    /// Those that it has no memory for.
    at_home: &'a HashSet<VarId>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        source: &'a Source<'a>,
        places: &'a Places,
        device: &'a Arc<dyn Device>,
        at_home: &'a HashSet<VarId>,
        check_finite: bool,
    ) -> Builder<'a> {
        let selection = source.selection;
        let on_card = selection.ops.iter().enumerate().filter(|(at, _)| places.is_on_card(*at));
        let mut kept: Vec<VarId> = on_card
            .flat_map(|(_, op)| op.inputs.iter().chain(&op.outputs))
            .filter(|var| source.cells.contains_key(var))
            .copied()
            .collect();
        kept.sort_unstable();
        kept.dedup();
        let mut holders: HashMap<VarId, Holders> = selection
            .feeds
            .iter()
            .chain(source.cells.keys())
            .map(|v| (*v, Holders::HOST))
            .collect();
        holders.extend(kept.iter().map(|var| (*var, Holders::CARD)));
        let tasks = schedule(&selection.ops, |at| places.task(at), &mut holders, &kept);
        Builder { source, selection, places, device, check_finite, tasks, holders, kept, at_home }
    }

    pub(super) fn build(self, shapes: Vec<FeedShape>, sketch: Sketch) -> Result<CardLayout> {
        let frame = Frame::new(self.selection.vars.len());
        let mut values: HashMap<VarId, DeviceValue> = HashMap::new();
        let received = self.received();
        let (bound, new) = self.bind(&received, &mut values)?;
        let Placed { arena, scratches, is_apart } = self.place(&sketch, &mut values)?;
        self.shape_host(&frame);
        let mut parts = Parts {
            frame: &frame,
            values: &values,
            scratches: &scratches,
            locked: self.lock(&frame),
            received,
            is_apart,
        };
        let step = DeviceTensor::upload(self.device.as_ref(), &Tensor::scalar(0i64))?;
        let kernels = || self.places.kernels.iter().flatten();
        let counts_steps = kernels().any(|kernel| kernel.counts_steps());
        let (mut pieces, mut flights) = (Vec::new(), Flights::default());
        for task in &self.tasks {
            let piece = match task {
                Task::Staged(at) => {
                    Piece::Staged(Box::new(self.staged(*at, &values, &mut flights)?))
                }
                task => match self.piece(*task, &mut parts, &mut pieces)? {
                    Some(piece) => piece,
                    None => continue,
                },
            };
            pieces.push(piece);
        }
        let fetches = self.selection.fetches.iter().map(|var| self.fetch(*var, &frame, &values));
        let fetches = fetches.collect::<Result<_>>()?;
        let complaints = self.device.complaints()?;
        let feeds = self.selection.feeds.iter().map(|var| self.feed_target(*var, &frame));
        let (feeds, uploads) = (feeds.collect(), self.uploads()?);
        // Nothing can fail any more: until here every variable is as it was.
        for cell in self.leaving() {
            cell.stay_apart();
        }
        for (cell, value) in new {
            // SAFETY: who makes a layout is alone on the scope.
            unsafe { cell.set_on_card(value) };
        }
        let at_home = self.source.cells.iter().filter(|(var, _)| !self.kept.contains(var));
        Ok(CardLayout {
            shapes,
            device: Arc::clone(self.device),
            pieces,
            feeds,
            uploads,
            fetches,
            traffic: Traffic::default(),
            bound,
            at_home: at_home.map(|(_, cell)| Arc::clone(cell)).collect(),
            step,
            counts_steps,
            complaints,
            _frame: frame,
            _arena: arena,
        })
    }

    /// Binds persistable variables to their memory on the card; says which are new, and so not in their cells yet.
    fn bind(
        &self,
        received: &HashMap<VarId, (Arc<Held>, usize)>,
        values: &mut HashMap<VarId, DeviceValue>,
    ) -> Result<(Vec<Bound>, Vec<NewOnCard>)> {
        let written: HashSet<VarId> =
            self.selection.ops.iter().flat_map(|op| op.outputs.iter().copied()).collect();
        let (mut bound, mut new) = (Vec::new(), Vec::new());
        let mut lined = self.new_lines()?;
        for var in &self.kept {
            let cell = &self.source.cells[var];
            let (value, is_new) = match lined.remove(var) {
                Some(value) => (value, true),
                None => self.persistable(*var, cell)?,
            };
            if is_new {
                new.push((Arc::clone(cell), value.alias()));
            }
            let seat = Seat::of(&value);
            values.insert(*var, value);
            let is_written = written.contains(var) && !received.contains_key(var);
            bound.push(Bound { cell: Arc::clone(cell), seat, is_written });
        }
        Ok((bound, new))
    }

    /// A persistable variable on the card: as it is, or new when the step is the first to write it.
    /// Says which of the two; a new one is not in its cell yet.
    fn persistable(&self, var: VarId, cell: &Arc<Cell>) -> Result<(DeviceValue, bool)> {
        let meta = self.meta(var)?;
        // SAFETY: who makes a layout is alone on the scope.
        unsafe {
            if cell.meta().is_some_and(|there| there == meta.meta) {
                return match cell.on_card(self.device)? {
                    DeviceValue::Tensor(there) if meta.in_line && there.pitch() == meta.pitch => {
                        Ok((DeviceValue::Tensor(there), false))
                    }
                    // Kernels count on zeros behind it, which a copy has; it lies by itself, too.
                    DeviceValue::Tensor(there) if !there.zeros_follow() => {
                        Ok((DeviceValue::Tensor(there.try_clone()?), true))
                    }
                    there => Ok((there, false)),
                };
            }
        }
        Ok((unwritten(self.device.as_ref(), meta)?, true))
    }

    fn meta(&self, var: VarId) -> Result<&DeviceMeta> {
        self.places.metas[var].as_ref().ok_or_else(|| no_value(self.source, var))
    }

    /// Where what lives for a part of the step only will lie: what is never alive together shares memory.
    pub(super) fn sketch(&self) -> Result<Sketch> {
        let mut spans: HashMap<VarId, (usize, usize)> = HashMap::new();
        for (position, task) in self.tasks.iter().enumerate() {
            let mut touch = |var: VarId| {
                spans.entry(var).or_insert((position, position)).1 = position;
            };
            match task {
                Task::Card(at) | Task::Staged(at) => {
                    let op = &self.selection.ops[*at];
                    op.inputs.iter().chain(&op.outputs).for_each(|var| touch(*var));
                }
                Task::Up(var) | Task::Down(var) => touch(*var),
                Task::Host(_) => {}
            }
        }
        for var in &self.selection.fetches {
            spans.entry(*var).and_modify(|span| span.1 = self.tasks.len());
        }
        for (var, (viewed, _)) in self.views() {
            let last = spans[&var].1;
            spans.entry(viewed).and_modify(|span| span.1 = span.1.max(last));
        }
        let is_placed =
            |var: &&VarId| self.kept.binary_search(var).is_err() && !self.is_feed(**var);
        let mut vars: Vec<VarId> = spans.keys().filter(is_placed).copied().collect();
        vars.sort_unstable();
        let mut needs = Vec::new();
        for var in &vars {
            let (first, last) = spans[var];
            let [values, rows] = sizes(self.meta(*var)?);
            needs.push(Need { bytes: values.next_multiple_of(ALIGN), first, last });
            needs.push(Need { bytes: rows.next_multiple_of(ALIGN), first, last });
        }
        let mut scratch = Vec::new();
        for (position, task) in self.tasks.iter().enumerate() {
            if let Task::Card(at) = task
                && let Some(kernel) = &self.places.kernels[*at]
            {
                let bytes = kernel.scratch().next_multiple_of(ALIGN);
                needs.push(Need { bytes, first: position, last: position });
                scratch.push(*at);
            }
        }
        let packing = pack(&needs);
        Ok(Sketch { vars, scratch, needs, packing })
    }

    /// Takes the memory of a sketch, and more where there is plenty: values that share memory keep ops apart that could
    /// run side by side.
    fn place(&self, sketch: &Sketch, values: &mut HashMap<VarId, DeviceValue>) -> Result<Placed> {
        let Sketch { vars, scratch, needs, packing } = sketch;
        let apart = lay_out(needs);
        let is_apart = apart.bytes <= self.device.memory()?.free / SHARE_OF_FREE;
        let packing = if is_apart { &apart } else { packing };
        let arena = self.device.allocate(packing.bytes)?;
        for (i, var) in vars.iter().enumerate() {
            let at = [packing.offsets[2 * i], packing.offsets[2 * i + 1]];
            values.insert(*var, window(self.meta(*var)?, &arena, at));
        }
        for (var, (viewed, view)) in self.views() {
            let (Some(DeviceValue::Tensor(tensor)), offset) = (values.get(&viewed), view.offset)
            else {
                return Err(Error::kernel("a view lies in a dense tensor of the card"));
            };
            let within = tensor.behind(offset);
            if let Some(DeviceValue::Rows(rows)) = values.get_mut(&var) {
                rows.value = within;
            }
        }
        let offsets = packing.offsets[2 * vars.len()..].iter();
        let offsets = offsets.map(|at| arena.address().plus(*at));
        let scratches = scratch.iter().copied().zip(offsets).collect();
        Ok(Placed { arena, scratches, is_apart })
    }

    /// Selected rows that lie in another variable, and that.
    fn views(&self) -> Vec<(VarId, (VarId, View))> {
        let on_card = self.selection.ops.iter().enumerate();
        let outputs = on_card.filter(|(at, _)| self.places.is_on_card(*at)).flat_map(|(_, op)| {
            op.outputs.iter().filter_map(|var| match self.places.metas[*var].as_ref()?.values {
                RowValues::View(view) => Some((*var, (op.inputs[view.input], view))),
                _ => None,
            })
        });
        outputs.collect()
    }

    /// Gives values of the host their shapes: those that host ops write, and those that are copied down.
    fn shape_host(&self, frame: &Frame) {
        let shape = |var: VarId| {
            let Some(meta) = &self.places.metas[var] else { return };
            let home = match self.home(var) {
                // SAFETY: who makes a layout is alone on the scope.
                Some(cell) => unsafe {
                    cell.get_or_init(|| Value::Tensor(Tensor::empty(meta.meta.dtype)))
                },
                None => frame.at(var),
            };
            // SAFETY: as above; the frame is the layout's own.
            let value = unsafe { &mut *home.as_ptr() };
            if meta.meta.is_static() && meta_of(value) != meta.meta {
                shape_like(value, &meta.meta);
            }
        };
        for task in &self.tasks {
            match task {
                Task::Host(at) => self.selection.ops[*at].outputs.iter().for_each(|v| shape(*v)),
                Task::Down(var) => shape(*var),
                Task::Card(_) | Task::Staged(_) | Task::Up(_) => {}
            }
        }
    }

    /// Puts what goes between the host's side of the step and the card into page-locked memory.
    fn lock(&self, frame: &Frame) -> Locked {
        let mut locked = Locked::default();
        for task in &self.tasks {
            let (Task::Up(var) | Task::Down(var)) = *task else { continue };
            let Some(meta) = self.places.metas[var].as_ref() else { continue };
            if !self.is_feed(var) && self.home(var).is_none() {
                // SAFETY: the frame is the layout's own, and no op runs.
                let value = unsafe { frame.at(var).as_mut() };
                locked.add(self.device.as_ref(), *task, meta, value);
            }
        }
        locked
    }

    /// Variables that a `recv` op on the host brings and nobody else writes, with what says which of their values are
    /// here and the position of each in that.
    fn received(&self) -> HashMap<VarId, (Arc<Held>, usize)> {
        let mut written: HashMap<VarId, usize> = HashMap::new();
        for var in self.selection.ops.iter().flat_map(|op| &op.outputs) {
            *written.entry(*var).or_default() += 1;
        }
        let ops = self.selection.ops.iter().filter(|op| op.op.kind == "recv" && !op.guarded);
        let brought = ops.flat_map(|op| {
            let count = op.op.outputs_of("Out").len();
            let held = Arc::new(Held::new(count));
            let outs = op.outputs.iter().take(count).enumerate();
            outs.map(move |(at, var)| (*var, (Arc::clone(&held), at)))
        });
        let is_once = |(var, _): &(VarId, _)| written[var] == 1;
        let all: Vec<_> = brought.collect();
        // All of an op's outputs must be the layout's own, for the op keeps what it brought before.
        let is_whole = |held: &Arc<Held>| {
            all.iter()
                .filter(|(_, (other, _))| Arc::ptr_eq(other, held))
                .all(|brought| is_once(brought) && self.home(brought.0).is_none())
        };
        all.iter().filter(|(_, (held, _))| is_whole(held)).cloned().collect()
    }

    /// What tells whether the card has what `var` was brought last; none where its memory is others' in between.
    fn news(&self, var: VarId, parts: &Parts<'_>) -> Option<News> {
        let (held, at) = parts.received.get(&var)?;
        let cell = self.source.cells.get(&var).cloned();
        let stays = cell.is_some() || parts.is_apart;
        stays.then(|| News { held: Arc::clone(held), at: *at, cell, copied: (0, 0) })
    }

    /// The cell of a persistable variable that stays on the host.
    fn home(&self, var: VarId) -> Option<&Arc<Cell>> {
        self.source.cells.get(&var).filter(|_| !self.kept.contains(&var))
    }

    fn host_address(&self, frame: &Frame, var: VarId) -> NonNull<Value> {
        self.home(var).and_then(|cell| cell.get()).unwrap_or_else(|| frame.at(var))
    }

    /// What a task becomes; none for what needs nothing, or was added to the segment at the end of `pieces`.
    fn piece(
        &self,
        task: Task,
        parts: &mut Parts<'_>,
        pieces: &mut [Piece],
    ) -> Result<Option<Piece>> {
        let address = |var: VarId| self.host_address(parts.frame, var);
        Ok(Some(match task {
            Task::Down(var) => {
                let from = parts.values[&var].alias();
                Piece::Down(Box::new(parts.locked.down(var, from, address(var))))
            }
            // Feeds have their own way.
            Task::Up(var) if self.is_feed(var) => return Ok(None),
            Task::Up(var) => {
                let (from, to) = (address(var), parts.values[&var].alias());
                Piece::Up(Box::new(Up { from, to, news: self.news(var, parts) }))
            }
            Task::Host(at) | Task::Staged(at) => {
                let op = &self.selection.ops[at];
                let metas = |var: VarId| self.places.metas[var].as_ref().map(|meta| &meta.meta);
                let shapes = shapes_of(op, metas);
                let brings = op.outputs.iter().find_map(|var| parts.received.get(var));
                let source = Source { held: brings.map(|(held, _)| held), ..*self.source };
                let copies = Copies::default();
                let call = Call::new(at, op, &source, address, Share::WHOLE, shapes, copies)?;
                Piece::Host(call, parts.locked.goes(&op.outputs))
            }
            Task::Card(at) => {
                let call = self.card_call(at, parts.values, parts.scratches)?;
                if let Some(Piece::Card(segment)) = pieces.last_mut() {
                    segment.calls.push(call);
                    return Ok(None);
                }
                let (calls, runs) = (vec![call], 0);
                Piece::Card(Segment { calls, runs, recordings: Vec::new() })
            }
        }))
    }

    /// A reduction of values of the card through the host's memory.
    fn staged(
        &self,
        at: usize,
        values: &HashMap<VarId, DeviceValue>,
        flights: &mut Flights,
    ) -> Result<Staged> {
        let op = &self.selection.ops[at];
        let link = self.source.link.ok_or_else(|| alone(&op.op.kind));
        let made = link.and_then(|link| {
            let view = OpView { link: Some(link), ..op.view() };
            Staged::new(at, op, &view, self.device, values, flights)
        });
        made.map_err(|error| error.in_op(&op.op))
    }

    fn card_call(
        &self,
        at: usize,
        values: &HashMap<VarId, DeviceValue>,
        scratches: &HashMap<usize, Address>,
    ) -> Result<CardCall> {
        let op = &self.selection.ops[at];
        let kernel = self.places.kernels[at].as_ref().expect("an op of the card has a kernel");
        let operand = |var: &VarId| match self.selection.vars[*var].is_nothing() {
            true => Operand::None,
            false => values.get(var).map_or(Operand::None, DeviceValue::operand),
        };
        let checked = op.outputs.iter().filter(|_| self.check_finite).filter_map(|var| {
            let tensor = match values.get(var)? {
                DeviceValue::Tensor(tensor) => tensor,
                DeviceValue::Rows(rows) => &rows.value,
            };
            let is_checked = tensor.dtype().is_float() && tensor.bytes() > 0;
            is_checked.then(|| (tensor.address(), tensor.dtype(), tensor.dims().numel()))
        });
        let feed = |var: &VarId| self.selection.feeds.iter().position(|feed| feed == var);
        let fed = op.inputs.iter().enumerate().filter_map(|(at, var)| Some((at, feed(var)?)));
        let scratch = scratches.get(&at).copied().unwrap_or(Address::NULL);
        Ok(CardCall {
            op: at,
            kernel: Arc::clone(kernel),
            inputs: op.inputs.iter().map(operand).collect(),
            fed: fed.collect(),
            outputs: op.outputs.iter().map(operand).collect(),
            scratch,
            checked: checked.collect(),
        })
    }

    fn feed_target(&self, var: VarId, frame: &Frame) -> FeedTarget {
        let reads = |task: &Task| match task {
            Task::Host(at) => self.selection.ops[*at].inputs.contains(&var),
            _ => false,
        };
        let on_host = self.tasks.iter().any(reads) || self.selection.fetches.contains(&var);
        FeedTarget { at: frame.at(var), on_host, on_card: self.tasks.contains(&Task::Up(var)) }
    }

    fn is_feed(&self, var: VarId) -> bool {
        self.selection.feeds.contains(&var)
    }

    /// The way of feeds that the card reads.
    fn uploads(&self) -> Result<Option<Box<dyn Uploads>>> {
        let bytes = self.fed_bytes()?;
        let is_none = bytes.iter().all(|bytes| *bytes == 0);
        if is_none { Ok(None) } else { Ok(Some(self.device.uploads(&bytes)?)) }
    }

    /// The size of each feed that the card reads; nothing for others.
    fn fed_bytes(&self) -> Result<Vec<usize>> {
        let feeds = self.selection.feeds.iter();
        let bytes = feeds.map(|var| match self.tasks.contains(&Task::Up(*var)) {
            true => Ok(self.meta(*var)?.extent()[0]),
            false => Ok(0),
        });
        bytes.collect()
    }

    fn fetch(
        &self,
        var: VarId,
        frame: &Frame,
        values: &HashMap<VarId, DeviceValue>,
    ) -> Result<Fetch> {
        self.meta(var)?;
        let holders = self.holders.get(&var).copied().unwrap_or(Holders::HOST);
        if holders.host {
            return Ok(Fetch::Host(self.host_address(frame, var)));
        }
        match &values[&var] {
            DeviceValue::Tensor(tensor) => Ok(Fetch::Card(tensor.alias())),
            DeviceValue::Rows(_) => Err(Error::NotDense),
        }
    }
}

/// The bytes of its own that a value needs, and those of the numbers of selected rows.
fn sizes(meta: &DeviceMeta) -> [usize; 2] {
    let [values, numbers] = meta.extent();
    if meta.in_line {
        // What lies between its rows is others'.
        let elements = meta.meta.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0));
        return [elements.product::<usize>() * meta.meta.dtype.size(), 0];
    }
    [if matches!(meta.values, RowValues::View(_)) { 0 } else { values }, numbers]
}

/// A value at these offsets of an arena.
fn window(meta: &DeviceMeta, arena: &Arc<dyn Region>, at: [usize; 2]) -> DeviceValue {
    let dims: Vec<usize> = meta.meta.dims.iter().map(|dim| *dim as usize).collect();
    let (dims, dtype) = (Dims::new(&dims), meta.meta.dtype);
    match (meta.meta.kind, meta.rows) {
        (VarKind::SelectedRows, count) => {
            let count = count.unwrap_or(0);
            let is_view = matches!(meta.values, RowValues::View(_));
            let own = if is_view { 0 } else { count };
            DeviceValue::Rows(DeviceRows {
                rows: DeviceTensor::window(DType::I64, Dims::new(&[count]), arena, at[1]),
                height: dims.first().copied().unwrap_or(0),
                value: DeviceTensor::window(dtype, dims.with_rows(own), arena, at[0]),
            })
        }
        _ => DeviceValue::Tensor(DeviceTensor::window(dtype, dims, arena, at[0])),
    }
}
