//! `cargo xtask`: the one entry to everything a contributor runs, one file per command.
//!
//! Progress goes to stderr, so that stdout holds only what a command prints as its result and
//! `cargo xtask bench --json` can be piped.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an executable that talks to a person at a terminal"
)]

mod api_coverage;
mod bench;
mod browser;
mod ci;
mod deny;
mod fuzz;
mod golden;
mod gpu_test;
mod interop;
mod kernels;
mod miri;
mod mpi;
mod netns;
mod package;
mod parquet;
mod peers;
mod process;
mod pytest;
mod races;
mod submit;
mod test;
mod tidy;
mod types;
mod venv;
mod wheel;

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
usage: cargo xtask COMMAND [ARGUMENTS]

Every day
  test [CARGO-TEST-ARGS]   run the tests: unit, integration and doctests of every crate, then
                           `pytest`; with arguments only those of the crates
  pytest [PYTEST-ARGS]     build the extension and run the tests of the Python package
  ci [STEP...]             run the gate: the checks that CONTRIBUTING.md lists, with `test` among
                           them; or only those that are named
  tidy                     check the house rules (headers, sizes, layers, links) and count lines
  api-coverage [--check]   count the names of Paddle's API that exist here and write docs/api.md;
                           with `--check` fail when that page is stale
  kernels [--check]        compile the CUDA kernels with NVRTC and store what it gives; with `--check`
                           fail when what is stored is stale
  types                    check the types of the Python package and the stubs of the extension
  wheel                    build the release wheel and try it in a bare virtual environment

With what a machine may not have
  mpi [PYTEST-ARGS]        build with the feature `mpi` and train under `mpirun`, by Bireme's own
                           binding and by mpi4py; says so where there is no MPI
  netns [CASE...]          run jobs on three machines made of network namespaces, also with cables
                           cut and machines missing; says so without root or `ip`
  gpu-test [TEST...]       put the tests of cards into a folder that a machine with one can run, and run
                           them where this machine has one, also under compute-sanitizer; says what
                           it skipped (`--release` builds in release)
  fuzz [SECONDS] [TARGET]  run every fuzz target for a minute; fails without a nightly compiler and
                           cargo-fuzz
  miri [TEST...]           run the tests of the engine's unsafe code in Miri, which finds races and
                           bad pointers; fails without a nightly compiler with `miri`
  races [TEST...]          run the tests of cards on an emulated card that looks for accesses of kernels
                           that nothing orders; needs a C++ compiler, takes minutes
  parquet                  lint and test what only the feature `parquet` compiles
  browser                  look at the page of `bireme report` in Chromium; says so where there is
                           none (BROWSER names another)
  submit                   hold what `bireme submit` prints against the schemas of Kubernetes and
                           JobSet, and its scripts against shellcheck

Figures
  bench [NAME] [FLAGS]     build in release and run `bireme bench NAME` (default `engine`);
                           `bench --help` is that command's own
  peers [PART] [ARGUMENTS] measure against real Paddle and PyTorch; PART is `engine`
                           (tools/peers/compare.py), `python`, `servers`, `dataset` or
                           `collective` (the script of that name beside it)

Against real Paddle (a virtual environment is made on first use; this downloads packages)
  interop [PART] [ARGS]    exchange models and compare training; PART is `files`
                           (tools/interop/run.py) or `python` (tools/interop/python.py)
  golden [ARGUMENTS]       regenerate crates/engine/tests/golden: tools/golden/generate.py

Environment
  BIREME_CACHE             folder for what is downloaded or built aside (default ~/.cache/bireme)
  BIREME_PYTHON            Python for the virtual environments (default: the first fitting one
                           that is found: 3.8 to 3.12 for Paddle, 3.10 to 3.14 otherwise)

`test`, `pytest`, `ci`, `types` and `wheel` keep pytest, NumPy, ruff, mypy, typos and maturin in an
environment in the build folder; making it downloads them once. So do `mpi`, `netns` and `submit`
with what they need.";

