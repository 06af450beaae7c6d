//! Who of the trainers is here, finished or lost, and who waits for whom.
//!
//! A wait ends in one of three ways: everybody has come, somebody who must come cannot come any
//! more, or the deadline has passed; in the last two cases the error names who is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bireme_comm::{Identity, Peer, Reply, Role};

use super::meet::Meeting;
use crate::message::{Asker, Request};

/// How many deadlines a server waits for the first trainer: programs and data may take a while to
/// be there, but a job that was started again without it never comes. A scheduler may have to find
/// room for it first, and ends servers itself that are needed no more.
pub(crate) fn deadlines_for_first(is_managed: bool) -> u32 {
    if is_managed { 10 } else { 3 }
}

/// A trainer as the server sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    /// Has not joined yet.
    Absent,
    /// At work: the session of its process, and where that is, in words.
    Here { session: u64, address: String, process: String },
    /// Said that it has finished.
    Done,
    /// Gone without a word; why, and its process in words, if it had joined.
    Lost { why: String, process: String },
}

/// A process that a server has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostTrainer {
    /// Its role and rank.
    pub who: Identity,
    /// What happened.
    pub why: String,
    /// What it called itself when it joined: `process 4242 on `host``.
    pub process: String,
}

/// The trainers, and those of them that wait.
pub(super) struct Roster {
    pub(super) trainers: Vec<Standing>,
    /// Ranks from here on are heter workers'.
    readers: u32,
    /// Who waits at the barrier of this step, and since when.
    pub(super) barrier: BTreeMap<u32, (Reply, Instant)>,
    pub(super) meetings: BTreeMap<(String, String), Meeting>,
    /// Why training cannot go on, and since when.
    failure: Option<(String, Instant)>,
    /// Trainers that have been told of the failure.
    told: BTreeSet<u32>,
    /// Whether somebody starts trainers again that fail: a launcher or a scheduler.
    pub(super) is_managed: bool,
    /// When a trainer last came or went.
    changed: Instant,
    /// When one was last lost.
    last_loss: Option<Instant>,
    /// Requests being worked on for which others may have to wait: checkpoints.
    work: BTreeMap<u64, Work>,
    /// The number of the next of them.
    next_work: u64,
    /// When one of them last ended, or made progress.
    last_progress: Instant,
}

/// A request that is worked on.
struct Work {
    /// None when the asker has been told that it takes too long.
    reply: Option<Reply>,
    what: String,
    since: Instant,
    /// Whether it can be stuck: the disk may not answer.
    on_disk: bool,
}

/// Those who waited, and why they waited in vain; told when no lock is held, as one may be slow to
/// listen.
#[must_use = "they wait for an answer"]
pub(super) struct Failing {
    replies: Vec<Reply>,
    problem: String,
}

impl Failing {
    /// Tells everybody.
    pub(super) fn deliver(self) {
        self.replies.into_iter().for_each(|reply| reply.fail(&self.problem));
    }
}

/// How things stand as a whole.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Trainers are at work.
    Going,
    /// Nobody is at work yet; who is waited for, in words.
    Waiting(String),
    /// All have finished, but for those that were lost.
    Finished(Vec<String>),
    /// Training cannot go on.
    Failed(String),
}

impl Roster {
    pub(super) fn new(trainers: u32, heter_workers: u32) -> Roster {
        Roster {
            readers: trainers - heter_workers,
            trainers: vec![Standing::Absent; trainers as usize],
            barrier: BTreeMap::new(),
            meetings: BTreeMap::new(),
            failure: None,
            told: BTreeSet::new(),
            is_managed: false,
            changed: Instant::now(),
            last_loss: None,
            work: BTreeMap::new(),
            next_work: 0,
            last_progress: Instant::now(),
        }
    }

    /// A checkpoint is worked on: as long as that makes progress, nobody who waits for others
    /// meanwhile is overdue. Returns its number here.
    pub(super) fn begin_work(&mut self, what: String, on_disk: bool, reply: Reply) -> u64 {
        let (number, since) = (self.next_work, Instant::now());
        self.next_work += 1;
        self.work.insert(number, Work { reply: Some(reply), what, since, on_disk });
        number
    }

    /// The counterpart of [`Roster::begin_work`]: where the answer goes, if anybody waits for it.
    pub(super) fn end_work(&mut self, number: u64) -> Option<Reply> {
        self.last_progress = Instant::now();
        self.work.remove(&number)?.reply
    }

    /// Work on files has last moved on at `at`.
    pub(super) fn note_progress(&mut self, at: Instant) {
        if !self.work.is_empty() {
            self.last_progress = self.last_progress.max(at);
        }
    }

