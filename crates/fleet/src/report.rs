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

use bireme_engine::Place;
use bireme_engine::device::Device;
use bireme_ps::worker::{Times, Worker};
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
    /// When the first step was reported, and what had been spent by then.
    began: Option<(Instant, Times)>,
}

/// What a process trains on, and what its time goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The number of its card, and the bytes of it that are in use, by whomever.
    pub card: Option<(u32, u64)>,
    /// How long its steps were with servers.
    pub times: Times,
}

impl Spent {
    /// What a trainer with this way to its servers and this card has spent.
    pub fn of(worker: Option<&Worker>, card: Option<&dyn Device>) -> Spent {
        let card = card.and_then(|card| {
            let Place::Cuda(number) = card.place() else { return None };
            let memory = card.memory().ok()?;
            Some((number, memory.total.saturating_sub(memory.free) as u64))
        });
        Spent { card, times: worker.map(Worker::times).unwrap_or_default() }
    }
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
    #[serde(skip_serializing_if = "Option::is_none")]
    card: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    card_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shares: Option<Shares>,
}

/// What of a process's time goes where since its first step, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Shares {
    pull: u8,
    push: u8,
    waiting: u8,
    /// The rest.
    compute: u8,
}

impl Shares {
    fn of(spent: Times, whole: Duration) -> Shares {
        let percent = |part: Duration| {
            let part = part.as_secs_f64() / whole.as_secs_f64().max(1e-9);
            (part * 100.0).round().clamp(0.0, 100.0) as u8
        };
        let (pull, push) = (percent(spent.pull), percent(spent.push));
        let waiting = percent(spent.wait + spent.server);
        let compute = 100u8.saturating_sub(pull).saturating_sub(push).saturating_sub(waiting);
        Shares { pull, push, waiting, compute }
    }
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

    /// Counts steps that were made, and the samples in them, if that is known. What they cost is asked only where it
    /// is said.
    pub fn steps(&self, steps: u64, samples: Option<u64>, spent: impl FnOnce() -> Spent) {
        self.tell(|open| {
            open.line.step = Some(open.line.step.unwrap_or(0) + steps);
            if let Some(samples) = samples {
                open.line.samples = Some(open.line.samples.unwrap_or(0) + samples);
            }
            let is_first = open.line.step == Some(steps);
            let is_said = is_first || open.said.is_none_or(|said| said.elapsed() >= EVERY);
            if is_said {
                open.note(spent());
            }
            is_said
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

impl Open {
    /// Notes what a process trains on. Times count from its first step on, so that preparations do not.
    fn note(&mut self, spent: Spent) {
        self.line.card = spent.card.map(|(number, _)| number);
        self.line.card_bytes = spent.card.map(|(_, bytes)| bytes);
        let (began, before) = *self.began.get_or_insert((Instant::now(), spent.times));
        let times = spent.times.since(&before);
        let is_spent = spent.card.is_some() || spent.times != Times::default();
        let whole = began.elapsed();
        self.line.shares = (is_spent && !whole.is_zero()).then(|| Shares::of(times, whole));
    }
}

/// Opens the pipe anew: without blocking, and only if it is one.
fn open(descriptor: u32) -> Option<Open> {
    let path = format!("/proc/self/fd/{descriptor}");
    if !std::fs::metadata(&path).ok()?.file_type().is_fifo() {
        return None;
    }
    let pipe = OpenOptions::new().write(true).custom_flags(NONBLOCK).open(path).ok()?;
    Some(Open { pipe, line: Line::default(), said: None, began: None })
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
        reporter.steps(1, Some(512), Spent::default);
        // Too soon for another line.
        reporter.steps(1, Some(512), || panic!("nobody asks"));
        drop((reporter, writer));
        let lines: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        let expected = ["{\"mode\":\"geo\"}", "{\"step\":1,\"samples\":512,\"mode\":\"geo\"}"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn shares_are_parts_of_the_whole() {
        let times = Times {
            pull: Duration::from_millis(200),
            push: Duration::from_millis(100),
            wait: Duration::from_millis(20),
            server: Duration::from_millis(30),
        };
        let shares = Shares::of(times, Duration::from_secs(1));
        assert_eq!(shares, Shares { pull: 20, push: 10, waiting: 5, compute: 65 });
        // Several threads may spend more than there is.
        assert_eq!(Shares::of(times, Duration::from_millis(100)).compute, 0);
        let card = Spent { card: Some((1, 4096)), times };
        let mut open = Open {
            pipe: tempfile::tempfile().unwrap(),
            line: Line::default(),
            said: None,
            began: Some((
                Instant::now().checked_sub(Duration::from_secs(1)).unwrap(),
                Times::default(),
            )),
        };
        open.note(card);
        let text = serde_json::to_string(&open.line).unwrap();
        assert!(text.starts_with(r#"{"card":1,"card_bytes":4096,"shares":{"pull":20,"#), "{text}");
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
            reporter.steps(1, None, Spent::default);
        }
        let file = tempfile::tempfile().unwrap();
        assert!(open(file.as_raw_fd().unsigned_abs()).is_none(), "a file is no pipe");
    }
}
