//! Answers requests: one `match`. Who waits and who is missing is the [`Roster`]'s business, what
//! is held the [`State`]'s.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bireme_comm::{Body, Handler, Peer, Reply};
use bireme_ir::difference;

use super::gather::Gather;
use super::meet::{self, Ended, Meeting};
use super::roster::{Failing, Roster, Standing, Verdict};
use super::state::State;
use super::tables::RowGrads;
use crate::message::{Answer, Request};
use crate::{Error, Result};

/// Bytes of memory that a connection keeps for its next answer.
const KEPT_WORDS: usize = (64 << 20) / 8;

thread_local! {
    /// Memory for values and rows on their way out; connections have their own threads.
    static WORDS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
    static ROWS: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

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
    limit: usize,
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
    fn goes_on(&self) -> bool {
        !self.state.is_sync()
    }

    fn forgetting(&self) -> MutexGuard<'_, ()> {
        self.forgetting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends waits that have lasted too long, and says how things stand; a failure holds for
    /// `patience` until all know it.
    pub(super) fn look(&self, patience: Duration) -> Verdict {
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

    fn answer(&self, request: &Request<'_>) -> Result<Answer<'static>> {
        let state = &self.state;
        match request {
            Request::Begin => {
                state.lineage().begin();
                Ok(Answer::Done)
            }
            Request::Push { trainer, values } => {
                for (name, array) in values {
                    state.push(*trainer, name, array)?;
                }
                Ok(Answer::Done)
            }
            Request::PushRows { trainer, table, keys, grads, counts } => {
                let rows = RowGrads { keys, grads, counts: *counts };
                state.push_rows(*trainer, table, rows)?;
                Ok(Answer::Done)
            }
            Request::PushDelta { values, .. } => {
                for (name, delta) in values {
                    state.push_delta(name, delta)?;
                }
                Ok(Answer::Done)
            }
            Request::Set { values } => {
                values.iter().try_for_each(|(name, array)| state.set(name, array))?;
                Ok(Answer::Done)
            }
            Request::SetRows { table, keys, values } => {
                state.table(table)?.rows.set(keys, values)?;
                Ok(Answer::Done)
            }
            Request::Load { directory, table, .. } => {
                state.folders.check(directory)?;
                Ok(Answer::Counted { count: state.load(directory, *table)? })
            }
            Request::Commit { number } => {
                state.commit(*number);
                Ok(Answer::Done)
            }
            Request::Abandon { number } => {
                state.abandon(*number);
                Ok(Answer::Done)
            }
            Request::Shrink { table } => {
                let shrunk = state.tables_named(*table)?.into_iter().map(|t| t.rows.shrink());
                Ok(Answer::Counted { count: shrunk.map(|shrunk| shrunk.removed as u64).sum() })
            }
            Request::Clear { table } => {
                let mut count = 0;
                for table in state.tables_named(*table)? {
                    count += table.rows.len() as u64;
                    table.rows.clear();
                }
                Ok(Answer::Counted { count })
            }
            Request::Join { .. }
            | Request::Barrier { .. }
            | Request::Get { .. }
            | Request::PullRows { .. }
            | Request::PullGeo { .. }
            | Request::Meet { .. }
            | Request::Save { .. }
            | Request::Stat
            | Request::Quit { .. }
            | Request::Complete { .. } => unreachable!("answered by `dispatch`"),
        }
    }

    fn dispatch(&self, peer: &Peer, request: &Request<'_>, reply: Reply) {
        match request {
            Request::Join { .. } => match self.join(peer, request) {
                Ok(()) => self.welcome(reply),
                Err(error) => reply.fail(&error.to_string()),
            },
            Request::Barrier { trainer } => self.barrier(peer, *trainer, reply),
            Request::Complete { trainer } => self.complete(peer, *trainer, reply),
            Request::Quit { problem } => {
                self.lose(peer, &format!("it ended with an error: {problem}"), true);
                reply.send(&Answer::Done.encode().parts());
            }
            Request::Meet { .. } => self.meet(request, reply),
            Request::Get { trainer, names, start, ahead } => {
                let ahead = match *ahead && self.state.looks_ahead() {
                    true => self.roster().others_at_work(*trainer),
                    false => 0,
                };
                self.send_values(reply, |to| self.state.get(*trainer, names, *start, ahead, to))
            }
            Request::PullGeo { trainer, names, start } => {
                self.send_values(reply, |to| self.state.pull_geo(*trainer, names, *start, to))
            }
            Request::PullRows { table, keys } => self.pull_rows(table, keys, reply),
            Request::Stat => {
                let stat = self.state.stat().and_then(|stat| to_json(&stat));
                send_text(reply, stat);
            }
            Request::Save { number, directory, table, mode, format } => {
                let asker = (peer.session, *number);
                let what = format!("{}: saving to `{directory}`", self.state.name());
                self.work(what, true, reply, || {
                    self.state.folders.check(directory)?;
                    let text = self.state.save(asker, directory, *table, *mode, *format)?;
                    Ok(Answer::Text { text: &text }.encode().parts().concat())
                });
            }
            work if work.is_work_on_files() => {
                let (what, on_disk) = match work {
                    Request::Load { directory, .. } => (format!("loading `{directory}`"), true),
                    _ => ("the care of tables".to_owned(), false),
                };
                let what = format!("{}: {what}", self.state.name());
                self.work(what, on_disk, reply, || {
                    Ok(self.answer(work)?.encode().parts().concat())
                });
            }
            other => match self.answer(other) {
                Ok(answer) => reply.send(&answer.encode().parts()),
                Err(error) => reply.fail(&error.to_string()),
            },
        }
    }

    fn welcome(&self, reply: Reply) {
        let step = self.state.step.load(Ordering::Acquire);
        let (server, lineage) = (self.state.config.server, self.state.lineage());
        let joined = Answer::Joined { server, life: lineage.life(step) };
        reply.send(&joined.encode().parts());
    }

    fn meet(&self, request: &Request<'_>, reply: Reply) {
        let Request::Meet { group, name, member, members, data } = request else {
            unreachable!("only `Meet` comes here")
        };
        let mut roster = self.roster();
        if *group == meet::TRAINERS
            && let Some(problem) = roster.failure_for(*member)
        {
            drop(roster);
            return reply.fail(&problem);
        }
        let key = ((*group).to_owned(), (*name).to_owned());
        let config = &self.state.config;
        let most = config.trainers.saturating_add(config.endpoints.len() as u32);
        let fits = meet::check(&roster, &key, *members, most, data.len(), self.limit);
        if let Err(problem) = fits {
            drop(roster);
            return reply.fail(&problem);
        }
        let meeting = roster.meetings.entry(key);
        let meeting = meeting.or_insert_with(|| Meeting::new(*members));
        let refused = meeting.enter(*member, *members, data, reply);
        let ended = self.settle(&mut roster);
        drop(roster);
        if let Some((reply, problem)) = refused {
            reply.fail(&problem);
        }
        ended.into_iter().for_each(Ended::deliver);
    }

    /// Does work that others may have to wait for; where it is stuck, the roster answers instead.
    pub(super) fn work(
        &self,
        what: String,
        on_disk: bool,
        reply: Reply,
        run: impl FnOnce() -> Result<Vec<u8>>,
    ) {
        self.state.progress.note();
        let number = self.roster().begin_work(what, on_disk, reply);
        let work = Working { service: self, number };
        let ran = run();
        let Some(reply) = work.end() else { return };
        match ran {
            Ok(answer) => reply.send(&[&answer]),
            Err(error) => reply.fail(&error.to_string()),
        }
    }

    fn pull_rows(&self, table: &str, keys: &[u64], reply: Reply) {
        let mut rows = ROWS.take();
        match self.state.pull_rows(table, keys, self.limit, &mut rows) {
            Ok(()) => reply.send(&Answer::Rows { values: &rows }.encode().parts()),
            Err(error) => reply.fail(&error.to_string()),
        }
        if rows.capacity() <= 2 * KEPT_WORDS {
            ROWS.set(rows);
        }
    }

    fn send_values<'a>(&self, reply: Reply, gather: impl FnOnce(&mut Gather<'a>) -> Result<()>) {
        let mut to = Gather::new(WORDS.take(), self.limit);
        match gather(&mut to) {
            Ok(()) => reply.send(&to.answer().encode().parts()),
            Err(error) => reply.fail(&error.to_string()),
        }
        let words = to.into_words();
        if words.capacity() <= KEPT_WORDS {
            WORDS.set(words);
        }
    }

    /// Refuses a trainer of another job description. Where trainers are still expected it was to be
    /// one of them: they would be waited for in vain, so that all hear of it now.
    fn misfit(&self, problem: String) -> Error {
        let mut roster = self.roster();
        if roster.trainers.contains(&Standing::Absent) {
            let failing = roster.fail(&problem);
            drop(roster);
            failing.deliver();
            self.news.notify_all();
        }
        Error::Config(problem)
    }

    fn join(&self, peer: &Peer, request: &Request<'_>) -> Result<()> {
        let Request::Join { trainer, trainers, mode, process, program, life } = request else {
            unreachable!("`dispatch` gives it nothing else");
        };
        let (config, name) = (&self.state.config, self.state.name());
        if *trainers != config.trainers || trainer >= trainers {
            return Err(self.misfit(format!(
                "{peer} says it is trainer {trainer} of {trainers}, but {name} serves {} trainers: \
                 start all processes with the same number of trainers",
                config.trainers
            )));
        }
        if *mode != config.mode {
            return Err(self.misfit(format!(
                "{peer} trains in {mode:?} mode, but {name} serves {:?} mode: transpile all \
                 programs with the same `sync_mode` and strategy",
                config.mode
            )));
        }
        if self.roster().rank_of(peer.identity) != Some(*trainer) {
            return Err(Error::Config(format!("{peer} says it is trainer {trainer}")));
        }
        self.compare_programs(peer, program)?;
        let step = self.state.step.load(Ordering::Acquire);
        let agreed = self.state.lineage().agree((config.server, &name), step, life);
        agreed.map_err(|problem| self.misfit(problem))?;
        let forgetting = self.forgetting();
        let mut roster = self.roster();
        if let Some(problem) = roster.failure_for(*trainer) {
            return Err(Error::Missing(problem));
        }
        let was = roster.join(*trainer, peer, process);
        if let Standing::Here { session, process: older, .. } = was
            && session != peer.session
        {
            let who = peer.identity.to_string();
            let problem = format!("two processes have joined as {who}: {older}, then {process}");
            let failing = (!self.goes_on()).then(|| {
                let advice = roster.own_ids(&who);
                roster.fail(&format!(
                    "{problem}. {advice} and restart the job from its last checkpoint, because the \
                     steps that others wait for are lost"
                ))
            });
            drop(roster);
            failing.into_iter().for_each(Failing::deliver);
            tracing::warn!("{name}: {problem}; the older one is no longer part of the job");
            self.state.forget(*trainer);
        } else {
            drop(roster);
        }
        drop(forgetting);
        self.news.notify_all();
        Ok(())
    }

    /// Refuses a trainer whose program differs from the server's, or from that of the first trainer
    /// where the server's is not known.
    fn compare_programs(&self, peer: &Peer, program: &[&str]) -> Result<()> {
        if program.is_empty() {
            return Ok(());
        }
        let (known, name) = (&self.state.config.program, self.state.name());
        let (whose, known) = self.state.program.get_or_init(|| match known.is_empty() {
            false => (name.clone(), known.clone()),
            true => (peer.to_string(), program.iter().map(|line| (*line).to_owned()).collect()),
        });
        match difference((whose, known), (&peer.to_string(), program)) {
            None => Ok(()),
            Some(difference) => Err(self.misfit(format!(
                "{peer} trains another program than {whose}: {difference}. Start all processes of \
                 the job with the same script and settings"
            ))),
        }
    }

    fn barrier(&self, peer: &Peer, trainer: u32, reply: Reply) {
        if !self.state.is_sync() {
            return reply.send(&Answer::Done.encode().parts());
        }
        let mut roster = self.roster();
        // Again, under the lock: who comes after a failure must not wait.
        let refusal = roster.refusal(peer, &Request::Barrier { trainer });
        if let Some(problem) = refusal.or_else(|| roster.failure_for(trainer)) {
            drop(roster);
            return reply.fail(&problem);
        }
        let stale = roster.barrier.insert(trainer, (reply, Instant::now()));
        self.step_if_all_are_here(roster);
        if let Some((stale, _)) = stale {
            stale.fail("the same trainer came to the barrier again");
        }
    }

    fn complete(&self, peer: &Peer, trainer: u32, reply: Reply) {
        let mut roster = self.roster();
        // Again, under the lock: another process may have its place by now.
        if let Some(problem) = roster.refusal(peer, &Request::Complete { trainer }) {
            drop(roster);
            return reply.fail(&problem);
        }
        // Before the answer: a goodbye may follow it on another connection.
        roster.complete(trainer);
        drop(roster);
        reply.send(&Answer::Done.encode().parts());
        let mut roster = self.roster();
        let ended = self.settle(&mut roster);
        self.step_if_all_are_here(roster);
        ended.into_iter().for_each(Ended::deliver);
        self.news.notify_all();
    }

    /// Meetings that end now.
    fn settle(&self, roster: &mut Roster) -> Vec<Ended> {
        meet::settle(roster, self.goes_on(), self.deadline, Instant::now())
    }

    /// Runs the update when nobody else is expected at the barrier, and lets all go on.
    fn step_if_all_are_here(&self, mut roster: MutexGuard<'_, Roster>) {
        let Some(waiters) = roster.take_barrier() else { return };
        let readers = roster.readers(waiters.keys());
        drop(roster);
        let updated = self.state.update(readers);
        let problem = match &updated {
            Ok(()) => None,
            Err(error) => Some(format!("{}: the update failed: {error}", self.state.name())),
        };
        let done = Answer::Done.encode();
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
        self.dispatch(peer, &request, reply);
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
    /// A trainer is gone, as it `said_so` itself or was noticed.
    fn lose(&self, peer: &Peer, why: &str, said_so: bool) {
        self.state.abandon_of(peer.session);
        let _forgetting = self.forgetting();
        let mut roster = self.roster();
        let Some(trainer) = roster.lose(peer, why, said_so) else { return };
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

fn send_text(reply: Reply, text: Result<String>) {
    match text {
        Ok(text) => reply.send(&Answer::Text { text: &text }.encode().parts()),
        Err(error) => reply.fail(&error.to_string()),
    }
}

fn to_json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Request(error.to_string()))
}
