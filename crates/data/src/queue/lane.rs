//! A bounded hand-over of batches from a reader to a training thread.
//!
//! A reader that is ahead waits; so memory does not grow with the data. Batches that were used come
//! back to the reader, so that in steady state nothing is allocated.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Batch, Error, Result};

/// One reader's batches for one training thread.
pub(crate) struct Lane {
    limit_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// Bytes of the batches that wait.
    bytes: usize,
    spare: Vec<Batch>,
    /// Set when the reader is done.
    end: Option<Result<()>>,
    /// Nobody takes batches any more.
    closed: bool,
}

impl Lane {
    /// A lane where batches of so many bytes may wait, or one batch that is larger.
    pub(crate) fn new(limit_bytes: usize) -> Lane {
        Lane { limit_bytes, state: Mutex::default(), changed: Condvar::new() }
    }

    /// A batch to fill again.
    pub(crate) fn spare(&self) -> Option<Batch> {
        self.lock().spare.pop()
    }

    /// Hands a batch over, once there is room; false when nobody wants it.
    pub(crate) fn send(&self, batch: Batch) -> bool {
        let bytes = batch.bytes();
        let mut state = self.lock();
        while !state.closed && !state.waiting.is_empty() && state.bytes + bytes > self.limit_bytes {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return false;
        }
        state.bytes += bytes;
        state.waiting.push_back(batch);
        self.changed.notify_all();
        true
    }

    /// Says that no batch comes after those that wait.
    pub(crate) fn finish(&self, end: Result<()>) {
        let mut state = self.lock();
        state.end.get_or_insert(end);
        self.changed.notify_all();
    }

    /// Takes the next batch in exchange for the one in `batch`; false when there is none left.
    pub(crate) fn take(&self, batch: &mut Batch) -> Result<bool> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(Error::Interrupted);
            }
            if let Some(next) = state.waiting.pop_front() {
                state.bytes -= next.bytes();
                let used = std::mem::replace(batch, next);
                state.spare.push(used);
                self.changed.notify_all();
                return Ok(true);
            }
            if let Some(end) = &mut state.end {
                return std::mem::replace(end, Ok(())).map(|()| false);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the reader and the training thread go.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.waiting.clear();
        state.spare.clear();
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the lanes of a thread that panics: nobody shall wait for it.
pub(crate) struct Ending(pub(crate) Vec<Arc<Lane>>);

impl Drop for Ending {
    fn drop(&mut self) {
        let problem = "a reader thread panicked: please report it with your data";
        for lane in &self.0 {
            lane.finish(Err(Error::Settings(problem.to_owned())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{batch_of, labels};

    #[test]
    fn batches_come_in_order_and_then_the_end() {
        let lane = Lane::new(usize::MAX);
        for label in [1, 2] {
            assert!(lane.send(batch_of(&[label])));
        }
        lane.finish(Err(Error::Pipe("broken".to_owned())));
        let mut batch = batch_of(&[]);
        for label in [1, 2] {
            assert!(lane.take(&mut batch).unwrap());
            assert_eq!(labels(&batch), [label]);
        }
        assert_eq!(lane.take(&mut batch).unwrap_err().to_string(), "broken");
        assert!(!lane.take(&mut batch).unwrap());
        assert!(lane.spare().is_some());
    }

    #[test]
    fn a_reader_that_is_ahead_waits_until_a_batch_is_taken_or_the_lane_closed() {
        let lane = Arc::new(Lane::new(1));
        let reader = std::thread::spawn({
            let lane = Arc::clone(&lane);
            move || (0..3).take_while(|&label| lane.send(batch_of(&[label]))).count()
        });
        let mut batch = batch_of(&[]);
        assert!(lane.take(&mut batch).unwrap());
        lane.close();
        // It may have sent the second one, and never the third.
        assert!(reader.join().unwrap() <= 2);
        assert!(matches!(lane.take(&mut batch), Err(Error::Interrupted)));
    }
}
