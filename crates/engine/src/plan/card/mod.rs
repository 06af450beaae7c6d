//! A step on a card: the layout of a selection, and how it runs.
//!
//! Ops of the card that follow one another are recorded when they run for the second time, and replayed
//! from then on; what a recorded step changes from step to step lies in the card's memory. Nothing waits inside a
//! step but who needs a value on the host.

#![expect(unsafe_code, reason = "binds variables to memory that the layout owns")]

mod build;
mod draft;
mod passage;
mod staged;
mod tables;

pub(crate) use self::draft::shape_of;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use bireme_ir::DType;

use self::draft::{Draft, largest_batch, too_little};
use self::passage::{Down, Traffic, Up};
use self::staged::Staged;
use super::frame::{Call, Frame};
use super::interrupt::Interrupt;
use super::layout::{FeedShape, Source, common_rows, infer_all};
use super::{MAX_LAYOUTS, Plan, RunningStep};
use crate::device::{
    Address, Complaint, Complaints, Device, DeviceCall, DeviceKernel, DeviceTensor, MemoryPlan,
    Operand, Problem, Recording, Region, Uploads, refused,
};
use crate::error::site_text;
use crate::executor::Feed;
use crate::scope::{Cell, Seat};
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Error, Result};

/// A step, ready to run on a card for feeds of one shape.
pub(crate) struct CardLayout {
    shapes: Vec<FeedShape>,
    device: Arc<dyn Device>,
    pieces: Vec<Piece>,
    feeds: Vec<FeedTarget>,
    /// The way of feeds that the card reads, if there are some.
    uploads: Option<Box<dyn Uploads>>,
    fetches: Vec<Fetch>,
    traffic: Traffic,
    /// Persistable variables on the card.
    bound: Vec<Bound>,
    /// Persistable variables of host ops.
    at_home: Vec<Arc<Cell>>,
    /// The number of the step, on the card.
    step: DeviceTensor,
    /// Whether an op looks at it.
    counts_steps: bool,
    complaints: Box<dyn Complaints>,
    _frame: Frame,
    _arena: Arc<dyn Region>,
}

/// A part of a step.
enum Piece {
    /// An op of the host, and whether it writes what goes to the card from page-locked memory.
    Host(Call, bool),
    Card(Segment),
    Staged(Box<Staged>),
    Down(Box<Down>),
    Up(Box<Up>),
}

/// What all ops of a step share on the card.
#[derive(Clone, Copy)]
struct Words {
    step: Address,
    complaints: Address,
}

/// Ops of the card that follow one another.
struct Segment {
    calls: Vec<CardCall>,
    runs: u64,
    /// What was recorded, each for feeds at certain places of the card.
    recordings: Vec<(FedFrom, Box<dyn Recording>)>,
}

/// Where each feed lies on the card, if it does.
type FedFrom = Vec<Option<Address>>;

/// Sets of feeds on the card for which a segment is recorded: enough for a reader that goes round in a
/// ring of buffers.
const MAX_RECORDINGS: usize = 64;

/// An op of the card, bound to its variables.
struct CardCall {
    op: usize,
    kernel: Arc<dyn DeviceKernel>,
    inputs: Box<[Operand]>,
    /// Those of the inputs that are feeds: position and number of the feed.
    fed: Box<[(usize, usize)]>,
    outputs: Box<[Operand]>,
    scratch: Address,
    /// Outputs to look for NaN in: where, of which type, how many elements.
    checked: Vec<(Address, DType, usize)>,
}

/// Where a feed goes.
struct FeedTarget {
    at: NonNull<Value>,
    /// Whether somebody reads it on the host.
    on_host: bool,
    /// Whether somebody reads it on the card.
    on_card: bool,
}

enum Fetch {
    Host(NonNull<Value>),
    Card(DeviceTensor),
}

struct Bound {
    cell: Arc<Cell>,
    /// Where its copy is. The cell alone keeps the memory, so that it can be given back.
    seat: Seat,
    is_written: bool,
}

