//! What is known of a job and what follows from it: requests in, a growing log out.
//!
//! No clock and no network in here: the time is an argument, members are numbers. The first entry
//! that ends the job is the last one, so all nodes read the same end.

use std::time::{Duration, Instant};

use super::member::Expected;
use super::message::{Card, Entry, Failure};

/// The state of a job.
pub(super) struct Board {
    expected: Expected,
    /// The card of the node that hosts the board: others are compared with it.
    reference: Card,
    /// How often the whole job may still begin again.
    restarts: u32,
    round: u32,
    phase: Phase,
    log: Vec<Entry>,
    /// In the order of arrival.
    members: Vec<Member>,
    /// When the last node came.
    last_arrival: Option<Instant>,
    /// The last checkpoint that processes of before a restart have saved.
    checkpoint: Option<String>,
    /// A failure that is blamed on another process, and when: if no other comes, it is the first.
    suspect: Option<(Failure, Instant)>,
}

/// How long the failure that others are a consequence of may be later than they.
const HEARSAY: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Over,
}

struct Member {
    /// The session of its connection.
    session: u64,
    card: Card,
    workers_done: bool,
    /// The round for which it has ended its processes.
    stopped: u32,
    /// Whether it knows how the job ended.
    left: bool,
}

/// What becomes of a node that wants to join.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joining {
    Accepted,
    /// A node with its address is here already: wait until that one is lost, or refuse this one.
    Twice,
    Refused(String),
}

impl Board {
    pub(super) fn new(expected: Expected, reference: Card, restarts: u32) -> Board {
        Board {
            expected,
            reference,
            restarts,
            round: 0,
            phase: Phase::Waiting,
            log: Vec::new(),
            members: Vec::new(),
            last_arrival: None,
            checkpoint: None,
            suspect: None,
        }
    }

    /// Whether this session is that of a node that has joined.
    pub(super) fn has(&self, session: u64) -> bool {
        self.members.iter().any(|member| member.session == session)
    }

    /// The log from an entry on.
    pub(super) fn log_from(&self, seen: usize) -> &[Entry] {
        self.log.get(seen..).unwrap_or_default()
    }

    pub(super) fn join(&mut self, session: u64, card: Card, now: Instant) -> Joining {
        if self.has(session) {
            return Joining::Accepted;
        }
        match self.phase {
            Phase::Waiting => {}
            Phase::Running => {
                let nodes: Vec<_> = self.members.iter().map(Member::address).collect();
                return Joining::Refused(format!(
                    "the job already runs on {}: start this node before all others are there, or \
                     choose another `--job_id` and port for another job",
                    nodes.join(", ")
                ));
            }
            Phase::Over => return Joining::Refused(self.end_of_job()),
        }
        if let Some(problem) = difference(&self.reference, &card) {
            self.refuse(problem.clone());
            return Joining::Refused(problem);
        }
        if let Expected::Listed(nodes) = &self.expected {
            if !nodes.contains(&card.address) {
                return Joining::Refused(format!(
                    "{} is not one of the nodes of this job: {}",
                    card.address,
                    nodes.join(", ")
                ));
            }
            if self.members.iter().any(|member| member.card.address == card.address) {
                return Joining::Twice;
            }
        }
        if let Some(problem) = self.rank_taken(&card) {
            self.refuse(problem.clone());
            return Joining::Refused(problem);
        }
        self.log.push(Entry::Joined(card.address.clone()));
        if let Some(note) = mild_difference(&self.reference, &card) {
            self.log.push(Entry::Note(note));
        }
        self.last_arrival = Some(now);
        self.members.push(Member { session, card, workers_done: false, stopped: 0, left: false });
        if self.members.len() == self.expected.most() {
            self.start();
        }
        Joining::Accepted
    }

    /// Why nobody can join any more.
    fn end_of_job(&self) -> String {
        match self.log.last() {
            Some(Entry::Refused(problem)) => problem.clone(),
            _ => "the job is over".into(),
        }
    }

