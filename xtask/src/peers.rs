//! `cargo xtask peers`: the same work in Bireme, real Paddle and PyTorch, alternating in one run.
//!
//! What is measured, and how, is the scripts'.

use anyhow::Result;

use crate::interop::{Part, run_both_sides};

/// What can be asked for alone by its word.
const PARTS: &[Part] = &[
    Part { word: "engine", script: "tools/peers/compare.py" },
    Part { word: "python", script: "tools/peers/python.py" },
    Part { word: "servers", script: "tools/peers/servers.py" },
    Part { word: "dataset", script: "tools/peers/dataset.py" },
    Part { word: "collective", script: "tools/peers/collective.py" },
];

/// Runs the comparisons; `args` may begin with the word of a part, the rest goes to the scripts.
pub(crate) fn run(args: &[String]) -> Result<()> {
    run_both_sides(PARTS, args)
}
