//! The processes of a job on this machine, from start to end.
//!
//! One thread waits for everything at once: deaths (pidfds), signals and the processes' own
//! reports (pipes), worker 0's log (inotify). Whatever happens, nothing is left running: each
//! process leads a session of its own that is ended as a whole, and a guard (`guard.rs`) ends them all when
//! this process is killed.

mod bottom;
mod end;
mod events;
mod failure;
mod folder;
mod guard;
mod live;
mod process;
mod remote;
mod restart;
mod screen;
mod signals;
mod status;
mod stop;
mod stream;
mod stuck;
mod system;
mod tail;
mod watch;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Result;

use crate::job::{Job, Role};
use crate::rendezvous::Peers;

pub use screen::{Level, Screen};
pub use stop::Stop;

/// How to run a job.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where messages, worker 0's output and the live lines go.
    pub screen: Screen,
    /// Whether logs of a collective job begin anew; those of servers and their workers always do.
    pub overwrite_logs: bool,
    /// Whether SIGINT, SIGTERM and SIGHUP are handled here. They belong to the process: only one
    /// job of a process may.
    pub signals: bool,
    /// How long processes may take to end after a failure.
    pub grace: Duration,
    /// How long they may take when the user asks for the end: long enough to save something.
    pub patience: Duration,
    /// How long a worker that its servers have lost may hang before it is ended; none: for ever.
    pub lost_grace: Option<Duration>,
    /// Ends the job from outside: another machine failed.
    pub stop: Option<Stop>,
    /// Where starts, first steps and ends are told, for those who measure.
    pub notices: Option<Sender<Notice>>,
}

/// Something that happened to a process of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It was started.
    Started {
        /// What it does.
        role: Role,
        /// Its number.
        rank: usize,
        /// Its process.
        pid: i32,
    },
    /// It has made its first step of training.
    Stepped {
        /// What it does.
        role: Role,
        /// Its number.
        rank: usize,
    },
}

impl Default for Options {
    fn default() -> Options {
        Options {
            screen: Screen::standard(Level::Info),
            overwrite_logs: false,
            signals: true,
            // A process that is killed must end the job within two seconds.
            grace: Duration::from_secs(1),
            patience: Duration::from_secs(10),
            lost_grace: Some(Duration::from_secs(60)),
            stop: None,
            notices: None,
        }
    }
}

/// How a job ended on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code of the launcher: 0, that of the process that failed first, or 128 and the
    /// number of a signal.
    pub code: u8,
    /// The process that failed first, if one did.
    pub failure: Option<Failure>,
}

/// The process that ended a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it did.
    pub role: Role,
    /// Its number.
    pub rank: usize,
    /// What happened, in one line: `worker 1 ended with exit code 3`.
    pub what: String,
}

/// Runs the processes of this machine until the job has ended. Tells the user everything there is
/// to tell; the caller only passes the exit code on.
///
/// Must be called on a thread that lives as long as the job: the kernel ends processes with the
/// thread that started them.
///
/// # Errors
/// When the launcher itself cannot work: no folder for logs, no file descriptors left.
pub fn run(job: &Job, options: &Options) -> Result<Outcome> {
    watch(job, options, None)
}

/// Runs the processes of this machine as one of several: the first failure on any of them ends the
/// job on all, servers stay until the workers of all machines are done, and a restart is everybody's.
///
/// # Errors
/// As of [`run`]; the others are told.
pub fn run_with(job: &Job, options: &Options, peers: &Arc<dyn Peers>) -> Result<Outcome> {
    let outcome = watch(job, options, Some(peers.clone()));
    if let Err(error) = &outcome {
        let node = job.nodes.get(job.node).map_or("", String::as_str);
        let how = format!("cannot go on: {}", crate::in_words(error));
        peers.local_failed(&crate::rendezvous::Failure::of_node(node, &how));
    }
    peers.leave();
    outcome
}

fn watch(job: &Job, options: &Options, peers: Option<Arc<dyn Peers>>) -> Result<Outcome> {
    let mut watch = watch::Watch::new(job, options, peers)?;
    let outcome = watch.run();
    // Also after an error of our own nothing may be left.
    watch.clear();
    outcome
}
