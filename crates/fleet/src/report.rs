//! What a process tells its launcher of its training: lines of JSON into the pipe that
//! `BIREME_STATUS_FD` names.
//!
//! Reports are for display and for the decision what to start again; they never make training
//! wait, and nothing that goes wrong with them is an error.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{Environment, Mode};

/// Time between two reports, at least.
const EVERY: Duration = Duration::from_millis(200);
/// `O_NONBLOCK` of Linux.
const NONBLOCK: i32 = 0o4000;

/// The mode of trainers that start again together.
const TOGETHER: &str = "together";

/// A process's way to its launcher; says nothing where there is none.
#[derive(Debug, Default)]
pub struct Reporter {
    open: Option<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    pipe: File,
    line: Line,
    said: Option<Instant>,
}

#[derive(Debug, Default, Serialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<Vec<Lost>>,
}

/// A process that a server has lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Lost {
    /// `trainer` or `heter_worker`.
    pub(crate) role: &'static str,
    /// Its number in its role.
    pub(crate) rank: u32,
    /// What happened.
    pub(crate) why: String,
    /// What it called itself when it joined: `process 4242 on `host``.
    pub(crate) process: String,
}

impl Reporter {
    /// The reporter of a process in this environment.
    pub fn new(environment: &Environment) -> Reporter {
        let descriptor = environment.launcher.status_fd;
        Reporter { open: descriptor.and_then(open).map(Mutex::new) }
    }

    /// Says how this trainer keeps time with others: at once, because it decides what is started
    /// again should the trainer fail.
    pub fn mode(&self, mode: Mode) {
        let name = mode.name();
        self.tell(|open| {
            let is_news = open.line.mode != Some(name) && open.line.mode != Some(TOGETHER);
            if is_news {
                open.line.mode = Some(name);
            }
            is_news
        });
    }

    /// Says that this trainer meets the others on its way, whatever its mode: should it fail, all are
    /// started again. Said before [`Reporter::mode`], which it stands for.
    pub fn together(&self) {
        self.tell(|open| open.line.mode.replace(TOGETHER) != Some(TOGETHER));
    }

    /// Says whom this server has lost so far; the launcher of a trainer that hangs ends it.
    pub(crate) fn lost(&self, lost: Vec<Lost>) {
        self.tell(|open| {
            let is_news = open.line.lost.as_deref().unwrap_or_default() != lost;
            open.line.lost = Some(lost).filter(|_| is_news).or_else(|| open.line.lost.take());
            is_news
        });
    }

    /// Counts steps that were made, and the samples in them, if that is known.
    pub fn steps(&self, steps: u64, samples: Option<u64>) {
        self.tell(|open| {
            open.line.step = Some(open.line.step.unwrap_or(0) + steps);
            if let Some(samples) = samples {
                open.line.samples = Some(open.line.samples.unwrap_or(0) + samples);
            }
            let is_first = open.line.step == Some(steps);
            is_first || open.said.is_none_or(|said| said.elapsed() >= EVERY)
        });
    }

    /// Changes what is known, and says it if `change` wants so.
    fn tell(&self, change: impl FnOnce(&mut Open) -> bool) {
        let Some(open) = &self.open else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if !change(&mut open) {
            return;
        }
        let Ok(mut text) = serde_json::to_vec(&open.line) else { return };
        text.push(b'\n');
        open.said = Some(Instant::now());
        // A line is short enough to be written whole or, into a full pipe, not at all: there is
        // no rest to write.
        let _whole_or_nothing = open.pipe.write(&text);
    }
}

/// Opens the pipe anew: without blocking, and only if it is one.
fn open(descriptor: u32) -> Option<Open> {
    let path = format!("/proc/self/fd/{descriptor}");
    if !std::fs::metadata(&path).ok()?.file_type().is_fifo() {
        return None;
    }
    let pipe = OpenOptions::new().write(true).custom_flags(NONBLOCK).open(path).ok()?;
    Some(Open { pipe, line: Line::default(), said: None })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_launcher_hears_of_steps() {
        let (reader, writer) = std::io::pipe().unwrap();
        let descriptor = writer.as_raw_fd().to_string();
        let environment = Environment::of([("BIREME_STATUS_FD", descriptor.as_str())]).unwrap();
        let reporter = Reporter::new(&environment);
        reporter.mode(Mode::Geo);
        reporter.mode(Mode::Geo);
        reporter.steps(1, Some(512));
        // Too soon for another line.
        reporter.steps(1, Some(512));
        drop((reporter, writer));
        let lines: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        let expected = ["{\"mode\":\"geo\"}", "{\"step\":1,\"samples\":512,\"mode\":\"geo\"}"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn trainers_that_meet_say_so_in_place_of_their_mode() {
        let (reader, writer) = std::io::pipe().unwrap();
        let descriptor = writer.as_raw_fd().to_string();
        let environment = Environment::of([("BIREME_STATUS_FD", descriptor.as_str())]).unwrap();
        let reporter = Reporter::new(&environment);
        reporter.together();
        reporter.mode(Mode::Async);
        drop((reporter, writer));
        let lines: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        assert_eq!(lines, ["{\"mode\":\"together\"}"]);
    }

    #[test]
    fn a_launcher_hears_whom_a_server_has_lost_and_who_is_back() {
        let (reader, writer) = std::io::pipe().unwrap();
        let descriptor = writer.as_raw_fd().to_string();
        let environment = Environment::of([("BIREME_STATUS_FD", descriptor.as_str())]).unwrap();
        let reporter = Reporter::new(&environment);
        let [why, process] = ["silent", "process 7"].map(str::to_owned);
        let lost = vec![Lost { role: "trainer", rank: 1, why, process }];
        for lost in [vec![], lost.clone(), lost, vec![], vec![]] {
            reporter.lost(lost);
        }
        drop((reporter, writer));
        let lines: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        let expected = [
            r#"{"lost":[{"role":"trainer","rank":1,"why":"silent","process":"process 7"}]}"#,
            r#"{"lost":[]}"#,
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn without_a_launcher_nothing_is_said() {
        for descriptor in ["", "4000000000", "9999"] {
            let environment = Environment::of([("BIREME_STATUS_FD", descriptor)]).unwrap();
            let reporter = Reporter::new(&environment);
            assert!(reporter.open.is_none());
            reporter.steps(1, None);
        }
        let file = tempfile::tempfile().unwrap();
        assert!(open(file.as_raw_fd().unsigned_abs()).is_none(), "a file is no pipe");
    }
}
