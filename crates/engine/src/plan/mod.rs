//! A program compiled for running: ops selected and fused, then laid out once for each shape of
//! batch. A step in steady state allocates nothing, looks nothing up, and takes locks only for its
//! turn on the scope.

#![expect(unsafe_code, reason = "feeds and fetches are bound to the memory of layouts")]

mod ahead;
mod beside;
mod card;
mod clock;
mod flatten;
mod frame;
mod fuse;
mod gaps;
mod inline;
mod interrupt;
mod late;
mod layout;
mod lines;
mod many;
mod memory;
mod overlap;
mod place;
mod running;
mod select;
mod stage;
mod versions;
mod wide;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bireme_ir::Program;

pub(crate) use card::shape_of;
pub use clock::StepTimes;
pub(crate) use interrupt::Question;

use crate::collective::{Collective, Link};
use crate::device::{Device, OnMemory};
use crate::plan::card::CardLayout;
use crate::plan::clock::Clock;
use crate::plan::interrupt::Interrupt;
pub(crate) use crate::plan::layout::FeedShape;
use crate::plan::layout::{Layout, Source};
use crate::plan::running::{RunningStep, run_layout};
use crate::plan::select::{Selection, VarId};
use crate::remote::Remote;
use crate::scope::{Cell, Scope, Turn};
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Draws, Error, Result, flow};

/// Layouts kept at a time: a full batch, the last batch of an epoch, a few more.
const MAX_LAYOUTS: usize = 8;

/// A program ready to run with certain feeds and fetches.
pub(crate) struct Plan {
    selection: Selection,
    scope: Scope,
    /// Holds the variables that this plan alone keeps.
    own: Scope,
    private: HashSet<VarId>,
    cells: HashMap<VarId, Arc<Cell>>,
    /// Variables that steps beside this plan's may change; none for a plan whose steps are alone.
    shared: HashSet<VarId>,
    /// What blocks inside of the program run with; with it who answers ops that ask others.
    flow: flow::Context,
    check_finite: bool,
    layouts: Vec<Layout>,
    device: Option<Arc<dyn Device>>,
    /// Layouts on the card, if there is one.
    on_card: Vec<CardLayout>,
    /// Who is told what a layout takes of the card.
    on_memory: Option<OnMemory>,
    /// Steps of this plan, for messages.
    steps: u64,
    /// Steps that have drawn random numbers, of this plan and of others of its program.
    draws: Draws,
    interrupt: Option<Interrupt>,
    clock: Option<Clock>,
}

// SAFETY: a plan's pointers lead into its own frames and into cells that it keeps alive; it moves
// between threads only as a whole, between steps.
unsafe impl Send for Plan {}

/// How a plan will run, as far as its ops depend on that.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    /// Whether every output is checked for NaN.
    pub(crate) check_finite: bool,
    /// The card, if there is one.
    pub(crate) device: Option<&'a dyn Device>,
    /// How many threads may take part in a step.
    pub(crate) threads: usize,
    /// The other ranks, if there are some.
    pub(crate) collective: Option<&'a dyn Collective>,
}

impl Plan {
    /// Compiles the global block of `program`. Variables named in `private` start with what they
    /// hold in the scope now, and are then kept by this plan alone.
    ///
    /// # Errors
    /// When an op does not exist or is wired in a way it cannot run, or nothing computes a fetch.
    pub(crate) fn new(
        program: &Program,
        feeds: &[&str],
        fetches: &[&str],
        scope: &Scope,
        private: &[&str],
        way: Way<'_>,
    ) -> Result<Plan> {
        let Way { check_finite, device, threads, collective } = way;
        let on_card = device.is_some();
        crate::catalog::check(program, feeds)?;
        flow::check_blocks(program)?;
        let mut selection = Selection::new(program, feeds, fetches)?;
        selection.drop_unneeded();
        inline::check_reads(&selection)?;
        overlap::start_and_wait(&mut selection);
        check_ends(program, &selection, feeds)?;
        versions::separate(&mut selection);
        versions::write_apart(&mut selection);
        if on_card {
            flatten::for_card(&mut selection, collective);
        }
        if !on_card {
            wide::keep_wide(&mut selection);
        }
        // A fused op can hide what a check is meant to find, and is not the user's.
        if !check_finite {
            fuse::fuse(&mut selection, device);
            if !on_card && threads >= many::LEAST {
                many::for_many(&mut selection);
            }
        }
        selection.finish()?;
        let own = Scope::new();
        let (cells, privately) = cells_of(&selection, scope, &own, private);
        let flow = flow::Context {
            program: program.clone(),
            seed: program.random_seed,
            remote: None,
            link: None,
            question: None,
        };
        let scope = scope.clone();
        Ok(Plan {
            selection,
            scope,
            own,
            private: privately,
            cells,
            shared: HashSet::new(),
            flow,
            check_finite,
            layouts: Vec::new(),
            device: None,
            on_card: Vec::new(),
            on_memory: None,
            steps: 0,
            draws: Draws::default(),
            interrupt: None,
            clock: None,
        })
    }

