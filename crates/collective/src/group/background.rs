//! Work on the group's own thread, in the order it was started.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;

use super::{Core, Group, Shared, TICK};
use crate::{Error, Result};

type Work = Box<dyn FnOnce() + Send>;

/// The way to the thread, which ends with it.
pub(super) type Queue = Sender<Work>;

/// The result of work in the background.
pub struct Pending<T> {
    result: mpsc::Receiver<Result<T>>,
    core: Arc<Core>,
}

impl Group {
    /// Starts work on the group's own thread. The group's blocking calls wait until it is done, so
    /// that the order of all calls is that of the program.
    pub fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Group) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let (sender, result) = mpsc::channel();
        let pending = Pending { result, core: self.shared.core.clone() };
        let group = Group { shared: self.shared.clone(), background: true };
        let refused = sender.clone();
        self.shared.lock().queued += 1;
        let task: Work = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(&group)));
            let result = result.unwrap_or_else(|panic| {
                let problem = panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
                    .unwrap_or_else(|| "no text".into());
                Err(group.shared.fail(Error::Panicked { problem }))
            });
            group.shared.done();
            // Nobody may want to know.
            let _ = sender.send(result);
        });
        if let Err(error) = self.shared.enqueue(task) {
            self.shared.done();
            let _ = refused.send(Err(self.shared.fail(error)));
        }
        pending
    }
}

impl Shared {
    fn done(&self) {
        self.lock().queued -= 1;
        self.changed.notify_all();
    }

    fn enqueue(&self, task: Work) -> Result<()> {
        let mut queue = self.queue.lock().unwrap_or_else(|poison| poison.into_inner());
        if queue.is_none() {
            let (sender, tasks) = mpsc::channel::<Work>();
            let name = format!("collective-{}", self.id);
            let spawned = thread::Builder::new()
                .name(name)
                .spawn(move || tasks.into_iter().for_each(|task| task()));
            spawned.map_err(|source| {
                let what = "cannot start the group's thread".to_string();
                Error::from(bireme_comm::Error::Io { what, source })
            })?;
            *queue = Some(sender);
        }
        let sender = queue.as_ref().expect("it was made above");
        sender.send(task).map_err(|_| Error::Panicked { problem: "its thread is gone".into() })
    }
}

impl<T> Pending<T> {
    /// Waits until the work is done.
    pub fn wait(self) -> Result<T> {
        loop {
            match self.result.recv_timeout(TICK) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Panicked { problem: "its thread is gone".into() });
                }
            }
            if self.core.is_interrupted() {
                let call = "a wait for work in the background".to_string();
                return Err(self.core.fail(Error::Interrupted { call }));
            }
        }
    }

    /// Whether [`Pending::wait`] would return at once is not known before it is asked; this asks
    /// without waiting: the result, or the work that still runs.
    pub fn try_wait(self) -> std::result::Result<Result<T>, Pending<T>> {
        match self.result.try_recv() {
            Ok(result) => Ok(result),
            Err(mpsc::TryRecvError::Empty) => Err(self),
            Err(mpsc::TryRecvError::Disconnected) => {
                Ok(Err(Error::Panicked { problem: "its thread is gone".into() }))
            }
        }
    }
}
