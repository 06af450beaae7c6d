//! Geo: which rows of a table changed since each trainer last asked.
//!
//! A push first changes the rows and then marks them for every trainer, the sender too; a pull
//! first takes the marks and then reads the rows. So a change between the two is seen twice at
//! worst, and never missed.

use std::sync::{Mutex, PoisonError};

/// Marks of rows, for each trainer.
pub(super) struct Changed {
    marks: Vec<Mutex<Marks>>,
}

/// A bit for each row, and where to go on looking.
struct Marks {
    bits: Vec<u64>,
    next: usize,
}

impl Changed {
    pub(super) fn new(trainers: u32, height: usize) -> Changed {
        let marks = || Mutex::new(Marks { bits: vec![0; height.div_ceil(64)], next: 0 });
        Changed { marks: (0..trainers).map(|_| marks()).collect() }
    }

    /// Marks rows, which must lie in the table, for everybody.
    pub(super) fn mark(&self, rows: &[i64]) {
        for marks in &self.marks {
            let mut marks = marks.lock().unwrap_or_else(PoisonError::into_inner);
            for row in rows {
                marks.bits[*row as usize / 64] |= 1 << (row % 64);
            }
        }
    }

    /// Marks all rows, for everybody.
    pub(super) fn mark_all(&self, height: usize) {
        let rows: Vec<i64> = (0..height as i64).collect();
        self.mark(&rows);
    }

    /// Takes at most `limit` marked rows of a trainer, the oldest unseen part of the table first.
    pub(super) fn take(&self, trainer: u32, limit: usize) -> Vec<i64> {
        let Some(marks) = self.marks.get(trainer as usize) else { return Vec::new() };
        let marks = &mut *marks.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rows, words) = (Vec::new(), marks.bits.len());
        for _ in 0..words {
            if rows.len() >= limit {
                break;
            }
            let at = marks.next % words;
            let mut word = marks.bits[at];
            while word != 0 && rows.len() < limit {
                let bit = word.trailing_zeros();
                rows.push((at * 64) as i64 + i64::from(bit));
                word &= word - 1;
            }
            marks.bits[at] = word;
            if word == 0 {
                marks.next = (at + 1) % words;
            }
        }
        rows.sort_unstable();
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_sees_every_change_once() {
        let changed = Changed::new(2, 130);
        changed.mark(&[129, 0, 64, 64]);
        assert_eq!(changed.take(0, 10), [0, 64, 129]);
        assert_eq!(changed.take(0, 10), [0i64; 0]);
        changed.mark(&[1]);
        assert_eq!(changed.take(1, 2), [0, 1]);
        assert_eq!(changed.take(1, 2), [64, 129]);
        assert_eq!(changed.take(0, 10), [1]);
        assert_eq!(changed.take(7, 10), [0i64; 0]);
    }

    #[test]
    fn rows_left_over_are_not_starved() {
        let changed = Changed::new(1, 128);
        changed.mark_all(128);
        let mut seen = Vec::new();
        while seen.len() < 128 {
            let rows = changed.take(0, 60);
            assert!(!rows.is_empty());
            seen.extend(rows);
        }
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..128));
    }
}
