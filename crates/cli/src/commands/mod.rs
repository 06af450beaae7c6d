//! The subcommands, and how each run ends: 0 done, 1 an error, 2 wrong usage, 130 interrupted.

mod bench;
mod data;
mod inspect;
pub(crate) mod launch;
mod models;
#[cfg(test)]
mod pages;
mod predict;
mod report;
mod submit;
mod train;
mod tune;
mod yaml;

use std::ffi::OsString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use anyhow::Context;
use bireme_engine::MAX_THREADS;
use clap::{Parser, Subcommand};

use crate::terminal::say;

/// Trains, inspects and uses recommender and dense models.
#[derive(Debug, Parser)]
#[command(name = "bireme", version, arg_required_else_help = true)]
#[command(after_help = "Start with `bireme train`: it needs no arguments, no data and no network.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Train(train::Args),
    Launch(launch::Args),
    Inspect(inspect::Args),
    Predict(predict::Args),
    Infer(yaml::InferArgs),
    Report(report::Args),
    Tune(tune::Args),
    Data(data::Args),
    Bench(bench::Args),
    Submit(Box<submit::Args>),
}

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The user pressed Ctrl-C, and was told where things are.
    Interrupted,
    /// A job ended with this exit code, and said why.
    Ended(u8),
}

/// What starts this command again, in a process of its own.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Program and first arguments; empty where the command is an executable of its own.
    command: Vec<OsString>,
    /// What runs a Python script, given after it; empty where an interpreter has to be found.
    python: Vec<OsString>,
}

impl Host {
    /// A program that runs the command with further arguments: a Python interpreter and a script.
    pub fn new(command: Vec<OsString>) -> Host {
        Host { command, python: Vec::new() }
    }

    /// The same, with the interpreter for scripts that are launched.
    pub fn with_python(self, python: Vec<OsString>) -> Host {
        Host { python, ..self }
    }

    /// Program and first arguments.
    fn command(&self) -> anyhow::Result<Vec<OsString>> {
        if self.command.is_empty() {
            let own = std::env::current_exe().context("cannot find the executable of `bireme`")?;
            return Ok(vec![own.into_os_string()]);
        }
        Ok(self.command.clone())
    }
}

/// Runs the command that this process was started with.
pub fn run() -> ExitCode {
    ExitCode::from(run_from(std::env::args_os(), &Host::default()))
}

/// Runs the command of `args`, the first of which is the program's name; returns the exit code.
///
/// Never ends the process itself, so that a host such as Python can clean up after it; but a
/// member of a local cluster ends with the process that started it.
pub fn run_from(args: impl IntoIterator<Item = OsString>, host: &Host) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(message) => {
            // Help is a message too: it goes to stdout with 0, a usage error to stderr with 2.
            // That nobody reads it changes nothing.
            message.print().ok();
            return u8::try_from(message.exit_code()).unwrap_or(2);
        }
    };
    match guarded(|| execute(cli.command, host)) {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Interrupted) => crate::interrupt::exit_code(),
        Ok(Outcome::Ended(code)) => code,
        // Whoever read our output has seen enough (`bireme inspect model | head`).
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            let error = match error.downcast_ref::<io::Error>() {
                // Files are named where they are written; what has no name is our own output.
                Some(cause) if cause.kind() == io::ErrorKind::StorageFull => {
                    error.context("cannot write to standard output")
                }
                _ => error,
            };
            say(&format!("error: {}", bireme_launch::in_words(&error)));
            1
        }
    }
}

fn execute(command: Command, host: &Host) -> anyhow::Result<Outcome> {
    match command {
        Command::Train(args) => train::run(&args, host),
        Command::Launch(args) => Ok(Outcome::Ended(launch::run(&args, host))),
        Command::Inspect(args) => inspect::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Infer(args) => yaml::infer(&args),
        Command::Report(args) => report::run(&args),
        Command::Tune(args) => tune::run(&args, host),
        Command::Data(args) => data::run(&args),
        Command::Bench(args) => bench::run(&args, host),
        Command::Submit(args) => submit::run(&args),
    }
}

/// Runs a command; what unwinds out of it becomes an error.
///
/// A tensor that does not fit into memory unwinds with an error and without a message of its own,
/// and a process that just ends leaves the user to guess.
fn guarded(command: impl FnOnce() -> anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    catch_unwind(AssertUnwindSafe(command))
        .unwrap_or_else(|panic| Err(bireme_engine::Error::caught(panic).into()))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Parses a count of at least one and at most `MAX`.
fn up_to<const MAX: usize>(text: &str) -> Result<usize, String> {
    match none_or_up_to::<MAX>(text) {
        Ok(0) => Err("must be at least 1".to_owned()),
        other => other,
    }
}

/// Parses a count of at most `MAX`.
fn none_or_up_to<const MAX: usize>(text: &str) -> Result<usize, String> {
    let digits = text.replace('_', "");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("is not a whole number".to_owned());
    }
    match digits.parse() {
        Ok(count) if count <= MAX => Ok(count),
        _ => Err(format!("must be at most {MAX}")),
    }
}

/// Parses a finite number above zero.
fn positive_real(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        Ok(_) => Err("must be above 0".to_owned()),
        Err(_) => Err("is not a number".to_owned()),
    }
}

/// The number of processors that this process may use.
fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_THREADS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn usage_errors_and_help_are_exit_codes() {
        let run = |args: &[&str]| run_from(args.iter().map(OsString::from), &Host::default());
        assert_eq!(run(&["bireme", "--version"]), 0);
        assert_eq!(run(&["bireme", "no-such-command"]), 2);
    }

    #[test]
    fn a_tensor_that_does_not_fit_is_an_error() {
        let error = guarded(|| {
            bireme_engine::tensor::Tensor::zeros(bireme_engine::DType::F32, [1 << 60]);
            Ok(Outcome::Done)
        });
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("out of memory"), "{error}");
    }

    #[test]
    fn counts_and_rates_are_checked() {
        let positive = up_to::<2_000_000>;
        assert_eq!(positive("1_000_001"), Ok(1_000_001));
        assert_eq!(positive("0"), Err("must be at least 1".to_owned()));
        assert_eq!(none_or_up_to::<2>("0"), Ok(0));
        for wrong in ["-3", "x", "", "1.5"] {
            assert_eq!(positive(wrong), Err("is not a whole number".to_owned()));
        }
        for large in ["2000001", "99999999999999999999999"] {
            assert_eq!(positive(large), Err("must be at most 2000000".to_owned()));
        }
        assert_eq!(positive_real("1e-3"), Ok(1e-3));
        assert!(positive_real("0").is_err() && positive_real("inf").is_err());
    }
}
