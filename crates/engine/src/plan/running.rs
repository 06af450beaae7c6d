//! A step that runs: who takes which part of it, sums of parts, and what becomes of its first error.

#![expect(unsafe_code, reason = "threads run the calls of a layout side by side")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use crate::crew;
use crate::plan::clock::{Clock, Part, timed};
use crate::plan::frame::Call;
use crate::plan::interrupt::Interrupt;
use crate::plan::layout::{Layout, Merge};
use crate::plan::select::Selection;
use crate::tensor::{SelectedRows, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// What the threads of one step share.
pub(crate) struct RunningStep<'a> {
    pub(super) selection: &'a Selection,
    /// The number by which random ops choose their stream.
    pub(super) draw: u64,
    /// Where every output is checked: the number of this step, for messages.
    pub(super) check: Option<u64>,
    /// Asked by the thread that asked for the step: the signals of this process come to it.
    interrupt: Option<&'a Interrupt>,
    clock: Option<&'a Clock>,
    caller: ThreadId,
    /// Set with the first error; nothing more is run then.
    failed: AtomicBool,
    /// The error of the earliest op that failed.
    pub(super) error: Mutex<Option<(usize, Error)>>,
}

impl<'a> RunningStep<'a> {
    pub(super) fn new(
        selection: &'a Selection,
        draw: u64,
        check: Option<u64>,
        interrupt: Option<&'a Interrupt>,
        clock: Option<&'a Clock>,
    ) -> RunningStep<'a> {
        let (failed, error) = (AtomicBool::new(false), Mutex::new(None));
        let caller = std::thread::current().id();
        RunningStep { selection, draw, check, interrupt, clock, caller, failed, error }
    }

    pub(super) fn run(&self, call: &mut Call) {
        let (op, selected) = (call.op, &self.selection.ops[call.op]);
        self.guard(op, || {
            self.ask()?;
            call.run(selected, self.draw, self.check)
        });
    }

    /// Whether an op changes parameters.
    fn updates(&self, call: &Call) -> bool {
        !self.selection.ops[call.op].op.outputs_of("ParamOut").is_empty()
    }

    /// Called while a thread waits for others, of whose ops one may wait for other processes.
    fn idle(&self) {
        self.guard(usize::MAX, || self.ask());
    }

    pub(super) fn ask(&self) -> Result<()> {
        match self.interrupt {
            Some(interrupt)
                if std::thread::current().id() == self.caller && interrupt.is_wanted() =>
            {
                Err(Error::Interrupted)
            }
            _ => Ok(()),
        }
    }

    fn merge(&self, pieces: &Merge) {
        self.guard(usize::MAX, || {
            merge(pieces);
            Ok(())
        });
    }

    /// Runs a part of the step unless another has failed. A panic counts as a failure, so that it
    /// is told with the name of the op.
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

/// A layout that the threads of one step share.
struct Shared<'a>(&'a Layout);

// SAFETY: threads reach a layout's ops by `Calls::claim`, each op by one thread at a time; what ops
// and merges point to is touched by one thread at a time too, or only read.
unsafe impl Sync for Shared<'_> {}

/// Runs a step with the help of up to `threads` threads. Stages follow one another; within one, shares
/// of the batch, sums and ops of a level are taken by whoever is free.
pub(super) fn run_layout(layout: &mut Layout, step: &RunningStep<'_>, threads: usize) {
    let clock = step.clock;
    let is_split = layout.split.iter().any(|share| share.len() > 0);
    // Others may run all ops of a small step before the caller comes to one, and only the caller asks.
    step.idle();
    crew::with_threads(threads, || {
        for call in layout.before.iter_mut() {
            // Without shares all ops are in this list.
            let part = match () {
                () if is_split => Part::Before,
                () if step.updates(call) => Part::After,
                () => Part::Shares,
            };
            timed(clock, part, || step.run(call));
        }
        let shared = Shared(layout);
        let idle = || step.idle();
        // Shares are cut for all threads: within one, work is cut only for those that have none left.
        let share = |at: usize| {
            let calls = &shared.get().split[at];
            // SAFETY: a share, with its list of ops, is one task.
            let all = || (0..calls.len()).for_each(|i| step.run(unsafe { calls.claim(i) }));
            timed(clock, Part::OnShares, || crew::with_spare_hands(threads, all));
        };
        timed(clock, Part::Shares, || {
            crew::share_out_near(shared.get().split.len(), &share, &idle);
        });
        let merge = |at: usize| step.merge(&shared.get().merges[at]);
        timed(clock, Part::Sums, || {
            crew::share_out_near(shared.get().merges.len(), &merge, &idle);
        });
        timed(clock, Part::After, || {
            for level in 0..shared.get().after.len() {
                // SAFETY: of a level, each op is one task.
                let op = |at: usize| step.run(unsafe { shared.get().after[level].claim(at) });
                crew::share_out_asking(shared.get().after[level].len(), &op, &idle);
            }
        });
    });
    if let Some(clock) = clock {
        clock.count_step();
    }
}

impl Shared<'_> {
    fn get(&self) -> &Layout {
        self.0
    }
}

/// Adds the pieces of all shares into the first, in the order of the shares.
fn merge(merge: &Merge) {
    let (first, others) = merge.pieces.split_first().expect("a merge has pieces");
    match &merge.range {
        Some(range) => {
            for other in others {
                // SAFETY: the pieces are distinct values, and of the first each range is merged by one
                // task; nobody changes their shapes or addresses meanwhile.
                unsafe {
                    let (sum, piece) = (first.as_ref().tensor(), other.as_ref().tensor());
                    let (Ok(sum), Ok(piece)) = (sum, piece) else {
                        unreachable!("pieces of one variable are of one kind")
                    };
                    add(sum, piece, range.clone());
                }
            }
        }
        None => {
            let pieces = Pieces(others);
            // SAFETY: pieces without a range are merged by one task as a whole.
            let Value::Rows(sum) = (unsafe { &mut *first.as_ptr() }) else { return };
            sum.append_all(others.len(), |at| pieces.rows(at));
        }
    }
}

/// Selected rows of several shares, which nobody changes now.
struct Pieces<'a>(&'a [NonNull<Value>]);

// SAFETY: they are only read.
unsafe impl Sync for Pieces<'_> {}

impl<'a> Pieces<'a> {
    fn rows(&self, at: usize) -> &'a SelectedRows {
        // SAFETY: the frames that they lie in are alive as long as the layout, and only read now.
        let piece = unsafe { self.0[at].as_ref() };
        piece.rows().expect("pieces of one variable are of one kind")
    }
}

/// Adds a range of `piece` to that of `sum`.
///
/// # Safety
/// Nobody else touches this range of `sum`.
unsafe fn add(sum: &Tensor, piece: &Tensor, range: std::ops::Range<usize>) {
    assert!(range.end <= sum.numel(), "a range lies inside its piece");
    crate::dispatch!(sum.dtype(), T in [f32, f64, i64, i32, half::f16, half::bf16] => {
        let Ok(piece) = piece.as_slice::<T>() else {
            unreachable!("pieces of one variable have one type")
        };
        // SAFETY: the range lies inside, the elements are of this type, and nobody else touches
        // them; a slice of all of `sum` would overlap those of other tasks.
        let sum = unsafe {
            let start = sum.start().cast::<T>().add(range.start);
            std::slice::from_raw_parts_mut(start.as_ptr(), range.len())
        };
        for (sum, piece) in sum.iter_mut().zip(&piece[range]) {
            *sum += *piece;
        }
    }, else => unreachable!("only numbers are summed"))
}
