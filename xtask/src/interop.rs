//! `cargo xtask interop`: the same models in Bireme and in real Paddle, and files between them.
//!
//! This file prepares both sides (a release build, a virtual environment with Paddle) and hands
//! over to the scripts; the cases and their tolerances are theirs.

use std::env::consts::EXE_SUFFIX;

use anyhow::Result;

use crate::package::stage_release;
use crate::process::{build_release, run as run_command};
use crate::venv::{self, Venv};

/// What can be asked for alone by its word.
const PARTS: &[Part] = &[
    Part { word: "files", script: "tools/interop/run.py" },
    Part { word: "python", script: "tools/interop/python.py" },
];

/// One script of a command.
pub(crate) struct Part {
    /// The first argument that asks for this script alone.
    pub(crate) word: &'static str,
    /// From the repository root.
    pub(crate) script: &'static str,
}

/// Runs the exchanges; `args` may begin with the word of a part, the rest goes to the scripts.
pub(crate) fn run(args: &[String]) -> Result<()> {
    run_both_sides(PARTS, args)
}

/// Runs scripts under Paddle's Python; `BIREME_BIN` is the `bireme` command, `BIREME_EXAMPLES` the
/// folder of the examples and `BIREME_PACKAGE` that of the Python package, all built in release.
pub(crate) fn run_both_sides(parts: &[Part], args: &[String]) -> Result<()> {
    let (parts, args) = chosen(parts, args);
    let scripts = parts.iter().map(|part| venv::script(part.script)).collect::<Result<Vec<_>>>()?;
    let release = build_release()?;
    let package = stage_release()?;
    let venv = Venv::with_paddle()?;
    for script in scripts {
        run_command(
            venv.python()
                .arg(script)
                .args(args)
                .env("BIREME_BIN", release.join(format!("bireme{EXE_SUFFIX}")))
                .env("BIREME_EXAMPLES", release.join("examples"))
                .env("BIREME_PACKAGE", &package),
        )?;
    }
    Ok(())
}

/// The part that the first argument names and the other arguments, or all of both.
fn chosen<'a>(parts: &'a [Part], args: &'a [String]) -> (&'a [Part], &'a [String]) {
    let named = args.first().and_then(|arg| parts.iter().position(|part| part.word == arg));
    match named {
        Some(index) => (&parts[index..=index], &args[1..]),
        None => (parts, args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_argument_may_choose_a_part() {
        let check = |args: &[&str], words: &[&str], rest: &[&str]| {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            let (parts, left) = chosen(PARTS, &args);
            assert_eq!(parts.iter().map(|part| part.word).collect::<Vec<_>>(), words);
            assert_eq!(left, rest);
        };
        check(&[], &["files", "python"], &[]);
        check(&["python", "din"], &["python"], &["din"]);
        check(&["fit_a_line"], &["files", "python"], &["fit_a_line"]);
    }
}
