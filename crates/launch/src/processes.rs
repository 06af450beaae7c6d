//! The processes of this machine, in touch with the other machines of the job.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::arguments::{Level, Options};
use crate::job::Job;
use crate::rendezvous::{Event, Failure, Membership, Peers};
use crate::supervise::{self, Screen, Stop};

/// Between two looks whether this machine's part is over.
const SLICE: Duration = Duration::from_millis(100);

/// Runs the job to its end; the exit code.
///
/// # Errors
/// When the launcher itself cannot work.
pub(crate) fn run(job: &Job, options: &Options, peers: Option<Membership>) -> Result<u8> {
    let how = supervise::Options {
        screen: Screen::standard(level(options.log_level)),
        overwrite_logs: options.log_overwrite,
        ..supervise::Options::default()
    };
    match peers {
        None => supervise::run(job, &how).map(|outcome| outcome.code),
        Some(peers) => with_peers(job, how, &peers),
    }
}

fn level(level: Level) -> supervise::Level {
    match level {
        Level::Debug => supervise::Level::Debug,
        Level::Info => supervise::Level::Info,
        Level::Warning => supervise::Level::Warning,
        Level::Error => supervise::Level::Error,
    }
}

/// Runs this machine's processes until they or those of another machine have ended.
fn with_peers(job: &Job, mut how: supervise::Options, peers: &Membership) -> Result<u8> {
    let stop = Stop::new().context("no file descriptors are left")?;
    how.stop = Some(stop.clone());
    let over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| follow(job, peers, &stop, &over));
        let outcome = supervise::run(job, &how);
        match &outcome {
            Ok(outcome) => tell(job, outcome, peers),
            Err(error) => peers.local_failed(&Failure::of_node(own(job), &format!("{error:#}"))),
        }
        over.store(true, Ordering::Release);
        outcome
    });
    peers.leave();
    outcome.map(|outcome| outcome.code)
}

fn own(job: &Job) -> &str {
    &job.nodes[job.node]
}

/// Ends the processes here when the job ends elsewhere.
fn follow(job: &Job, peers: &Membership, stop: &Stop, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        match peers.next_event(SLICE) {
            Some(Event::Failed(failure)) if failure.node != own(job) => {
                let mut reason = failure.to_string();
                if !failure.log.is_empty() {
                    reason += &format!("; its log is {} there", failure.log);
                }
                for line in &failure.tail {
                    reason += &format!("\n    {line}");
                }
                stop.end(u8::try_from(failure.code).unwrap_or(1).max(1), &reason);
            }
            Some(Event::NodeLost { node, why }) => {
                stop.end(1, &format!("node {node} is lost: {why}"));
            }
            Some(Event::AllWorkersDone) => stop.end(0, "the workers of all machines are done"),
            Some(Event::Restart { failure, .. }) => stop.end(1, &failure.to_string()),
            Some(Event::Failed(_) | Event::Begin { .. }) | None => {}
        }
    }
}

/// Tells the other machines how this one's part ended.
fn tell(job: &Job, outcome: &supervise::Outcome, peers: &Membership) {
    match &outcome.failure {
        Some(failed) => peers.local_failed(&Failure {
            process: Some((failed.role, failed.rank)),
            code: i32::from(outcome.code),
            ..Failure::of_node(own(job), &failed.what)
        }),
        None if outcome.code == 0 => peers.local_workers_done(),
        None => peers.local_failed(&Failure {
            code: i32::from(outcome.code),
            ..Failure::of_node(own(job), "was told to end")
        }),
    }
}
