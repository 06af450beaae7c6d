//! SIGINT, SIGTERM and SIGHUP as bytes in a pipe.
//!
//! The handlers replace those of the host (Python's would raise `KeyboardInterrupt` much later)
//! and give them back when this is dropped. A signal that is ignored (`nohup`) stays so.

use std::io::{PipeReader, PipeWriter, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, Result, ensure};

/// The write end of the pipe; -1 while nobody listens.
static PIPE: AtomicI32 = AtomicI32::new(-1);

const HANDLED: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Signals of this process while it lives.
pub(super) struct Signals {
    reader: PipeReader,
    /// Open as long as handlers may write to it.
    _writer: PipeWriter,
    before: Vec<(i32, libc::sigaction)>,
}

extern "C" fn note(signal: i32) {
    let byte = [u8::try_from(signal).unwrap_or(0)];
    #[expect(unsafe_code, reason = "a signal handler may only call what is safe there: `write` is")]
    // SAFETY: the buffer is one byte long; a wrong descriptor is an error that nobody looks at,
    // and the interrupted code keeps its `errno`.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(PIPE.load(Ordering::Relaxed), byte.as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
}

impl Signals {
    /// Takes the signals over.
    ///
    /// # Errors
    /// When another job of this process has them, or there are no file descriptors.
    pub(super) fn take() -> Result<Signals> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe for signals")?;
        rustix::io::ioctl_fionbio(&reader, true).context("cannot make a pipe for signals")?;
        rustix::io::ioctl_fionbio(&writer, true).context("cannot make a pipe for signals")?;
        let free =
            PIPE.compare_exchange(-1, writer.as_raw_fd(), Ordering::Relaxed, Ordering::Relaxed);
        ensure!(free.is_ok(), "another job of this process handles signals already");
        let before = HANDLED.iter().filter_map(|signal| Some((*signal, handle(*signal)?)));
        let before = before.collect();
        Ok(Signals { reader, _writer: writer, before })
    }

    /// The next signal that has come.
    pub(super) fn next(&mut self) -> Option<i32> {
        let mut byte = [0];
        match self.reader.read(&mut byte) {
            Ok(1) => Some(i32::from(byte[0])),
            _ => None,
        }
    }

    /// Readable when a signal has come.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            #[expect(unsafe_code, reason = "only libc knows `sigaction`")]
            // SAFETY: `before` is what `sigaction` returned for this signal.
            unsafe {
                libc::sigaction(*signal, before, std::ptr::null_mut());
            }
        }
        PIPE.store(-1, Ordering::Relaxed);
    }
}

/// Installs the handler; returns what was there, `None` if that stays.
fn handle(signal: i32) -> Option<libc::sigaction> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    #[expect(unsafe_code, reason = "only libc knows `sigaction`")]
    // SAFETY: all zeros is a valid `sigaction`; the handler is async-signal-safe; both pointers
    // are valid for the call.
    unsafe {
        if libc::sigaction(signal, std::ptr::null(), before.as_mut_ptr()) != 0 {
            return None;
        }
        let before = before.assume_init();
        if before.sa_sigaction == libc::SIG_IGN {
            return None;
        }
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        Some(before)
    }
}
