//! Work that is shared out: every task once, whoever comes, panics and all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

/// Threads of their own, so that tests need not share the machine's.
fn with_four<R>(work: impl FnOnce() -> R) -> R {
    with_threads(4, work)
}

#[test]
fn every_task_runs_once() {
    with_four(|| {
        for tasks in [0, 1, 2, 3, 100] {
            let runs: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            share_out(tasks, &|task| {
                runs[task].fetch_add(1, Ordering::Relaxed);
            });
            assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
        }
    });
}

#[test]
fn tasks_may_share_out_their_own() {
    let count = AtomicUsize::new(0);
    with_four(|| {
        share_out(5, &|_| {
            share_out(7, &|_| {
                share_out(2, &|_| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
            });
        });
    });
    assert_eq!(count.into_inner(), 5 * 7 * 2);
}

#[test]
fn callers_beside_each_other_all_get_their_work_done() {
    let count = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                with_four(|| {
                    for _ in 0..20 {
                        share_out(10, &|_| {
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            });
        }
    });
    assert_eq!(count.into_inner(), 4 * 20 * 10);
}

/// Two tasks that meet need two threads: the second is another than the caller.
#[test]
fn others_take_part() {
    with_four(|| {
        let met = AtomicUsize::new(0);
        share_out(2, &|_| {
            met.fetch_add(1, Ordering::SeqCst);
            while met.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
        });
    });
}

#[test]
fn the_caller_is_asked_while_it_waits() {
    with_four(|| {
        let (caller, asked) = (std::thread::current().id(), AtomicBool::new(false));
        let started = AtomicUsize::new(0);
        // The caller's task waits until another thread has the other one, which waits until the caller is asked.
        let task = |_: usize| {
            started.fetch_add(1, Ordering::SeqCst);
            let is_caller = std::thread::current().id() == caller;
            let ready = || match is_caller {
                true => started.load(Ordering::SeqCst) == 2,
                false => asked.load(Ordering::SeqCst),
            };
            while !ready() {
                std::thread::yield_now();
            }
        };
        share_out_asking(2, &task, &|| asked.store(true, Ordering::SeqCst));
        assert!(asked.load(Ordering::SeqCst));
    });
}

#[test]
fn a_panic_comes_to_the_caller() {
    with_four(|| {
        for culprit in [0, 50, 99] {
            let job = |task: usize| assert_ne!(task, culprit, "the culprit");
            let caught =
                catch_unwind(AssertUnwindSafe(|| share_out(100, &job))).expect_err("it panics");
            let text = caught.downcast_ref::<String>().expect("a message");
            assert!(text.contains("the culprit"), "{text}");
        }
        let count = AtomicUsize::new(0);
        share_out(3, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 3);
    });
}

#[test]
fn who_is_alone_does_it_alone() {
    let caller = std::thread::current().id();
    share_out(10, &|_| assert_eq!(std::thread::current().id(), caller));
    assert_eq!(blocks(1 << 20, 1), 1);
    with_four(|| {
        assert_eq!((blocks(10, 100), blocks(250, 100), blocks(1 << 20, 100)), (1, 2, 8));
        with_hands(1, || assert_eq!(hands(), 1));
        assert_eq!(hands(), 4);
    });
}

#[test]
fn parts_of_a_slice_are_written_by_all() {
    with_four(|| {
        let mut numbers = vec![0; 1000];
        let parts = Parts::of(&mut numbers);
        each_block(1000, 8, |range| {
            let first = range.start;
            // SAFETY: ranges of blocks do not overlap.
            let part = unsafe { parts.part(range) };
            part.iter_mut().enumerate().for_each(|(at, number)| *number = first + at);
        });
        assert!(numbers.iter().enumerate().all(|(at, number)| at == *number));
    });
}