    /// Those whose checkpoints have made no progress for `deadline`, and with them those whose work
    /// on tables waits for a checkpoint that reads the same rows.
    pub(super) fn stalled(&mut self, deadline: Duration, now: Instant) -> Vec<Failing> {
        let mut failing = Vec::new();
        let last_progress = self.last_progress;
        let still = |work: &Work| now.saturating_duration_since(work.since.max(last_progress));
        let is_stuck = |work: &Work| work.on_disk && still(work) >= deadline;
        let is_disk_stuck = self.work.values().any(is_stuck);
        for work in self.work.values_mut().filter(|work| work.on_disk || is_disk_stuck) {
            let still = still(work);
            if still >= deadline
                && let Some(reply) = work.reply.take()
            {
                let problem = format!(
                    "{} has made no progress for {:.1} s (the limit is `FLAGS_rpc_deadline`): is \
                     the disk full, or a file system gone?",
                    work.what,
                    still.as_secs_f64()
                );
                failing.push(Failing { replies: vec![reply], problem });
            }
        }
        failing
    }

    /// How long somebody has waited for others since `since`, work on checkpoints apart.
    pub(super) fn waited(&self, since: Instant, now: Instant) -> Duration {
        // Who has been told that its work is stuck keeps nobody else waiting.
        match self.work.values().any(|work| !work.on_disk && work.reply.is_some()) {
            true => Duration::ZERO,
            false => now.saturating_duration_since(since.max(self.last_progress)),
        }
    }

    /// How many others of its kind are at work beside a trainer, or beside a heter worker.
    pub(super) fn others_at_work(&self, trainer: u32) -> u32 {
        let all = (0..).zip(&self.trainers);
        let others = all.filter(|(at, standing): &(u32, _)| {
            let same = (*at < self.readers) == (trainer < self.readers);
            same && *at != trainer && matches!(standing, Standing::Here { .. })
        });
        others.count() as u32
    }

    /// A trainer joins; returns the standing it had.
    pub(super) fn join(&mut self, trainer: u32, peer: &Peer, process: &str) -> Standing {
        let (session, address) = (peer.session, peer.address.clone());
        let here = Standing::Here { session, address, process: process.to_owned() };
        self.changed = Instant::now();
        std::mem::replace(&mut self.trainers[trainer as usize], here)
    }

    /// A trainer has finished.
    pub(super) fn complete(&mut self, trainer: u32) {
        self.trainers[trainer as usize] = Standing::Done;
        self.changed = Instant::now();
    }

    /// The trainer of a session that was lost, if it was at work, or `announced` before it had joined:
    /// then it does not come any more.
    pub(super) fn lose(&mut self, peer: &Peer, why: &str, announced: bool) -> Option<u32> {
        let trainer = self.rank_of(peer.identity)?;
        let standing = self.trainers.get_mut(trainer as usize)?;
        let ours = match standing {
            Standing::Here { session, .. } => *session == peer.session,
            Standing::Absent => announced,
            Standing::Done | Standing::Lost { .. } => false,
        };
        if !ours {
            return None;
        }
        let process = match standing {
            Standing::Here { process, .. } => std::mem::take(process),
            _ => String::new(),
        };
        *standing = Standing::Lost { why: why.to_owned(), process };
        self.changed = Instant::now();
        self.last_loss = Some(self.changed);
        Some(trainer)
    }

    /// The processes that are lost.
    pub(super) fn lost(&self) -> Vec<LostTrainer> {
        let lost = |(at, standing): (u32, &Standing)| match standing.clone() {
            Standing::Lost { why, process } => {
                Some(LostTrainer { who: self.identity(at), why, process })
            }
            _ => None,
        };
        (0..).zip(&self.trainers).filter_map(lost).collect()
    }

    fn identity(&self, trainer: u32) -> Identity {
        match trainer.checked_sub(self.readers) {
            None => Identity::trainer(trainer),
            Some(index) => Identity::heter_worker(index),
        }
    }

    /// Why a request is not answered: it comes from a process whose place another one has, or from
    /// one that is not at work, or in the name of another rank.
    pub(super) fn refusal(&self, peer: &Peer, request: &Request<'_>) -> Option<String> {
        let asker = request.rules().asker;
        if asker == Asker::Anybody {
            return None;
        }
        let rank = self.rank_of(peer.identity);
        match rank.and_then(|rank| self.trainers.get(rank as usize)) {
            Some(Standing::Here { session, process, .. }) if *session != peer.session => {
                Some(format!(
                    "{peer} is no longer part of the job: {process} has joined as {} since. {}",
                    peer.identity,
                    self.duplicate_id_advice(&peer.identity.to_string())
                ))
            }
            Some(Standing::Here { .. }) => {
                let claimed = request.trainer().filter(|trainer| Some(*trainer) != rank)?;
                Some(format!("{peer} asks in the name of {}", self.who(claimed)))
            }
            standing if asker == Asker::Member => {
                let why = match standing {
                    Some(Standing::Done) => "it has finished".to_owned(),
                    Some(Standing::Lost { why, .. }) => format!("it was given up ({why})"),
                    _ => "it has not joined".to_owned(),
                };
                Some(format!("{} is not at work: {why}", peer.identity))
            }
            _ => None,
        }
    }

