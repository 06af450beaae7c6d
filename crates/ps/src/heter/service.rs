//! What a heter worker does with requests: runs its stage on a unit, asks the next stage, answers,
//! and ends a step when its last unit has come.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bireme_comm::{Body, Handler, Identity, Peer, Reply, Role};
use bireme_engine::remote::Remote;

use super::ledger::Ledger;
use super::message::{Answer, Request, Unit};
use super::next::Next;
use super::pushes::{Push, send_sum, zeros};
use super::sections::StageConfig;
use super::stage::Stage;
use crate::worker::Worker;
use crate::{Error, Mode, Result};

/// A heter worker at work.
pub(super) struct Service {
    pub(super) config: StageConfig,
    stage: Mutex<Stage>,
    state: Mutex<State>,
    /// Told whenever the state changes.
    pub(super) news: Condvar,
    /// Held while a step is pushed: two trainers' must not mix.
    closing: Mutex<()>,
    worker: Arc<Worker>,
    /// The next stage; none in the last.
    pub(super) next: OnceLock<Next>,
    /// How long a unit waits for its step.
    deadline: Duration,
}

/// What requests change.
pub(super) struct State {
    pub(super) ledger: Ledger<Vec<Push>>,
    /// Those of the stage before that have come.
    pub(super) here: Vec<Peer>,
    /// Those that have come so far; who left has been here.
    came: HashSet<Identity>,
    /// Why the job cannot go on.
    pub(super) failure: Option<String>,
    /// Sessions that have been told of the failure.
    told: BTreeSet<u64>,
    /// When somebody last came.
    pub(super) changed: Instant,
    /// Whether the servers know that this worker has finished.
    left: bool,
}

impl State {
    fn new(config: &StageConfig) -> State {
        State {
            ledger: Ledger::new(config),
            here: Vec::new(),
            came: HashSet::new(),
            failure: None,
            told: BTreeSet::new(),
            changed: Instant::now(),
            left: false,
        }
    }

    /// A process of the stage before is there, in the place of an older one of the same rank.
    fn take_in(&mut self, peer: &Peer) {
        self.here.retain(|known| known.identity != peer.identity);
        self.came.insert(peer.identity);
        self.here.push(peer.clone());
        self.changed = Instant::now();
    }

    /// Whether an older process of the same rank is still thought to be at work.
    fn is_restarted(&self, peer: &Peer) -> bool {
        let is_older = |known: &Peer| known.session != peer.session;
        self.here.iter().any(|known| known.identity == peer.identity && is_older(known))
    }

    /// Whether nothing is left to do.
    pub(super) fn is_finished(&self) -> bool {
        self.left && self.ledger.is_over()
    }

    /// Whether all of these know why the job cannot go on.
    pub(super) fn have_heard(&self, peers: &[Peer]) -> bool {
        peers.iter().all(|peer| self.told.contains(&peer.session))
    }

    /// Why a request is not answered: it comes from a process that has not said hello, or whose
    /// place another one has since.
    fn refusal(&self, peer: &Peer, request: &Request<'_>) -> Option<String> {
        let is_here = self.here.iter().any(|known| known.session == peer.session);
        if is_here || matches!(request, Request::Hello { .. } | Request::Quit { .. }) {
            return None;
        }
        Some(format!(
            "{peer} is not part of the job: it has not joined, was given up, or another process has \
             joined as {} since",
            peer.identity
        ))
    }

    /// Whether somebody of the stage before has never come.
    pub(super) fn missing(&self, expected: usize) -> bool {
        self.came.len() < expected
    }
}

