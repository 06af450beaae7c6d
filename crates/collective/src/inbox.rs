//! What has arrived and is not taken yet, per group and sender, and how the group ended.
//! The threads that read channels put messages here; the rank's own threads wait for them. Both
//! sides are bounded: a sender far ahead waits, and so does nobody longer than the deadline.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bireme_comm::{Body, Ended, Message, Receiver, Settings};

use crate::call::{ANNOUNCEMENT, Call};
use crate::{Error, Result};

/// Bytes of one sender that wait here before its channel is no longer read.
const LIMIT: usize = 64 << 20;
/// Between two looks at the clock and at the user.
const TICK: Duration = Duration::from_millis(100);
/// Who waits this long tells the others in which call it is, so that a disagreement shows.
pub(crate) const ANNOUNCE: Duration = Duration::from_millis(500);
/// How long a channel that broke may take to be read to its end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Bits of a message's number that count the calls; the others name the group.
pub(crate) const SEQUENCE_BITS: u32 = 40;

/// Messages of one mesh, for all its groups.
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Something arrived or ended.
    arrived: Condvar,
    /// Something was taken.
    taken: Condvar,
    names: Vec<String>,
    /// There is a failure; asked before each call, without the lock.
    failed: AtomicBool,
}

struct State {
    queues: HashMap<(u32, usize), VecDeque<Message>>,
    /// The last call that a sender told it is in: its number and description.
    announced: HashMap<(u32, usize), (u64, Call)>,
    /// Bytes of each sender.
    waiting: Vec<usize>,
    ended: Vec<Option<Ended>>,
    failure: Option<Error>,
    closed: bool,
}

/// What a rank waits for.
pub(crate) struct Wanted<'a> {
    /// Group and lane.
    pub(crate) key: u32,
    /// Number of the call.
    pub(crate) sequence: u64,
    pub(crate) call: Call,
    /// Mesh ranks of the group.
    pub(crate) ranks: &'a [usize],
    /// Mesh rank of the sender.
    pub(crate) from: usize,
}

impl Inbox {
    /// An inbox for the messages of ranks with these names.
    pub(crate) fn new(names: Vec<String>) -> Inbox {
        let state = State {
            queues: HashMap::new(),
            announced: HashMap::new(),
            waiting: vec![0; names.len()],
            ended: vec![None; names.len()],
            failure: None,
            closed: false,
        };
        Inbox {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            taken: Condvar::new(),
            names,
            failed: AtomicBool::new(false),
        }
    }

    /// Waits for the next message of a sender in this call; `announce` is called when that takes
    /// long.
    pub(crate) fn receive(
        &self,
        wanted: &Wanted<'_>,
        settings: &Settings,
        announce: impl FnOnce(),
    ) -> Result<(u64, Body)> {
        let start = Instant::now();
        let mut announce = Some(announce);
        let mut state = self.lock();
        loop {
            if let Some(found) = self.take(&mut state, wanted)? {
                return Ok(found);
            }
            let waited = start.elapsed();
            if waited > settings.deadline {
                return Err(self.late(&state, wanted, settings.deadline));
            }
            if waited > ANNOUNCE
                && let Some(announce) = announce.take()
            {
                drop(state);
                announce();
                state = self.lock();
                continue;
            }
            let tick = TICK.min(settings.deadline - waited).max(Duration::from_millis(1));
            state = wait(&self.arrived, state, tick);
            if let Some(interrupt) = &settings.interrupt {
                // Asked without the lock: it may wait for another thread.
                drop(state);
                if interrupt.is_wanted() {
                    return Err(Error::Interrupted { call: wanted.call.to_string() });
                }
                state = self.lock();
            }
        }
    }

    /// Looks whether it makes sense to wait for a rank that has come to this call elsewhere than
    /// through messages.
    pub(crate) fn check(
        &self,
        wanted: &Wanted<'_>,
        waited: Duration,
        deadline: Duration,
    ) -> Result<()> {
        let state = self.lock();
        self.check_hope(&state, wanted)?;
        if waited > deadline {
            return Err(self.late(&state, wanted, deadline));
        }
        Ok(())
    }

    fn take(&self, state: &mut State, wanted: &Wanted<'_>) -> Result<Option<(u64, Body)>> {
        let front = state.queues.get(&(wanted.key, wanted.from)).and_then(VecDeque::front);
        let is_ours = front.is_some_and(|message| {
            let theirs = Call { method: message.method, note: message.note };
            sequence(message) == wanted.sequence && wanted.call.agrees(theirs)
        });
        if is_ours {
            let queue = state.queues.get_mut(&(wanted.key, wanted.from));
            let message = queue.and_then(VecDeque::pop_front).expect("the front was seen");
            state.waiting[wanted.from] -= message.body.len();
            self.taken.notify_all();
            return Ok(Some((message.note, message.body)));
        }
        self.check_hope(state, wanted).map(|()| None)
    }

    fn check_hope(&self, state: &State, wanted: &Wanted<'_>) -> Result<()> {
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        for rank in wanted.ranks {
            self.check_agreement(state, wanted, *rank)?;
        }
        match &state.ended[wanted.from] {
            None => Ok(()),
            Some(_) => Err(Error::Lost {
                peer: self.names[wanted.from].clone(),
                problem: "it left the group".into(),
                call: wanted.call.to_string(),
            }),
        }
    }

