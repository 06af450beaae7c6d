//! The trainer's side: routes values to servers, queues and merges them, and keeps a mode's promises.
//!
//! [`Worker`] answers what the ops of a trainer's program ask. A step that waits for its own pushes
//! (sync modes, and async where no longer queues were asked for) sends them through `step` and pulls
//! through `inbox`; otherwise values go through the `outbox`, whose threads send them, and `inbox`
//! hands out the newest that came back. `rows` serves lookups in every mode, and `geo` the exchanges
//! of trainers with copies of their own.
//! The first error of a background thread comes out of the next call, and no wait is endless.

mod config;
mod distinct;
mod finite;
mod geo;
mod group;
mod inbox;
mod knobs;
mod link;
mod merge;
mod outbox;
mod parcel;
mod records;
mod route;
mod rows;
mod step;
#[cfg(test)]
mod tests;
mod times;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bireme_comm::{Interrupt, Lane, Settings, Transport};
use bireme_engine::remote::{GeoParam, Piece, Remote, Sending, TableRef};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Scope, Value};
use bireme_ir::Program;

use crate::message::{Array, Request};
use crate::{Error, Mode, Result};
use geo::Geo;
use inbox::{Inbox, Lag, Outs};
use link::{Ask, Links, check_done};
use outbox::Outbox;
use rows::{Tables, check_sizes};
use step::Steps;
use times::Clocks;

pub use config::{GEO_STEPS, WorkerConfig};
pub use group::Reduce;
pub use knobs::{CommunicatorFlags, Knobs};
pub use times::Times;

/// A trainer's way to its servers.
pub struct Worker {
    config: WorkerConfig,
    links: Arc<Links>,
    tables: Tables,
    /// Pushes of the running steps, where each waits for its own.
    pushes: Steps,
    /// Pushes that nobody waits for: async with queues, rows in hybrid.
    outbox: Option<Arc<Outbox>>,
    inbox: Arc<Inbox>,
    geo: Geo,
    completed: AtomicBool,
    steps: AtomicU64,
    /// Steps whose pushes were waited for.
    pushed: AtomicU64,
    rows_pulled: AtomicU64,
    clocks: Clocks,
    /// Checkpoints that this trainer asked for.
    saves: AtomicU32,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Barriers passed, or exchanges called.
    pub steps: u64,
    /// Rows pulled, as often as they were looked up.
    pub rows_pulled: u64,
    /// Async, hybrid: steps whose gradients went into the queue.
    pub queued: u64,
    /// Async, hybrid: steps whose gradients the servers have applied.
    pub applied: u64,
    /// Async: how many of these the parameters that are here contain.
    pub received: u64,
}

impl Worker {
    /// Connects to all servers at once and joins the job. Servers that are not there yet are waited
    /// for until `settings.deadline`.
    ///
    /// # Errors
    /// When a server cannot be reached, refuses, or serves another job.
    pub fn connect(
        config: WorkerConfig,
        transport: Arc<dyn Transport>,
        settings: Settings,
    ) -> Result<Arc<Worker>> {
        config.check()?;
        let links = Arc::new(Links::connect(&config, &transport, &settings)?);
        let keeps = config.mode.applies_at_once();
        let look_ahead = config.communicator.look_ahead;
        let inbox = Arc::new(Inbox::new(Arc::clone(&links), look_ahead, keeps));
        let outbox = match config.mode {
            Mode::Async if config.lag() == 0 => None,
            Mode::Async | Mode::Hybrid => {
                let outbox = Outbox::new(Arc::clone(&links), config.communicator.clone());
                Some(start_threads(&config, outbox, &links, &inbox)?)
            }
            Mode::Sync | Mode::HalfAsync | Mode::Geo => None,
        };
        Ok(Arc::new(Worker {
            geo: Geo::new(Arc::clone(&links), &config),
            config,
            links,
            tables: Tables::default(),
            pushes: Steps::default(),
            outbox,
            inbox,
            completed: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            pushed: AtomicU64::new(0),
            rows_pulled: AtomicU64::new(0),
            clocks: Clocks::default(),
            saves: AtomicU32::new(0),
        }))
    }

    /// What it was connected with.
    pub fn config(&self) -> &WorkerConfig {
        &self.config
    }

