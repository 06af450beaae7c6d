//! What is started again after a failure.
//!
//! A trainer that nobody waits for (async, half-async and geo modes) is started alone, and joins
//! its servers again. In all other cases the others cannot go on without the values or the steps
//! that are lost, and everything is started again; servers then load the last checkpoint.

use crate::job::{Job, Mode, Process, Role};

/// What is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    /// The process that failed.
    Alone,
    /// All processes of the job, on all its machines.
    All,
}

/// What is to be started again when `process`, which said that it trains in `mode`, has failed.
pub(super) fn decide(job: &Job, process: &Process, mode: Option<&str>) -> Restart {
    let alone = matches!(mode, Some("async" | "half_async" | "geo"));
    if job.mode == Mode::Servers && process.role == Role::Worker && alone {
        return Restart::Alone;
    }
    Restart::All
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::tests::{job, process};

    #[test]
    fn only_who_is_not_waited_for_starts_alone() {
        let one = job(Mode::Servers, vec![]);
        let worker = process(Role::Worker, 0);
        let server = process(Role::Server, 0);
        assert_eq!(decide(&one, &worker, Some("async")), Restart::Alone);
        assert_eq!(decide(&one, &worker, Some("geo")), Restart::Alone);
        assert_eq!(decide(&one, &worker, Some("sync")), Restart::All);
        assert_eq!(decide(&one, &worker, None), Restart::All);
        assert_eq!(decide(&one, &server, None), Restart::All);
        let collective = job(Mode::Collective, vec![]);
        assert_eq!(decide(&collective, &worker, Some("async")), Restart::All);
    }
}
