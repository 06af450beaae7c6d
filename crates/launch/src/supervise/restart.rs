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
    /// All processes of the job.
    All,
}

/// What is to be started again when `process`, which said that it trains in `mode`, has failed;
/// an error says why nothing can be.
pub(super) fn decide(
    job: &Job,
    process: &Process,
    mode: Option<&str>,
) -> Result<Restart, &'static str> {
    let alone = matches!(mode, Some("async" | "half_async" | "geo"));
    if job.mode == Mode::Servers && process.role == Role::Worker && alone {
        return Ok(Restart::Alone);
    }
    if job.nodes.len() > 1 {
        return Err("processes of other machines would have to start again too, which this \
                    version does not do: start the job again on all of them");
    }
    Ok(Restart::All)
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
        assert_eq!(decide(&one, &worker, Some("async")), Ok(Restart::Alone));
        assert_eq!(decide(&one, &worker, Some("geo")), Ok(Restart::Alone));
        assert_eq!(decide(&one, &worker, Some("sync")), Ok(Restart::All));
        assert_eq!(decide(&one, &worker, None), Ok(Restart::All));
        assert_eq!(decide(&one, &server, None), Ok(Restart::All));
        let collective = job(Mode::Collective, vec![]);
        assert_eq!(decide(&collective, &worker, Some("async")), Ok(Restart::All));
        let mut two = job(Mode::Servers, vec![]);
        two.nodes.push("10.0.0.2".to_owned());
        assert_eq!(decide(&two, &worker, Some("async")), Ok(Restart::Alone));
        assert!(decide(&two, &server, None).is_err());
    }
}
