//! What one trainer of several trains on: its rows of every batch.
//!
//! All trainers take the same number of steps, and their rows of a step together are the batch of a
//! single process: so training in sync gives the same model.

use std::ops::Range;

use anyhow::{Result, ensure};

/// A trainer's share of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    samples: u64,
    batch: u64,
    rank: u64,
    trainers: u64,
}

impl Share {
    /// The share of trainer `rank` of `trainers`, in batches of all of them.
    ///
    /// # Errors
    /// When a trainer would have nothing to do in a step.
    pub(crate) fn new(samples: usize, batch: usize, rank: usize, trainers: usize) -> Result<Share> {
        ensure!(
            batch >= trainers,
            "a batch of {batch} is too small for {trainers} trainers: raise `--batch-size` or use \
             fewer `--workers`"
        );
        ensure!(
            samples >= trainers,
            "{samples} samples are too few for {trainers} trainers: raise `--samples` or use fewer \
             `--workers`"
        );
        let [samples, batch, rank, trainers] = [samples, batch, rank, trainers].map(|n| n as u64);
        Ok(Share { samples, batch, rank, trainers })
    }

    /// Steps in an epoch.
    pub(crate) fn steps(&self) -> u64 {
        // A last batch with fewer samples than trainers belongs to the one before it.
        let (full, rest) = (self.samples / self.batch, self.samples % self.batch);
        if full == 0 || rest >= self.trainers { full + 1 } else { full }
    }

    /// Rows of this trainer in step `step` of an epoch, counted within its share.
    pub(crate) fn rows(&self, step: u64) -> Range<usize> {
        let numbers = self.numbers(step);
        let first = step
            * (part(self.batch, self.rank + 1, self.trainers)
                - part(self.batch, self.rank, self.trainers));
        let count = numbers.end - numbers.start;
        let small = |number: u64| usize::try_from(number).expect("samples fit into memory");
        small(first)..small(first + count)
    }

    /// The numbers of those samples.
    pub(crate) fn numbers(&self, step: u64) -> Range<u64> {
        let first = step * self.batch;
        let last = step + 1 >= self.steps();
        let rows = if last { self.samples - first } else { self.batch };
        first + part(rows, self.rank, self.trainers)
            ..first + part(rows, self.rank + 1, self.trainers)
    }

    /// The numbers of all samples of this trainer, in its order.
    pub(crate) fn all(&self) -> impl Iterator<Item = u64> + use<'_> {
        (0..self.steps()).flat_map(|step| self.numbers(step))
    }
}

/// Where part `index` of `rows` rows begins.
fn part(rows: u64, index: u64, parts: u64) -> u64 {
    rows * index / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_step_make_up_its_batch() {
        for (samples, batch, trainers) in
            [(1000, 100, 2), (1001, 100, 2), (1050, 100, 3), (3, 100, 3), (101, 4, 4), (7, 3, 3)]
        {
            let shares: Vec<Share> = (0..trainers)
                .map(|rank| Share::new(samples, batch, rank, trainers).unwrap())
                .collect();
            let mut next = 0;
            for step in 0..shares[0].steps() {
                for share in &shares {
                    let numbers = share.numbers(step);
                    assert_eq!(numbers.start, next, "{share:?}, step {step}");
                    assert!(!numbers.is_empty(), "{share:?}, step {step}");
                    next = numbers.end;
                }
            }
            assert_eq!(next, samples as u64);
            for share in &shares {
                let all: Vec<u64> = share.all().collect();
                for step in 0..share.steps() {
                    let numbers: Vec<u64> = share.numbers(step).collect();
                    assert_eq!(all[share.rows(step)], numbers, "{share:?}, step {step}");
                }
            }
        }
    }

    #[test]
    fn one_trainer_has_everything() {
        let share = Share::new(1000, 300, 0, 1).unwrap();
        assert_eq!((share.steps(), share.rows(3)), (4, 900..1000));
    }

    #[test]
    fn nobody_is_left_without_work() {
        assert!(Share::new(100, 1, 0, 2).unwrap_err().to_string().contains("--batch-size"));
        assert!(Share::new(1, 10, 0, 2).unwrap_err().to_string().contains("--samples"));
    }
}
