//! What Paddle's accessors do to the record of a key: the arithmetic that a server's tables
//! (`ps/src/table`) and a trainer that holds records itself (`ops/records`) share.
//!
//! A trainer is *lent* records for a pass. A lent record begins with a [`Mark`]; what pushes may
//! need later, the first values of a long part that was not made yet, is in it already.

mod config;
mod ctr;
mod entry;
mod raw;
mod rule;

pub use config::{CtrClass, CtrConfig};
pub use ctr::{Ctr, DELTA_SCORE, SLOT, UNSEEN_DAYS, count, set_count};
pub use entry::Entry;
pub use raw::wants_disk;
pub use rule::{SparseRule, SparseRuleKind};

/// Whether the key of a lent record has a row; the first number of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It never has one: it reads as zeros and is not trained.
    Refused,
    /// Its first push makes one; until then it reads as zeros.
    NotMade,
    /// It has one.
    Made,
}

impl Mark {
    /// The mark as a number of a record.
    pub const fn number(self) -> f32 {
        match self {
            Mark::Refused => -1.0,
            Mark::NotMade => 0.0,
            Mark::Made => 1.0,
        }
    }

    /// The mark of a lent record.
    #[inline(always)]
    pub fn of(number: f32) -> Mark {
        if number > 0.0 {
            Mark::Made
        } else if number < 0.0 {
            Mark::Refused
        } else {
            Mark::NotMade
        }
    }
}