    /// Gives servers the initial values of parameters: trainer 0's, before the others pull them.
    ///
    /// # Errors
    /// When a server is lost or does not know a piece.
    pub fn set(&self, pieces: &[Piece], values: &[&Tensor]) -> Result<()> {
        self.open()?;
        for (piece, value) in pieces.iter().zip(values) {
            let server = self.links.server(&piece.endpoint)?;
            let parts = parcel::pieces(&piece.name, Array::of_tensor(value), self.links.max_bytes);
            for part in parts {
                let what = format!("the initial value of `{}`", piece.name);
                let request = Request::Set { values: vec![part] };
                check_done(&self.links.ask(&Ask { server, lane: Lane::Send, what, request })?)?;
            }
        }
        self.forget();
        Ok(())
    }

    /// The servers' values of pieces at this moment, in any mode: for models and checkpoints that a
    /// trainer writes itself. Nothing of it is kept for the steps.
    ///
    /// # Errors
    /// When a server is lost or does not know a piece.
    pub fn values(&self, pieces: &[Piece]) -> Result<Vec<Tensor>> {
        self.open()?;
        self.inbox.values(pieces)
    }

    /// Waits until the servers have applied everything that this trainer sent.
    ///
    /// # Errors
    /// When a server is lost.
    pub fn flush(&self) -> Result<()> {
        self.open()?;
        if let Some(outbox) = &self.outbox {
            outbox.close()?;
            outbox.wait_outstanding(0)?;
        }
        self.finish_step()
    }

    /// Geo: exchanges what the trainer learned since its last exchange, which [`Worker::complete`]
    /// cannot see: the copies are variables of `scope`, described by the `geo_exchange` ops of
    /// `program`. Does nothing in other modes.
    ///
    /// # Errors
    /// When a server is lost, or a parameter is not in the scope.
    pub fn flush_geo(&self, program: &Program, scope: &Scope) -> Result<()> {
        self.open()?;
        match self.config.mode {
            Mode::Geo => {
                let step = self.steps.load(Ordering::Relaxed);
                self.stop_if_not_finite(self.geo.flush_scope(program, scope, step))
            }
            _ => Ok(()),
        }
    }

    /// Ends this trainer's part of the job: sends what is queued, tells the servers, and leaves.
    /// A second call does nothing.
    ///
    /// # Errors
    /// When something could not be sent; the trainer has left nevertheless.
    pub fn complete(&self) -> Result<()> {
        if self.completed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let drained = self.drain();
        let request = Request::Complete { trainer: self.links.trainer };
        // After an error, the servers take this trainer for lost: others must not go on as if it
        // had finished.
        let told = drained.and_then(|()| {
            self.links.ask_all(Lane::Send, "to complete", &request)?;
            Ok(())
        });
        if let Some(outbox) = &self.outbox {
            outbox.abandon();
        }
        if let Err(error) = &told {
            self.links.quit(Some(&error.to_string()));
        }
        self.links.goodbye();
        told
    }

    /// Leaves with an error, so that those who wait for this trainer hear of it at once. Waits for
    /// the servers at most a second.
    pub fn quit(&self, problem: &str) {
        if self.completed.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(outbox) = &self.outbox {
            outbox.abandon();
        }
        self.links.quit(Some(problem));
        self.links.goodbye();
    }

    fn drain(&self) -> Result<()> {
        self.links.check()?;
        if let Some(outbox) = &self.outbox {
            outbox.finish()?;
        }
        self.finish_step()?;
        let missed = self.geo.finish()?;
        if missed > 0 {
            tracing::warn!(
                "{}: the last {missed} steps were not exchanged; `flush_geo` does it",
                self.whoami()
            );
        }
        Ok(())
    }

    /// How long its steps were with servers so far.
    pub fn times(&self) -> Times {
        self.clocks.read()
    }

    /// What it did.
    pub fn stats(&self) -> WorkerStats {
        let pushed = self.pushed.load(Ordering::Relaxed);
        let (queued, applied, received) = match &self.outbox {
            Some(outbox) => (outbox.queued(), outbox.sent(), self.inbox.mark()),
            None if self.is_direct() => (pushed, pushed, pushed),
            None => (0, 0, 0),
        };
        WorkerStats {
            steps: self.steps.load(Ordering::Relaxed),
            rows_pulled: self.rows_pulled.load(Ordering::Relaxed),
            queued,
            applied,
            received,
        }
    }