    /// Who answers ops that ask other processes.
    pub(crate) fn connect(&mut self, remote: Arc<dyn Remote>) {
        self.flow.remote = Some(remote);
    }

    /// Who answers ops that ask other ranks.
    pub(crate) fn join(&mut self, collective: Arc<dyn Collective>) {
        self.flow.link = Some(Arc::new(Link::new(collective)));
    }

    /// Runs what it can on a card.
    pub(crate) fn run_on(&mut self, device: Arc<dyn Device>) {
        self.device = Some(device);
    }

    /// Tells `tell` what a step has taken of the card.
    pub(crate) fn tell_memory(&mut self, tell: OnMemory) {
        self.on_memory = Some(tell);
    }

    /// Asks `question` between ops, now and then; a step ends when the answer is yes.
    pub(crate) fn ask_between_ops(&mut self, question: Question) {
        self.flow.question = Some(Arc::clone(&question));
        self.interrupt = Some(Interrupt::new(question));
    }

    /// Adds up where the time of steps on the host goes.
    pub(crate) fn time(&mut self) {
        self.clock = Some(Clock::default());
    }

    /// Where it went, if that was asked for.
    pub(crate) fn times(&self) -> Option<StepTimes> {
        self.clock.as_ref().map(Clock::times)
    }

    /// Goes on with the random numbers of other plans.
    pub(crate) fn draw_from(&mut self, draws: Draws) {
        self.draws = draws;
    }

    /// What it draws from.
    pub(crate) fn draws(&self) -> &Draws {
        &self.draws
    }

    /// Lets steps run beside those of other plans on the scope that do so too, and change what they
    /// share without locks.
    pub(crate) fn run_beside_others(&mut self) {
        let is_shared = |var: &&VarId| !self.private.contains(var);
        self.shared = self.cells.keys().filter(is_shared).copied().collect();
    }

    /// The value of persistable variable `name` as this plan sees it.
    pub(crate) fn persistable(&self, name: &str) -> Option<Tensor> {
        let var = self.cells.keys().find(|var| self.selection.vars[**var].name == name)?;
        if self.private.contains(var) { &self.own } else { &self.scope }.get(name).ok()
    }

    /// The card it runs on, if there is one.
    pub(crate) fn device(&self) -> Option<&Arc<dyn Device>> {
        self.device.as_ref()
    }

    /// Runs one step on the host.
    ///
    /// # Errors
    /// When shapes do not fit, or an op refuses its inputs.
    pub(crate) fn run(
        &mut self,
        feeds: &[&Tensor],
        threads: usize,
        fetched: &mut [Tensor],
    ) -> Result<()> {
        let scope = self.scope.clone();
        let (turn, at) = self.take_turn(&scope, feeds, threads)?;
        let layout = &mut self.layouts[at];
        bind_feeds(layout, feeds);
        if let Some(beside) = &layout.beside {
            // SAFETY: this step has a turn, and no op runs yet.
            unsafe { beside.begin(turn.others()) }
        }
        self.steps += 1;
        let step = RunningStep::new(
            &self.selection,
            self.draws.next(),
            self.check_finite.then_some(self.steps),
            self.interrupt.as_ref(),
            self.clock.as_ref(),
        );
        run_layout(layout, &step, threads);
        if let Some((_, error)) = step.error.into_inner().expect("a step's error is stored whole") {
            return Err(error);
        }
        for (value, fetched) in layout.fetches.iter().zip(fetched) {
            // SAFETY: the ops are done, and the turn is not over; the frames are alive.
            fetched.copy_from(unsafe { value.as_ref() }.tensor()?);
        }
        Ok(())
    }

