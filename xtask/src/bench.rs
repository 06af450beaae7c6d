//! `cargo xtask bench`: builds in release and hands over to `bireme bench`.

use std::env::consts::EXE_SUFFIX;

use anyhow::Result;

use crate::process::{cargo, command, run as run_command, step, target_dir};

/// The suite that runs when none is named.
const DEFAULT_SUITE: &str = "engine";

/// Runs one suite; flags go through to `bireme bench`, whose stdout is ours.
pub(crate) fn run(args: &[String]) -> Result<()> {
    step("build in release", || {
        run_command(&mut cargo(&["build", "--locked", "--release", "--package", "bireme-cli"]))
    })?;
    let bireme = target_dir()?.join("release").join(format!("bireme{EXE_SUFFIX}"));
    run_command(command(bireme).arg("bench").args(suite_and_flags(args)))
}

/// Puts the default suite in front when the arguments do not begin with a name. Who asks for help
/// wants that of all suites.
fn suite_and_flags(args: &[String]) -> Vec<&str> {
    let named =
        args.first().is_some_and(|arg| !arg.starts_with('-') || arg == "--help" || arg == "-h");
    let default = (!named).then_some(DEFAULT_SUITE);
    default.into_iter().chain(args.iter().map(String::as_str)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suite_defaults_to_engine() {
        let check = |args: &[&str], expected: &[&str]| {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            assert_eq!(suite_and_flags(&args), expected);
        };
        check(&[], &["engine"]);
        check(&["--json"], &["engine", "--json"]);
        check(&["engine", "--json"], &["engine", "--json"]);
        check(&["--help"], &["--help"]);
    }
}
