//! SIGINT (Ctrl-C) and SIGTERM as a flag that loops look at between steps.
//!
//! The first asks for an orderly end; a second one ends the process at once.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::terminal::say;

/// How often a thread looks whether it is time to stop.
const LOOK: Duration = Duration::from_millis(200);

/// The signal that asked to stop; 0 for none. A handler can reach nothing but a global.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Whether somebody asked to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupt(());

impl Interrupt {
    /// A flag that SIGINT and SIGTERM raise from now on.
    ///
    /// # Errors
    /// When the system refuses the handler.
    pub(crate) fn install() -> Result<Interrupt> {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            listen(signal).context("cannot listen for SIGINT and SIGTERM")?;
        }
        Ok(Interrupt(()))
    }

    /// Whether it is time to stop.
    pub(crate) fn is_raised(&self) -> bool {
        SIGNAL.load(Ordering::Relaxed) != 0
    }
}

impl Interrupt {
    /// Ends the process that long after it was asked to stop, should it still wait for something.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn end_within(self, patience: Duration) -> Result<()> {
        let watch = move || {
            while !self.is_raised() {
                std::thread::sleep(LOOK);
            }
            std::thread::sleep(patience);
            say(&format!("it did not stop within {patience:?}: it ends now"));
            std::process::exit(i32::from(exit_code()));
        };
        std::thread::Builder::new().name("interrupt".to_owned()).spawn(watch)?;
        Ok(())
    }
}

/// What a process exits with that was asked to stop: 130 after Ctrl-C, 143 after SIGTERM.
pub(crate) fn exit_code() -> u8 {
    let signal = match SIGNAL.load(Ordering::Relaxed) {
        0 => libc::SIGINT,
        signal => signal,
    };
    u8::try_from(128 + signal).unwrap_or(130)
}

extern "C" fn note(signal: libc::c_int) {
    if SIGNAL.swap(signal, Ordering::Relaxed) != 0 {
        #[expect(unsafe_code, reason = "only libc knows `_exit`")]
        // SAFETY: `_exit` may be called in a handler.
        unsafe {
            libc::_exit(128 + signal);
        }
    }
}

/// Handles a signal, unless whoever started this process has it ignored.
fn listen(signal: libc::c_int) -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = note;
    #[expect(unsafe_code, reason = "only libc knows `signal`")]
    // SAFETY: the handler touches an atomic, and calls nothing but `_exit`.
    unsafe {
        let before = libc::signal(signal, handler as libc::sighandler_t);
        if before == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_IGN);
        }
        if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
