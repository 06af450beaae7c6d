//! What a thread records of the work that it gives to a card, instead of doing it.

use std::cell::RefCell;

use crate::bound::Bound;
use crate::lanes::Access;

/// A piece of work of an op, with what it reads and writes.
pub(crate) struct Recorded {
    pub(crate) op: &'static str,
    pub(crate) work: Bound,
    pub(crate) accesses: Vec<Access>,
}

thread_local! {
    /// What this thread records.
    pub(crate) static RECORDED: RefCell<Option<Vec<Recorded>>> = const { RefCell::new(None) };
}

pub(crate) fn is_recording() -> bool {
    RECORDED.with_borrow(Option::is_some)
}

/// Ends what this thread records, also when it panics: what it gives to the card later must be done.
pub(crate) struct NoMoreRecorded;

impl NoMoreRecorded {
    pub(crate) fn begin() -> NoMoreRecorded {
        RECORDED.set(Some(Vec::new()));
        NoMoreRecorded
    }

    pub(crate) fn end(self) -> Vec<Recorded> {
        RECORDED.take().unwrap_or_default()
    }
}

impl Drop for NoMoreRecorded {
    fn drop(&mut self) {
        RECORDED.set(None);
    }
}
