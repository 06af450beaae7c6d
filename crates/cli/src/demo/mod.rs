//! What `bireme train` trains without arguments: generated click data, and the CTR-DNN.

pub mod batch;
pub mod data;
pub(crate) mod member;
pub mod metrics;
pub mod model;
pub(crate) mod share;
pub(crate) mod training;
pub(crate) mod watch;

use std::sync::Mutex;

/// Does every job once, on as many threads; the order is open.
pub(crate) fn in_parallel<J: Send>(threads: usize, jobs: Vec<J>, work: impl Fn(J) + Sync) {
    let helpers = threads.min(jobs.len()).saturating_sub(1);
    let jobs = Mutex::new(jobs);
    let take = || jobs.lock().expect("taking a job does not panic").pop();
    let work = || {
        while let Some(job) = take() {
            work(job);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            // Where the system gives no more threads, those there are do the work.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}
