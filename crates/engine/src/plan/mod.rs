//! A program compiled for running: ops selected and fused, then laid out once for each shape of
//! batch. A step in steady state allocates nothing, looks nothing up and takes no lock.

#![expect(unsafe_code, reason = "workers run the calls of a layout side by side")]

mod frame;
mod fuse;
mod inline;
mod interrupt;
mod layout;
mod memory;
mod overlap;
mod pool;
mod select;
mod stage;
mod versions;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bireme_ir::Program;

pub(crate) use interrupt::Question;
pub(crate) use pool::Pool;

use crate::collective::{Collective, Link};
use crate::plan::frame::Call;
use crate::plan::interrupt::Interrupt;
use crate::plan::layout::{FeedShape, Layout, Merge, Source};
use crate::plan::pool::Barrier;
use crate::plan::select::{Selection, VarId};
use crate::remote::Remote;
use crate::scope::{Cell, Scope};
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Draws, Error, Result};

/// Layouts kept at a time: a full batch, the last batch of an epoch, a few more.
const MAX_LAYOUTS: usize = 8;

/// A program ready to run with certain feeds and fetches.
pub(crate) struct Plan {
    selection: Selection,
    scope: Scope,
    cells: HashMap<VarId, Arc<Cell>>,
    seed: u64,
    remote: Option<Arc<dyn Remote>>,
    link: Option<Arc<Link>>,
    check_finite: bool,
    layouts: Vec<Layout>,
    /// Steps of this plan, for messages.
    steps: u64,
    /// Steps that have drawn random numbers, of this plan and of others of its program.
    draws: Draws,
    interrupt: Option<Interrupt>,
}

// SAFETY: a plan's pointers lead into its own frames and into cells that it keeps alive; it moves
// between threads only as a whole, between steps.
unsafe impl Send for Plan {}

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
        check_finite: bool,
    ) -> Result<Plan> {
        crate::catalog::check(program, feeds)?;
        let ops = select::needed_ops(program, fetches)?;
        let ops = overlap::start_and_wait(ops, program);
        check_ends(program, &ops, feeds, fetches)?;
        let (ops, renamed) = versions::rename(ops, program, feeds, fetches);
        let ops = versions::write_apart(ops);
        let fetches: Vec<&str> = renamed.iter().map(String::as_str).collect();
        // A fused op can hide what a check is meant to find, and is not the user's.
        let ops = if check_finite { ops } else { fuse::fuse(ops, program, &fetches) };
        let selection = Selection::new(ops, feeds, &fetches)?;
        let own = Scope::new();
        let mut cells = HashMap::new();
        for (var, name) in selection.vars.iter().enumerate() {
            let fed = feeds.contains(&name.as_str());
            if !fed && program.global().var(name).is_some_and(|var| var.persistable) {
                let private = private.contains(&name.as_str());
                if private && let Ok(value) = scope.get(name) {
                    own.set(name, &value);
                }
                cells.insert(var, if private { &own } else { scope }.cell(name));
            }
        }
        let seed = program.random_seed;
        let scope = scope.clone();
        Ok(Plan {
            selection,
            scope,
            cells,
            seed,
            remote: None,
            link: None,
            check_finite,
            layouts: Vec::new(),
            steps: 0,
            draws: Draws::default(),
            interrupt: None,
        })
    }

    /// Who answers ops that ask other processes.
    pub(crate) fn connect(&mut self, remote: Arc<dyn Remote>) {
        self.remote = Some(remote);
    }

    /// Who answers ops that ask other ranks.
    pub(crate) fn join(&mut self, collective: Arc<dyn Collective>) {
        self.link = Some(Arc::new(Link::new(collective)));
    }

    /// Asks `question` between ops, now and then; a step ends when the answer is yes.
    pub(crate) fn ask_between_ops(&mut self, question: Question) {
        self.interrupt = Some(Interrupt::new(question));
    }

    /// Goes on with the random numbers of other plans.
    pub(crate) fn draw_from(&mut self, draws: Draws) {
        self.draws = draws;
    }

    /// What it draws from.
    pub(crate) fn draws(&self) -> &Draws {
        &self.draws
    }

    /// The value of persistable variable `name` as this plan sees it.
    pub(crate) fn persistable(&self, name: &str) -> Option<Tensor> {
        let var = self.selection.vars.iter().position(|var| var == name)?;
        let value = self.cells.get(&var)?.get()?;
        // SAFETY: the cell is alive, and no step runs while `self` is borrowed here.
        unsafe { value.as_ref() }.tensor().ok().cloned()
    }

    /// Runs one step.
    ///
    /// # Errors
    /// When shapes do not fit, or an op refuses its inputs.
    pub(crate) fn run(
        &mut self,
        feeds: &[&Tensor],
        pool: &mut Pool,
        fetched: &mut [Tensor],
    ) -> Result<()> {
        let _in_use = self.scope.in_use();
        let at = self.layout_for(feeds, pool.workers())?;
        let layout = &mut self.layouts[at];
        bind_feeds(layout, feeds);
        let step = Step {
            selection: &self.selection,
            draw: self.draws.next(),
            check: self.check_finite.then_some(self.steps + 1),
            interrupt: self.interrupt.as_ref(),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
        };
        self.steps += 1;
        run_layout(layout, &step, pool);
        if let Some((_, error)) = step.error.into_inner().expect("a step's error is stored whole") {
            return Err(error);
        }
        for (value, fetched) in layout.fetches.iter().zip(fetched) {
            // SAFETY: the step is over; the frames are alive.
            fetched.copy_from(unsafe { value.as_ref() }.tensor()?);
        }
        Ok(())
    }

    fn layout_for(&mut self, feeds: &[&Tensor], workers: usize) -> Result<usize> {
        let fits = |layout: &Layout| {
            layout.shapes.iter().zip(feeds).all(|(shape, feed)| *shape == FeedShape::of(feed))
                && layout.still_fits()
        };
        if let Some(at) = self.layouts.iter().position(fits) {
            // The one in use moves to the end, so that the oldest is dropped first.
            self.layouts[at..].rotate_left(1);
            return Ok(self.layouts.len() - 1);
        }
        self.layouts.retain(Layout::still_fits);
        if self.layouts.len() >= MAX_LAYOUTS {
            self.layouts.remove(0);
        }
        let source = Source {
            selection: &self.selection,
            cells: &self.cells,
            workers,
            seed: self.seed,
            remote: self.remote.as_ref(),
            link: self.link.as_ref(),
        };
        let shapes = feeds.iter().map(|feed| FeedShape::of(feed)).collect();
        // Two training threads may meet an empty cell at one time.
        let layout = self.scope.exclusively(|| Layout::new(&source, shapes))?;
        self.layouts.push(layout);
        Ok(self.layouts.len() - 1)
    }
}