impl CardLayout {
    /// Lays the selection out for feeds of these shapes; the caller is alone on the scope.
    ///
    /// # Errors
    /// When shapes do not fit, a persistable variable is read that holds nothing, or the card has too
    /// little memory.
    fn new(
        source: &Source<'_>,
        shapes: Vec<FeedShape>,
        device: &Arc<dyn Device>,
        check_finite: bool,
    ) -> Result<(CardLayout, MemoryPlan)> {
        let metas = infer_all(source, &shapes)?;
        let may_move = true;
        let mut draft = Draft { source, metas: &metas, device, check_finite, may_move };
        let at_home = draft.choose_tables()?;
        let exchanged = tables::exchanged(source);
        for var in at_home.difference(&exchanged) {
            // SAFETY: the caller is alone on the scope.
            unsafe { source.cells[var].stay_home()? };
        }
        let rows = common_rows(&shapes);
        loop {
            let (made, plan) = draft.with_builder(&at_home, |builder, sketch, plan| {
                Ok((builder.build(shapes.clone(), sketch), MemoryPlan { batch: rows, ..plan }))
            })?;
            match made {
                Ok(layout) => return Ok((layout, plan)),
                // Variables that move need memory twice for a moment.
                Err(Error::DeviceMemory { .. }) if draft.may_move => draft.may_move = false,
                Err(Error::DeviceMemory { .. }) => {
                    let most = largest_batch(source, &shapes, device, rows);
                    return Err(too_little(&plan, most));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a step with these feeds can run in it.
    fn fits(&self, feeds: &[Feed<'_>]) -> bool {
        self.shapes.iter().zip(feeds).all(|(shape, feed)| *shape == feed.shape())
            // SAFETY: the caller is alone on the scope.
            && self.bound.iter().all(|bound| unsafe { bound.cell.fits(&bound.seat) })
    }

    /// Runs a step; the caller is alone on the scope and has checked that the feeds fit.
    fn run(&mut self, step: &RunningStep<'_>, feeds: &[Feed<'_>]) -> Result<()> {
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
            let value = match feed {
                // SAFETY: the window lives until the next step binds its own; it is reached only
                // during the step, while the feed is borrowed.
                Feed::Host(feed) => unsafe {
                    let mut window = feed.rows_window(0, feed.rows());
                    window.set_lod(feed.lod());
                    window
                },
                Feed::Card(feed) if target.on_host => feed.download()?,
                Feed::Card(_) => continue,
            };
            // SAFETY: the frame is this layout's own, and no op runs.
            unsafe { *target.at.as_ptr() = Value::Tensor(value) };
        }
        let on_card = self.send(feeds)?;
        if self.counts_steps {
            self.device.upload(&step.draw.to_le_bytes(), self.step.address())?;
        }
        // A step that fails half-way has changed what it wrote until then.
        for bound in self.bound.iter().filter(|bound| bound.is_written) {
            bound.cell.card_writes();
        }
        let done = self.run_pieces(step, &on_card);
        let done = done.and(self.traffic.mark(self.device.as_ref()));
        let finished = self.uploads.as_mut().map_or(Ok(()), |uploads| uploads.finish());
        done.and(finished)
    }

    fn run_pieces(&mut self, step: &RunningStep<'_>, on_card: &[Option<Address>]) -> Result<()> {
        self.traffic.begin();
        for at in 0..self.pieces.len() {
            step.ask()?;
            if let Piece::Host(_, fills) = &self.pieces[at] {
                let fills = *fills;
                self.land()?;
                if fills {
                    self.traffic.leave(self.device.as_ref())?;
                }
            }
            match &mut self.pieces[at] {
                Piece::Host(call, _) => {
                    call.run(&step.selection.ops[call.op], step.draw, step.check)?;
                }
                Piece::Card(segment) => {
                    let words =
                        Words { step: self.step.address(), complaints: self.complaints.address() };
                    segment.run(self.device.as_ref(), words, on_card)?;
                }
                Piece::Staged(staged) => {
                    let op = &step.selection.ops[staged.op()].op;
                    let done = staged.run(self.device.as_ref(), step.draw);
                    done.map_err(|error| error.in_op(op))?;
                }
                Piece::Down(down) => down.run(at, &mut self.traffic)?,
                Piece::Up(up) => up.run(&mut self.traffic)?,
            }
        }
        self.land()
    }

    /// Waits for what is on its way to the host.
    fn land(&mut self) -> Result<()> {
        for at in self.traffic.land()? {
            if let Piece::Down(down) = &mut self.pieces[at] {
                down.finish()?;
            }
        }
        Ok(())
    }

    /// Sends the host's feeds to the card; says where each feed lies there that somebody reads.
    fn send(&mut self, feeds: &[Feed<'_>]) -> Result<Vec<Option<Address>>> {
        let given = feeds.iter().zip(&self.feeds);
        let mut places: Vec<Option<Address>> = given
            .clone()
            .map(|(feed, target)| match feed {
                Feed::Card(feed) if target.on_card => Some(feed.address()),
                _ => None,
            })
            .collect();
        if let Some(uploads) = &mut self.uploads {
            let host = given.map(|(feed, target)| match feed {
                Feed::Host(feed) if target.on_card => Some(feed.as_bytes()),
                _ => None,
            });
            uploads.send(&host.collect::<Vec<_>>(), &mut places)?;
        }
        Ok(places)
    }
}

impl Segment {
    fn run(&mut self, device: &dyn Device, words: Words, feeds: &[Option<Address>]) -> Result<()> {
        self.runs += 1;
        if let Some((_, recording)) = self.recordings.iter().find(|(of, _)| of == feeds) {
            return recording.replay();
        }
        let calls = &self.calls;
        let mut launch = || calls.iter().try_for_each(|call| call.launch(device, words, feeds));
        // Not the first time: what is loaded on first use cannot be recorded.
        if self.runs == 1 {
            return launch();
        }
        let recording = device.record(&mut launch)?;
        recording.replay()?;
        if self.recordings.len() >= MAX_RECORDINGS {
            self.recordings.remove(0);
        }
        self.recordings.push((feeds.to_vec(), recording));
        Ok(())
    }
}

impl CardCall {
    fn launch(&self, device: &dyn Device, words: Words, feeds: &[Option<Address>]) -> Result<()> {
        let mut inputs = self.inputs.to_vec();
        for (at, feed) in &self.fed {
            if let Some(address) = feeds[*feed] {
                inputs[*at] = Operand::Dense(address);
            }
        }
        let (inputs, outputs, op) = (&inputs, &self.outputs, self.op as u32);
        let (scratch, Words { step, complaints }) = (self.scratch, words);
        self.kernel.launch(&DeviceCall { inputs, outputs, scratch, step, op, complaints })?;
        for (at, dtype, count) in &self.checked {
            device.check_finite(*at, *dtype, *count, op, complaints)?;
        }
        Ok(())
    }
}

impl Plan {
    /// Runs one step on the card.
    ///
    /// # Errors
    /// When shapes do not fit, an op refuses its inputs, or the card fails.
    pub(crate) fn run_on_card(
        &mut self,
        device: &Arc<dyn Device>,
        feeds: &[Feed<'_>],
        fetched: &mut [Tensor],
    ) -> Result<()> {
        let scope = self.scope.clone();
        let question = self.interrupt.as_ref().map(Interrupt::question);
        let _turn = scope.alone(&|| question.as_ref().is_some_and(|asked| asked()))?;
        let at = match self.on_card.iter().position(|layout| layout.fits(feeds)) {
            Some(at) => at,
            None => {
                if self.on_card.len() >= MAX_LAYOUTS {
                    self.on_card.remove(0);
                }
                let shapes = feeds.iter().map(Feed::shape).collect();
                let layout = self.card_layout(device, shapes)?;
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
            None,
        );
        let layout = &mut self.on_card[last];
        // A host op that panics, for want of memory, is an error here as it is on the host.
        catch_unwind(AssertUnwindSafe(|| layout.run(&step, feeds)))
            .unwrap_or_else(|panic| Err(Error::caught(panic)))?;
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
        if let Some(link) = &self.flow.link {
            link.check_cards()?;
        }
        match layout.complaints.take()? {
            Some(complaint) => Err(self.error_of(&complaint)),
            None => Ok(()),
        }
    }

    /// Makes a layout. Those for other shapes give their memory back where there is too little.
    fn card_layout(
        &mut self,
        device: &Arc<dyn Device>,
        shapes: Vec<FeedShape>,
    ) -> Result<CardLayout> {
        let make = |plan: &Plan| {
            CardLayout::new(&plan.source(1), shapes.clone(), device, plan.check_finite)
        };
        let made = match make(self) {
            Err(Error::DeviceMemory { .. }) => {
                self.on_card.clear();
                // Memory that was given back is there when the work that uses it is done.
                device.synchronize()?;
                make(self)
            }
            made => made,
        };
        let (layout, memory) = made?;
        if let Some(tell) = &self.on_memory {
            tell(&memory);
        }
        Ok(layout)
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
