//! The queue of async pushes: a step's values gather in an open parcel, closed parcels wait in a
//! bounded queue, and a few threads merge and send them.
//!
//! Everything is counted in steps: how many were queued and how many the servers have applied. The
//! difference is what a trainer's values may lack; who waits for it to shrink sets `hurry`, which
//! ends all waiting for more to merge.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bireme_comm::Interrupt;
use bireme_engine::Value;
use bireme_engine::remote::TableRef;

use super::Knobs;
use super::link::{Links, TICK, check_done};
use super::merge::RowSums;
use super::parcel::Parcel;
use super::route::Route;
use crate::{Error, Result};

/// Pushes that wait, and the threads that send them.
pub(crate) struct Outbox {
    links: Arc<Links>,
    knobs: Knobs,
    state: Mutex<State>,
    /// Told of every change of the state.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What the running step has sent so far.
    open: Parcel,
    sums: RowSums,
    /// Closed parcels, the oldest first.
    queue: VecDeque<Parcel>,
    /// Sent parcels, whose memory is used again.
    free: Vec<Parcel>,
    /// Steps ever queued.
    queued: u64,
    /// Steps ever applied by the servers.
    sent: u64,
    /// Somebody waits: send what there is.
    hurry: usize,
    /// No more parcels will come.
    stopping: bool,
    /// Nobody waits for what is still queued.
    abandoned: bool,
}