    /// An error if what this rank sent first, or announced, is not our call.
    fn check_agreement(&self, state: &State, wanted: &Wanted<'_>, rank: usize) -> Result<()> {
        let front = state.queues.get(&(wanted.key, rank)).and_then(VecDeque::front);
        let front =
            front.map(|front| (sequence(front), Call { method: front.method, note: front.note }));
        // What the awaited rank sends first must be for this call; others may be ahead or behind.
        let skipped = rank == wanted.from && front.is_some_and(|(at, _)| at != wanted.sequence);
        let announced = state.announced.get(&(wanted.key, rank)).copied();
        for (sequence, theirs) in front.into_iter().chain(announced) {
            let differs = sequence == wanted.sequence && !wanted.call.agrees(theirs);
            if differs || skipped {
                return Err(Error::Mismatch {
                    peer: self.names[rank].clone(),
                    ours: wanted.call.to_string(),
                    theirs: theirs.to_string(),
                });
            }
        }
        Ok(())
    }

    fn late(&self, state: &State, wanted: &Wanted<'_>, deadline: Duration) -> Error {
        let hint = match state.announced.get(&(wanted.key, wanted.from)) {
            Some((sequence, call)) if *sequence < wanted.sequence => {
                format!(
                    " (it was last seen in {call}, {} calls before)",
                    wanted.sequence - sequence
                )
            }
            _ => String::new(),
        };
        Error::Deadline {
            peer: self.names[wanted.from].clone(),
            call: wanted.call.to_string(),
            after_s: deadline.as_secs_f64(),
            hint,
        }
    }

    /// Ends everything with this reason; the first one counts and is returned.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let mut state = self.lock();
        let first = state.failure.get_or_insert(error).clone();
        self.failed.store(true, Ordering::Release);
        drop(state);
        self.arrived.notify_all();
        self.taken.notify_all();
        first
    }

    /// Why a rank takes nothing any more, when its channel is read to the end; none if that does
    /// not come.
    pub(crate) fn reason(&self, rank: usize) -> Option<Error> {
        let start = Instant::now();
        let mut state = self.lock();
        while state.ended[rank].is_none() && state.failure.is_none() && start.elapsed() < LAST_WORDS
        {
            state = wait(&self.arrived, state, TICK);
        }
        let left = state.ended[rank].as_ref().map(|_| Error::Lost {
            peer: self.names[rank].clone(),
            problem: "it left the group".into(),
            call: "a message to it".into(),
        });
        state.failure.clone().or(left)
    }

    /// Why the group is at its end, if it is.
    pub(crate) fn failure(&self) -> Option<Error> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.lock().failure.clone()
    }

    /// The first of these ranks whose channel has come to its end.
    pub(crate) fn departed(&self, ranks: &[usize]) -> Option<String> {
        let state = self.lock();
        let gone = ranks.iter().find(|rank| state.ended[**rank].is_some())?;
        Some(self.names[*gone].clone())
    }

    /// Messages go nowhere from now on.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.queues.clear();
        drop(state);
        self.taken.notify_all();
    }

    /// Forgets what is left of a group.
    pub(crate) fn forget(&self, key: u32) {
        let mut state = self.lock();
        state.announced.retain(|(group, _), _| *group != key);
        let state = &mut *state;
        state.queues.retain(|(group, from), queue| {
            if *group == key {
                state.waiting[*from] -= queue.iter().map(|left| left.body.len()).sum::<usize>();
            }
            *group != key
        });
        self.taken.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a rank tells all others when it gives up: who was the first to do so, and why.
pub(crate) fn last_words(peer: &str, problem: &str) -> String {
    format!("{peer}\n{problem}")
}

fn sequence(message: &Message) -> u64 {
    message.number & ((1 << SEQUENCE_BITS) - 1)
}

fn wait<'a>(
    changed: &Condvar,
    state: MutexGuard<'a, State>,
    time: Duration,
) -> MutexGuard<'a, State> {
    changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
}

impl Receiver for Inbox {
    fn message(&self, from: usize, message: Message) {
        let key = ((message.number >> SEQUENCE_BITS) as u32, from);
        let mut state = self.lock();
        if message.method == ANNOUNCEMENT {
            if let Ok(method) = message.body[..].try_into().map(u16::from_le_bytes) {
                let call = Call { method, note: message.note };
                state.announced.insert(key, (sequence(&message), call));
            }
        } else {
            while state.waiting[from] > LIMIT && !state.closed && state.failure.is_none() {
                state = wait(&self.taken, state, TICK);
            }
            if state.closed || state.failure.is_some() {
                return;
            }
            state.waiting[from] += message.body.len();
            state.queues.entry(key).or_default().push_back(message);
        }
        drop(state);
        self.arrived.notify_all();
    }

    fn ended(&self, from: usize, why: Ended) {
        let mut state = self.lock();
        let peer = self.names[from].clone();
        let failure = match &why {
            Ended::Left => None,
            Ended::Aborted(words) => Some(match words.split_once('\n') {
                Some((peer, problem)) => {
                    Error::Aborted { peer: peer.into(), problem: problem.into() }
                }
                None => Error::Aborted { peer, problem: words.clone() },
            }),
            Ended::Lost(problem) => {
                Some(Error::Lost { peer, problem: problem.clone(), call: "its group".into() })
            }
        };
        if let Some(failure) = failure {
            state.failure.get_or_insert(failure);
            self.failed.store(true, Ordering::Release);
        }
        state.ended[from] = Some(why);
        drop(state);
        self.arrived.notify_all();
        self.taken.notify_all();
    }
}
