//! Tests on the emulated card; they are skipped where it could not be built.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod card;
mod driver;
mod faults;
mod products;
