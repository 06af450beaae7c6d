//! Parameters on their way to the trainer: one request to each server for all that a step receives,
//! from which the `recv` ops then take their pieces.
//!
//! Which pieces those are is learned from the `recv` ops themselves: what was received in the last
//! round will be received in the next one. Where servers apply gradients as they come, a pull may find
//! nothing new: values are kept with their versions, and a server that has no other says only so.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use bireme_comm::{Body, Lane};
use bireme_engine::remote::Piece;
use bireme_engine::tensor::{Dims, Tensor};
use bireme_ir::DType;

use super::link::{Ask, Links, TICK, unexpected};
use super::outbox::{Outbox, late};
use crate::message::{Answer, Array, Request};
use crate::{Error, Result};

/// Parameters that are here, and those that are known.
pub(crate) struct Inbox {
    links: Arc<Links>,
    /// Async: whether steps get values ahead of the updates that others will make.
    look_ahead: bool,
    /// Whether values are kept for pulls that find nothing new. In sync modes every step changes all.
    keeps: bool,
    state: Mutex<State>,
    /// Told when newer values are here.
    fresh: Condvar,
}

#[derive(Default)]
struct State {
    /// Every piece ever received.
    known: Vec<Known>,
    index: HashMap<Piece, usize>,
    /// With queues: the newest values.
    front: Option<Arc<Fetched>>,
    /// With queues: what each training thread did.
    threads: HashMap<ThreadId, Thread>,
    /// Without queues: what is received between two pushes.
    round: Round,
}

/// What is received between two pushes. Ops of one step may run in several threads, and so may steps:
/// whoever pushed makes it start anew.
#[derive(Default)]
struct Round {
    /// How many there were before: a fetch that began in an earlier one is old.
    number: u64,
    /// The servers' values, until all of them are taken.
    front: Option<Arc<Fetched>>,
    /// Pieces that were taken from `front`.
    taken: Vec<usize>,
    /// Pieces received in this round.
    received: Vec<usize>,
    /// Pieces that a round will receive: those of the last one.
    expected: Vec<usize>,
    /// Whether a push began it and not everything was received since: its values are for a step.
    begins_step: bool,
}

#[derive(Clone)]
struct Known {
    server: usize,
    name: Arc<str>,
    /// The value that came last, where it is kept.
    last: Arc<Received>,
}

/// A value as it came.
#[derive(Default)]
struct Received {
    /// The server's number for it; 0 for one that has none.
    version: u64,
    parts: Vec<Part>,
}

/// Counts of one training thread.
#[derive(Default)]
struct Thread {
    /// Its sends.
    sends: u64,
    /// Its sends at the time when it last received each piece.
    received: HashMap<usize, u64>,
}

/// How old values may be.
#[derive(Clone, Copy)]
pub(crate) struct Lag {
    /// How many of this trainer's steps they may lack.
    pub(crate) steps: u64,
    /// Whether a thread of its own pulls newer ones.
    pub(crate) is_pulled_for: bool,
}

/// Values of pieces, as they came.
struct Fetched {
    /// How many of this trainer's steps they contain at least.
    mark: u64,
    pieces: HashMap<usize, Arc<Received>>,
}

/// Consecutive elements of a piece.
struct Part {
    body: Arc<Body>,
    /// Where its bytes are in the body.
    bytes: std::ops::Range<usize>,
    dtype: DType,
    /// The dimensions of the whole piece.
    dims: Dims,
    /// The first element.
    start: usize,
}

impl Inbox {
    /// Knows no pieces yet.
    pub(crate) fn new(links: Arc<Links>, look_ahead: bool, keeps: bool) -> Inbox {
        Inbox { links, look_ahead, keeps, state: Mutex::default(), fresh: Condvar::new() }
    }

    /// Without queues: the servers' values after the last push, all that a round receives at once.
    pub(crate) fn recv(&self, pieces: &[Piece], outs: &mut Outs<'_, '_>) -> Result<()> {
        let mut state = self.lock();
        let wanted = state.register(&self.links, pieces)?;
        let round = &mut state.round;
        round.received.extend_from_slice(&wanted);
        if let Some(front) = round.take(&wanted) {
            drop(state);
            return front.copy(pieces, &wanted, outs);
        }
        // Otherwise it was received before in this round, or never asked for until now.
        let (is_new, number) = (round.front.is_none(), round.number);
        let ahead = self.look_ahead && round.begins_step;
        let mut all = wanted.clone();
        if is_new {
            all.extend(round.expected.iter().filter(|at| !wanted.contains(at)));
        }
        let list = state.list(&all);
        drop(state);
        let fetched = Arc::new(self.fetch(&list, 0, ahead)?);
        let mut state = self.lock();
        state.keep(&fetched, self.keeps);
        let round = &mut state.round;
        if is_new && round.number == number {
            round.front = Some(Arc::clone(&fetched));
            round.taken.clear();
            round.take(&wanted);
        }
        drop(state);
        fetched.copy(pieces, &wanted, outs)
    }