impl Service {
    pub(super) fn new(
        config: StageConfig,
        stage: Stage,
        worker: Arc<Worker>,
        deadline: Duration,
    ) -> Service {
        let state = State::new(&config);
        Service {
            config,
            stage: Mutex::new(stage),
            state: Mutex::new(state),
            news: Condvar::new(),
            closing: Mutex::new(()),
            worker,
            next: OnceLock::new(),
            deadline: deadline - (deadline / 20).min(Duration::from_secs(2)),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job cannot go on: everybody who waits or asks is told so.
    pub(super) fn fail(&self, problem: &str) {
        self.state().failure.get_or_insert_with(|| problem.to_owned());
        self.news.notify_all();
    }

    fn hello(&self, peer: &Peer, counts: &[u32], micro_batches: u32, mode: Mode) -> Result<()> {
        let config = &self.config;
        let same = counts == config.counts && micro_batches == config.micro_batches;
        if !same || mode != config.mode {
            return Err(Error::Config(format!(
                "{peer} takes the job for one of {counts:?} processes in its stages, {micro_batches} \
                 micro-batches and {mode:?} mode, but {} for {:?}, {} and {:?}: start all processes \
                 with the same lists and strategy",
                self.worker.whoami(),
                config.counts,
                config.micro_batches,
                config.mode
            )));
        }
        if peer.identity.role == Role::Trainer {
            let is_restarted = self.state().is_restarted(peer);
            self.begin(peer.identity.rank, is_restarted)?;
        }
        self.state().take_in(peer);
        self.news.notify_all();
        Ok(())
    }

    /// Computes a unit, and keeps what it pushes for the end of its step.
    fn compute(&self, unit: Unit) -> Result<Answer> {
        let Unit { trainer, step, micro, weight, wanted, values } = unit;
        let incarnation = {
            let state = self.state();
            if !state.ledger.is_mine(trainer, micro) {
                return Err(Error::Request(format!(
                    "micro-batch {micro} of trainer {trainer} belongs to another heter worker: do \
                     all processes know the same lists?"
                )));
            }
            state.ledger.incarnation(trainer)
        };
        self.wait_for_step(step)?;
        let (answer, pushes) = if values.is_empty() && weight == 0.0 {
            if let Some(next) = self.next.get() {
                let empty = Unit { trainer, step, micro, ..Unit::default() };
                next.start(empty)?.wait()?;
            }
            (Answer::default(), Vec::new())
        } else {
            self.run_unit(Unit { trainer, step, micro, weight, wanted, values })?
        };
        self.state().ledger.add((step, trainer, micro), incarnation, weight, pushes);
        Ok(answer)
    }

    fn run_unit(&self, unit: Unit) -> Result<(Answer, Vec<Push>)> {
        let Unit { trainer, step, micro, weight, wanted, values } = unit;
        let mut stage = self.stage();
        let mut ran = stage.forward(values, &wanted)?;
        let mut seen = Vec::new();
        if let Some(next) = self.next.get() {
            let values = stage.sends(&ran)?;
            let theirs: Vec<String> =
                wanted.iter().filter(|name| !stage.shows(name)).cloned().collect();
            // The next stage computes meanwhile, and this one other units.
            drop(stage);
            let sent = next.start(Unit { trainer, step, micro, weight, wanted: theirs, values })?;
            let answer = sent.wait()?;
            seen = answer.seen;
            stage = self.stage();
            stage.backward(&mut ran, answer.values, &wanted)?;
        }
        let pushes = stage.take_pushes();
        let mut answer = stage.answer(&mut ran, &wanted)?;
        answer.seen.extend(seen);
        Ok((answer, pushes))
    }

    /// Waits until the parameters are those of `step`, in sync modes.
    fn wait_for_step(&self, step: u64) -> Result<()> {
        let until = Instant::now() + self.deadline;
        let mut state = self.state();
        loop {
            if let Some(problem) = &state.failure {
                return Err(Error::Missing(problem.clone()));
            }
            if !self.config.is_sync() || state.ledger.step() == step {
                return Ok(());
            }
            let now = Instant::now();
            if state.ledger.step() > step || now >= until {
                let here = state.ledger.step();
                return Err(Error::Missing(format!(
                    "a micro-batch of step {step} came, but {} is at step {here}: are all trainers \
                     of one job, and at work?",
                    self.worker.whoami()
                )));
            }
            let waited = self.news.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Pushes the steps that are complete, and leaves the servers when no more can come.
    fn close_steps(&self) -> Result<()> {
        let _closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let units = self.state().ledger.take_complete();
            let Some(mut units) = units else { break };
            let mut stage = self.stage();
            if self.config.is_sync() && units.iter().all(|(_, pushes)| pushes.is_empty()) {
                units.push((1.0, zeros(&stage.sections.whole)));
            }
            send_sum(&self.worker, units, &stage.sections.as_is)?;
            stage.end_step()?;
            drop(stage);
            if self.config.is_sync() {
                self.state().ledger.next_step();
            }
            self.news.notify_all();
        }
        let leaves = {
            let mut state = self.state();
            let leaves = state.ledger.is_idle() && !state.left;
            state.left |= leaves;
            leaves
        };
        if leaves {
            self.worker.complete()?;
            self.news.notify_all();
        }
        Ok(())
    }

    /// A trainer is there, perhaps again; the stages after this one hear of it if it was lost, or was
    /// started again before anybody had noticed that.
    fn begin(&self, trainer: u32, is_restarted: bool) -> Result<()> {
        let mut state = self.state();
        if state.left && state.ledger.has_finished(trainer) {
            return Err(Error::Missing(format!(
                "trainer {trainer} came again when {} had left the servers, as nobody was at work \
                 any more: restart the job from its last checkpoint",
                self.worker.whoami()
            )));
        }
        let was_lost = state.ledger.begin(trainer) || is_restarted && state.ledger.restart(trainer);
        drop(state);
        match self.next.get() {
            Some(next) if was_lost => {
                let what = format!("to hear that trainer {trainer} is there again");
                next.tell_all(&what, &Request::Begin { trainer })
            }
            _ => Ok(()),
        }
    }

    /// A trainer sends nothing more; the next stage hears it first.
    fn finish(&self, trainer: u32) -> Result<()> {
        if let Some(next) = self.next.get() {
            let what = format!("to hear that trainer {trainer} has finished");
            next.tell_all(&what, &Request::Complete { trainer })?;
        }
        self.state().ledger.finish(trainer);
        self.news.notify_all();
        Ok(())
    }

    fn answer(&self, peer: &Peer, reply: Reply, result: Result<Answer>) {
        match result {
            Ok(answer) => reply.send(&answer.encode().parts()),
            Err(error) => {
                reply.fail(&error.to_string());
                self.heard(peer);
            }
        }
    }

    fn dispatch(&self, peer: &Peer, request: Request<'_>, reply: Reply) {
        if let Request::Begin { trainer } | Request::Complete { trainer } = request
            && trainer >= self.config.trainers()
        {
            return reply.fail(&format!("there is no trainer {trainer}"));
        }
        let done = match request {
            Request::Hello { counts, micro_batches, mode } => {
                let hello = self.hello(peer, &counts, micro_batches, mode);
                self.answer(peer, reply, hello.map(|()| Answer::default()));
                return;
            }
            Request::Begin { trainer } => {
                // The stage before says so only of one that comes again.
                let begun = self.begin(trainer, true);
                self.answer(peer, reply, begun.map(|()| Answer::default()));
                return;
            }
            Request::Quit { problem } => {
                self.answer(peer, reply, Ok(Answer::default()));
                self.heard(peer);
                return self.gone(peer, &format!("it ended with an error: {problem}"));
            }
            // The trainer must have its answer before the step ends: in sync modes the step ends
            // only after the trainer's own push.
            Request::Unit { unit } => {
                let computed = self.compute(unit);
                let problem = computed.as_ref().err().map(ToString::to_string);
                self.answer(peer, reply, computed);
                problem
            }
            Request::Complete { trainer } => {
                let finished = self.finish(trainer);
                let problem = finished.as_ref().err().map(ToString::to_string);
                self.answer(peer, reply, finished.map(|()| Answer::default()));
                problem
            }
        };
        let problem = done.or_else(|| self.close_steps().err().map(|error| error.to_string()));
        if let Some(problem) = problem {
            self.fail(&problem);
        }
    }

    /// Somebody of the stage before is gone before it had finished.
    fn gone(&self, peer: &Peer, why: &str) {
        let mut state = self.state();
        if !state.here.iter().any(|known| known.session == peer.session) {
            return;
        }
        state.here.retain(|known| known.session != peer.session);
        let over = state.ledger.is_over();
        drop(state);
        let is_trainer = peer.identity.role == Role::Trainer;
        if over || (is_trainer && self.has_finished(peer.identity.rank)) {
            return;
        }
        if self.config.mode.applies_at_once() && is_trainer {
            tracing::warn!("{}: {peer} is lost: {why}; the others go on", self.worker.whoami());
            let ended = self.finish(peer.identity.rank).and_then(|()| self.close_steps());
            if let Err(error) = ended {
                self.fail(&error.to_string());
            }
        } else {
            self.fail(&format!(
                "{}: {peer} is lost: {why}. Look at its log; the job can go on from its last \
                 checkpoint",
                self.worker.whoami()
            ));
        }
    }

    /// A peer knows why the job cannot go on, if it cannot.
    fn heard(&self, peer: &Peer) {
        self.state().told.insert(peer.session);
        self.news.notify_all();
    }

    fn has_finished(&self, trainer: u32) -> bool {
        self.state().ledger.has_finished(trainer)
    }
}

impl Handler for Service {
    fn handle(&self, peer: &Peer, method: u16, body: &Body, reply: Reply) {
        let request = match Request::decode(method, body) {
            Ok(request) => request,
            Err(error) => return reply.fail(&format!("{peer}: {error}")),
        };
        let state = self.state();
        let (failure, refusal) = (state.failure.clone(), state.refusal(peer, &request));
        drop(state);
        match (failure, refusal) {
            (Some(problem), _) => {
                reply.fail(&problem);
                self.heard(peer);
            }
            (None, Some(problem)) => reply.fail(&problem),
            (None, None) => self.dispatch(peer, request, reply),
        }
    }

    fn lost(&self, peer: &Peer, why: &str) {
        self.gone(peer, why);
    }

    fn left(&self, peer: &Peer) {
        self.gone(peer, "it left before it had completed");
    }
}

#[cfg(test)]
mod tests {
    use super::super::sections::Sections;
    use super::super::tests::trainer;
    use super::*;

    #[test]
    fn the_older_process_of_a_trainer_is_shut_out_when_the_newer_one_has_come() {
        let mut state = State::new(&Sections::of(&trainer()).unwrap().config);
        let process = |session| Peer {
            identity: Identity::trainer(0),
            session,
            address: format!("10.0.0.{session}:1"),
            is_same_user: false,
        };
        let unit = || Request::Unit { unit: Unit::default() };
        let (older, newer) = (process(1), process(2));
        assert!(state.refusal(&older, &unit()).unwrap().contains("has not joined"));
        state.take_in(&older);
        assert_eq!(state.refusal(&older, &unit()), None);
        assert!(!state.is_restarted(&older) && state.is_restarted(&newer));
        state.take_in(&newer);
        for request in [unit(), Request::Complete { trainer: 0 }, Request::Begin { trainer: 0 }] {
            let problem = state.refusal(&older, &request).unwrap();
            assert!(problem.contains("another process has joined as trainer 0"), "{problem}");
            assert_eq!(state.refusal(&newer, &request), None);
        }
        assert_eq!(state.refusal(&older, &Request::Quit { problem: "" }), None);
    }
}
