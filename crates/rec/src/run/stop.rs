//! How a run that is asked to stop ends: after the batches that are being trained, so that a
//! checkpoint can be written; and in the middle of whatever it does if that takes too long.

use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use bireme_data::{Batch, Batches, Closer, Result};

/// How long batches may take to end before they are broken off: less than launchers wait.
const PATIENCE: Duration = Duration::from_secs(8);

/// Whether somebody asks to stop, and since when.
#[derive(Clone, Default)]
pub(super) struct Stop {
    asked: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    since: Arc<OnceLock<Instant>>,
}

impl Stop {
    pub(super) fn new(asked: Option<Arc<dyn Fn() -> bool + Send + Sync>>) -> Stop {
        Stop { asked, since: Arc::default() }
    }

    /// Whether to begin nothing new.
    pub(super) fn is_asked(&self) -> bool {
        let asked = self.asked.as_ref().is_some_and(|asked| asked());
        if asked {
            self.since.get_or_init(Instant::now);
        }
        asked
    }

    /// Whether to break off what is being done.
    pub(super) fn is_urgent(&self) -> bool {
        self.is_asked() && self.since.get().is_some_and(|since| since.elapsed() >= PATIENCE)
    }
}

/// What `work` says, done on a thread of its own; none if that takes longer than a stop may. Then
/// the process is about to end, and the thread with it.
pub(super) fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    within(PATIENCE, work)
}

fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, waiting) = mpsc::channel();
    // Nobody listens any more when it took too long.
    std::thread::spawn(move || done.send(work()).ok());
    waiting.recv_timeout(limit).ok()
}

/// Batches that end when somebody asks to stop.
pub(super) struct Stopping {
    inner: Box<dyn Batches>,
    stop: Stop,
}

impl Stopping {
    pub(super) fn new(inner: Box<dyn Batches>, stop: &Stop) -> Stopping {
        Stopping { inner, stop: stop.clone() }
    }
}

impl Batches for Stopping {
    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        Ok(!self.stop.is_asked() && self.inner.next(batch)?)
    }

    fn skip(&mut self, batches: u64) -> Result<u64> {
        self.inner.skip(batches)
    }

    fn closer(&self) -> Closer {
        self.inner.closer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_left() {
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
        let (end, never) = mpsc::channel::<()>();
        let limit = Duration::from_millis(10);
        assert_eq!(within(limit, move || never.recv().is_ok()), None);
        drop(end);
    }
}
