//! Files that trainers draw one after the other, so that a slow one does not hold the others.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::Result;

/// Gives each file of an epoch to one of those who draw. Who gets which depends on who is quick:
/// runs are not repeatable.
pub trait FileShare: Send + Sync {
    /// The next of `files` files of an epoch, which nobody else gets; none when all are drawn.
    ///
    /// # Errors
    /// When the one that counts is lost.
    fn draw(&self, epoch: u64, files: usize) -> Result<Option<usize>>;
}

/// The counters behind a [`FileShare`]; alone it shares files among the readers of one process.
#[derive(Debug, Default)]
pub struct Counters {
    /// Files drawn, by epoch.
    drawn: Mutex<BTreeMap<u64, usize>>,
}

/// Epochs that are counted at once; a reader that is further behind gets no more files.
const EPOCHS: usize = 64;

impl Counters {
    /// Nothing is drawn yet.
    pub fn new() -> Counters {
        Counters::default()
    }

    /// The next of `files` files of an epoch.
    pub fn next(&self, epoch: u64, files: usize) -> Option<usize> {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if drawn.len() == EPOCHS && !drawn.contains_key(&epoch) {
            let (first, _) = drawn.first_key_value()?;
            if epoch < *first {
                return None;
            }
            drawn.pop_first();
        }
        let next = drawn.entry(epoch).or_default();
        let file = *next;
        *next += usize::from(file < files);
        (file < files).then_some(file)
    }
}

impl FileShare for Counters {
    fn draw(&self, epoch: u64, files: usize) -> Result<Option<usize>> {
        Ok(self.next(epoch, files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_an_epoch_is_drawn_once() {
        let counters = Counters::new();
        let draw = |epoch| std::iter::from_fn(|| counters.next(epoch, 3)).collect::<Vec<_>>();
        assert_eq!(draw(0), [0, 1, 2]);
        assert!(draw(0).is_empty());
        assert_eq!(draw(1), [0, 1, 2]);
        for epoch in 2..200 {
            assert_eq!(draw(epoch), [0, 1, 2]);
        }
        // Epoch 0 is forgotten, and does not begin anew.
        assert!(draw(0).is_empty());
    }
}
