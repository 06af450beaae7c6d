//! `cargo xtask ci`: the only gate, the same on a laptop and on a server.
//!
//! Steps run in order, the quick ones first, and the first failure ends the run. What a step needs
//! and a machine may lack, it installs: no step is left out.

use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, command, run as run_command};
use crate::pytest::AFTER_TESTS;
use crate::venv::Venv;
use crate::{api_coverage, deny, fuzz, kernels, test, tidy, types, wheel};

/// One check of the gate.
#[derive(Clone, Copy)]
struct Step {
    name: &'static str,
    check: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", check: fmt },
    Step { name: "tidy", check: tidy::run },
    Step { name: "typos", check: typos },
    Step { name: "ruff", check: ruff },
    Step { name: "deny", check: deny::run },
    Step { name: "kernels", check: kernels::check },
    Step { name: "clippy", check: clippy },
    Step { name: "fuzz-targets", check: fuzz::check },
    Step { name: "doc", check: doc },
    // The same function as `cargo xtask test`, so that the two cannot drift apart. What follows uses
    // the extension that it has built.
    Step { name: "test", check: || test::run(&[]) },
    Step { name: "types", check: types::check },
    Step { name: "api-coverage", check: coverage },
    Step { name: "wheel", check: wheel::try_development },
];

/// Runs the whole gate, or the steps that are named.
pub(crate) fn run(names: &[String]) -> Result<()> {
    run_steps(&chosen(STEPS, names)?)
}

fn chosen(steps: &[Step], names: &[String]) -> Result<Vec<Step>> {
    if let Some(name) = names.iter().find(|name| !steps.iter().any(|step| step.name == *name)) {
        let known: Vec<_> = steps.iter().map(|step| step.name).collect();
        bail!("the gate has no step `{name}`: it has {}", known.join(", "));
    }
    let is_chosen = |step: &&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(steps.iter().filter(is_chosen).copied().collect())
}

fn run_steps(steps: &[Step]) -> Result<()> {
    let start = Instant::now();
    for step in steps {
        eprintln!("==> {}", step.name);
        let step_start = Instant::now();
        let outcome = (step.check)();
        let seconds = step_start.elapsed().as_secs_f64();
        outcome.with_context(|| {
            let name = step.name;
            format!(
                "ci stopped at `{name}` after {seconds:.1} s (rerun with `cargo xtask ci {name}`)"
            )
        })?;
        eprintln!("    {}: ok in {seconds:.1} s", step.name);
    }
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("==> ci passed in {seconds:.1} s: {} steps", steps.len());
    Ok(())
}

fn fmt() -> Result<()> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    let args =
        ["clippy", "--locked", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    run_command(&mut cargo(&args))
}

/// Links between items, and whatever else rustdoc warns of; pages of modules may link to what only
/// `--document-private-items` shows, for who reads the sources.
fn doc() -> Result<()> {
    let args = ["doc", "--locked", "--workspace", "--no-deps", "--quiet"];
    let flags = "-D warnings -A rustdoc::private-intra-doc-links";
    run_command(cargo(&args).env("RUSTDOCFLAGS", flags))
}

fn typos() -> Result<()> {
    run_command(&mut command(Venv::with_tools()?.program("typos")))
}

fn coverage() -> Result<()> {
    api_coverage::check(AFTER_TESTS)
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

fn ruff() -> Result<()> {
    // Pinned with the test tools: another version formats differently.
    let ruff = Venv::with_tools()?.program("ruff");
    for check in [&["check", "--quiet"][..], &["format", "--check", "--quiet"]] {
        run_command(command(&ruff).args(check).args(RUFF))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: Step = Step { name: "pass", check: || Ok(()) };
    const FAIL: Step = Step { name: "fail", check: || bail!("it broke") };
    const NEVER: Step = Step { name: "never", check: || panic!("ran after a failure") };

    #[test]
    fn all_steps_pass() {
        run_steps(&[PASS, PASS]).expect("no step failed");
    }

    #[test]
    fn first_failure_ends_the_run_and_names_the_step() {
        let error = format!("{:#}", run_steps(&[PASS, FAIL, NEVER]).unwrap_err());
        assert!(error.starts_with("ci stopped at `fail` after 0.0 s"), "{error}");
        assert!(error.ends_with("(rerun with `cargo xtask ci fail`): it broke"), "{error}");
    }

    #[test]
    fn steps_may_be_named() {
        let steps = [PASS, FAIL];
        assert_eq!(chosen(&steps, &[]).unwrap().len(), 2);
        let only = chosen(&steps, &["pass".to_owned()]).unwrap();
        run_steps(&only).expect("the step that fails was not chosen");
        let error = chosen(&steps, &["pas".to_owned()]).err().unwrap().to_string();
        assert_eq!(error, "the gate has no step `pas`: it has pass, fail");
    }

    #[test]
    fn the_guide_names_every_step() {
        let guide = std::fs::read_to_string(crate::process::root().join("CONTRIBUTING.md"));
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        let listed = format!("Runs the gate: {};", names.join(", "));
        assert!(guide.unwrap().contains(&listed), "CONTRIBUTING.md should say: {listed}");
    }
}