    /// Fails after [`Worker::complete`], and after an error of a background thread.
    fn open(&self) -> Result<()> {
        if self.completed.load(Ordering::Acquire) {
            return Err(Error::Request(format!(
                "{} has completed, and no longer talks to the servers",
                self.whoami()
            )));
        }
        self.links.check()
    }

    /// Whatever is here from the servers no longer counts.
    pub fn forget(&self) {
        self.inbox.forget();
    }

    /// Whether async steps wait for their own pushes, and so need no queue.
    fn is_direct(&self) -> bool {
        self.config.mode == Mode::Async && self.outbox.is_none()
    }

    /// Waits until the servers have what was pushed; values from before are old then.
    fn finish_step(&self) -> Result<()> {
        let finished = self.pushes.finish(&self.links, || {
            self.pushed.fetch_add(1, Ordering::Relaxed);
            self.inbox.next_round(true);
        });
        finished.inspect_err(|error| self.fail(error))
    }

    /// Before parameters are pulled: async servers have applied what the step has pushed.
    fn settle(&self) -> Result<()> {
        if !self.is_direct() {
            return Ok(());
        }
        self.open()?;
        self.clocks.server.time(|| self.finish_step())
    }

    /// A step's pushes that failed are lost to async trainers, so later steps must not go on.
    fn fail(&self, error: &Error) {
        if self.is_direct() {
            self.links.fail(error);
        }
    }

    /// After a push that was refused, nothing that is left of its step may be sent, nor a later step.
    fn stop_if_not_finite<T>(&self, checked: Result<T>) -> Result<T> {
        checked.inspect_err(|error| {
            if let Error::NotFinite { .. } = error {
                self.outbox.iter().for_each(|outbox| outbox.abandon());
                self.links.fail(error);
            }
        })
    }

    /// The running step, from 1.
    fn step_number(&self) -> u64 {
        match (&self.outbox, self.config.mode) {
            (Some(outbox), Mode::Async) => outbox.queued() + 1,
            _ if self.is_direct() => self.pushed.load(Ordering::Relaxed) + 1,
            _ => self.steps.load(Ordering::Relaxed) + 1,
        }
    }

    /// The queue, for values that nobody waits for.
    fn queue_for(&self, is_rows: bool) -> Option<&Outbox> {
        match self.config.mode {
            Mode::Async => self.outbox.as_deref(),
            Mode::Hybrid if is_rows => self.outbox.as_deref(),
            _ => None,
        }
    }

    fn do_send(&self, how: &Sending, values: &[&Value]) -> Result<()> {
        self.open()?;
        if how.pieces.len() != values.len() {
            let (names, values) = (how.pieces.len(), values.len());
            return Err(Error::Request(format!("`send` has {names} names for {values} values")));
        }
        if self.config.communicator.check_finite {
            self.stop_if_not_finite(finite::check_values(how, values, || self.step_number()))?;
        }
        for (at, (piece, value)) in how.pieces.iter().zip(values).enumerate() {
            let server = self.links.server(&piece.endpoint)?;
            match self.queue_for(value.rows().is_some()) {
                Some(outbox) => outbox.put(server, &piece.name, how.merge_add, value)?,
                None => {
                    self.pushes.with(|step| step.send(&self.links, server, how, at, value))?;
                }
            }
        }
        if self.config.mode == Mode::Async && !self.is_direct() {
            self.inbox.note_send();
        }
        Ok(())
    }

    fn do_send_barrier(&self, endpoints: &[String]) -> Result<()> {
        self.open()?;
        self.steps.fetch_add(1, Ordering::Relaxed);
        if let Some(outbox) = &self.outbox {
            outbox.close()?;
        }
        self.clocks.server.time(|| self.finish_step())?;
        if self.config.mode.waits_for_all() {
            let all = if endpoints.is_empty() { &self.config.endpoints } else { endpoints };
            let servers = all.iter().map(|endpoint| self.links.server(endpoint));
            let servers = servers.collect::<Result<Vec<_>>>()?;
            let began = Instant::now();
            let updating = step::barrier(&self.links, &servers)?;
            self.clocks.server.add(updating);
            self.clocks.wait.add(began.elapsed().saturating_sub(updating));
        }
        self.inbox.next_round(true);
        Ok(())
    }

