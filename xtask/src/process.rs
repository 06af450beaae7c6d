//! Starts other programs, and knows where the repository and its build folder are.
//!
//! A program that fails is an error that repeats its command line, so that a person can rerun it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The folder that holds the workspace manifest.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable at run time too, which stays right when the checkout has moved.
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir.parent().expect("xtask lies inside the workspace").to_path_buf()
}

/// Has this process and what it starts end by Ctrl-C, as tests of interrupts expect: a shell starts
/// programs in the background with that signal ignored, and they hand it on.
pub(crate) fn heed_interrupts() {
    #[expect(unsafe_code, reason = "only libc knows `signal`")]
    // SAFETY: no handler is set, and no other thread runs yet.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
    }
}

/// A command that starts in the repository root.
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(root());
    command
}

/// The cargo that runs us, with `args`.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let program = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut cargo = command(program);
    cargo.args(args);
    cargo
}

/// Runs to the end with our stdout and stderr; a non-zero exit is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = command_line(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs to the end and returns what it printed; stderr stays ours.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({})", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed invalid UTF-8"))
}

/// Whether the command starts and exits with zero; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs `body` under a heading and says how long it took.
pub(crate) fn step(name: &str, body: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("==> {name}");
    let start = Instant::now();
    let result = body();
    let seconds = start.elapsed().as_secs_f64();
    if result.is_ok() {
        eprintln!("    {name}: ok in {seconds:.1} s");
    }
    result.with_context(|| format!("{name} failed after {seconds:.1} s"))
}

/// Builds the `bireme` command, the examples and the Python extension in release; returns the folder they are in.
pub(crate) fn build_release() -> Result<PathBuf> {
    step("build in release", || {
        run(&mut cargo(&[
            "build",
            "--locked",
            "--release",
            "--workspace",
            "--exclude",
            "xtask",
            "--lib",
            "--bins",
            "--examples",
        ]))
    })?;
    Ok(target_dir()?.join("release"))
}

/// Where cargo puts what it builds, whatever the environment and configuration say.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let metadata = output(&mut cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let dir = json_string(&metadata, "target_directory")
        .context("`cargo metadata` did not name a target directory")?;
    Ok(PathBuf::from(dir))
}

/// The value of a key that occurs once; enough of JSON to save a dependency.
fn json_string(json: &str, key: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{key}\":\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(value.replace("\\\\", "\\"))
}

/// The command as one would type it, for messages.
fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .map(|word| if word.contains(' ') { format!("'{word}'") } else { word.into_owned() })
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_holds_the_workspace_manifest() {
        assert!(root().join("Cargo.toml").is_file());
        assert!(root().join("xtask").is_dir());
    }

    #[test]
    fn failure_repeats_the_command_line() {
        let error = run(command("cargo").args(["no-such-command", "a b"]).stderr(Stdio::null()));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("`cargo no-such-command 'a b'` failed"), "{error}");
    }

    #[test]
    fn missing_program_is_an_error_and_not_a_success() {
        let error = run(&mut command("no-such-program")).unwrap_err().to_string();
        assert_eq!(error, "cannot start `no-such-program`");
        assert!(!succeeds(&mut command("no-such-program")));
    }

    #[test]
    fn this_test_was_built_in_the_target_dir() {
        let target = target_dir().unwrap();
        assert!(env::current_exe().unwrap().starts_with(&target), "{}", target.display());
    }

    #[test]
    fn json_string_takes_the_value_and_unescapes_it() {
        let json = r#"{"version":1,"target_directory":"C:\\build","x":"y"}"#;
        assert_eq!(json_string(json, "target_directory").as_deref(), Some("C:\\build"));
        assert_eq!(json_string(json, "absent"), None);
    }
}
