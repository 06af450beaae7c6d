//! `cargo xtask gpu-test`: the tests of `crates/cuda` on a real card, here or on a machine that has nothing but one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::{
    cargo, command, output, root, run as run_command, step, succeeds, target_dir,
};

/// What a machine with a card must have: the test program, what it reads, and what runs it.
const SCRIPT: &str = "tools/gpu/test.sh";
const GOLDEN: &str = "crates/engine/tests/golden";

/// Puts the tests into a folder that can be carried, and runs them where there is a card. `--release` builds them in
/// release; other arguments are names of tests.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (flags, tests): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|arg| arg.starts_with("--"));
    if let Some(unknown) = flags.iter().find(|flag| **flag != "--release") {
        bail!("`gpu-test` knows no `{unknown}`: only `--release`, and names of tests");
    }
    let mut program = PathBuf::new();
    step("build the tests", || {
        program = build(!flags.is_empty())?;
        Ok(())
    })?;
    let folder = target_dir()?.join("gpu-test");
    assemble(&program, &folder)?;
    say_how_to_carry(&folder)?;
    if !has_card() {
        eprintln!(
            "skipped: the tests themselves, memcheck and racecheck (this machine has no NVIDIA card)"
        );
        return Ok(());
    }
    step("run on the card", || run_command(command(folder.join("test.sh")).args(&tests)))
}

/// Builds the test program, and says where it is.
fn build(release: bool) -> Result<PathBuf> {
    let mut args = vec!["test", "--locked", "-p", "bireme-cuda", "--test", "it", "--no-run"];
    if release {
        args.push("--release");
    }
    args.push("--message-format=json-render-diagnostics");
    let messages = output(&mut cargo(&args))?;
    executable(&messages).context("cargo did not say where the test program is")
}

/// The program among cargo's messages, one JSON object a line.
fn executable(messages: &str) -> Option<PathBuf> {
    let of_test =
        |line: &&str| line.contains("\"kind\":[\"test\"]") && line.contains("\"name\":\"it\"");
    let lines = messages.lines().filter(of_test);
    let mut paths =
        lines.filter_map(|line| line.split_once("\"executable\":\"")?.1.split('"').next());
    paths.next_back().map(PathBuf::from)
}

/// Copies everything into one folder, the program without what only a debugger reads.
fn assemble(program: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("`{}`", folder.display()))?;
    }
    fs::create_dir_all(folder.join("golden"))?;
    let carried = folder.join("it");
    fs::copy(program, &carried)?;
    if !succeeds(command("strip").arg(&carried)) {
        eprintln!("skipped: `strip`, which is not here; the program is larger than it need be");
    }
    fs::copy(root().join(SCRIPT), folder.join("test.sh"))?;
    for entry in fs::read_dir(root().join(GOLDEN))? {
        let path = entry?.path();
        if let (Some(name), true) = (path.file_name(), path.is_file()) {
            fs::copy(&path, folder.join("golden").join(name))?;
        }
    }
    Ok(())
}

fn say_how_to_carry(folder: &Path) -> Result<()> {
    let mib = fs::metadata(folder.join("it"))?.len() as f64 / f64::from(1 << 20);
    println!("{}", folder.display());
    eprintln!(
        "    the tests are in this folder (the program: {mib:.0} MiB); to run them elsewhere:\n    \
         tar -C '{}' -c gpu-test | xz -T0 > gpu-test.tar.xz\n    \
         and there: tar -xf gpu-test.tar.xz && gpu-test/test.sh",
        folder.parent().unwrap_or(folder).display()
    );
    Ok(())
}

fn has_card() -> bool {
    Path::new("/dev/nvidiactl").exists() || succeeds(command("nvidia-smi").arg("-L"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"it"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"it"},"executable":"/b/it-1"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages), Some(PathBuf::from("/b/it-1")));
        assert_eq!(executable(""), None);
    }

    #[test]
    fn what_is_carried_exists() {
        assert!(root().join(SCRIPT).is_file() && root().join(GOLDEN).is_dir());
    }

    #[test]
    fn an_unknown_flag_is_refused() {
        let error = run(&["--fast".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "`gpu-test` knows no `--fast`: only `--release`, and names of tests");
    }
}
