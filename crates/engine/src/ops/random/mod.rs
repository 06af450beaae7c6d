//! Ops that draw random numbers.
//!
//! Each element is a function of (seed, output variable, step, position), so a variable starts the
//! same however it is sliced and wherever it lives.

use crate::op::OpDef;

mod draw;
mod dropout;
mod integers;
mod multinomial;
mod reals;
mod shuffle_batch;

pub(super) use draw::Draw;
pub(super) use integers::below;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    dropout::DEF,
    reals::UNIFORM,
    reals::GAUSSIAN,
    reals::TRUNCATED_GAUSSIAN,
    reals::BERNOULLI,
    integers::RANDINT,
    integers::RANDPERM,
    multinomial::DEF,
    shuffle_batch::DEF,
];
