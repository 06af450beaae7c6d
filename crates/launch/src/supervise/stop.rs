//! The end of a job on this machine for a reason that lies elsewhere.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use std::io::{PipeReader, PipeWriter};

/// Ends a job from another thread: the one that hears of other machines.
#[derive(Clone, Debug)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    reader: PipeReader,
    writer: PipeWriter,
    order: Mutex<Option<(u8, String)>>,
}

impl Stop {
    /// A way to stop one job.
    ///
    /// # Errors
    /// When there are no file descriptors left.
    pub fn new() -> std::io::Result<Stop> {
        let (reader, writer) = std::io::pipe()?;
        Ok(Stop { shared: Arc::new(Shared { reader, writer, order: Mutex::new(None) }) })
    }

    /// Ends the job with this exit code; 0 is an orderly end. The first call counts.
    pub fn end(&self, code: u8, reason: &str) {
        let mut order = self.shared.order.lock().unwrap_or_else(PoisonError::into_inner);
        if order.is_none() {
            *order = Some((code, reason.to_owned()));
            // The pipe has room for one byte.
            (&self.shared.writer).write_all(&[1]).ok();
        }
    }

    /// What was ordered.
    pub(super) fn order(&self) -> Option<(u8, String)> {
        self.shared.order.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Readable from the order on.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.shared.reader.as_fd()
    }
}
