//! Laws of programs as a user of the crate sees them: what is written reads back, and nothing that
//! is read can make it panic.

mod arbitrary;
mod hostile;
mod paddle;
mod round_trip;
