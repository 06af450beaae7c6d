//! `cargo xtask test`: the README's test command, and the last step of `cargo xtask ci`.
//!
//! Needs Python, and the network once, for the packages of the Python tests; what it leaves out, it
//! names.

use std::path::Path;

use anyhow::Result;

use crate::process::{cargo, root, run as run_command, step};
use crate::pytest;

/// What the default tests leave out: the thing, why, and how to run it. The path says which
/// checkouts have the thing at all.
const LEFT_OUT: &[(&str, &str, &str, &str)] = &[
    ("tools/interop/run.py", "exchange with real Paddle", "downloads it", "cargo xtask interop"),
    ("crates/cli", "speed", "needs an idle machine", "cargo xtask bench"),
    ("tools/netns", "jobs on several machines", "need root", "cargo xtask netns"),
    ("crates/emulator", "races of kernels", "take minutes", "cargo xtask races"),
    ("crates/data", "Parquet files", "need many packages", "cargo xtask parquet"),
    ("fuzz", "long fuzz runs", "need a nightly compiler", "cargo xtask fuzz"),
];

/// Runs every test of the workspace; `args` go to `cargo test`, and leave the Python tests out.
pub(crate) fn run(args: &[String]) -> Result<()> {
    // Without a target selection `cargo test` covers unit tests, integration tests and doctests,
    // and compiles the examples.
    step("cargo test", || run_command(cargo(&["test", "--locked"]).args(scope(args)).args(args)))?;
    if args.is_empty() {
        pytest::run(pytest::AFTER_TESTS, &[])?;
    } else {
        eprintln!("    skipped: Python tests (arguments were given): `cargo xtask pytest`");
    }
    for line in left_out(&root()) {
        eprintln!("    skipped: {line}");
    }
    Ok(())
}

/// The whole workspace, unless the arguments name a package.
fn scope(args: &[String]) -> Option<&'static str> {
    let names_package = args
        .iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg.starts_with("-p") || arg.starts_with("--package"));
    (!names_package).then_some("--workspace")
}

fn left_out(root: &Path) -> Vec<String> {
    LEFT_OUT
        .iter()
        .filter(|(path, ..)| root.join(path).exists())
        .map(|(_, what, why, how)| format!("{what} ({why}): `{how}`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_package_replaces_the_workspace() {
        let strings = |args: &[&str]| args.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(scope(&[]), Some("--workspace"));
        assert_eq!(scope(&strings(&["verify"])), Some("--workspace"));
        assert_eq!(scope(&strings(&["-p", "bireme-ir"])), None);
        assert_eq!(scope(&strings(&["--package=bireme-ir"])), None);
        assert_eq!(scope(&strings(&["--", "-p"])), Some("--workspace"));
    }

    #[test]
    fn only_what_exists_is_called_skipped() {
        assert!(left_out(Path::new("no-such-folder")).is_empty());
    }
}
