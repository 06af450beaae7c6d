//! What can go wrong with a table.

use super::plan::Plan;
use crate::driver;

/// A result of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a table. It is then as it was before the call.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// There is no memory for more rows.
    #[error(
        "a table of {rows} rows cannot grow to {wanted}: that takes {plan}, and the card has {free} bytes left; use \
         more cards, or thinner rows"
    )]
    Full {
        /// Rows that it has.
        rows: usize,
        /// Rows that it would have to have room for.
        wanted: usize,
        /// What these take in all.
        plan: Plan,
        /// Bytes that the card has free.
        free: usize,
    },
    /// More rows than a number can count.
    #[error("a table has at most {most} rows, and {wanted} were asked for")]
    TooManyRows {
        /// The most that there can be.
        most: usize,
        /// What was asked for.
        wanted: usize,
    },
    /// What a caller gave does not fit.
    #[error("`{call}` of a table: {problem}")]
    Argument {
        /// The function.
        call: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A row number that an earlier call was given belongs to no row.
    #[error(
        "`{call}` of a table: row number {number} at position {position}, and there are {rows} rows"
    )]
    NoSuchRow {
        /// The function.
        call: &'static str,
        /// The number.
        number: i64,
        /// Where it stood.
        position: i64,
        /// How many rows there were.
        rows: i64,
    },
    /// The card failed.
    #[error(transparent)]
    Driver(#[from] driver::Error),
}

impl From<Error> for bireme_engine::Error {
    fn from(error: Error) -> bireme_engine::Error {
        bireme_engine::Error::Device { problem: error.to_string() }
    }
}
