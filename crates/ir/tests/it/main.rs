//! Laws of programs as a user of the crate sees them: what is written reads back, and nothing that
//! is read can make it panic.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test they help")]

mod arbitrary;
mod hostile;
mod paddle;
mod round_trip;
