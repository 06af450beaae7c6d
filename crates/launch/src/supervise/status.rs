//! What a process reports of its own training: lines of JSON in a pipe.

use std::time::{Duration, Instant};

use serde::Deserialize;

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
    /// Steps a second, when they were last counted.
    rate: Option<f64>,
    /// When the last step was reported.
    heard: Option<Instant>,
    /// Where the rate was last counted.
    counted: Option<(Instant, u64)>,
    line: Vec<u8>,
}

#[derive(Deserialize)]
struct Report {
    step: Option<u64>,
    mode: Option<String>,
}

impl Default for Status {
    fn default() -> Status {
        let (step, mode, rate, heard, counted) = (None, None, None, None, None);
        Status { is_open: true, step, mode, rate, heard, counted, line: Vec::new() }
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

    fn take(&mut self, report: Report, now: Instant) {
        self.mode = report.mode.or_else(|| self.mode.take());
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
    }

    #[test]
    fn the_rate_is_that_of_the_last_moments() {
        let mut status = Status::default();
        let start = Instant::now();
        let report = |step| Report { step: Some(step), mode: None };
        status.take(report(0), start);
        status.take(report(20), start + Duration::from_secs(1));
        assert_eq!(status.rate(start + Duration::from_secs(1)), Some(20.0));
        status.take(report(60), start + Duration::from_secs(5));
        assert_eq!(status.rate(start + Duration::from_secs(6)), Some(10.0));
        // It hangs.
        assert_eq!(status.rate(start + Duration::from_secs(15)), Some(0.1));
    }
}