    /// Waits for a turn on the scope, and finds the layout of these feeds, or makes it; the scope
    /// lets nobody else in while one is made, for that may create and resize variables.
    fn take_turn<'s>(
        &mut self,
        scope: &'s Scope,
        feeds: &[&Tensor],
        threads: usize,
    ) -> Result<(Turn<'s>, usize)> {
        let question = self.interrupt.as_ref().map(Interrupt::question);
        let is_asked = move || question.as_ref().is_some_and(|asked| asked());
        if !self.shared.is_empty() {
            let turn = scope.beside(&is_asked)?;
            self.bring_home()?;
            if let Some(at) = self.find_layout(feeds)
                && self.layouts[at].beside.is_some()
            {
                return Ok((turn, at));
            }
        }
        let mut turn = scope.alone(&is_asked)?;
        self.bring_home()?;
        let at = match self.find_layout(feeds) {
            Some(at) => at,
            None => self.make_layout(feeds, threads)?,
        };
        if self.layouts[at].beside.is_some() {
            turn.admit_others();
        }
        Ok((turn, at))
    }

    fn find_layout(&mut self, feeds: &[&Tensor]) -> Option<usize> {
        let fits = |layout: &Layout| {
            layout.shapes.iter().zip(feeds).all(|(shape, feed)| *shape == FeedShape::of(feed))
                && layout.still_fits()
        };
        let at = self.layouts.iter().position(fits)?;
        // The one in use moves to the end, so that the oldest is dropped first.
        self.layouts[at..].rotate_left(1);
        Some(self.layouts.len() - 1)
    }

    fn make_layout(&mut self, feeds: &[&Tensor], threads: usize) -> Result<usize> {
        self.layouts.retain(Layout::still_fits);
        if self.layouts.len() >= MAX_LAYOUTS {
            self.layouts.remove(0);
        }
        let shapes = feeds.iter().map(|feed| FeedShape::of(feed)).collect();
        let layout = Layout::new(&self.source(threads), shapes)?;
        self.layouts.push(layout);
        Ok(self.layouts.len() - 1)
    }

    fn source(&self, threads: usize) -> Source<'_> {
        Source {
            selection: &self.selection,
            cells: &self.cells,
            shared: &self.shared,
            threads,
            seed: self.flow.seed,
            remote: self.flow.remote.as_ref(),
            link: self.flow.link.as_ref(),
            flow: &self.flow,
            held: None,
        }
    }

    /// Makes the host's values those that count; the caller is alone on the scope, or beside others
    /// that have done so.
    fn bring_home(&self) -> Result<()> {
        for cell in self.cells.values() {
            // SAFETY: the caller has a turn.
            unsafe { cell.bring_home()? };
            cell.host_writes();
        }
        Ok(())
    }
}

/// The cells of persistable variables; those named in `private` are in `own`, with a copy of what they hold in `scope`.
fn cells_of(
    selection: &Selection,
    scope: &Scope,
    own: &Scope,
    private: &[&str],
) -> (HashMap<VarId, Arc<Cell>>, HashSet<VarId>) {
    let (mut cells, mut privately) = (HashMap::new(), HashSet::new());
    for (id, var) in selection.vars.iter().enumerate() {
        if var.persists() && !selection.feeds.contains(&id) {
            let private = private.contains(&var.name.as_str());
            if private {
                privately.insert(id);
                if let Ok(value) = scope.get(&var.name) {
                    own.set(&var.name, &value);
                }
            }
            cells.insert(id, if private { own } else { scope }.cell(&var.name));
        }
    }
    (cells, privately)
}

/// Every feed and fetch must be part of the program.
fn check_ends(program: &Program, selection: &Selection, feeds: &[&str]) -> Result<()> {
    for feed in feeds {
        if program.global().var(feed).is_none() {
            return Err(Error::Feed {
                var: (*feed).to_owned(),
                problem: "the program has no such variable".to_owned(),
            });
        }
    }
    for fetch in &selection.fetches {
        let computed = selection.ops.iter().any(|op| op.outputs.contains(fetch));
        let var = &selection.vars[*fetch];
        if !computed && !var.persists() && !selection.feeds.contains(fetch) {
            return Err(Error::kernel(format!(
                "cannot fetch `{}`: no op of the program computes it",
                var.name
            )));
        }
    }
    Ok(())
}

/// Points the feed variables at the caller's tensors for the time of a step.
fn bind_feeds(layout: &mut Layout, feeds: &[&Tensor]) {
    for (targets, feed) in layout.feeds.iter().zip(feeds) {
        for (i, target) in targets.iter().enumerate() {
            let (first, rows) = match i.checked_sub(1) {
                None => (0, feed.rows()),
                Some(worker) => (layout.shares[worker].first, layout.shares[worker].rows),
            };
            // SAFETY: the window lives until the next step binds its own; kernels reach it only
            // during the step, while `feed` is borrowed. No step is running now.
            unsafe {
                let mut window = feed.rows_window(first, rows);
                let value = &mut *target.as_ptr();
                if i == 0 && !feed.lod().is_empty() {
                    if let Value::Tensor(old) = value {
                        window.take_lod_memory(old);
                    }
                    window.set_lod(feed.lod());
                }
                *value = Value::Tensor(window);
            }
        }
    }
}
