//! The side of a local cluster's member: its reports, and the orders that it hears.

use std::io::{self, BufRead};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use bireme_fleet::{Environment, Reporter};

use super::brake::Brake;
use super::message::{self, Order, Report};
use crate::progress::Progress;

/// The exit code of a member whose cluster is gone.
const ABANDONED: i32 = 3;

/// A member's line to the process that started it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// Says when to stop.
    pub(crate) brake: Arc<Brake>,
    finished: Arc<AtomicBool>,
    /// Who started this process, where that is a launcher.
    launcher: Option<Arc<Launcher>>,
}

/// A launcher, which does not talk, and only hears of steps.
#[derive(Debug)]
struct Launcher {
    reporter: Reporter,
    /// What trainer 0 shows in its log.
    progress: Option<Mutex<Progress>>,
}

impl Line {
    /// Listens to stdin from now on. Ctrl-C is for the process that started this one.
    ///
    /// # Errors
    /// When the system refuses the handler or the thread.
    pub(crate) fn open() -> Result<Line> {
        ctrlc::set_handler(|| {}).context("cannot leave Ctrl-C to the parent process")?;
        let line = Line::default();
        let heard = line.clone();
        std::thread::Builder::new()
            .name("orders".to_owned())
            .spawn(move || heard.listen(io::stdin().lock()))
            .context("cannot start a thread")?;
        Ok(line)
    }

    /// A line to a launcher; trainer 0 shows its own progress towards `total` samples.
    pub(crate) fn to_launcher(environment: &Environment, total: Option<u64>) -> Line {
        let progress = total.map(|total| Mutex::new(Progress::new(total, false)));
        let launcher = Launcher { reporter: Reporter::new(environment), progress };
        Line { launcher: Some(Arc::new(launcher)), ..Line::default() }
    }

    /// Reports to the process that started this one.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn report(&self, report: &Report) -> Result<()> {
        if let Some(launcher) = &self.launcher {
            launcher.hear(report);
            return Ok(());
        }
        message::write(io::stdout().lock(), report).context("the parent process is gone")
    }

    /// From now on it does not matter whether anybody is there.
    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
        if let Some(progress) =
            self.launcher.as_ref().and_then(|launcher| launcher.progress.as_ref())
        {
            progress.lock().expect("progress does not panic").finish();
        }
    }

    fn listen(&self, orders: impl BufRead) {
        for line in orders.lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str(&line) {
                Ok(Order::Hold) => {
                    let begun = self.brake.hold();
                    if self.report(&Report::Held(begun)).is_err() {
                        break;
                    }
                }
                Ok(Order::Until { steps, save }) => self.brake.until(steps, save),
                Err(error) => {
                    crate::terminal::say(&format!("no order: `{line}`: {error}"));
                }
            }
        }
        if !self.finished.load(Ordering::Relaxed) {
            // Whoever started this process is gone, and nobody would ever end it.
            std::process::exit(ABANDONED);
        }
    }
}

impl Launcher {
    fn hear(&self, report: &Report) {
        let Report::Trained(trained) = report else { return };
        self.reporter.steps(trained.steps.into(), Some(trained.samples));
        if let Some(progress) = &self.progress {
            let losses = (trained.loss.unwrap_or(f64::NAN), trained.steps);
            let mut progress = progress.lock().expect("progress does not panic");
            progress.steps(trained.samples, losses, trained.auc.unwrap_or(f64::NAN));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_reach_the_brake() {
        let line = Line::default();
        line.finish();
        line.listen(&b"{\"until\":{\"steps\":0,\"save\":false}}\nnonsense\n"[..]);
        assert!(!line.brake.begin());
    }
}
