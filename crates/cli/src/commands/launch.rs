//! `bireme launch` and `fleetrun`: the processes of a job on this machine.

use std::ffi::OsString;
use std::process::ExitCode;

use bireme_launch::Host as Launcher;
use bireme_launch::arguments::Flavor;

use super::Host;

/// Starts, watches and ends the processes of a training job; the same as `fleetrun`
#[derive(Debug, clap::Args)]
// The launcher reads its own flags, and says how they are used.
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Flags, then a script or a program with its arguments: see `bireme launch --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Runs a job as `bireme launch`; returns the exit code.
pub(crate) fn run(args: &Args, host: &Host) -> u8 {
    // Where it is not known, the launcher says so when it matters.
    let bireme = host.command().unwrap_or_default();
    let launcher = Launcher {
        program: "bireme launch".to_owned(),
        python: host.python.clone(),
        bireme,
        flavor: Flavor::Fleetrun,
        one_display: false,
    };
    bireme_launch::run(&args.arguments, &launcher)
}

/// Runs `fleetrun` with the arguments that this process was started with.
pub fn fleetrun() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let launcher = Launcher { program: "fleetrun".to_owned(), ..Launcher::default() };
    ExitCode::from(bireme_launch::run(&args, &launcher))
}

/// Runs the command line `args` (without its first word) as `program`; returns the exit code.
///
/// Never ends the process itself, so that a host such as Python can clean up after it.
pub fn fleetrun_from(program: &str, args: &[OsString], host: &Host, flavor: Flavor) -> u8 {
    let launcher = Launcher {
        program: program.to_owned(),
        python: host.python.clone(),
        bireme: host.command.clone(),
        flavor,
        one_display: false,
    };
    bireme_launch::run(args, &launcher)
}
