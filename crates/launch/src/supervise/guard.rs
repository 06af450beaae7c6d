//! A tiny process that ends the job's processes when the launcher cannot: it was killed.
//!
//! It holds the read end of a pipe whose write end only the launcher has. The kernel ends the
//! direct children by itself (`PR_SET_PDEATHSIG`); the guard ends what they started: whole
//! sessions, and whoever left his session but carries the job's mark in his environment.
//!
//! The guard is a fork without exec: as an executable of its own it would, from Python, cost the
//! start of an interpreter. Between fork and exit it must therefore not allocate, lock or panic:
//! only system calls on memory that was there before.

use std::ffi::CStr;
use std::io::{PipeReader, PipeWriter, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::process::{Pid, Signal, WaitOptions};

use super::process::death_of;

/// Sessions that a guard can remember: more than a machine has processes of one job.
const SESSIONS: usize = 4096;
/// What it calls itself, so that `pkill -f fleetrun` does not end it too.
const NAME: &CStr = c"bireme-guard";
/// How often it looks whether somebody is left, every [`PAUSE_MS`].
const ROUNDS: usize = 100;
const PAUSE_MS: i32 = 20;

/// What the launcher says, followed by a session's number.
const ADD: u8 = b'+';
const REMOVE: u8 = b'-';
const QUIT: u8 = b'q';

/// The guard, as the launcher sees it.
pub(super) struct Guard {
    pid: Pid,
    death: OwnedFd,
    writer: PipeWriter,
}

impl Guard {
    /// Starts the guard of processes that carry `mark`, a variable of their environment.
    ///
    /// # Errors
    /// When the system refuses a process or a pipe.
    pub(super) fn start(mark: &str) -> Result<Guard> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe for the guard")?;
        let title = arguments();
        #[expect(unsafe_code, reason = "a fork without exec")]
        // SAFETY: the child calls `watch_over` alone, which allocates nothing and takes no lock.
        let forked = unsafe { libc::fork() };
        match forked {
            0 => watch_over(&reader, mark.as_bytes(), title),
            pid => {
                let refused = || std::io::Error::last_os_error();
                let pid = (pid > 0).then(|| Pid::from_raw(pid)).flatten();
                let pid = pid.ok_or_else(refused).context("cannot start the guard")?;
                Ok(Guard { pid, death: death_of(pid)?, writer })
            }
        }
    }

    /// Puts a session under guard.
    pub(super) fn add(&self, session: Pid) {
        self.tell(ADD, session.as_raw_nonzero().get());
    }

    /// Takes one away that has ended: its number may soon be somebody else's.
    pub(super) fn remove(&self, session: Pid) {
        self.tell(REMOVE, session.as_raw_nonzero().get());
    }

    /// Readable when the guard itself has ended.
    pub(super) fn death(&self) -> BorrowedFd<'_> {
        self.death.as_fd()
    }

    fn tell(&self, word: u8, number: i32) {
        let mut message = [word; 5];
        message[1..].copy_from_slice(&number.to_le_bytes());
        // A guard that is gone is seen by its death.
        (&self.writer).write_all(&message).ok();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.tell(QUIT, 0);
        // It may be gone already.
        rustix::process::waitpid(Some(self.pid), WaitOptions::empty()).ok();
    }
}

/// Where the kernel has this process's arguments, as `ps` shows them.
fn arguments() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let start: usize = fields.nth(45)?.parse().ok()?;
    let end: usize = fields.next()?.parse().ok()?;
    (start > 0 && end > start).then_some((start, end))
}

/// The guard's whole life.
fn watch_over(reader: &PipeReader, mark: &[u8], title: Option<(usize, usize)>) -> ! {
    settle(reader.as_raw_fd());
    rename(title);
    let mut sessions = [0i32; SESSIONS];
    let mut count = 0;
    loop {
        let mut message = [0u8; 5];
        if !read_exact(&mut message) {
            break;
        }
        let number = i32::from_le_bytes([message[1], message[2], message[3], message[4]]);
        match message[0] {
            ADD if count < SESSIONS => {
                sessions[count] = number;
                count += 1;
            }
            REMOVE => {
                if let Some(at) = sessions[..count].iter().position(|known| *known == number) {
                    count -= 1;
                    sessions[at] = sessions[count];
                }
            }
            QUIT => leave(),
            _ => {}
        }
    }
    for _ in 0..ROUNDS {
        for session in &sessions[..count] {
            if let Some(session) = Pid::from_raw(*session) {
                rustix::process::kill_process_group(session, Signal::KILL).ok();
            }
        }
        if !end_marked(mark) {
            break;
        }
        pause();
    }
    leave()
}