    fn do_recv(&self, pieces: &[Piece], outs: &mut Outs<'_, '_>) -> Result<()> {
        self.open()?;
        match (&self.outbox, self.config.mode) {
            (Some(outbox), Mode::Async) => {
                outbox.close()?;
                let lag = Lag {
                    steps: self.config.lag(),
                    is_pulled_for: self.config.communicator.independent_recv_thread,
                };
                self.inbox.recv_newest(outbox, lag, pieces, outs)?;
            }
            _ => {
                self.inbox.recv(pieces, outs)?;
            }
        }
        if self.config.mode.sends_deltas() {
            for (piece, out) in pieces.iter().zip(outs.values.iter_mut()) {
                self.geo.remember(&piece.name, out)?;
            }
        }
        Ok(())
    }

    fn do_pull(&self, table: &TableRef, ids: &[&[i64]], outs: &mut [&mut [f32]]) -> Result<()> {
        self.open()?;
        if let Some(outbox) = &self.outbox {
            outbox.close()?;
            outbox.wait_outstanding(self.config.lag())?;
        }
        if self.is_direct() {
            self.finish_step()?;
        }
        let rows = ids.iter().map(|slot| slot.len() as u64).sum();
        self.rows_pulled.fetch_add(rows, Ordering::Relaxed);
        self.tables.pull(&self.links, table, ids, outs)
    }

    /// Pulls for the step after the one that runs, which, unless it `is_over`, counts as one of those
    /// that the values lack.
    fn do_pull_ahead(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        outs: &mut [&mut [f32]],
        is_over: bool,
    ) -> Result<bool> {
        if is_over {
            return self.do_pull(table, ids, outs).map(|()| true);
        }
        let (Some(outbox), Some(lag)) = (&self.outbox, self.config.lag().checked_sub(1)) else {
            return Ok(false);
        };
        self.open()?;
        // What the running step has pushed so far stays open: it is one step.
        outbox.wait_outstanding(lag)?;
        let rows = ids.iter().map(|slot| slot.len() as u64).sum();
        self.rows_pulled.fetch_add(rows, Ordering::Relaxed);
        self.tables.pull(&self.links, table, ids, outs)?;
        Ok(true)
    }

    fn do_push(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        grads: &[&[f32]],
        counts: Option<&[[f32; 2]]>,
    ) -> Result<()> {
        self.open()?;
        check_sizes(table, ids, grads.iter().map(|slot| slot.len()))?;
        let occurrences: usize = ids.iter().map(|slot| slot.len()).sum();
        if let Some(counts) = counts
            && counts.len() != occurrences
        {
            return Err(Error::Request(format!(
                "table `{}` has {occurrences} ids, but show and click of {}",
                table.name,
                counts.len()
            )));
        }
        if self.config.communicator.check_finite {
            self.stop_if_not_finite(finite::check_rows(table, ids, grads, counts, || {
                self.step_number()
            }))?;
        }
        self.tables.push(table, ids, |route| match self.queue_for(true) {
            Some(outbox) => outbox.put_rows(table, route, grads, counts),
            None => {
                self.pushes.with(|step| step.push_rows(&self.links, table, route, grads, counts))
            }
        })
    }

    /// Says who had the error: a step's error may end up in a log of many trainers.
    fn told(&self, error: Error) -> bireme_engine::Error {
        self.links.note(&error);
        match error {
            Error::Engine(error) => error,
            Error::Interrupted | Error::Comm(bireme_comm::Error::Interrupted { .. }) => {
                bireme_engine::Error::Interrupted
            }
            Error::Comm(_) | Error::Missing(_) => {
                bireme_engine::Error::remote(format!("{}: {error}", self.whoami()))
            }
            error => bireme_engine::Error::kernel(format!("{}: {error}", self.whoami())),
        }
    }
}

impl Remote for Worker {
    fn send(&self, how: &Sending, values: &[&Value]) -> bireme_engine::Result<()> {
        self.clocks.push.time(|| self.do_send(how, values)).map_err(|error| self.told(error))
    }