    fn rank_taken(&self, card: &Card) -> Option<String> {
        let rank = card.rank?;
        if rank >= self.expected.most() {
            return Some(format!(
                "node {} was started with `--rank {rank}`, but ranks end at {}: there are {} nodes",
                card.address,
                self.expected.most() - 1,
                self.expected.most()
            ));
        }
        let same = self.members.iter().find(|member| member.card.rank == Some(rank))?;
        Some(format!(
            "nodes {} and {} were both started with `--rank {rank}`",
            same.card.address, card.address
        ))
    }

    fn start(&mut self) {
        self.phase = Phase::Running;
        let ranks = match &self.expected {
            Expected::Listed(nodes) => {
                let place = |member: &Member| {
                    nodes.iter().position(|node| *node == member.card.address).unwrap_or_default()
                };
                self.members.sort_by_key(place);
                return self.log.push(Entry::Started(self.roster()));
            }
            Expected::Counted { by_address, .. } => {
                if *by_address {
                    self.members.sort_by_key(|member| order_of(&member.card.address));
                }
                ranks(&self.members)
            }
        };
        let mut ranked: Vec<_> = ranks.into_iter().zip(self.members.drain(..)).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        self.members = ranked.into_iter().map(|(_, member)| member).collect();
        self.log.push(Entry::Started(self.roster()));
    }

    fn roster(&self) -> Vec<(u64, Card)> {
        self.members.iter().map(|member| (member.session, member.card.clone())).collect()
    }

    /// Lets time pass: a job that may start with fewer nodes does when no more come, and a failure
    /// that was blamed on another counts when no other was reported. While some node is silent,
    /// that one may be the reason: it is lost soon, or heard of again.
    pub(super) fn tick(&mut self, now: Instant, is_silent: bool) {
        let is_late = |(_, since): &mut (Failure, Instant)| !is_silent && now >= *since + HEARSAY;
        if let Some((failure, _)) = self.suspect.take_if(is_late) {
            self.fail(failure);
        }
        let Expected::Counted { least, patience, .. } = self.expected else { return };
        let waited = self.last_arrival.is_some_and(|last| now >= last + patience);
        if self.phase == Phase::Waiting && self.members.len() >= least && waited {
            self.start();
        }
    }

    /// Something to be told to users while they wait.
    pub(super) fn note(&mut self, text: String) {
        if self.phase == Phase::Waiting {
            self.log.push(Entry::Note(text));
        }
    }

    /// The job cannot start.
    pub(super) fn refuse(&mut self, problem: String) {
        if self.phase == Phase::Waiting {
            self.end(Entry::Refused(problem));
        }
    }

    pub(super) fn failed(&mut self, failure: Failure, now: Instant) {
        if self.phase != Phase::Running || self.is_restarting() {
            return;
        }
        if failure.hearsay {
            self.suspect.get_or_insert((failure, now));
        } else {
            self.fail(failure);
        }
    }

    fn fail(&mut self, failure: Failure) {
        if self.phase != Phase::Running {
            return;
        }
        self.suspect = None;
        // A node that was told to stop is not to begin again.
        if self.restarts == 0 || failure.process.is_none() {
            return self.end(Entry::Failed(failure));
        }
        self.restarts -= 1;
        self.round += 1;
        self.members.iter_mut().for_each(|member| member.workers_done = false);
        self.log.push(Entry::Restart { round: self.round, failure });
    }

    /// Whether some node still has to end what ran before a restart: whatever fails meanwhile fails
    /// because it is ended.
    fn is_restarting(&self) -> bool {
        self.members.iter().any(|member| member.stopped < self.round)
    }

    pub(super) fn stopped(&mut self, session: u64, round: u32, checkpoint: Option<String>) {
        if self.phase != Phase::Running || round != self.round || !self.is_restarting() {
            return;
        }
        if let Some(member) = self.member(session) {
            member.stopped = round;
        }
        // Only the node of the worker that saves knows it.
        self.checkpoint = checkpoint.or_else(|| self.checkpoint.take());
        if !self.is_restarting() {
            self.log.push(Entry::Begin { round, checkpoint: self.checkpoint.clone() });
        }
    }