    /// What to do about two processes with the same number.
    pub(super) fn duplicate_id_advice(&self, who: &str) -> String {
        let last = self.readers.saturating_sub(1);
        format!(
            "If both were started for this job, give each trainer a `PADDLE_TRAINER_ID` of its own, \
             from 0 to {last}; if {who} was restarted, end the older process"
        )
    }

    /// Takes those who wait at the barrier, if nobody else is expected there.
    pub(super) fn take_barrier(&mut self) -> Option<BTreeMap<u32, (Reply, Instant)>> {
        let expected =
            |standing: &Standing| matches!(standing, Standing::Absent | Standing::Here { .. });
        let mut trainers = (0..).zip(&self.trainers);
        let all =
            trainers.all(|(at, standing)| !expected(standing) || self.barrier.contains_key(&at));
        (all && !self.barrier.is_empty()).then(|| std::mem::take(&mut self.barrier))
    }

    /// Training cannot go on: everybody who waits is told so, and later everybody who asks.
    pub(super) fn fail(&mut self, problem: &str) -> Failing {
        if self.failure.is_none() {
            self.failure = Some((problem.to_owned(), Instant::now()));
        }
        let mut replies = Vec::new();
        for (trainer, (reply, _)) in std::mem::take(&mut self.barrier) {
            replies.push(reply);
            self.told.insert(trainer);
        }
        for (_, meeting) in std::mem::take(&mut self.meetings) {
            replies.extend(meeting.into_replies());
        }
        Failing { replies, problem: problem.to_owned() }
    }

    /// Why training cannot go on, for the answer to a trainer that asks something.
    pub(super) fn failure_for(&mut self, trainer: u32) -> Option<String> {
        let (problem, _) = self.failure.as_ref()?;
        self.told.insert(trainer);
        Some(problem.clone())
    }

    /// How a trainer is called: `trainer 1 (127.0.0.1:40000)`.
    pub(super) fn name(&self, trainer: u32) -> String {
        match self.trainers.get(trainer as usize) {
            Some(Standing::Here { address, .. }) => format!("{} ({address})", self.who(trainer)),
            _ => self.who(trainer),
        }
    }

    /// `trainer 1`, `heter worker 0`.
    fn who(&self, trainer: u32) -> String {
        self.identity(trainer).to_string()
    }

    /// The rank of a process among all that train, if it is one of them.
    pub(super) fn rank_of(&self, identity: Identity) -> Option<u32> {
        match identity.role {
            Role::Trainer => Some(identity.rank),
            Role::HeterWorker => self.readers.checked_add(identity.rank),
            Role::Server | Role::Other => None,
        }
    }