/// Every feed and fetch must be part of the program.
fn check_ends(
    program: &Program,
    ops: &[bireme_ir::Op],
    feeds: &[&str],
    fetches: &[&str],
) -> Result<()> {
    for feed in feeds {
        if program.global().var(feed).is_none() {
            return Err(Error::Feed {
                var: (*feed).to_owned(),
                problem: "the program has no such variable".to_owned(),
            });
        }
    }
    for fetch in fetches {
        let computed = ops.iter().any(|op| op.output_vars().any(|var| var == fetch));
        let persists = program.global().var(fetch).is_some_and(|var| var.persistable);
        if !computed && !persists && !feeds.contains(fetch) {
            return Err(Error::kernel(format!(
                "cannot fetch `{fetch}`: no op of the program computes it"
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

/// What the workers of one step share.
struct Step<'a> {
    selection: &'a Selection,
    /// The number by which random ops choose their stream.
    draw: u64,
    /// Where every output is checked: the number of this step, for messages.
    check: Option<u64>,
    /// Asked by worker 0, which runs on the caller's thread.
    interrupt: Option<&'a Interrupt>,
    /// Set with the first error; the others then only meet at barriers.
    failed: AtomicBool,
    /// The error of the earliest op that failed.
    error: Mutex<Option<(usize, Error)>>,
}

impl Step<'_> {
    fn run(&self, worker: usize, call: &mut Call) {
        let (op, selected) = (call.op, &self.selection.ops[call.op]);
        self.guard(op, || {
            let mut asked = self.interrupt.filter(|_| worker == 0).into_iter();
            if asked.any(Interrupt::is_wanted) {
                return Err(Error::Interrupted);
            }
            call.run(selected, self.draw, self.check)
        });
    }

    /// Called by a worker that waits for the others: an op of theirs may wait for other processes,
    /// and the signals of this one come to worker 0.
    fn idle(&self, worker: usize) {
        let mut asked = self.interrupt.filter(|_| worker == 0).into_iter();
        if !self.failed.load(Ordering::Relaxed) && asked.any(Interrupt::is_wanted) {
            self.fail(usize::MAX, Error::Interrupted);
        }
    }

    fn merge(&self, pieces: &Merge) {
        self.guard(usize::MAX, || {
            merge(pieces);
            Ok(())
        });
    }

    /// Runs a part of the step unless another has failed. A panic counts as a failure: it would
    /// leave the other workers waiting at a barrier for ever.
    fn guard(&self, op: usize, part: impl FnOnce() -> Result<()>) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(part)).unwrap_or_else(|panic| {
            let error = Error::caught(panic);
            Err(match self.selection.ops.get(op) {
                Some(selected) => error.in_op(&selected.op),
                None => error,
            })
        });
        if let Err(error) = outcome {
            self.fail(op, error);
        }
    }

    fn fail(&self, op: usize, error: Error) {
        let mut first = self.error.lock().expect("a step's error is stored whole");
        if first.as_ref().is_none_or(|(other, _)| op < *other) {
            *first = Some((op, error));
        }
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// A pointer that workers may share; each use says why it is sound.
struct Shared<T>(NonNull<T>);

// SAFETY: see the uses.
unsafe impl<T> Sync for Shared<T> {}

fn run_layout(layout: &mut Layout, step: &Step<'_>, pool: &mut Pool) {
    for call in &mut layout.before {
        step.run(0, call);
    }
    if layout.split.iter().all(Vec::is_empty) {
        return layout.after.iter_mut().flatten().for_each(|call| step.run(0, call));
    }
    let barrier = Barrier::new(layout.split.len());
    let merges = AtomicUsize::new(0);
    let tasks: [AtomicUsize; MAX_LEVELS] = std::array::from_fn(|_| AtomicUsize::new(0));
    let shared = Shared(NonNull::from(&mut *layout));
    let job = |worker: usize| {
        let (shared, idle) = (&shared, || step.idle(worker));
        // SAFETY: `layout` is borrowed for the whole job. Each worker touches its own list of
        // split calls, and each merge and task is claimed by exactly one worker.
        let layout = unsafe { &mut *shared.0.as_ptr() };
        for call in &mut layout.split[worker] {
            step.run(worker, call);
        }
        barrier.wait(idle);
        claim(&merges, layout.merges.len(), |i| step.merge(&layout.merges[i]));
        for (level, calls) in layout.after.iter_mut().enumerate() {
            barrier.wait(idle);
            let calls = calls.as_mut_slice();
            // Levels beyond the counters run on worker 0 alone.
            match tasks.get(level) {
                Some(next) => claim(next, calls.len(), |i| step.run(worker, &mut calls[i])),
                None if worker == 0 => calls.iter_mut().for_each(|call| step.run(0, call)),
                None => {}
            }
        }
    };
    pool.run(&job, || step.idle(0));
}

/// Levels whose ops run side by side; a step has one or two, a clipped one about six.
const MAX_LEVELS: usize = 16;

fn claim(next: &AtomicUsize, count: usize, mut task: impl FnMut(usize)) {
    loop {
        let i = next.fetch_add(1, Ordering::Relaxed);
        if i >= count {
            return;
        }
        task(i);
    }
}

/// Adds the workers' pieces into the first, in the order of the workers.
fn merge(merge: &Merge) {
    // SAFETY: the pieces are distinct values; each range is merged by one worker, and nobody else
    // touches them between the two barriers around the merge.
    let (first, others) = merge.pieces.split_first().expect("a merge has pieces");
    let first = unsafe { &mut *first.as_ptr() };
    for other in others {
        // SAFETY: as above.
        match (&mut *first, unsafe { other.as_ref() }) {
            (Value::Tensor(sum), Value::Tensor(piece)) => {
                if let Some(range) = &merge.range {
                    add(sum, piece, range.clone());
                }
            }
            (Value::Rows(sum), Value::Rows(piece)) => sum.append(piece),
            _ => unreachable!("pieces of one variable are of one kind"),
        }
    }
}

fn add(sum: &mut Tensor, piece: &Tensor, range: std::ops::Range<usize>) {
    crate::dispatch!(sum.dtype(), T in [f32, f64, i64, i32] => {
        let (Ok(sum), Ok(piece)) = (sum.as_mut_slice::<T>(), piece.as_slice::<T>()) else {
            unreachable!("pieces of one variable have one type")
        };
        for (sum, piece) in sum[range.clone()].iter_mut().zip(&piece[range]) {
            *sum += *piece;
        }
    }, else => unreachable!("only numbers are summed"))
}