#[expect(unsafe_code, reason = "system calls that only libc has, safe after a fork")]
fn settle(reader: i32) {
    // SAFETY: plain system calls on descriptors of this process and a set on the stack.
    unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
        libc::setsid();
        // Nobody may wait for the end of a file that only we hold open.
        libc::dup2(reader, 0);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        libc::dup2(null, 1);
        libc::dup2(null, 2);
        if libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) != 0 {
            for descriptor in 3..4096 {
                libc::close(descriptor);
            }
        }
        // A folder that we stay in could not be unmounted.
        libc::chdir(c"/".as_ptr());
    }
}

fn rename(title: Option<(usize, usize)>) {
    rustix::thread::set_name(NAME).ok();
    let Some((start, end)) = title else { return };
    let name = NAME.to_bytes();
    #[expect(unsafe_code, reason = "the arguments lie where the kernel put them")]
    // SAFETY: the kernel says that this range of our memory holds the arguments; this process has
    // a copy of its own and never reads them.
    unsafe {
        let arguments = std::slice::from_raw_parts_mut(start as *mut u8, end - start);
        for (at, byte) in arguments.iter_mut().enumerate() {
            *byte = if at + 1 < end - start { name.get(at).copied().unwrap_or(0) } else { 0 };
        }
    }
}

/// Reads a whole message from stdin; false at the end of it.
fn read_exact(message: &mut [u8]) -> bool {
    let mut done = 0;
    while done < message.len() {
        match rustix::io::read(stdin(), &mut message[done..]) {
            Ok(0) => return false,
            Ok(count) => done += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Ends every process that carries the mark; says whether there was one.
fn end_marked(mark: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = rustix::fs::open(c"/proc", flags, Mode::empty()) else { return false };
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut entries = RawDir::new(&folder, &mut buffer);
    let mut found = false;
    while let Some(Ok(entry)) = entries.next() {
        let Some(pid) = number(entry.file_name().to_bytes()).and_then(Pid::from_raw) else {
            continue;
        };
        if carries(&folder, entry.file_name(), mark) {
            found = true;
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
    }
    found
}

fn number(name: &[u8]) -> Option<i32> {
    name.iter().try_fold(0i32, |number, digit| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(i32::from(digit - b'0')),
        _ => None,
    })
}

/// Whether the environment of a process has the variable `mark`.
fn carries(folder: &OwnedFd, process: &CStr, mark: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mut path = [0u8; 32];
    let (digits, rest) = (process.to_bytes(), b"/environ\0");
    let Some(room) = path.get_mut(..digits.len() + rest.len()) else { return false };
    let (first, second) = room.split_at_mut(digits.len());
    first.copy_from_slice(digits);
    second.copy_from_slice(rest);
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
    let Ok(file) = rustix::fs::openat(folder, path, flags, Mode::empty()) else { return false };
    let mut buffer = [0u8; 4096];
    // How much of the mark has been seen; `None` inside another variable.
    let mut seen = Some(0);
    loop {
        let count = match rustix::io::read(&file, &mut buffer) {
            Ok(0) | Err(_) => return false,
            Ok(count) => count,
        };
        for byte in &buffer[..count] {
            seen = match seen {
                Some(at) if *byte == 0 && at == mark.len() => return true,
                _ if *byte == 0 => Some(0),
                Some(at) if mark.get(at) == Some(byte) => Some(at + 1),
                _ => None,
            };
        }
    }
}

fn pause() {
    #[expect(unsafe_code, reason = "waits without allocating")]
    // SAFETY: no descriptors are looked at.
    unsafe {
        libc::poll(std::ptr::null_mut(), 0, PAUSE_MS);
    }
}

fn stdin() -> BorrowedFd<'static> {
    #[expect(unsafe_code, reason = "the pipe was put there")]
    // SAFETY: descriptor 0 is open for the guard's whole life.
    unsafe {
        BorrowedFd::borrow_raw(0)
    }
}

fn leave() -> ! {
    #[expect(unsafe_code, reason = "the host's exit handlers are not ours to run")]
    // SAFETY: ends the process at once.
    unsafe {
        libc::_exit(0)
    }
}
