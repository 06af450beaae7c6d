//! A server at work: who may ask, who waits and who is lost. What each request does is in
//! `answers`; who waits and who is missing is the [`Roster`]'s business, what is held the
//! [`State`]'s.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bireme_comm::{Body, Handler, Peer, Reply};

use super::meet::{self, Ended};
use super::roster::{Failing, Roster, Verdict};
use super::state::State;
use crate::Result;
use crate::message::{Answer, Asked, Request};

/// A server at work.
pub(super) struct Service {
    pub(super) state: State,
    roster: Mutex<Roster>,
    /// Held while what belongs to a trainer that is gone is forgotten, so that the same trainer does
    /// not come again in the middle of it; taken before the roster.
    forgetting: Mutex<()>,
    /// Told whenever the roster changes.
    pub(super) news: Condvar,
    /// How long anybody waits for somebody.
    pub(super) deadline: Duration,
    /// Bytes that an answer may have.
    pub(super) limit: usize,
}

impl Service {
    pub(super) fn new(state: State, deadline: Duration, max_frame: usize) -> Service {
        let roster = Mutex::new(Roster::new(state.config.trainers, state.config.heter_workers));
        // A little less than the callers' own deadlines, whose messages know less.
        let deadline = deadline - (deadline / 20).min(Duration::from_secs(2));
        // Room for names and dimensions.
        let limit = max_frame - (max_frame / 16).clamp(4096.min(max_frame / 2), 1 << 20);
        let (forgetting, news) = (Mutex::default(), Condvar::new());
        Service { state, roster, forgetting, news, deadline, limit }
    }

    pub(super) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether training goes on when a trainer is lost.
    pub(super) fn goes_on(&self) -> bool {
        !self.state.is_sync()
    }

    pub(super) fn forgetting(&self) -> MutexGuard<'_, ()> {
        self.forgetting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends waits that have lasted too long, and says how things stand; a failure holds for
    /// `patience` until all know it.
    pub(super) fn check_timeouts(&self, patience: Duration) -> Verdict {
        let (mut roster, now) = (self.roster(), Instant::now());
        roster.note_progress(self.state.progress.last());
        let ended = self.settle(&mut roster);
        let mut failing = roster.stalled(self.deadline, now);
        if let Some(problem) = roster.overdue(self.deadline, now) {
            failing.push(roster.fail(&format!("{}: {problem}", self.state.name())));
        }
        let verdict = roster.verdict(self.deadline, patience, now);
        drop(roster);
        ended.into_iter().for_each(Ended::deliver);
        failing.into_iter().for_each(Failing::deliver);
        verdict
    }

    /// Does work that others may have to wait for; where it is stuck, the roster answers instead.
    pub(super) fn work(
        &self,
        what: &str,
        on_disk: bool,
        reply: Reply,
        run: impl FnOnce() -> Result<Vec<u8>>,
    ) {
        self.state.progress.note();
        let what = format!("{}: {what}", self.state.name());
        let number = self.roster().begin_work(what, on_disk, reply);
        let work = Working { service: self, number };
        let ran = run();
        let Some(reply) = work.end() else { return };
        match ran {
            Ok(answer) => reply.send(&[&answer]),
            Err(error) => reply.fail(&error.to_string()),
        }
    }

    /// Meetings that end now.
    pub(super) fn settle(&self, roster: &mut Roster) -> Vec<Ended> {
        meet::settle(roster, self.goes_on(), self.deadline, Instant::now())
    }

    /// Runs the update when nobody else is expected at the barrier, and lets all go on.
    pub(super) fn step_if_all_are_here(&self, mut roster: MutexGuard<'_, Roster>) {
        let Some(waiters) = roster.take_barrier() else { return };
        let readers = roster.readers(waiters.keys());
        drop(roster);
        let began = Instant::now();
        let updated = self.state.update(readers);
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let problem = match &updated {
            Ok(()) => None,
            Err(error) => Some(format!("{}: the update failed: {error}", self.state.name())),
        };
        let updated_in = Answer::Updated { nanos };
        let done = updated_in.encode();
        let parts = done.parts();
        for (reply, _) in waiters.into_values() {
            match &problem {
                None => reply.send(&parts),
                Some(problem) => reply.fail(problem),
            }
        }
        if let Some(problem) = problem {
            let failing = self.roster().fail(&problem);
            failing.deliver();
            self.news.notify_all();
        }
    }
}

impl Handler for Service {
    fn handle(&self, peer: &Peer, method: u16, body: &Body, reply: Reply) {
        let request = match Request::decode(method, body) {
            Ok(request) => request,
            Err(error) => return reply.fail(&format!("{peer}: {error}")),
        };
        let is_complete = matches!(request, Request::Complete { .. } | Request::Quit { .. });
        let mut roster = self.roster();
        if let Some(rank) = roster.rank_of(peer.identity)
            && !is_complete
            && let Some(problem) = roster.failure_for(rank)
        {
            drop(roster);
            self.news.notify_all();
            return reply.fail(&problem);
        }
        if let Some(problem) = roster.refusal(peer, &request) {
            drop(roster);
            return reply.fail(&problem);
        }
        drop(roster);
        request.dispatch(self, Asked { peer, reply });
    }

    fn lost(&self, peer: &Peer, why: &str) {
        self.lose(peer, why, false);
    }

    fn left(&self, peer: &Peer) {
        // One that completed, or said why it ended, is at work no more.
        self.lost(peer, "it left before it had completed");
    }
}

impl Service {
    /// A trainer is gone, as it `announced` itself or was noticed.
    pub(super) fn lose(&self, peer: &Peer, why: &str, announced: bool) {
        self.state.abandon_of(peer.session);
        let _forgetting = self.forgetting();
        let mut roster = self.roster();
        let Some(trainer) = roster.lose(peer, why, announced) else { return };
        let server = self.state.name();
        if self.goes_on() {
            let ended = self.settle(&mut roster);
            drop(roster);
            tracing::warn!("{server}: {peer} is lost: {why}; the others go on");
            self.state.forget(trainer);
            ended.into_iter().for_each(Ended::deliver);
        } else {
            // It may have waited itself when it gave up.
            roster.barrier.remove(&trainer);
            let waits = match roster.barrier.is_empty() {
                true => "nobody waited for it yet".to_owned(),
                false => {
                    let since = roster.barrier.values().map(|(_, since)| since.elapsed());
                    let waited = since.max().unwrap_or_default().as_secs_f64();
                    let waiting = roster.waiting();
                    format!("{waiting} waited {waited:.1} s for its gradients at the send barrier")
                }
            };
            let failing = roster.fail(&format!(
                "{server}: {peer} is lost: {why}; {waits}. Look at its log; the job can \
                 go on from its last checkpoint"
            ));
            drop(roster);
            failing.deliver();
        }
        self.news.notify_all();
    }
}

/// Work that ends when this is dropped, even by a panic.
struct Working<'a> {
    service: &'a Service,
    number: u64,
}

impl Working<'_> {
    /// Where the answer goes, if anybody waits for it still.
    fn end(&self) -> Option<Reply> {
        let reply = self.service.roster().end_work(self.number);
        self.service.news.notify_all();
        reply
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if let Some(reply) = self.end() {
            reply.fail("the request made the server panic: its log says where");
        }
    }
}
