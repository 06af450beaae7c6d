//! The side of a local cluster's member: its reports, and the orders that it hears.

use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use super::brake::Brake;
use super::message::{self, Order, Report};

/// The exit code of a member whose cluster is gone.
const ABANDONED: i32 = 3;

/// A member's line to the process that started it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// Says when to stop.
    pub(crate) brake: Arc<Brake>,
    finished: Arc<AtomicBool>,
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

    /// Reports to the process that started this one.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn report(&self, report: &Report) -> Result<()> {
        message::write(io::stdout().lock(), report).context("the parent process is gone")
    }

    /// From now on it does not matter whether anybody is there.
    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
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
