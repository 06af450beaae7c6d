//! `cargo xtask peers`: the same work in Bireme, real Paddle and PyTorch, alternating in one run.
//!
//! What is measured, and how, is the script's.

use anyhow::Result;

use crate::interop::run_both_sides;

const SCRIPT: &str = "tools/peers/compare.py";

/// Runs the comparison; `args` go to the script.
pub(crate) fn run(args: &[String]) -> Result<()> {
    run_both_sides(SCRIPT, args)
}
