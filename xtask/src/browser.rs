//! `cargo xtask browser`: pages that Bireme writes, in a real browser.

use anyhow::Result;

use crate::process::{cargo, run as run_command};

/// Runs the tests that need a browser.
pub(crate) fn run() -> Result<()> {
    let test = ["test", "--locked", "-p", "bireme-rec", "--test", "it", "browser"];
    run_command(cargo(&test).args(["--", "--ignored", "--nocapture"]))
}
