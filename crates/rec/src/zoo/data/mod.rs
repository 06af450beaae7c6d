//! Generated data: what each model can learn, from a world that never changes.
//!
//! The world (who likes what) is fixed; the seed only says which samples are drawn from it. So files
//! of two seeds are a training set and a test set. Sample `i` depends only on the seed and on `i`.

pub(super) mod census;
pub(super) mod clicks;
pub(super) mod conversions;
pub mod criteo;
mod draws;
pub(super) mod histories;
pub(super) mod queries;
pub(super) mod ratings;
pub(super) mod words;

use std::io::{self, Write};

/// Writes one slot of a MultiSlot line: how many values, then the values.
fn slot<T: std::fmt::Display>(out: &mut dyn Write, values: &[T]) -> io::Result<()> {
    write!(out, "{}", values.len())?;
    values.iter().try_for_each(|value| write!(out, " {value}"))
}

/// The chance that a logit stands for.
fn chance(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}
