//! A file through a command: `cat FILE | COMMAND`, one process for each file.
//!
//! What the command says on stderr is passed on. A command that fails fails the reader; a reader
//! that is dropped kills the command and what it started.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use super::guard::Guarded;
use super::input::Input;
use crate::{Error, Result};

/// How many of the last lines of stderr an error shows.
const LAST_LINES: usize = 8;
/// The longest line of stderr that is passed on at once.
const MAX_LINE: u64 = 1 << 16;

/// Between two questions whether to stop, while a command says nothing.
const TICK_NANOSECONDS: i64 = 50_000_000;

/// A command that runs, or has ended.
pub(super) struct Pipe {
    command: String,
    child: Child,
    stdout: ChildStdout,
    said: Option<JoinHandle<VecDeque<String>>>,
    ended: bool,
    stop: Arc<AtomicBool>,
    /// Should this process be killed, the command does not outlive it.
    _guarded: Guarded,
}

impl Pipe {
    /// Starts `command` with a file as its input.
    pub(super) fn start(
        command: &str,
        path: &Path,
        input: Input,
        stop: Arc<AtomicBool>,
    ) -> Result<Pipe> {
        let failed = |error: io::Error| {
            Error::Pipe(format!("cannot run `{command}` for `{}`: {error}", path.display()))
        };
        let (stdin, feed) = match input {
            Input::Plain(file) => (Stdio::from(file), None),
            Input::Compressed(reader) => (Stdio::piped(), Some(reader)),
            #[cfg(feature = "parquet")]
            Input::Table(file) => (Stdio::from(file), None),
        };
        let mut shell = Command::new("sh");
        // A group of its own, so that all that the shell starts can be ended together.
        shell.arg("-c").arg(command).process_group(0);
        let piped = shell.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().map_err(failed)?;
        let guarded = Guarded::new(child.id());
        if let (Some(mut reader), Some(mut stdin)) = (feed, child.stdin.take()) {
            let path = path.to_owned();
            // Ends with the file, or when the command no longer reads.
            thread::spawn(move || match io::copy(&mut reader, &mut stdin) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    let line = format!("cannot read `{}`: {error}\n", path.display());
                    io::stderr().write_all(line.as_bytes()).ok();
                }
                _ => {}
            });
        }
        let missing = || failed(io::Error::other("it has no output"));
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let said = Some(thread::spawn(move || pass_on(stderr)));
        let command = command.to_owned();
        Ok(Pipe { command, child, stdout, said, ended: false, stop, _guarded: guarded })
    }

    /// Reads what the command prints.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.has_output()? {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other(Stopped));
            }
        }
        self.stdout.read(buffer)
    }

    /// Whether there is something to read, or the end; waits a little for it.
    fn has_output(&self) -> io::Result<bool> {
        let mut watched = [PollFd::new(&self.stdout, PollFlags::IN)];
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK_NANOSECONDS };
        match poll(&mut watched, Some(&tick)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the command, whose output has ended.
    ///
    /// # Errors
    /// When the command fails.
    pub(super) fn finish(&mut self, path: &Path) -> Result<()> {
        let status = self.child.wait();
        self.ended = true;
        let failure = match status {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => outcome(status),
            Err(error) => format!("cannot be waited for: {error}"),
        };
        let said = self.said.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let said: String = said.into_iter().map(|line| format!("\n  {line}")).collect();
        Err(Error::Pipe(format!(
            "the command `{}` {failure} on `{}`{}{said}",
            self.command,
            path.display(),
            if said.is_empty() { ", and said nothing" } else { ", and said last:" }
        )))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // The process has not been waited for, so its id is still its own.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process_group(group, Signal::KILL).ok();
        }
        self.child.wait().ok();
    }
}

/// Somebody asked to stop while a command said nothing.
#[derive(Debug, thiserror::Error)]
#[error("reading was stopped")]
struct Stopped;

/// Whether a read failed only because somebody asked to stop.
pub(super) fn is_stopped(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Stopped>())
}

fn outcome(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("failed with exit code {code}"),
        None => format!("was ended ({status})"),
    }
}

/// Writes the lines of a command to stderr as they come, and keeps the last ones.
fn pass_on(stderr: ChildStderr) -> VecDeque<String> {
    let (mut reader, mut last) = (BufReader::new(stderr), VecDeque::new());
    let mut line = Vec::new();
    while let Ok(1..) = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
        // Nowhere to report a failure to.
        io::stderr().write_all(&line).ok();
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
    last
}
