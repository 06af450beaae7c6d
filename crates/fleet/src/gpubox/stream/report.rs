//! What a stream was, and how long its parts took.

use std::fmt;

/// What a stream was, and how long its parts took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamReport {
    /// Batches that were handed to training.
    pub batches: u64,
    /// Ids in these and in those that were read ahead.
    pub ids: u64,
    /// Distinct keys of each batch, added up.
    pub unique: u64,
    /// Those that had no row: their records were brought.
    pub new: u64,
    /// Keys whose rows were given to others.
    pub evicted: u64,
    /// Bytes of rows that the trainer holds.
    pub bytes: u64,
    /// Training waited so long for batches, or for their records.
    pub wait_seconds: f64,
    /// Asking servers for records, beside training.
    pub pull_seconds: f64,
    /// Moving records to the variables of the trainer, and from them, between steps.
    pub move_seconds: f64,
    /// Training.
    pub train_seconds: f64,
    /// Giving servers what has left, beside training, and all the rest where somebody asks for it.
    pub push_seconds: f64,
}

impl StreamReport {
    /// Of the keys that batches named, the part that had rows.
    pub fn hit_rate(&self) -> f64 {
        match self.unique {
            0 => 0.0,
            unique => (unique - self.new) as f64 / unique as f64,
        }
    }
}

impl fmt::Display for StreamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamReport { batches, ids, unique, new, evicted, bytes, .. } = self;
        write!(
            f,
            "stream: {batches} batches, {ids} keys, {unique} unique, {new} new, {evicted} evicted, hit rate \
             {:.1} %, {:.1} MiB of rows; seconds: wait {:.3}, pull {:.3}, move {:.3}, train {:.3}, push {:.3}",
            self.hit_rate() * 100.0,
            *bytes as f64 / f64::from(1 << 20),
            self.wait_seconds,
            self.pull_seconds,
            self.move_seconds,
            self.train_seconds,
            self.push_seconds
        )
    }
}