    pub(super) fn workers_done(&mut self, session: u64) {
        // Said before it heard of the restart.
        if self.is_restarting() {
            return;
        }
        if let Some(member) = self.member(session) {
            member.workers_done = true;
        }
        if self.phase == Phase::Running && self.members.iter().all(|member| member.workers_done) {
            self.end(Entry::WorkersDone);
        }
    }

    /// A node was not heard of for too long.
    pub(super) fn lost(&mut self, session: u64, why: &str) {
        self.gone(session, |address| Entry::Lost { node: address, why: why.to_owned() });
    }

    /// A node goes on purpose; before the end of the job that ends it.
    pub(super) fn leave(&mut self, session: u64) {
        let early = "left before the job was done: was `fleetrun` ended there?";
        self.gone(session, |address| Entry::Failed(Failure::of_node(&address, early)));
    }

    fn gone(&mut self, session: u64, entry: impl FnOnce(String) -> Entry) {
        let Some(member) = self.member(session) else { return };
        if member.left {
            return;
        }
        member.left = true;
        let address = member.card.address.clone();
        match self.phase {
            Phase::Waiting => {
                self.members.retain(|member| member.session != session);
                self.log.push(Entry::Left(address));
            }
            Phase::Running => self.end(entry(address)),
            Phase::Over => {}
        }
    }

    /// Whether all nodes but one know how the job ended.
    pub(super) fn only_left(&self, session: u64) -> bool {
        self.members.iter().all(|member| member.left || member.session == session)
    }

    fn end(&mut self, entry: Entry) {
        self.phase = Phase::Over;
        self.log.push(entry);
    }

    fn member(&mut self, session: u64) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.session == session)
    }
}

impl Member {
    fn address(&self) -> &str {
        &self.card.address
    }
}

/// Addresses by their numbers, so that 10.0.0.9 comes before 10.0.0.10; names after them.
fn order_of(address: &str) -> (bool, Option<std::net::IpAddr>, String) {
    let parsed = address.parse().ok();
    (parsed.is_none(), parsed, address.to_owned())
}

/// Those who asked for a rank have it; the others fill the places between in their order.
fn ranks(members: &[Member]) -> Vec<usize> {
    let taken: Vec<_> = members.iter().filter_map(|member| member.card.rank).collect();
    let mut free = (0..).filter(|rank| !taken.contains(rank));
    let rank = |member: &Member| member.card.rank.or_else(|| free.next()).unwrap_or_default();
    members.iter().map(rank).collect()
}

/// How two nodes contradict each other, if they do.
fn difference(host: &Card, other: &Card) -> Option<String> {
    let (ours, theirs) = unequal(&host.must_match, &other.must_match)?;
    Some(format!(
        "node {} was started {theirs}, but node {} {ours}: start the same command on all nodes",
        other.address, host.address
    ))
}

fn mild_difference(host: &Card, other: &Card) -> Option<String> {
    let (ours, theirs) = unequal(&host.should_match, &other.should_match)?;
    Some(format!("node {} was started {theirs}, but node {} {ours}", other.address, host.address))
}

/// The first flag that differs, as both sides have it.
fn unequal(ours: &[(String, String)], theirs: &[(String, String)]) -> Option<(String, String)> {
    let value = |list: &[(String, String)], flag: &str| {
        list.iter().find(|(name, _)| name == flag).map(|(_, value)| value.clone())
    };
    let words = |flag: &str, value: Option<String>| match value {
        Some(value) => format!("with `{flag}={value}`"),
        None => format!("without `{flag}`"),
    };
    ours.iter().chain(theirs).map(|(flag, _)| flag.as_str()).find_map(|flag| {
        let (a, b) = (value(ours, flag), value(theirs, flag));
        (a != b).then(|| (words(flag, a), words(flag, b)))
    })
}

/// How long a second node with the address of one that is here is kept waiting, as that one may
/// have been killed just now.
pub(super) fn twice(address: &str, waited: Duration) -> String {
    format!(
        "a node with the address {address} takes part already and was still alive {:.0} s later: is \
         `fleetrun` started there twice, or do two nodes have the same `POD_IP`?",
        waited.as_secs_f64()
    )
}

#[cfg(test)]
mod tests;