    fn send_barrier(&self, endpoints: &[String]) -> bireme_engine::Result<()> {
        self.do_send_barrier(endpoints).map_err(|error| self.told(error))
    }

    fn recv(
        &self,
        pieces: &[Piece],
        outs: &mut [&mut Tensor],
        versions: &mut [u64],
    ) -> bireme_engine::Result<()> {
        let mut outs = Outs { values: outs, versions };
        let settled = self.settle();
        let received =
            settled.and_then(|()| self.clocks.pull.time(|| self.do_recv(pieces, &mut outs)));
        received.map_err(|error| self.told(error))
    }

    fn fetch_barrier(&self, _endpoints: &[String]) -> bireme_engine::Result<()> {
        // No server needs to know: the next update waits for this trainer's next barrier anyway.
        if self.config.mode != Mode::Async {
            self.inbox.next_round(false);
        }
        self.open().map_err(|error| self.told(error))
    }

    fn pull_rows(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        outs: &mut [&mut [f32]],
    ) -> bireme_engine::Result<()> {
        self.clocks.pull.time(|| self.do_pull(table, ids, outs)).map_err(|error| self.told(error))
    }

    fn pull_ahead(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        outs: &mut [&mut [f32]],
        is_over: bool,
    ) -> bireme_engine::Result<bool> {
        self.do_pull_ahead(table, ids, outs, is_over).map_err(|error| self.told(error))
    }

    fn waited_for_rows(&self, time: Duration) {
        self.clocks.pull.add(time);
    }

    fn push_rows(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        grads: &[&[f32]],
        counts: Option<&[[f32; 2]]>,
    ) -> bireme_engine::Result<()> {
        let pushed = self.clocks.push.time(|| self.do_push(table, ids, grads, counts));
        pushed.map_err(|error| self.told(error))
    }

    fn exchange(&self, params: &mut [GeoParam<'_>]) -> bireme_engine::Result<()> {
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let mut exchange = || self.stop_if_not_finite(self.geo.exchange(params, step));
        let done = self.clocks.push.time(|| self.open().and_then(|()| exchange()));
        done.map_err(|error| self.told(error))
    }

    fn whoami(&self) -> String {
        let (config, readers) = (&self.config, self.config.readers());
        match config.trainer.checked_sub(readers) {
            None => format!("trainer {} of {readers}", config.trainer),
            Some(index) => format!("heter worker {index} of {}", config.heter_workers),
        }
    }
}

impl Drop for Worker {
    /// Lets the threads end by themselves; waits for none of them, and for servers at most a second.
    fn drop(&mut self) {
        if let Some(outbox) = &self.outbox {
            outbox.abandon();
        }
        if !self.completed.load(Ordering::Acquire) {
            self.links.quit(None);
        }
    }
}

/// Starts the threads of a queue: those that send, and in async mode the one that pulls parameters
/// after enough steps were sent.
fn start_threads(
    config: &WorkerConfig,
    outbox: Outbox,
    links: &Arc<Links>,
    inbox: &Arc<Inbox>,
) -> Result<Arc<Outbox>> {
    let outbox = Arc::new(outbox);
    let after = config.communicator.recv_after() as u64;
    let (queue, pulled) = (Arc::downgrade(&outbox), Arc::clone(inbox));
    let own_thread = config.communicator.independent_recv_thread;
    let pull_here = config.mode == Mode::Async && !own_thread;
    outbox.spawn(move || match queue.upgrade() {
        Some(queue) if pull_here => {
            let sent = queue.sent();
            match sent >= pulled.mark() + after {
                true => pulled.refresh(sent),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    })?;
    if config.mode == Mode::Async && own_thread {
        let (queue, inbox, links) = (Arc::clone(&outbox), Arc::clone(inbox), Arc::clone(links));
        outbox::spawn(&format!("trainer{}-recv", config.trainer), move || {
            Interrupt::ignore_on_this_thread();
            let mut known = 0;
            while let Some(sent) = queue.wait_news(known, after) {
                if let Err(error) = inbox.refresh(sent) {
                    links.fail(&error);
                    queue.wake();
                }
                known = sent;
            }
            // Whoever waits for values learns of the error here too.
            inbox.wake();
        })?;
    }
    Ok(outbox)
}
