//! What a process reports of its own training: lines of JSON in a pipe.

use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde::Deserialize;

use crate::job::Role;

/// The time over which steps a second are counted.
const WINDOW: Duration = Duration::from_secs(2);
/// A line longer than this is none of ours.
const LONGEST: usize = 4096;

/// The last report of a process.
#[derive(Clone, Debug)]
pub(super) struct Status {
    /// Whether the process may still report something.
    pub(super) is_open: bool,
    pub(super) step: Option<u64>,
    /// How it keeps time with others: `sync`, `async`, ...
    pub(super) mode: Option<String>,
    /// Of a server: whom it has lost, and since when it says so.
    pub(super) lost: Vec<(Lost, Instant)>,
    /// What it trains on and what its time goes to, as far as it says so.
    pub(super) card: Option<CardUse>,
    /// Steps a second, when they were last counted.
    rate: Option<f64>,
    /// When the last step was reported.
    heard: Option<Instant>,
    /// Where the rate was last counted.
    counted: Option<(Instant, u64)>,
    line: Vec<u8>,
}

#[derive(Default, Deserialize)]
struct Report {
    step: Option<u64>,
    mode: Option<String>,
    lost: Option<Vec<Lost>>,
    card: Option<u32>,
    card_bytes: Option<u64>,
    shares: Option<Shares>,
}

/// A process's card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CardUse {
    pub(super) number: u32,
    /// What the process has of its memory.
    pub(super) bytes: u64,
    pub(super) shares: Option<Shares>,
}

/// What of a process's time goes where, in percent.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) pull: u8,
    pub(super) compute: u8,
    pub(super) push: u8,
    pub(super) waiting: u8,
}

/// A process that a server has lost.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Lost {
    role: LostRole,
    pub(super) rank: usize,
    pub(super) why: String,
    /// What it called itself when it joined: `process 4242 on `host``.
    #[serde(default)]
    process: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum LostRole {
    Trainer,
    HeterWorker,
}

impl Lost {
    /// The number of the process, if the server knows it.
    pub(super) fn pid(&self) -> Option<Pid> {
        let number = self.process.strip_prefix("process ")?.split(' ').next()?;
        Pid::from_raw(number.parse().ok()?)
    }

    /// What the process does.
    pub(super) fn role(&self) -> Role {
        match self.role {
            LostRole::Trainer => Role::Worker,
            LostRole::HeterWorker => Role::HeterWorker,
        }
    }
}

impl Default for Status {
    fn default() -> Status {
        let (step, mode, rate, heard, counted) = (None, None, None, None, None);
        let (lost, line) = (Vec::new(), Vec::new());
        Status { is_open: true, step, mode, lost, card: None, rate, heard, counted, line }
    }
}

impl Status {
    /// Takes some more bytes of the pipe.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => {
                    // Whatever else writes there is not for us.
                    if let Ok(report) = serde_json::from_slice(&self.line) {
                        self.take(report, Instant::now());
                    }
                    self.line.clear();
                }
                byte if self.line.len() < LONGEST => self.line.push(*byte),
                _ => {}
            }
        }
    }

    /// Steps a second as of now: of a process that has not stepped for long, what that allows.
    pub(super) fn rate(&self, now: Instant) -> Option<f64> {
        let silence = now.saturating_duration_since(self.heard?);
        let most = if silence > WINDOW { 1.0 / silence.as_secs_f64() } else { f64::INFINITY };
        self.rate.map(|rate| rate.min(most))
    }

    /// When the last step was reported; `started` if none was.
    pub(super) fn stepped(&self, started: Instant) -> Instant {
        self.heard.unwrap_or(started)
    }

    fn take(&mut self, report: Report, now: Instant) {
        if let Some(lost) = report.lost {
            let since = |one: &Lost| {
                let known = self.lost.iter().find(|(other, _)| other == one);
                known.map_or(now, |(_, since)| *since)
            };
            self.lost = lost.into_iter().map(|one| (one.clone(), since(&one))).collect();
        }
        self.mode = report.mode.or_else(|| self.mode.take());
        if let Some(number) = report.card {
            let (bytes, shares) = (report.card_bytes.unwrap_or(0), report.shares);
            self.card = Some(CardUse { number, bytes, shares });
        }
        let Some(step) = report.step else { return };
        (self.step, self.heard) = (Some(step), Some(now));
        match self.counted {
            Some((then, before)) if step >= before => {
                let passed = now.duration_since(then);
                if passed >= WINDOW || self.rate.is_none() && step > before {
                    self.rate = Some((step - before) as f64 / passed.as_secs_f64().max(1e-3));
                    self.counted = Some((now, step));
                }
            }
            _ => self.counted = Some((now, step)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_in_pieces_and_nonsense_is_left() {
        let mut status = Status::default();
        status.hear(b"{\"step\":12,\"samples\":6144,\"mo");
        assert_eq!(status.step, None);
        status.hear(b"de\":\"async\"}\nnonsense\n{\"step\":13}\n");
        assert_eq!((status.step, status.mode.as_deref()), (Some(13), Some("async")));
        assert_eq!(status.card, None);
        let shares = r#"{"pull":20,"compute":65,"push":10,"waiting":5}"#;
        let line = format!("{{\"step\":14,\"card\":1,\"card_bytes\":4096,\"shares\":{shares}}}\n");
        status.hear(line.as_bytes());
        let shares = Shares { pull: 20, compute: 65, push: 10, waiting: 5 };
        assert_eq!(status.card, Some(CardUse { number: 1, bytes: 4096, shares: Some(shares) }));
    }

    #[test]
    fn servers_say_whom_they_have_lost() {
        let mut status = Status::default();
        status.hear(
            b"{\"lost\":[{\"role\":\"trainer\",\"rank\":1,\"why\":\"silent\"}]}\n{\"step\":1}\n",
        );
        let [(lost, _)] = &status.lost[..] else { panic!("{:?}", status.lost) };
        assert_eq!((lost.role(), lost.rank, lost.why.as_str()), (Role::Worker, 1, "silent"));
        assert_eq!(lost.pid(), None);
        let named = Lost { process: "process 42 on `here`".to_owned(), ..lost.clone() };
        assert_eq!(named.pid(), Pid::from_raw(42));
        status.hear(b"{\"lost\":[]}\n");
        assert!(status.lost.is_empty());
    }

    #[test]
    fn the_rate_is_that_of_the_last_moments() {
        let mut status = Status::default();
        let start = Instant::now();
        let report = |step| Report { step: Some(step), ..Report::default() };
        status.take(report(0), start);
        status.take(report(20), start + Duration::from_secs(1));
        assert_eq!(status.rate(start + Duration::from_secs(1)), Some(20.0));
        status.take(report(60), start + Duration::from_secs(5));
        assert_eq!(status.rate(start + Duration::from_secs(6)), Some(10.0));
        // It hangs.
        assert_eq!(status.rate(start + Duration::from_secs(15)), Some(0.1));
    }
}
