//! Replaces patterns of ops by single ops that do the same work in fewer passes over memory.
//!
//! A pass works on the needed ops of a step, forward and backward together: a pattern is taken only
//! when nothing outside it looks at what it no longer computes.

mod embedding;
mod fc;
mod pattern;

use std::collections::HashSet;

use bireme_ir::{Op, Program};

/// The ops with every known pattern replaced.
pub(crate) fn fuse(mut ops: Vec<Op>, program: &Program, fetches: &[&str]) -> Vec<Op> {
    let kept: HashSet<&str> = fetches.iter().copied().collect();
    ops = embedding::fuse(ops, program, &kept);
    fc::fuse(ops, program, &kept)
}
