//! `cargo xtask ci`: the only gate, the same on a laptop and on a server.
//!
//! Steps run in order and the first failure ends the run. A tool that is not installed is skipped
//! and named, never silently passed.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::process::{cargo, command, run as run_command, succeeds};
use crate::venv::Venv;
use crate::{test, tidy};

/// One check of the gate.
struct Step {
    name: &'static str,
    check: fn() -> Result<Outcome>,
    /// What to run after fixing, without the whole gate.
    again: &'static str,
}

enum Outcome {
    Passed,
    /// Why, and how to have it run next time.
    Skipped(&'static str),
}

const STEPS: &[Step] = &[
    Step { name: "fmt", check: fmt, again: "cargo fmt --all" },
    Step { name: "clippy", check: clippy, again: "cargo clippy --workspace --all-targets" },
    Step { name: "tidy", check: tidy_check, again: "cargo xtask tidy" },
    Step { name: "deny", check: deny, again: "cargo deny check bans licenses sources" },
    Step { name: "typos", check: typos, again: "typos" },
    Step { name: "ruff", check: ruff, again: "ruff check && ruff format" },
    Step { name: "test", check: test_check, again: "cargo xtask test" },
];

/// Runs the whole gate.
pub(crate) fn run() -> Result<()> {
    run_steps(STEPS)
}

fn run_steps(steps: &[Step]) -> Result<()> {
    let start = Instant::now();
    let mut skipped = Vec::new();
    for step in steps {
        eprintln!("==> {}", step.name);
        let step_start = Instant::now();
        let outcome = (step.check)();
        let seconds = step_start.elapsed().as_secs_f64();
        let outcome = outcome.with_context(|| {
            format!(
                "ci stopped at `{}` after {seconds:.1} s (rerun with `{}`)",
                step.name, step.again
            )
        })?;
        match outcome {
            Outcome::Passed => eprintln!("    {}: ok in {seconds:.1} s", step.name),
            Outcome::Skipped(why) => {
                eprintln!("    {}: skipped, {why}", step.name);
                skipped.push(step.name);
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let passed = steps.len() - skipped.len();
    eprintln!("==> ci passed in {seconds:.1} s: {passed} steps ok{}", listed(&skipped));
    Ok(())
}

fn listed(skipped: &[&str]) -> String {
    if skipped.is_empty() { String::new() } else { format!(", skipped {}", skipped.join(", ")) }
}

fn fmt() -> Result<Outcome> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    Ok(Outcome::Passed)
}

fn clippy() -> Result<Outcome> {
    let args =
        ["clippy", "--locked", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    run_command(&mut cargo(&args))?;
    Ok(Outcome::Passed)
}

fn tidy_check() -> Result<Outcome> {
    tidy::run()?;
    Ok(Outcome::Passed)
}

fn deny() -> Result<Outcome> {
    if !succeeds(&mut cargo(&["deny", "--version"])) {
        return Ok(Outcome::Skipped(
            "cargo-deny is not installed: `cargo install --locked cargo-deny`",
        ));
    }
    // Advisories change from day to day; a gate that does is no gate.
    run_command(&mut cargo(&["deny", "check", "bans", "licenses", "sources"]))?;
    Ok(Outcome::Passed)
}

fn typos() -> Result<Outcome> {
    if !succeeds(command("typos").arg("--version")) {
        return Ok(Outcome::Skipped("typos is not installed: `cargo install --locked typos-cli`"));
    }
    run_command(&mut command("typos"))?;
    Ok(Outcome::Passed)
}

/// What `ruff` looks at; the other tools are for developers of Bireme alone.
const RUFF: [&str; 9] = [
    "python",
    "models",
    "tools/wheel",
    "tools/trainer.py",
    "tools/infer.py",
    "tools/static_trainer.py",
    "tools/static_infer.py",
    "tools/static_ps_trainer.py",
    "tools/static_ps_online_trainer.py",
];

fn ruff() -> Result<Outcome> {
    // Pinned with the test tools: another version formats differently.
    let ruff = Venv::with_tools()?.program("ruff");
    for check in [&["check", "--quiet"][..], &["format", "--check", "--quiet"]] {
        run_command(command(&ruff).args(check).args(RUFF))?;
    }
    Ok(Outcome::Passed)
}

/// The same function as `cargo xtask test`, so that the two cannot drift apart.
fn test_check() -> Result<Outcome> {
    test::run(&[])?;
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    const PASS: Step = Step { name: "pass", check: || Ok(Outcome::Passed), again: "pass" };
    const SKIP: Step =
        Step { name: "skip", check: || Ok(Outcome::Skipped("no reason")), again: "skip" };
    const FAIL: Step = Step { name: "fail", check: || bail!("it broke"), again: "cargo fail" };
    const NEVER: Step =
        Step { name: "never", check: || panic!("ran after a failure"), again: "never" };

    #[test]
    fn passes_and_skips_are_both_fine() {
        run_steps(&[PASS, SKIP, PASS]).expect("no step failed");
    }

    #[test]
    fn first_failure_ends_the_run_and_names_the_step() {
        let error = format!("{:#}", run_steps(&[PASS, FAIL, NEVER]).unwrap_err());
        assert!(error.starts_with("ci stopped at `fail` after 0.0 s"), "{error}");
        assert!(error.ends_with("(rerun with `cargo fail`): it broke"), "{error}");
    }

    #[test]
    fn gate_ends_with_the_tests() {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names, ["fmt", "clippy", "tidy", "deny", "typos", "ruff", "test"]);
    }
}
