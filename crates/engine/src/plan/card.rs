//! A step on a card: the layout of a selection, and how it runs.
//!
//! Ops of the card that follow one another are recorded when they run for the second time, and replayed
//! from then on; what a recorded step changes from step to step lies in the card's memory. Nothing waits inside a
//! step but who needs a value on the host.

#![expect(unsafe_code, reason = "binds variables to memory that the layout owns")]

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use bireme_ir::{DType, VarKind};

use super::frame::{Call, Frame};
use super::layout::{FeedShape, Source, infer_all, shapes_of};
use super::memory::{Need, pack};
use super::place::{Holders, Places, Task, schedule};
use super::select::{Selection, VarId};
use super::{Plan, RunningStep};
use crate::device::{
    Address, Complaint, Device, DeviceCall, DeviceKernel, DeviceMeta, DeviceRows, DeviceTensor,
    DeviceValue, Operand, Problem, Recording, Region, refused, unwritten,
};
use crate::error::site_text;
use crate::op::{Share, shape_like};
use crate::plan::beside::Copies;
use crate::scope::Cell;
use crate::tensor::{Dims, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// Where blocks of a card's memory begin.
const ALIGN: usize = 256;

/// A step, ready to run on a card for feeds of one shape.
pub(crate) struct CardLayout {
    shapes: Vec<FeedShape>,
    device: Arc<dyn Device>,
    pieces: Vec<Piece>,
    /// Where each feed goes on the host.
    feeds: Vec<NonNull<Value>>,
    fetches: Vec<Fetch>,
    /// Persistable variables on the card.
    bound: Vec<Bound>,
    /// Persistable variables of host ops.
    at_home: Vec<Arc<Cell>>,
    /// The number of the step, on the card.
    step: DeviceTensor,
    /// Whether an op looks at it.
    counts_steps: bool,
    _frame: Frame,
    _arena: Arc<dyn Region>,
}

/// A part of a step.
enum Piece {
    Host(Call),
    Card(Segment),
    Down { from: DeviceValue, to: NonNull<Value> },
    Up { from: NonNull<Value>, to: DeviceValue },
}

/// Ops of the card that follow one another.
struct Segment {
    calls: Vec<CardCall>,
    runs: u64,
    recording: Option<Box<dyn Recording>>,
}

/// An op of the card, bound to its variables.
struct CardCall {
    op: usize,
    kernel: Arc<dyn DeviceKernel>,
    inputs: Box<[Operand]>,
    outputs: Box<[Operand]>,
    scratch: Address,
    /// Outputs to look for NaN in: where, of which type, how many elements.
    checked: Vec<(Address, DType, usize)>,
}

enum Fetch {
    Host(NonNull<Value>),
    Card(DeviceTensor),
}

struct Bound {
    cell: Arc<Cell>,
    value: DeviceValue,
    is_written: bool,
}

impl CardLayout {
    /// Lays the selection out for feeds of these shapes; the caller is alone on the scope.
    ///
    /// # Errors
    /// When shapes do not fit, a persistable variable is read that holds nothing, or the card has too
    /// little memory.
    pub(crate) fn new(
        source: &Source<'_>,
        shapes: Vec<FeedShape>,
        device: &Arc<dyn Device>,
        check_finite: bool,
    ) -> Result<CardLayout> {
        let metas = infer_all(source, &shapes)?;
        let places = Places::assign(source.selection, &metas, source.seed, device.as_ref())?;
        Builder::new(source, &places, device, check_finite)?.build(shapes)
    }

    /// Whether a step with these feeds can run in it.
    pub(crate) fn fits(&self, feeds: &[&Tensor]) -> bool {
        self.shapes.iter().zip(feeds).all(|(shape, feed)| *shape == FeedShape::of(feed))
            && self.bound.iter().all(|bound| {
                // SAFETY: the caller is alone on the scope.
                let meta = unsafe { bound.cell.meta() };
                meta.is_some_and(|meta| meta == bound.value.meta())
                    && bound.cell.is_bound_to(&bound.value)
            })
    }

    /// Runs a step; the caller is alone on the scope and has checked that the feeds fit.
    fn run(&mut self, step: &RunningStep<'_>, feeds: &[&Tensor]) -> Result<()> {
        for bound in &self.bound {
            if !bound.cell.is_current_on_card() {
                // SAFETY: the caller is alone on the scope. The memory stays, for it fits.
                unsafe { bound.cell.on_card(&self.device)? };
            }
        }
        for cell in &self.at_home {
            // SAFETY: the caller is alone on the scope.
            unsafe { cell.bring_home()? };
            cell.host_writes();
        }
        for (target, feed) in self.feeds.iter().zip(feeds) {
            // SAFETY: the window lives until the next step binds its own; it is reached only during
            // the step, while `feed` is borrowed.
            unsafe {
                let mut window = feed.rows_window(0, feed.rows());
                window.set_lod(feed.lod());
                *target.as_ptr() = Value::Tensor(window);
            }
        }
        if self.counts_steps {
            self.device.upload(&step.draw.to_le_bytes(), self.step.address())?;
        }
        // A step that fails half-way has changed what it wrote until then.
        for bound in self.bound.iter().filter(|bound| bound.is_written) {
            bound.cell.card_writes();
        }
        for piece in &mut self.pieces {
            step.ask(0)?;
            match piece {
                Piece::Host(call) => {
                    call.run(&step.selection.ops[call.op], step.draw, step.check)?;
                }
                Piece::Card(segment) => segment.run(self.device.as_ref(), self.step.address())?,
                Piece::Down { from, to } => {
                    // SAFETY: the frame is this layout's own, and no op runs.
                    match (from, unsafe { to.as_mut() }) {
                        (DeviceValue::Tensor(from), Value::Tensor(to)) => from.download_to(to)?,
                        (from, to) => *to = from.download()?,
                    }
                }
                // SAFETY: as above.
                Piece::Up { from, to } => match (unsafe { from.as_ref() }, to) {
                    (Value::Tensor(from), DeviceValue::Tensor(to)) => to.write(from)?,
                    _ => return Err(Error::kernel("selected rows of the host go to no card")),
                },
            }
        }
        Ok(())
    }
}

impl Segment {
    fn run(&mut self, device: &dyn Device, step: Address) -> Result<()> {
        self.runs += 1;
        if let Some(recording) = &self.recording {
            return recording.replay();
        }
        let calls = &self.calls;
        let mut launch = || calls.iter().try_for_each(|call| call.launch(device, step));
        // Not the first time: what is loaded on first use cannot be recorded.
        if self.runs == 1 {
            return launch();
        }
        let recording = device.record(&mut launch)?;
        recording.replay()?;
        self.recording = Some(recording);
        Ok(())
    }
}

impl CardCall {
    fn launch(&self, device: &dyn Device, step: Address) -> Result<()> {
        let (inputs, outputs, op) = (&self.inputs, &self.outputs, self.op as u32);
        self.kernel.launch(&DeviceCall { inputs, outputs, scratch: self.scratch, step, op })?;
        for (at, dtype, count) in &self.checked {
            device.check_finite(*at, *dtype, *count, op)?;
        }
        Ok(())
    }
}

impl Plan {
    /// Runs one step on the card.
    ///
    /// # Errors
    /// When shapes do not fit, an op refuses its inputs, or the card fails.
    pub(super) fn run_on_card(
        &mut self,
        device: &Arc<dyn Device>,
        feeds: &[&Tensor],
        fetched: &mut [Tensor],
    ) -> Result<()> {
        let scope = self.scope.clone();
        let question = self.interrupt.as_ref().map(super::Interrupt::question);
        let _turn = scope.alone(&|| question.as_ref().is_some_and(|asked| asked()))?;
        let at = match self.on_card.iter().position(|layout| layout.fits(feeds)) {
            Some(at) => at,
            None => {
                if self.on_card.len() >= super::MAX_LAYOUTS {
                    self.on_card.remove(0);
                }
                let shapes = feeds.iter().map(|feed| FeedShape::of(feed)).collect();
                let layout = CardLayout::new(&self.source(1), shapes, device, self.check_finite)?;
                self.on_card.push(layout);
                self.on_card.len() - 1
            }
        };
        // The one in use moves to the end, so that the oldest is dropped first.
        self.on_card[at..].rotate_left(1);
        let last = self.on_card.len() - 1;
        self.steps += 1;
        let step = RunningStep::new(
            &self.selection,
            self.draws.next(),
            self.check_finite.then_some(self.steps),
            self.interrupt.as_ref(),
        );
        let layout = &mut self.on_card[last];
        layout.run(&step, feeds)?;
        for (fetch, fetched) in layout.fetches.iter().zip(&mut *fetched) {
            match fetch {
                // SAFETY: the ops are done, and the turn is not over; the frame is alive.
                Fetch::Host(value) => fetched.copy_from(unsafe { value.as_ref() }.tensor()?),
                Fetch::Card(tensor) => tensor.download_to(fetched)?,
            }
        }
        if self.check_finite {
            device.synchronize()?;
        }
        match device.complaint()? {
            Some(complaint) => Err(self.error_of(&complaint)),
            None => Ok(()),
        }
    }

    /// What a kernel of this plan, or of another that ran before, found wrong.
    fn error_of(&self, complaint: &Complaint) -> Error {
        let Some(selected) = self.selection.ops.get(complaint.op as usize) else {
            return refused(complaint);
        };
        match complaint.problem {
            Problem::NotFinite => Error::NotFinite {
                step: self.steps,
                op: selected.op.kind.clone(),
                site: site_text(&selected.op),
                var: selected
                    .outputs
                    .first()
                    .map_or_else(String::new, |var| self.selection.vars[*var].name.clone()),
                what: "NaN or infinity",
            },
            _ => refused(complaint).in_op(&selected.op),
        }
    }
}

/// A layout in the making.
struct Builder<'a> {
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
}

