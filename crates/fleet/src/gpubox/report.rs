//! What a pass was, and how long its parts took.

use std::fmt;

/// What a pass was, and how long its parts took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassReport {
    /// Its number, from 1.
    pub pass: u64,
    /// Ids in its samples.
    pub ids: u64,
    /// Distinct keys, of all tables.
    pub unique: u64,
    /// Those that were not here before.
    pub new: u64,
    /// Bytes of rows that the trainer holds.
    pub bytes: u64,
    /// Steps that were trained.
    pub steps: u64,
    /// Waiting for records that were under way when the pass began.
    pub wait_seconds: f64,
    /// Asking servers for records when the pass began; nothing, where that was done before.
    pub pull_seconds: f64,
    /// Moving records into the variables of the trainer.
    pub move_seconds: f64,
    /// Looking up the rows of all ids; nothing, where that was done for a pass before.
    pub resolve_seconds: f64,
    /// Training.
    pub train_seconds: f64,
    /// Giving records and parameters back to the servers.
    pub push_seconds: f64,
}

impl fmt::Display for PassReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PassReport { pass, ids, unique, new, bytes, steps, .. } = self;
        write!(
            f,
            "pass {pass}: {ids} keys, {unique} unique, {new} new, {:.1} MiB of rows, {steps} steps; \
             seconds: wait {:.3}, pull {:.3}, move {:.3}, resolve {:.3}, train {:.3}, push {:.3}",
            *bytes as f64 / f64::from(1 << 20),
            self.wait_seconds,
            self.pull_seconds,
            self.move_seconds,
            self.resolve_seconds,
            self.train_seconds,
            self.push_seconds
        )
    }
}
