//! What a member of a local cluster and the process that started it say to each other: one line of
//! JSON each, over the member's stdin and stdout.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// What a member is told, on its stdin. The end of its stdin tells it that it is alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Begin no further step, and say how many were begun.
    Hold,
    /// Train on until this many steps were begun, then end as an interrupted run.
    Until {
        steps: u64,
        /// Whether there is something to save.
        save: bool,
    },
}

/// What a member reports, on its stdout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// A server can be reached there.
    Listening(String),
    /// A trainer has its data and its servers.
    Ready,
    /// The answer to [`Order::Hold`]: steps begun.
    Held(u64),
    /// Steps since the last report.
    Trained(Trained),
    /// The model is saved; whether as that of an interrupted run.
    Saved { interrupted: bool },
}

/// Some steps of one trainer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trained {
    pub(crate) samples: u64,
    pub(crate) steps: u32,
    /// Sum of the steps' losses; `None` when it is no finite number, which JSON cannot say.
    pub(crate) loss: Option<f64>,
    /// Since the start of training.
    pub(crate) auc: Option<f64>,
}

impl Trained {
    /// Counts one more step.
    pub(crate) fn add(&mut self, samples: u64, loss: f64, auc: f64) {
        let sum = match self.steps {
            0 => Some(loss),
            _ => self.loss.map(|sum| sum + loss),
        };
        self.samples += samples;
        self.steps += 1;
        self.loss = sum.filter(|sum| sum.is_finite());
        self.auc = Some(auc).filter(|auc| auc.is_finite());
    }
}

/// Writes one message as a line.
///
/// # Errors
/// When nobody reads any more.
pub(crate) fn write<T: Serialize>(mut out: impl Write, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_is_no_number_stays_so() {
        let mut trained = Trained::default();
        trained.add(10, 0.5, f64::NAN);
        trained.add(10, f64::NAN, 0.75);
        trained.add(10, 0.5, 0.5);
        assert_eq!(trained, Trained { samples: 30, steps: 3, loss: None, auc: Some(0.5) });
    }

    #[test]
    fn messages_are_lines() {
        let trained = Trained { samples: 512, steps: 2, loss: Some(1.25), auc: None };
        for report in [
            Report::Listening("127.0.0.1:6174".to_owned()),
            Report::Ready,
            Report::Held(3),
            Report::Trained(trained),
            Report::Saved { interrupted: true },
        ] {
            let mut line = Vec::new();
            write(&mut line, &report).unwrap();
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(serde_json::from_slice::<Report>(&line).unwrap(), report);
        }
    }
}
