//! One process of a job: how it is started, and what is known of it while it runs.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use bireme_fleet::environment::variables as v;
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use super::status::Status;
use crate::job::{Job, Process};

/// What a process is told beside its own variables.
pub(super) struct Surroundings<'a> {
    pub(super) job: &'a Job,
    /// The folder of this run: also the mark by which descendants are known.
    pub(super) folder: &'a Path,
    /// How often the job, or this process, was started before.
    pub(super) restarts: u32,
    /// Whether its log goes on where it is.
    pub(super) append: bool,
}

/// A process that runs, or has ended and was not yet asked how.
pub(super) struct Running {
    child: Child,
    pub(super) pid: Pid,
    death: OwnedFd,
    reports: PipeReader,
    pub(super) status: Status,
    pub(super) log: Log,
    pub(super) started: Instant,
    /// Why the launcher has ended it, if it has.
    pub(super) stuck: Option<String>,
}

/// A process's log, and where this process's part of it begins.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub(super) path: PathBuf,
    pub(super) start: u64,
}

/// How a process ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) at: Instant,
    pub(super) log: Log,
    pub(super) mode: Option<String>,
    /// Why the launcher has ended it, if it has.
    pub(super) stuck: Option<String>,
}

impl Running {
    /// Starts a process.
    ///
    /// # Errors
    /// When its log cannot be opened or its program cannot be run; says which.
    pub(super) fn start(process: &Process, around: &Surroundings<'_>) -> Result<Running> {
        let (log, file) = open_log(process, around)?;
        let (reports, writer) = io::pipe().context("cannot make a pipe for reports")?;
        rustix::io::ioctl_fionbio(&reports, true).context("cannot make a pipe for reports")?;
        let mut command = command(process, around, &writer)?;
        let errors = file.try_clone().context("cannot open the log a second time")?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot run `{program}`"))?;
        let pid = Pid::from_child(&child);
        let death = death_of(pid)?;
        let status = Status::default();
        let started = Instant::now();
        Ok(Running { child, pid, death, reports, status, log, started, stuck: None })
    }

    /// Readable when the process has ended.
    pub(super) fn death(&self) -> BorrowedFd<'_> {
        self.death.as_fd()
    }

    /// Readable when the process reports something.
    pub(super) fn reports(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// Reads what the process reports; false when it will report no more.
    pub(super) fn hear(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.reports.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.status.hear(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// How it ended; `None` while it runs.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        let status = self.child.try_wait().ok()??;
        self.hear();
        let (log, mode) = (self.log.clone(), self.status.mode.clone());
        Some(Ended { status, at: Instant::now(), log, mode, stuck: self.stuck.clone() })
    }

    /// Sends a signal to the process and all that it started, as far as they stayed in its group.
    pub(super) fn signal(&self, signal: Signal) {
        // It may be gone already.
        rustix::process::kill_process_group(self.pid, signal).ok();
    }
}

impl Ended {
    /// What happened, in words that follow a name: `ended with exit code 3`.
    pub(super) fn how(&self) -> String {
        self.stuck.clone().unwrap_or_else(|| ending(self.status))
    }

    /// The code of a shell for it: 128 and the number for a signal.
    pub(super) fn code(&self) -> u8 {
        let code = match self.status.signal() {
            Some(signal) => 128 + signal,
            None => self.status.code().unwrap_or(1),
        };
        u8::try_from(code).unwrap_or(1)
    }
}

fn command(process: &Process, around: &Surroundings<'_>, reports: &PipeWriter) -> Result<Command> {
    let (program, arguments) =
        around.job.command.split_first().context("there is no command to run")?;
    let mut command = Command::new(program);
    command.args(arguments);
    for name in &process.removed {
        command.env_remove(name);
    }
    command.envs(process.variables.iter().map(|(name, value)| (name, value)));
    let descriptor = reports.as_raw_fd();
    command.env(v::STATUS_FD.name, descriptor.to_string());
    command.env(v::JOB_DIR.name, around.folder);
    command.env(v::RESTART.name, around.restarts.to_string());
    let launcher = rustix::process::getpid();
    let prepare = move || -> io::Result<()> {
        // A session of its own: Ctrl-C at the terminal reaches it through the launcher only, and
        // all that it starts can be ended with it.
        rustix::process::setsid()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(launcher) {
            return Err(io::Error::from(rustix::io::Errno::SRCH));
        }
        #[expect(
            unsafe_code,
            reason = "the number of a descriptor survives a fork, its owner does not"
        )]
        // SAFETY: the launcher holds the descriptor until the process has been started.
        let reports = unsafe { BorrowedFd::borrow_raw(descriptor) };
        rustix::io::fcntl_setfd(reports, FdFlags::empty())?;
        Ok(())
    };
    #[expect(unsafe_code, reason = "there is no other way to set up a session")]
    // SAFETY: `prepare` makes system calls only; it neither allocates nor locks.
    unsafe {
        command.pre_exec(prepare);
    }
    Ok(command)
}

fn open_log(process: &Process, around: &Surroundings<'_>) -> Result<(Log, File)> {
    let path = around.job.log_dir.join(process.log_file());
    let opened = || -> io::Result<(File, u64)> {
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        if !around.append {
            file.set_len(0)?;
        }
        if around.restarts > 0 {
            writeln!(
                file,
                "----- {} is started again ({}) -----",
                process.name(),
                around.restarts
            )?;
        }
        let start = file.metadata()?.len();
        Ok((file, start))
    };
    let (file, start) =
        opened().with_context(|| format!("cannot write the log `{}`", path.display()))?;
    Ok((Log { path, start }, file))
}

/// A descriptor that is readable from the death of our child on.
///
/// # Errors
/// When there are no descriptors or threads left.
pub(super) fn death_of(pid: Pid) -> Result<OwnedFd> {
    if let Ok(descriptor) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        return Ok(descriptor);
    }
    // Old kernels and some containers have no pidfds: a thread waits instead, and leaves the
    // child's exit code for us.
    let (reader, writer) = io::pipe().context("cannot make a pipe")?;
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options)
        {
        }
        drop(writer);
    };
    std::thread::Builder::new()
        .name("death".to_owned())
        .spawn(wait)
        .context("cannot start a thread")?;
    Ok(OwnedFd::from(reader))
}

/// The names of signals, as far as processes die of them.
const SIGNALS: [(i32, &str); 15] = [
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGXCPU, "SIGXCPU"),
];

/// How a process ended, in words.
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => match SIGNALS.iter().find(|(number, _)| *number == signal) {
            Some((_, name)) => format!("was ended by signal {signal} ({name})"),
            None => format!("was ended by signal {signal}"),
        },
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "ended without an exit code".to_owned(),
    }
}