    /// How many of `ranks` read data, and so look rows up and push them.
    pub(super) fn readers<'a>(&self, ranks: impl Iterator<Item = &'a u32>) -> usize {
        ranks.filter(|rank| **rank < self.readers).count()
    }

    /// What is wrong at the barrier when the oldest wait has reached `deadline`.
    pub(super) fn overdue(&self, deadline: Duration, now: Instant) -> Option<String> {
        let since = self.barrier.values().map(|(_, since)| *since).min()?;
        let waited = self.waited(since, now);
        if waited < deadline {
            return None;
        }
        let missing: Vec<String> = self.missing(|at| self.barrier.contains_key(&at));
        Some(format!(
            "{} at the send barrier; {} waited {:.1} s for it (the limit is `FLAGS_rpc_deadline`)",
            missing.join(", "),
            self.waiting(),
            waited.as_secs_f64()
        ))
    }

    /// Those that are expected but not among `arrived`, in words.
    pub(super) fn missing(&self, arrived: impl Fn(u32) -> bool) -> Vec<String> {
        let word = |(at, standing): (u32, &Standing)| match standing {
            _ if arrived(at) => None,
            Standing::Absent => Some(format!("{} has not joined, and is missing", self.who(at))),
            Standing::Here { .. } => Some(format!("{} did not arrive", self.name(at))),
            Standing::Done => None,
            Standing::Lost { why, .. } => {
                Some(format!("{} is lost ({why}), and is missing", self.who(at)))
            }
        };
        (0..).zip(&self.trainers).filter_map(word).collect()
    }

    /// Who waits at the barrier: `trainers 0, 2`.
    pub(super) fn waiting(&self) -> String {
        let ranks: Vec<String> = self.barrier.keys().map(u32::to_string).collect();
        let noun = if ranks.len() == 1 { "trainer" } else { "trainers" };
        format!("{noun} {}", ranks.join(", "))
    }

    /// How things stand. Trainers that never came are waited for until `deadline` after the last
    /// change, [`deadlines_for_first`] times as long when nobody came at all, and those that were lost
    /// where they are started again; a failure holds until all who are here or expected know it, for
    /// `patience` at most.
    pub(super) fn verdict(&self, deadline: Duration, patience: Duration, now: Instant) -> Verdict {
        if let Some((problem, since)) = &self.failure {
            // Those that come yet hear it when they join.
            let ask =
                |standing: &Standing| matches!(standing, Standing::Absent | Standing::Here { .. });
            let mut asking = (0..).zip(&self.trainers).filter(|(_, standing)| ask(standing));
            let known = asking.all(|(at, _)| self.told.contains(&at));
            return match known || now.saturating_duration_since(*since) > patience {
                true => Verdict::Failed(problem.clone()),
                false => Verdict::Going,
            };
        }
        if self.trainers.iter().any(|trainer| matches!(trainer, Standing::Here { .. })) {
            return Verdict::Going;
        }
        let lost: Vec<String> =
            self.lost().iter().map(|lost| format!("{} was lost: {}", lost.who, lost.why)).collect();
        let absent = self.trainers.iter().filter(|trainer| **trainer == Standing::Absent).count();
        if absent > 0 {
            let nobody = absent == self.trainers.len();
            let waited = now.saturating_duration_since(self.changed);
            let limit =
                if nobody { deadlines_for_first(self.is_managed) * deadline } else { deadline };
            let missing = self.missing(|_| false).join(", ");
            let seconds = waited.as_secs_f64();
            if waited < limit {
                return Verdict::Waiting(format!(
                    "has waited {seconds:.0} s, and waits up to {:.0} s: {missing}",
                    limit.as_secs_f64()
                ));
            }
            return Verdict::Failed(format!(
                "{missing}: the server waited {seconds:.1} s for the job to start; were all \
                 trainers started, with the right endpoints?"
            ));
        }
        let since = self.last_loss.filter(|_| self.is_managed && !lost.is_empty());
        if let Some(waited) = since.map(|since| now.saturating_duration_since(since))
            && waited < deadline
        {
            return Verdict::Waiting(format!(
                "waits up to {:.0} s for a trainer to be started again: {}",
                (deadline - waited).as_secs_f64(),
                lost.join(", ")
            ));
        }
        if lost.len() == self.trainers.len() {
            return Verdict::Failed(format!("no trainer is left: {}", lost.join(", ")));
        }
        Verdict::Finished(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(180);

    fn peer(rank: u32, session: u64) -> Peer {
        let (identity, address) = (Identity::trainer(rank), "10.0.0.1:1".to_owned());
        Peer { identity, session, address, is_same_user: false }
    }

    fn verdict(roster: &Roster, after: Duration) -> Verdict {
        roster.verdict(DEADLINE, DEADLINE, Instant::now() + after)
    }

    #[test]
    fn a_trainer_that_is_started_again_is_waited_for() {
        let mut roster = Roster::new(2, 0);
        for rank in 0..2 {
            roster.join(rank, &peer(rank, 1), "a process");
        }
        assert_eq!(roster.lose(&peer(1, 1), "no heartbeat", false), Some(1));
        assert_eq!(roster.lost()[0].process, "a process");
        roster.complete(0);
        let lost = vec!["trainer 1 was lost: no heartbeat".to_owned()];
        // By hand nobody starts it again.
        assert_eq!(verdict(&roster, Duration::ZERO), Verdict::Finished(lost.clone()));
        roster.is_managed = true;
        let waits = verdict(&roster, DEADLINE / 2);
        assert!(matches!(&waits, Verdict::Waiting(text) if text.ends_with(&lost[0])), "{waits:?}");
        assert_eq!(verdict(&roster, DEADLINE), Verdict::Finished(lost));
        roster.join(1, &peer(1, 2), "another process");
        assert_eq!(verdict(&roster, DEADLINE), Verdict::Going);
        roster.complete(1);
        assert_eq!(verdict(&roster, Duration::ZERO), Verdict::Finished(Vec::new()));
    }
    #[test]
    fn a_scheduler_has_time_to_find_room_for_trainers() {
        let mut roster = Roster::new(1, 0);
        let is_waiting = |roster: &Roster, times| {
            matches!(verdict(roster, times * DEADLINE), Verdict::Waiting(_))
        };
        assert!(is_waiting(&roster, 2) && !is_waiting(&roster, 3));
        roster.is_managed = true;
        assert!(is_waiting(&roster, 9) && !is_waiting(&roster, 10));
    }
}