fn main() -> ExitCode {
    process::heed_interrupts();
    let args: Vec<String> = env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<()> {
    let Some((command, rest)) = args.split_first() else {
        bail!("no command given\n\n{HELP}");
    };
    if matches!(command.as_str(), "help" | "--help" | "-h")
        || (!matches!(command.as_str(), "bench" | "pytest") && asks_for_help(rest))
    {
        println!("{HELP}");
        return Ok(());
    }
    match command.as_str() {
        "test" => test::run(rest),
        "pytest" => pytest::run(pytest::ALONE, rest),
        "ci" => ci::run(rest),
        "api-coverage" => api_coverage::run(rest),
        "tidy" => takes_nothing(command, rest).and_then(|()| tidy::run()),
        "types" => takes_nothing(command, rest).and_then(|()| types::run()),
        "wheel" => takes_nothing(command, rest).and_then(|()| wheel::run()),
        "bench" => bench::run(rest),
        "interop" => interop::run(rest),
        "golden" => golden::run(rest),
        "gpu-test" => gpu_test::run(rest),
        "peers" => peers::run(rest),
        "miri" => miri::run(rest),
        "mpi" => mpi::run(rest),
        "netns" => netns::run(rest),
        "races" => races::run(rest),
        "parquet" => takes_nothing(command, rest).and_then(|()| parquet::run()),
        "fuzz" => fuzz::run(rest),
        "browser" => takes_nothing(command, rest).and_then(|()| browser::run()),
        "kernels" => kernels::run(rest),
        "submit" => takes_nothing(command, rest).and_then(|()| submit::run()),
        other => bail!("no command `{other}`: `cargo xtask --help` lists them"),
    }
}

/// What follows `--` belongs to the tool that a command calls; `bench` and `pytest` leave all flags
/// to it.
fn asks_for_help(args: &[String]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--help" || arg == "-h")
}

fn takes_nothing(command: &str, args: &[String]) -> Result<()> {
    match args.first() {
        Some(arg) => bail!("`{command}` takes no arguments, but `{arg}` was given"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unknown_command_points_to_help() {
        let error = dispatch(&strings(&["tset"])).unwrap_err().to_string();
        assert_eq!(error, "no command `tset`: `cargo xtask --help` lists them");
    }

    #[test]
    fn help_after_two_dashes_is_not_ours() {
        assert!(asks_for_help(&strings(&["-p", "bireme-ir", "--help"])));
        assert!(!asks_for_help(&strings(&["--", "--help"])));
    }

    #[test]
    fn commands_without_arguments_refuse_them() {
        let error = dispatch(&strings(&["tidy", "fast"])).unwrap_err().to_string();
        assert_eq!(error, "`tidy` takes no arguments, but `fast` was given");
    }

    #[test]
    fn pages_name_commands_that_exist() {
        for page in ["README.md", "CONTRIBUTING.md", "docs/benchmarks.md", "fuzz/README.md"] {
            let text = std::fs::read_to_string(process::root().join(page)).unwrap();
            let named = text.split("cargo xtask ").skip(1);
            let names = named.filter_map(|rest| rest.split(|c: char| !c.is_alphabetic()).next());
            for name in names.filter(|name| !name.is_empty() && !["api", "gpu"].contains(name)) {
                assert!(HELP.contains(&format!("\n  {name} ")), "`{name}` in {page}");
            }
        }
    }

    #[test]
    fn help_names_every_command() {
        let commands = [
            "test",
            "pytest",
            "ci",
            "tidy",
            "api-coverage",
            "types",
            "wheel",
            "bench",
            "peers",
            "interop",
            "golden",
            "gpu-test",
            "kernels",
            "mpi",
            "netns",
            "miri",
            "fuzz",
            "parquet",
            "races",
            "browser",
            "submit",
        ];
        for command in commands {
            assert!(HELP.contains(&format!("\n  {command} ")), "{command}");
        }
    }
}