    /// The servers' values now, of pieces that may be no step's.
    pub(crate) fn values(&self, pieces: &[Piece]) -> Result<Vec<Tensor>> {
        let known = |(at, piece): (usize, &Piece)| {
            let server = self.links.server(&piece.endpoint)?;
            Ok((at, Known { server, name: piece.name.as_str().into(), last: Arc::default() }))
        };
        let list = pieces.iter().enumerate().map(known).collect::<Result<Vec<_>>>()?;
        let wanted: Vec<usize> = (0..pieces.len()).collect();
        let mut values = vec![Tensor::empty(DType::F32); pieces.len()];
        let mut outs: Vec<&mut Tensor> = values.iter_mut().collect();
        let versions = &mut vec![0; pieces.len()];
        let fetched = self.fetch(&list, 0, false)?;
        fetched.copy(pieces, &wanted, &mut Outs { values: &mut outs, versions })?;
        Ok(values)
    }

    /// Without queues: what was received before is old now, because something was pushed, or because
    /// the step is over.
    pub(crate) fn next_round(&self, begins_step: bool) {
        let round = &mut self.lock().round;
        round.number += 1;
        round.front = None;
        round.begins_step |= begins_step;
        if !round.received.is_empty() {
            round.expected = std::mem::take(&mut round.received);
            round.expected.sort_unstable();
            round.expected.dedup();
        }
    }

