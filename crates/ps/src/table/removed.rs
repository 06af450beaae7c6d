//! Keys whose rows went, for the next delta: without them, rows that a shrink dropped would come
//! back when a base and its deltas are loaded.

/// The keys of one shard that had a row in some save and may have none now.
#[derive(Default)]
pub(super) struct Removed {
    /// Whether anything was ever saved or loaded: before that, nobody needs to know.
    wanted: bool,
    keys: Vec<u64>,
    /// What the last save took, until its checkpoint is complete.
    taken: Vec<u64>,
}

impl Removed {
    /// Whether keys are to be noted.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Notes keys, in any order.
    pub(super) fn note(&mut self, keys: impl IntoIterator<Item = u64>) {
        if self.wanted {
            self.keys.extend(keys);
            self.keys.sort_unstable();
            self.keys.dedup();
        }
    }

    /// A save that takes no notice of them was made: from now on they are wanted.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// A delta or base takes them: those that are still `gone`.
    pub(super) fn take(&mut self, gone: impl Fn(u64) -> bool) -> Vec<u64> {
        self.wanted = true;
        self.taken = std::mem::take(&mut self.keys);
        self.taken.iter().copied().filter(|key| gone(*key)).collect()
    }

    /// The checkpoint of the last save is complete.
    pub(super) fn commit(&mut self) {
        self.taken = Vec::new();
    }

    /// The last save came to nothing.
    pub(super) fn give_back(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        self.note(taken);
    }

    /// All rows were just loaded.
    pub(super) fn begin(&mut self) {
        *self = Removed { wanted: true, ..Removed::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_into_the_next_delta_that_succeeds() {
        let mut removed = Removed::default();
        removed.note([1]);
        assert_eq!(removed.take(|_| true), [0; 0], "before the first save");
        removed.note([5, 2, 5]);
        removed.note([2, 9]);
        assert_eq!(removed.take(|key| key != 9), [2, 5], "9 has a row again");
        removed.give_back();
        removed.note([3]);
        assert_eq!(removed.take(|_| true), [2, 3, 5, 9]);
        removed.commit();
        assert_eq!(removed.take(|_| true), [0; 0]);
        removed.give_back();
        removed.note([4]);
        removed.begin();
        assert!(removed.is_wanted() && removed.take(|_| true).is_empty());
    }
}
