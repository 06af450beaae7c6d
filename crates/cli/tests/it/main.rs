//! The command as a user meets it: arguments and stdin in; exit code, stdout and stderr out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod bench;
mod card;
mod checkpoint;
#[cfg(target_os = "linux")]
mod cluster;
mod columns;
mod data;
#[cfg(target_os = "linux")]
mod launcher;
mod story;
mod submit;
#[cfg(target_os = "linux")]
mod tune;
#[cfg(target_os = "linux")]
mod yaml;
mod zoo;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// How a run of the command ended.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs `bireme` in `folder`, with `stdin` as its input.
fn bireme(folder: &Path, args: &[&str], stdin: &str) -> Ran {
    finish(Command::new(env!("CARGO_BIN_EXE_bireme")).args(args).current_dir(folder), stdin)
}

fn finish(command: &mut Command, stdin: impl AsRef<[u8]>) -> Ran {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    // A command that fails early does not read its input.
    child.stdin.take().unwrap().write_all(stdin.as_ref()).ok();
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Trains a small model into `demo` below `folder`, in one process: what is done with the model
/// does not depend on how it was trained.
fn train_small(folder: &Path) -> Ran {
    let args = ["train", "--samples", "3000", "--batch-size", "256", "--rows", "2000"];
    let ran = bireme(
        folder,
        &[&args[..], &["--local", "--threads", "2", "--output", "demo"]].concat(),
        "",
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran
}