    /// All modes: whatever is here no longer counts.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.front = None;
        state.threads.clear();
        state.round = Round { number: state.round.number + 1, ..Round::default() };
    }

    /// With queues: this thread has sent something, so that what it receives next may be what is here.
    pub(crate) fn note_send(&self) {
        self.lock().threads.entry(std::thread::current().id()).or_default().sends += 1;
    }

    /// With queues: the newest values that are here. A thread that sent nothing since it last received a
    /// piece (a startup program, the end of training) gets the servers' current ones, with all its
    /// own gradients in them. Values that lack more of this trainer's steps than `lag` allows are
    /// waited for.
    pub(crate) fn recv_newest(
        &self,
        outbox: &Outbox,
        lag: Lag,
        pieces: &[Piece],
        outs: &mut Outs<'_, '_>,
    ) -> Result<()> {
        let mut state = self.lock();
        let wanted = state.register(&self.links, pieces)?;
        let current = state.wants_current(&wanted);
        let has_all = |front: &Arc<Fetched>| wanted.iter().all(|at| front.pieces.contains_key(at));
        if !current && state.front.as_ref().is_some_and(has_all) {
            drop(state);
            let front = self.wait_lag(outbox, lag, has_all)?;
            return front.copy(pieces, &wanted, outs);
        }
        let all: Vec<usize> =
            if current { wanted.clone() } else { (0..state.known.len()).collect() };
        let list = state.list(&all);
        drop(state);
        outbox.wait_outstanding(if current { 0 } else { lag.steps })?;
        let fetched = Arc::new(self.fetch(&list, outbox.sent(), !current && self.look_ahead)?);
        if !current {
            self.offer(Arc::clone(&fetched));
        }
        fetched.copy(pieces, &wanted, outs)
    }

    /// Waits for values that lack at most `lag` of the steps queued so far.
    fn wait_lag(
        &self,
        outbox: &Outbox,
        lag: Lag,
        has_all: impl Fn(&Arc<Fetched>) -> bool,
    ) -> Result<Arc<Fetched>> {
        let least = outbox.queued().saturating_sub(lag.steps);
        let recent = |state: &State| {
            state.front.clone().filter(|front| front.mark >= least && has_all(front))
        };
        if let Some(front) = recent(&self.lock()) {
            self.links.check()?;
            return Ok(front);
        }
        if !lag.is_pulled_for {
            outbox.wait_outstanding(lag.steps)?;
            self.refresh(outbox.sent())?;
        }
        outbox.hurry(true);
        let end = Instant::now() + self.links.deadline;
        let mut state = self.lock();
        let waited = loop {
            if let Err(error) = self.links.check() {
                break Err(error);
            }
            if let Some(front) = recent(&state) {
                break Ok(front);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Err(late("parameters that contain its own steps", self.links.deadline));
            }
            let woken = self.fresh.wait_timeout(state, left.min(TICK));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            if let Err(error) = self.links.check_interrupt() {
                break Err(error);
            }
        };
        drop(state);
        outbox.hurry(false);
        waited
    }

    /// With queues: pulls all known pieces after `mark` steps and puts them in front.
    pub(crate) fn refresh(&self, mark: u64) -> Result<()> {
        let list = {
            let state = self.lock();
            let all: Vec<usize> = (0..state.known.len()).collect();
            state.list(&all)
        };
        if list.is_empty() {
            return Ok(());
        }
        let fetched = self.fetch(&list, mark, self.look_ahead)?;
        self.offer(Arc::new(fetched));
        Ok(())
    }

    /// Wakes everybody up; for whoever sees an error.
    pub(crate) fn wake(&self) {
        let _state = self.lock();
        self.fresh.notify_all();
    }

    /// How many steps the newest values contain.
    pub(crate) fn mark(&self) -> u64 {
        self.lock().front.as_ref().map_or(0, |front| front.mark)
    }

    fn offer(&self, fetched: Arc<Fetched>) {
        let mut state = self.lock();
        state.keep(&fetched, self.keeps);
        let older = |front: &Arc<Fetched>| front.mark <= fetched.mark;
        if state.front.as_ref().is_none_or(older) {
            state.front = Some(fetched);
        }
        self.fresh.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all servers at once for these pieces, `ahead` of the updates that others will make.
    fn fetch(&self, list: &[(usize, Known)], mark: u64, ahead: bool) -> Result<Fetched> {
        let mut fetched = Fetched { mark, pieces: HashMap::new() };
        let of = |server| list.iter().filter(move |(_, known)| known.server == server);
        let mut wanted: Vec<Vec<&(usize, Known)>> =
            (0..self.links.len()).map(|server| of(server).collect()).collect();
        wanted.retain(|mine| !mine.is_empty());
        let asks: Vec<Ask<'_>> = wanted.iter().map(|mine| self.get(mine, 0, ahead)).collect();
        let bodies = self.links.ask_each(&asks)?;
        drop(asks);
        for (body, mut mine) in bodies.into_iter().zip(wanted) {
            let mut coming = Received::default();
            let (mut whole, mut rest) = fetched.take(body, &mine, &mut coming)?;
            // What did not fit into one answer.
            while whole < mine.len() {
                mine.drain(..whole);
                let body = self.links.ask(&self.get(&mine, rest, ahead))?;
                (whole, rest) = fetched.take(body, &mine, &mut coming)?;
            }
        }
        Ok(fetched)
    }

    /// The request for pieces of one server.
    fn get<'a>(&self, wanted: &[&'a (usize, Known)], start: u64, ahead: bool) -> Ask<'a> {
        let names: Vec<&str> = wanted.iter().map(|(_, known)| &*known.name).collect();
        let what = match names.as_slice() {
            [name] => format!("pull of `{name}`"),
            more => format!("pull of {} parameters", more.len()),
        };
        let mut versions: Vec<u64> = wanted.iter().map(|(_, known)| known.last.version).collect();
        if versions.iter().all(|version| *version == 0) {
            versions.clear();
        }
        let request = Request::Get { trainer: self.links.trainer, names, start, versions, ahead };
        Ask { server: wanted[0].1.server, lane: Lane::Get, what, request }
    }
}

impl State {
    /// The numbers of these pieces.
    fn register(&mut self, links: &Links, pieces: &[Piece]) -> Result<Vec<usize>> {
        let mut numbers = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let at = match self.index.get(piece) {
                Some(at) => *at,
                None => {
                    let server = links.server(&piece.endpoint)?;
                    let (name, last) = (piece.name.as_str().into(), Arc::default());
                    self.known.push(Known { server, name, last });
                    self.index.insert(piece.clone(), self.known.len() - 1);
                    self.known.len() - 1
                }
            };
            numbers.push(at);
        }
        Ok(numbers)
    }

    fn list(&self, numbers: &[usize]) -> Vec<(usize, Known)> {
        numbers.iter().map(|at| (*at, self.known[*at].clone())).collect()
    }

    /// Keeps values for pulls that find no others.
    fn keep(&mut self, fetched: &Fetched, keeps: bool) {
        for (at, value) in fetched.pieces.iter().filter(|_| keeps) {
            let known = &mut self.known[*at];
            // Fetches overtake each other; versions count up.
            if value.version > known.last.version {
                known.last = Arc::clone(value);
            }
        }
    }

    /// Whether this thread sent nothing since it last received one of these.
    fn wants_current(&mut self, wanted: &[usize]) -> bool {
        let thread = self.threads.entry(std::thread::current().id()).or_default();
        let mut current = false;
        for at in wanted {
            let last = thread.received.insert(*at, thread.sends);
            current |= thread.sends == last.unwrap_or(0);
        }
        current
    }
}

