//! `cargo xtask races`: the tests of cards on an emulated card that looks for races of kernels.
//!
//! compute-sanitizer's racecheck needs a card, is slow, and looks at shared memory alone. Here every access of a kernel is
//! looked at (`crates/emulator/src/races.cpp`), which takes minutes and needs no card; so it is a command of its own, to be
//! run after a change of kernels.

use anyhow::Result;

use crate::process::{cargo, run as run_command, step};

/// Asks the build script of `bireme-emulator` for such a card.
const RACES: &str = "BIREME_CARD_RACES";

/// Runs the tests; arguments are filters.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let test = |package: &str, filters: &[String]| {
        let mut tests = cargo(&["test", "--locked", "-p", package, "--test", "it"]);
        run_command(tests.env(RACES, "1").arg("--").args(filters))
    };
    step("races: the emulated card", || test("bireme-emulator", &[]))?;
    step("races: kernels", || test("bireme-cuda", args))
}