impl Outbox {
    /// An empty queue; its threads are started by [`Outbox::spawn`].
    pub(crate) fn new(links: Arc<Links>, knobs: Knobs) -> Outbox {
        Outbox { links, knobs, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Starts the sending threads; `after` runs after each parcel.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        after: impl Fn() -> Result<()> + Send + Clone + 'static,
    ) -> Result<()> {
        // More threads than parcels can wait would only sleep.
        for _ in 0..self.knobs.thread_pool_size.min(self.knobs.send_queue_size).max(1) {
            let (outbox, after) = (Arc::clone(self), after.clone());
            let name = format!("trainer{}-send", self.links.trainer);
            spawn(&name, move || outbox.work(&after))?;
        }
        Ok(())
    }

    /// Adds a value to the running step's parcel.
    pub(crate) fn put(
        &self,
        server: usize,
        name: &str,
        merge_add: bool,
        value: &Value,
    ) -> Result<()> {
        let mut state = self.lock();
        if state.open.holds(server, name) {
            // A step sends a value once: this is the next step.
            state = self.close_open(state)?;
        }
        let State { open, sums, .. } = &mut *state;
        open.put(server, name, merge_add, value, sums)
    }

    /// Adds gradients of a keyed table to the running step's parcel.
    pub(crate) fn put_rows(
        &self,
        table: &TableRef,
        route: &Route,
        grads: &[&[f32]],
        counts: Option<&[[f32; 2]]>,
    ) -> Result<()> {
        let servers = servers(&self.links, table)?;
        let mut state = self.lock();
        if state.open.holds_table(&table.name) {
            state = self.close_open(state)?;
        }
        state.open.put_rows(&table.name, table.width, servers, route, grads, counts);
        Ok(())
    }

    /// Ends the running step's parcel: it goes into the queue, when there is room.
    pub(crate) fn close(&self) -> Result<()> {
        let state = self.lock();
        drop(self.close_open(state)?);
        Ok(())
    }

    fn close_open<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>> {
        if state.open.is_empty() {
            return Ok(state);
        }
        let size = self.knobs.send_queue_size;
        state = self.wait(state, "room in the queue of gradients", |state| {
            state.queue.len() < size || state.stopping
        })?;
        if state.stopping {
            return Err(Error::Request("this worker has completed and sends no more".into()));
        }
        let free = state.free.pop().unwrap_or_default();
        let mut parcel = std::mem::replace(&mut state.open, free);
        parcel.steps = 1;
        state.queue.push_back(parcel);
        state.queued += 1;
        self.changed.notify_all();
        Ok(state)
    }

    /// Steps queued so far.
    pub(crate) fn queued(&self) -> u64 {
        self.lock().queued
    }

    /// Steps that the servers have applied so far.
    pub(crate) fn sent(&self) -> u64 {
        self.lock().sent
    }

    /// Waits until at most `most` queued steps are not applied yet.
    pub(crate) fn wait_outstanding(&self, most: u64) -> Result<()> {
        let mut state = self.lock();
        if state.queued - state.sent <= most {
            return self.links.check();
        }
        state.hurry += 1;
        self.changed.notify_all();
        let waited = self
            .wait(state, "its gradients to be applied", |state| state.queued - state.sent <= most)
            .map(drop);
        self.hurry(false);
        waited
    }

    /// Sets or ends the haste of somebody who waits for what follows the sending.
    pub(crate) fn hurry(&self, start: bool) {
        let mut state = self.lock();
        state.hurry = if start { state.hurry + 1 } else { state.hurry.saturating_sub(1) };
        self.changed.notify_all();
    }

    /// Waits until `after` more steps than `known` are applied, or at least one in a hurry; the
    /// number of steps then, or `None` when there will be no more.
    pub(crate) fn wait_news(&self, known: u64, after: u64) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.sent >= known + after || (state.hurry > 0 && state.sent > known) {
                return Some(state.sent);
            }
            if state.stopping || self.links.has_failed() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends what is left and lets the threads end.
    pub(crate) fn finish(&self) -> Result<()> {
        self.close()?;
        let drained = self.wait_outstanding(0);
        self.lock().stopping = true;
        self.changed.notify_all();
        drained
    }

    /// Lets the threads end without sending what is left.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        (state.stopping, state.abandoned) = (true, true);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes everybody up; for whoever sees an error.
    pub(crate) fn wake(&self) {
        let _state = self.lock();
        self.changed.notify_all();
    }

    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        what: &str,
        ready: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'a, State>> {
        let end = Instant::now() + self.links.deadline;
        loop {
            self.links.check()?;
            if ready(&state) {
                return Ok(state);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late(what, self.links.deadline));
            }
            let woken = self.changed.wait_timeout(state, left.min(TICK));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            self.links.check_interrupt()?;
        }
    }

    /// A sending thread.
    fn work(&self, after: &impl Fn() -> Result<()>) {
        Interrupt::ignore_on_this_thread();
        let mut sums = RowSums::default();
        while let Some(parcel) = self.take(&mut sums) {
            let sent = parcel.and_then(|parcel| {
                let bodies = self.links.ask_each(&parcel.asks(&self.links))?;
                bodies.iter().try_for_each(|body| check_done(body))?;
                Ok(parcel)
            });
            let done = sent.and_then(|mut parcel| {
                let mut state = self.lock();
                state.sent += parcel.steps;
                parcel.clear();
                state.free.push(parcel);
                self.changed.notify_all();
                drop(state);
                after()
            });
            if let Err(error) = done {
                if self.lock().abandoned {
                    // The connection was closed under it, on purpose.
                    return;
                }
                self.links.fail(&error);
                self.wake();
                return;
            }
        }
    }

    /// The next parcel, merged from up to `max_merge_var_num` steps; `None` when there will be
    /// none.
    fn take(&self, sums: &mut RowSums) -> Option<Result<Parcel>> {
        let mut state = self.lock();
        let mut parcel = loop {
            if state.abandoned || self.links.has_failed() {
                return None;
            }
            match state.queue.pop_front() {
                Some(parcel) => break parcel,
                None if state.stopping => return None,
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        self.changed.notify_all();
        let most = self.knobs.max_merge_var_num as u64;
        let end = Instant::now() + Duration::from_millis(10) * self.knobs.send_wait_times as u32;
        let mut merged = Ok(());
        while parcel.steps < most && merged.is_ok() {
            if let Some(mut more) = state.queue.pop_front() {
                self.changed.notify_all();
                drop(state);
                merged = parcel.merge(&more, sums);
                state = self.lock();
                more.clear();
                state.free.push(more);
                continue;
            }
            let left = end.saturating_duration_since(Instant::now());
            if state.hurry > 0 || state.stopping || left.is_zero() {
                break;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        if parcel.steps > 1 && !self.knobs.is_sgd_optimizer {
            merged = merged.and_then(|()| parcel.average());
        }
        Some(merged.map(|()| parcel))
    }
}

/// The servers of a table, with its names there.
pub(crate) fn servers(links: &Links, table: &TableRef) -> Result<Vec<(usize, String)>> {
    let pairs = table.endpoints.iter().zip(&table.names);
    pairs.map(|(endpoint, name)| Ok((links.server(endpoint)?, name.clone()))).collect()
}

/// Starts a thread that belongs to nobody: it ends by itself when its worker ends.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(|error| Error::Config(format!("no thread for `{name}`: {error}")))
}

/// The error of a wait that took too long.
pub(crate) fn late(what: &str, after: Duration) -> Error {
    Error::Missing(format!(
        "waited {:.0} s for {what}: a server is slow or stuck; `FLAGS_rpc_deadline` sets how long \
         to wait",
        after.as_secs_f64()
    ))
}