impl Round {
    /// The values that are here, when all of `wanted` are among them and were not taken yet. Once
    /// all are taken, the round is over.
    fn take(&mut self, wanted: &[usize]) -> Option<Arc<Fetched>> {
        let front = self.front.as_ref()?;
        let is_here = |at: &usize| front.pieces.contains_key(at) && !self.taken.contains(at);
        if !wanted.iter().all(is_here) {
            return None;
        }
        self.taken.extend_from_slice(wanted);
        match front.pieces.keys().all(|at| self.taken.contains(at)) {
            true => {
                self.begins_step = false;
                self.front.take()
            }
            false => self.front.clone(),
        }
    }
}

/// Where values go: variables, and which version of its piece each of them holds ([`Remote::recv`]).
///
/// [`Remote::recv`]: bireme_engine::remote::Remote::recv
pub(crate) struct Outs<'a, 'b> {
    pub(crate) values: &'a mut [&'b mut Tensor],
    pub(crate) versions: &'a mut [u64],
}

impl Fetched {
    /// Takes an answer over; how many of the wanted pieces are now whole, and the first missing
    /// element of the next, whose elements so far are in `coming`.
    fn take(
        &mut self,
        body: Body,
        wanted: &[&(usize, Known)],
        coming: &mut Received,
    ) -> Result<(usize, u64)> {
        let body = Arc::new(body);
        let base = body.as_ptr() as usize;
        let Answer::Values { values, versions } = Answer::decode(&body)? else {
            return Err(unexpected("a pull of parameters", &Answer::decode(&body)?));
        };
        let (mut whole, mut rest) = (0, 0);
        for (number, ((name, array), (at, known))) in values.iter().zip(wanted).enumerate() {
            let Array::Dense { dtype, dims, start, bytes } = array else {
                return Err(Error::Request(format!("`{name}` came as rows, not as a tensor")));
            };
            if **name != *known.name {
                return Err(Error::Request(format!(
                    "a server sent `{name}` where `{}` was asked for",
                    known.name
                )));
            }
            let version = versions.get(number).copied().unwrap_or(0);
            if array.is_nothing_new() && coming.parts.is_empty() {
                if version == 0 || version != known.last.version {
                    return Err(Error::Request(format!(
                        "a server has nothing new of `{name}`, of which nothing is here"
                    )));
                }
                self.pieces.insert(*at, Arc::clone(&known.last));
                whole += 1;
                continue;
            }
            if coming.parts.is_empty() {
                // Of several parts, the first: what changed in between is asked for anew by that.
                coming.version = version;
            }
            let from = bytes.as_ptr() as usize - base;
            coming.parts.push(Part {
                body: Arc::clone(&body),
                bytes: from..from + bytes.len(),
                dtype: *dtype,
                dims: *dims,
                start: *start as usize,
            });
            if array.end() < dims.numel() as u64 {
                rest = array.end();
                break;
            }
            self.pieces.insert(*at, Arc::new(std::mem::take(coming)));
            whole += 1;
        }
        if whole == 0 && values.first().is_none_or(|(_, array)| array.bytes().is_empty()) {
            let missing = wanted.first().map_or("", |(_, known)| &known.name);
            return Err(Error::Request(format!("a server sent nothing of `{missing}`")));
        }
        Ok((whole, rest))
    }

    /// Copies pieces to variables that hold something else.
    fn copy(&self, pieces: &[Piece], wanted: &[usize], outs: &mut Outs<'_, '_>) -> Result<()> {
        let outs = outs.values.iter_mut().zip(outs.versions.iter_mut());
        for ((at, piece), (out, version)) in wanted.iter().zip(pieces).zip(outs) {
            let Some((received, first)) =
                self.pieces.get(at).and_then(|received| Some((received, received.parts.first()?)))
            else {
                return Err(Error::Request(format!("`{}` was not received", piece.name)));
            };
            if received.version > 0 && received.version == *version {
                continue;
            }
            // Unless all of it is copied, nobody knows what is there.
            *version = 0;
            out.resize(first.dtype, first.dims);
            out.set_lod(&[]);
            for part in &received.parts {
                out.store_bytes(part.start, &part.body[part.bytes.clone()])?;
            }
            *version = received.version;
        }
        Ok(())
    }
}
