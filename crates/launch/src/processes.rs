//! The processes of this machine, in touch with the other machines of the job.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bireme_fleet::environment::variables as v;

use crate::arguments::{Level, Options, Variables};
use crate::job::Job;
use crate::meeting;
use crate::rendezvous::{Membership, Peers};
use crate::supervise::{self, Screen};

/// Runs the job to its end; the exit code.
///
/// # Errors
/// When the launcher itself cannot work.
pub(crate) fn run(
    job: &Job,
    options: &Options,
    screen: Screen,
    variables: &Variables,
    peers: Option<Membership>,
) -> Result<u8> {
    let default = supervise::Options::default();
    let lost_grace = match meeting::seconds(variables, &v::LOST_TIMEOUT)? {
        Some(Duration::ZERO) => None,
        Some(grace) => Some(grace),
        None => default.lost_grace,
    };
    let how =
        supervise::Options { screen, overwrite_logs: options.log_overwrite, lost_grace, ..default };
    let outcome = match peers {
        None => supervise::run(job, &how),
        Some(peers) => {
            let peers: Arc<dyn Peers> = Arc::new(peers);
            supervise::run_with(job, &how, &peers)
        }
    };
    outcome.map(|outcome| outcome.code)
}

/// Where the output of a job goes.
pub(crate) fn screen(options: &Options) -> Screen {
    Screen::standard(level(options.log_level))
}

fn level(level: Level) -> supervise::Level {
    match level {
        Level::Debug => supervise::Level::Debug,
        Level::Info => supervise::Level::Info,
        Level::Warning => supervise::Level::Warning,
        Level::Error => supervise::Level::Error,
    }
}
