//! `cargo xtask fuzz`: every fuzz target for some time.
//!
//! Needs a nightly compiler and cargo-fuzz, and fails where they are missing. The gate only compiles
//! the targets ([`check`]); its tests hold a bounded form of every one.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, command, root, run as run_command, step, succeeds, target_dir};

/// Runs targets; the arguments are seconds for each (60) and names (all).
pub(crate) fn run(args: &[String]) -> Result<()> {
    let known = targets()?;
    let (seconds, chosen) = choose(args, &known)?;
    if !succeeds(command("cargo").args(["+nightly", "fuzz", "--version"])) {
        bail!(
            "there is no nightly compiler or no cargo-fuzz: `rustup toolchain install nightly` and \
             `cargo install --locked cargo-fuzz`"
        );
    }
    for target in chosen {
        step(&target, || {
            let mut fuzz = command("cargo");
            fuzz.args(["+nightly", "fuzz", "run", &target, "--"]);
            run_command(fuzz.arg(format!("-max_total_time={seconds}")))
        })?;
    }
    Ok(())
}

/// Compiles every target with the stable compiler, as far as its types; fuzzing itself is not built.
pub(crate) fn check() -> Result<()> {
    let target = target_dir()?.join("fuzz");
    let args = ["check", "--locked", "--quiet", "--bins", "--manifest-path", "fuzz/Cargo.toml"];
    run_command(cargo(&args).arg("--target-dir").arg(target))
}

fn choose(args: &[String], known: &[String]) -> Result<(u64, Vec<String>)> {
    let (mut seconds, mut chosen) = (60, Vec::new());
    for arg in args {
        if let Ok(number) = arg.parse() {
            seconds = number;
        } else if known.contains(arg) {
            chosen.push(arg.clone());
        } else {
            bail!("there is no fuzz target `{arg}`: there are {}", known.join(", "));
        }
    }
    if chosen.is_empty() {
        chosen = known.to_vec();
    }
    Ok((seconds, chosen))
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_time_and_a_word_a_target() {
        let known = targets().unwrap();
        let strings = |args: &[&str]| args.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(choose(&[], &known).unwrap(), (60, known.clone()));
        let (seconds, chosen) = choose(&strings(&["9", "data_lines"]), &known).unwrap();
        assert_eq!((seconds, chosen), (9, strings(&["data_lines"])));
        let error = choose(&strings(&["nothing"]), &known).unwrap_err().to_string();
        assert!(error.contains("there is no fuzz target `nothing`"), "{error}");
    }

    #[test]
    fn every_target_is_built_and_described() {
        for file in ["Cargo.toml", "README.md"] {
            let text = fs::read_to_string(root().join("fuzz").join(file)).unwrap();
            for name in targets().unwrap() {
                let said = [format!("name = \"{name}\""), format!("| `{name}` |")];
                assert!(said.iter().any(|line| text.contains(line)), "{name} in {file}");
            }
        }
    }
}
