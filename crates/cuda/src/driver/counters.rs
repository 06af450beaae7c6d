//! How much memory of a card is in use, and was at most.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes in use now, and at most since somebody looked last.
#[derive(Debug, Default)]
pub(super) struct Counters {
    used: AtomicUsize,
    peak: AtomicUsize,
}

impl Counters {
    pub(super) fn add(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(used, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Begins anew with what is in use.
    pub(super) fn reset_peak(&self) {
        self.peak.store(self.used(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_kept_until_it_is_reset() {
        let counters = Counters::default();
        counters.add(5);
        counters.add(7);
        counters.subtract(7);
        assert_eq!((counters.used(), counters.peak()), (5, 12));
        counters.reset_peak();
        assert_eq!((counters.used(), counters.peak()), (5, 5));
    }
}
