//! How far training is: a bar on a terminal, a line now and then elsewhere, or nothing.
//!
//! Everything goes to stderr; stdout is for results.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::say;
use crate::units::grouped;

/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Time between two changes of the bar's figures, so that they can be read.
const FIGURES_EVERY: Duration = Duration::from_millis(200);

/// The progress of one training run.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: Shown,
    total: u64,
    done: u64,
    started: Instant,
    reported: Instant,
    /// Sum and number of losses since the last report.
    losses: (f64, u32),
    loss: f64,
    auc: f64,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines,
    Nothing,
}

impl Progress {
    /// Progress towards `total` samples.
    pub(crate) fn new(total: u64, quiet: bool) -> Progress {
        let shown = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Shown::Nothing,
            (false, true) => Shown::Bar(bar(total)),
            (false, false) => Shown::Lines,
        };
        let now = Instant::now();
        let (losses, loss, auc) = ((0.0, 0), f64::NAN, f64::NAN);
        Progress { shown, total, done: 0, started: now, reported: now, losses, loss, auc }
    }

    /// Counts one step.
    pub(crate) fn step(&mut self, samples: u64, loss: f64, auc: f64) {
        self.done += samples;
        self.losses = (self.losses.0 + loss, self.losses.1 + 1);
        self.auc = auc;
        let every = match self.shown {
            Shown::Bar(_) => FIGURES_EVERY,
            Shown::Lines => LINE_EVERY,
            Shown::Nothing => return,
        };
        if self.reported.elapsed() >= every {
            self.report();
        }
    }

    /// Ends the display; the last figures stay.
    pub(crate) fn finish(&mut self) {
        self.report();
        match &self.shown {
            Shown::Bar(bar) if self.done == 0 => bar.finish_and_clear(),
            Shown::Bar(bar) => bar.abandon(),
            Shown::Lines | Shown::Nothing => {}
        }
    }

    /// Samples a second since the start.
    pub(crate) fn speed(&self) -> f64 {
        self.done as f64 / self.started.elapsed().as_secs_f64().max(1e-9)
    }

    fn report(&mut self) {
        if self.done == 0 {
            // No step, no figures.
            return;
        }
        self.reported = Instant::now();
        if self.losses.1 > 0 {
            self.loss = self.losses.0 / f64::from(self.losses.1);
            self.losses = (0.0, 0);
        }
        let speed = grouped(self.speed() as u64);
        let figures = format!("{speed} samples/s  loss {:.4}  AUC {:.4}", self.loss, self.auc);
        match &self.shown {
            Shown::Bar(bar) => {
                bar.set_position(self.done);
                bar.set_message(figures);
            }
            Shown::Lines => {
                let left = self.total.saturating_sub(self.done) as f64 / self.speed().max(1e-9);
                let percent = 100 * u128::from(self.done) / u128::from(self.total.max(1));
                say(&format!("{percent:>3}%  {figures}  ETA {left:.0}s"));
            }
            Shown::Nothing => {}
        }
    }
}

fn bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{percent:>3}% [{bar:30}] {msg}  ETA {eta}")
        .expect("the template is right")
        .progress_chars("=> ");
    ProgressBar::new(total).with_style(style)
}
