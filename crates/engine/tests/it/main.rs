//! The engine from outside: every op against values that Paddle computed, and against itself.
//!
//! `tests/golden/<family>.json` is written by `tools/golden/generate.py`; see its README.

#![expect(clippy::unwrap_used, reason = "a step that fails stops its test")]

mod bad_input;
mod card;
mod card_remote;
mod case;
mod compare;
mod coverage;
mod eager_card;
#[expect(dead_code, reason = "tests of real cards use the rest")]
mod eager_models;
mod eager_second;
mod finite_difference;
mod golden;
mod hogwild;
mod interrupt;
mod plan;
mod runs;
mod saved_model;
mod second_gradient;
mod split;
mod training;
