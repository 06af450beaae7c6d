//! Which of the processes that failed is the cause, and what the user is told of it.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use bireme_fleet::shell::quoted;

use super::Failure;
use super::process::Ended;
use super::tail::tail;
use crate::job::{Job, Mode, Process, Role};

/// What a process writes at its end that only heard of another's.
const HEARSAY: [&str; 11] = [
    " gave up: ",
    " is lost",
    " was lost",
    "it ended with an error",
    "no trainer is left",
    "did not answer",
    "Connection reset by peer",
    "Connection refused",
    "Broken pipe",
    "closed the connection",
    "PreconditionNotMet", // Paddle's own, of a store whose master is gone.
];
/// Lines at the end of a log in which it would say so.
const LAST_WORDS: usize = 8;
/// The line of Paddle's launcher above the end of a log.
pub(super) const DETAIL: &str =
    "------------------------- ERROR LOG DETAIL -------------------------";

/// A process that failed.
pub(super) struct Failed<'a> {
    pub(super) process: &'a Process,
    pub(super) ended: Ended,
    /// The end of its log.
    pub(super) tail: Vec<String>,
}

impl<'a> Failed<'a> {
    /// Looks at the log of a process that failed.
    pub(super) fn new(process: &'a Process, ended: &Ended) -> Failed<'a> {
        let tail = tail(&ended.log.path, ended.log.start);
        Failed { process, ended: ended.clone(), tail }
    }

    /// Whether it failed because another did. One that a signal ended has its own reason.
    pub(super) fn is_hearsay(&self) -> bool {
        let last = &self.tail[self.tail.len().saturating_sub(LAST_WORDS)..];
        self.ended.status.code().is_some()
            && last.iter().any(|line| HEARSAY.iter().any(|words| line.contains(words)))
    }

    /// For the caller of the launcher.
    pub(super) fn failure(&self) -> Failure {
        let what = format!("{} {}", self.process.name(), self.ended.how());
        Failure { role: self.process.role, rank: self.process.rank, what }
    }
}

/// Whether the disk of a log is full, so that a process's last words are lost, and perhaps were what
/// ended it.
fn is_full(log: &Path) -> bool {
    let try_write = || -> io::Result<()> {
        // The line stays: somebody else may write after it, whom a cut would cost his words.
        OpenOptions::new().append(true).open(log)?.write_all(b"\n")
    };
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    try_write().is_err_and(|error| full.contains(&error.kind()))
}

/// The cause among processes that failed, none of them missing: the first that does not only
/// report another's end, else the first.
pub(super) fn cause(failed: &mut Vec<Failed<'_>>) -> usize {
    failed.sort_by_key(|failed| failed.ended.at);
    failed.iter().position(|failed| !failed.is_hearsay()).unwrap_or(0)
}

/// What the user is told: who, how, which command, the end of the log, and where the rest is.
pub(super) fn report(
    job: &Job,
    failed: &[Failed<'_>],
    cause: usize,
    out_of_memory: bool,
) -> String {
    let first = &failed[cause];
    let role = first.process.role;
    let of = job.processes.iter().filter(|process| process.role == role).count();
    let mut text = format!("error: {} (of {of}) {}", first.process.name(), first.ended.how());
    if first.ended.stuck.is_none() && first.ended.code() == 128 + 9 {
        text += match out_of_memory {
            true => ": the system ran out of memory, and perhaps chose this process to end",
            false => ": somebody killed it; if nobody did, perhaps the system ran out of memory",
        };
    }
    let command: Vec<String> =
        job.command.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    // Writing to a string cannot fail.
    let _ = write!(text, "\n  command: {}", command.join(" "));
    let _ = write!(text, "\n  log:     {}", first.ended.log.path.display());
    if is_full(&first.ended.log.path) {
        text += "\n  its log could not be written: no space is left on the disk of the logs";
    }
    match first.tail.is_empty() {
        true => text += " (it wrote nothing)",
        false => {
            let _ =
                write!(text, "\n{DETAIL}\n{}\n{}", first.tail.join("\n"), "-".repeat(DETAIL.len()));
        }
    }
    let others: Vec<String> = failed
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != cause)
        .map(|(_, other)| format!("{} {}", other.process.name(), other.ended.how()))
        .collect();
    if !others.is_empty() {
        let _ = write!(text, "\nas a consequence: {}", others.join(", "));
    }
    if job.mode == Mode::Collective && role == Role::Worker {
        let _ = write!(
            text,
            "\nABORT!!! Out of all {of} trainers, the trainer process with rank=[{}] was aborted. \
             Please check its log.",
            first.process.rank
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_without_room_is_known_and_others_lose_nothing() {
        assert!(is_full(Path::new("/dev/full")));
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "last words").unwrap();
        assert!(!is_full(log.path()));
        assert_eq!(std::fs::read_to_string(log.path()).unwrap(), "last words\n");
    }
}
