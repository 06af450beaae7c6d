//! The `fleetrun` executable; everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    bireme_cli::fleetrun()
}