impl<'a> Builder<'a> {
    fn new(
        source: &'a Source<'a>,
        places: &'a Places,
        device: &'a Arc<dyn Device>,
        check_finite: bool,
    ) -> Result<Builder<'a>> {
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
        let tasks = schedule(&selection.ops, |at| places.is_on_card(at), &mut holders, &kept);
        Ok(Builder { source, selection, places, device, check_finite, tasks, holders, kept })
    }

    fn build(self, shapes: Vec<FeedShape>) -> Result<CardLayout> {
        let frame = Frame::new(self.selection.vars.len());
        let written: Vec<VarId> =
            self.selection.ops.iter().flat_map(|op| op.outputs.iter().copied()).collect();
        let mut values: HashMap<VarId, DeviceValue> = HashMap::new();
        let mut bound = Vec::new();
        for var in &self.kept {
            let cell = &self.source.cells[var];
            let value = self.persistable(*var, cell)?;
            values.insert(*var, value.alias());
            bound.push(Bound { cell: Arc::clone(cell), value, is_written: written.contains(var) });
        }
        let (arena, scratches) = self.place(&mut values)?;
        self.shape_host(&frame);
        let step = DeviceTensor::upload(self.device.as_ref(), &Tensor::scalar(0i64))?;
        let kernels = || self.places.kernels.iter().flatten();
        let counts_steps = kernels().any(|kernel| kernel.counts_steps());
        let mut pieces = Vec::new();
        for task in &self.tasks {
            self.add(&mut pieces, *task, &frame, &values, &scratches)?;
        }
        let fetches = self.selection.fetches.iter().map(|var| self.fetch(*var, &frame, &values));
        let fetches = fetches.collect::<Result<_>>()?;
        let at_home = self.source.cells.iter().filter(|(var, _)| !self.kept.contains(var));
        Ok(CardLayout {
            shapes,
            device: Arc::clone(self.device),
            pieces,
            feeds: self.selection.feeds.iter().map(|var| frame.at(*var)).collect(),
            fetches,
            bound,
            at_home: at_home.map(|(_, cell)| Arc::clone(cell)).collect(),
            step,
            counts_steps,
            _frame: frame,
            _arena: arena,
        })
    }

    /// A persistable variable on the card: as it is, or new when the step is the first to write it.
    fn persistable(&self, var: VarId, cell: &Arc<Cell>) -> Result<DeviceValue> {
        let meta = self.meta(var)?;
        // SAFETY: who makes a layout is alone on the scope.
        unsafe {
            let fits = cell.meta().is_some_and(|there| there == meta.meta);
            if !fits {
                cell.set_on_card(unwritten(self.device.as_ref(), meta)?);
            }
            cell.on_card(self.device)
        }
    }

    fn meta(&self, var: VarId) -> Result<&DeviceMeta> {
        self.places.metas[var].as_ref().ok_or_else(|| super::layout::no_value(self.source, var))
    }

    /// Places what lives for a part of the step only: those that are never alive together share memory.
    /// Says where the scratch memory of each op begins.
    fn place(
        &self,
        values: &mut HashMap<VarId, DeviceValue>,
    ) -> Result<(Arc<dyn Region>, HashMap<usize, Address>)> {
        let mut spans: HashMap<VarId, (usize, usize)> = HashMap::new();
        for (position, task) in self.tasks.iter().enumerate() {
            let mut touch = |var: VarId| {
                spans.entry(var).or_insert((position, position)).1 = position;
            };
            match task {
                Task::Card(at) => {
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
        let mut vars: Vec<VarId> =
            spans.keys().filter(|var| !values.contains_key(var)).copied().collect();
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
        let arena = self.device.allocate(packing.bytes)?;
        for (i, var) in vars.iter().enumerate() {
            let at = [packing.offsets[2 * i], packing.offsets[2 * i + 1]];
            values.insert(*var, window(self.meta(*var)?, &arena, at));
        }
        let offsets = packing.offsets[2 * vars.len()..].iter();
        let scratch = scratch.into_iter().zip(offsets.map(|at| arena.address().plus(*at)));
        let scratch = scratch.collect();
        Ok((arena, scratch))
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
            if meta.meta.is_static() && crate::op::meta_of(value) != meta.meta {
                shape_like(value, &meta.meta);
            }
        };
        for task in &self.tasks {
            match task {
                Task::Host(at) => self.selection.ops[*at].outputs.iter().for_each(|v| shape(*v)),
                Task::Down(var) => shape(*var),
                Task::Card(_) | Task::Up(_) => {}
            }
        }
    }

    /// The cell of a persistable variable that stays on the host.
    fn home(&self, var: VarId) -> Option<&Arc<Cell>> {
        self.source.cells.get(&var).filter(|_| !self.kept.contains(&var))
    }

    fn host_address(&self, frame: &Frame, var: VarId) -> NonNull<Value> {
        self.home(var).and_then(|cell| cell.get()).unwrap_or_else(|| frame.at(var))
    }

    fn add(
        &self,
        pieces: &mut Vec<Piece>,
        task: Task,
        frame: &Frame,
        values: &HashMap<VarId, DeviceValue>,
        scratches: &HashMap<usize, Address>,
    ) -> Result<()> {
        let address = |var: VarId| self.host_address(frame, var);
        match task {
            Task::Down(var) => {
                pieces.push(Piece::Down { from: values[&var].alias(), to: address(var) });
            }
            Task::Up(var) => {
                pieces.push(Piece::Up { from: address(var), to: values[&var].alias() })
            }
            Task::Host(at) => {
                let op = &self.selection.ops[at];
                let metas = |var: VarId| self.places.metas[var].as_ref().map(|meta| &meta.meta);
                let shapes = shapes_of(op, metas);
                let copies = Copies::default();
                let call = Call::new(at, op, self.source, address, Share::WHOLE, shapes, copies)?;
                pieces.push(Piece::Host(call));
            }
            Task::Card(at) => {
                let call = self.card_call(at, values, scratches)?;
                match pieces.last_mut() {
                    Some(Piece::Card(segment)) => segment.calls.push(call),
                    _ => {
                        let (calls, runs) = (vec![call], 0);
                        pieces.push(Piece::Card(Segment { calls, runs, recording: None }));
                    }
                }
            }
        }
        Ok(())
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
        let scratch = scratches.get(&at).copied().unwrap_or(Address::NULL);
        Ok(CardCall {
            op: at,
            kernel: Arc::clone(kernel),
            inputs: op.inputs.iter().map(operand).collect(),
            outputs: op.outputs.iter().map(operand).collect(),
            scratch,
            checked: checked.collect(),
        })
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

/// Bytes of a value's elements and, for selected rows, of their numbers.
fn sizes(meta: &DeviceMeta) -> [usize; 2] {
    let dims: Vec<usize> = meta.meta.dims.iter().map(|dim| *dim as usize).collect();
    let size = meta.meta.dtype.size();
    match (meta.meta.kind, meta.rows) {
        (VarKind::SelectedRows, count) => {
            let (count, width) = (count.unwrap_or(0), dims.iter().skip(1).product::<usize>());
            [count * width * size, count * 8]
        }
        _ => [dims.iter().product::<usize>() * size, 0],
    }
}

/// A value at these offsets of an arena.
fn window(meta: &DeviceMeta, arena: &Arc<dyn Region>, at: [usize; 2]) -> DeviceValue {
    let dims: Vec<usize> = meta.meta.dims.iter().map(|dim| *dim as usize).collect();
    let (dims, dtype) = (Dims::new(&dims), meta.meta.dtype);
    match (meta.meta.kind, meta.rows) {
        (VarKind::SelectedRows, count) => {
            let count = count.unwrap_or(0);
            DeviceValue::Rows(DeviceRows {
                rows: DeviceTensor::window(DType::I64, Dims::new(&[count]), arena, at[1]),
                height: dims.first().copied().unwrap_or(0),
                value: DeviceTensor::window(dtype, dims.with_rows(count), arena, at[0]),
            })
        }
        _ => DeviceValue::Tensor(DeviceTensor::window(dtype, dims, arena, at[0])),
    }
}
