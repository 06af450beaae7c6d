//! `cargo xtask miri`: tests of the engine's unsafe code in Miri, an interpreter that finds data
//! races, dangling and aliasing pointers, and reads of memory that nobody wrote.
//!
//! It is a hundred times slower than the machine and knows no vector instructions, so only tests of
//! scopes, plans, tensors and threads run there, with small sizes (`cfg!(miri)`).

use anyhow::{Result, bail};

use crate::process::{command, run as run_command, step, succeeds};

/// Unit tests by module, of `bireme-engine`.
const UNITS: &[&str] = &["scope::", "plan::", "tensor::", "op::", "executor::"];

/// Integration tests by name.
const INTEGRATION: &[&str] = &["hogwild::"];

/// Runs the tests; arguments are filters that replace those above.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if !succeeds(command("cargo").args(["+nightly", "miri", "--version"])) {
        bail!(
            "Miri is not installed: `rustup toolchain install nightly` and `rustup +nightly \
             component add miri rust-src`"
        );
    }
    if !args.is_empty() {
        let filters: Vec<&str> = args.iter().map(String::as_str).collect();
        return step("miri", || test(&["--lib", "--test", "it"], &filters));
    }
    step("miri: unit tests", || test(&["--lib"], UNITS))?;
    step("miri: steps of several threads", || test(&["--test", "it"], INTEGRATION))
}

fn test(targets: &[&str], filters: &[&str]) -> Result<()> {
    let mut miri = command("cargo");
    // Tests of files need the folder for temporary ones; leaks are not asked for, since threads
    // that wait for work live until the process ends.
    miri.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks");
    // Few cases: each takes seconds here.
    miri.env("PROPTEST_CASES", "4");
    miri.args(["+nightly", "miri", "test", "-p", "bireme-engine"]).args(targets);
    run_command(miri.arg("--").args(filters))
}
