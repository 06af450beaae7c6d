//! What a step asks of the other ranks of a collective job. The engine puts the questions and knows
//! no network; who answers them is given to the executor ([`crate::Executor::collective`]).
//!
//! The ops that ask are in `ops/collective/`. Every rank runs the same ones in the same order: that
//! is what the plan keeps, and all that an answer may rely on.

pub(crate) mod on_card;
mod rows_on_card;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::{Exchange, PageLocked};
use crate::tensor::Tensor;
use crate::{Error, Result};

/// How values of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// Answers what the ops of a collective program ask of the other ranks. A *ring* is a group of
/// ranks by Paddle's number, 0 being all of them. Calls come one at a time, in the order of the
/// program; in what is started, the order of the starts counts.
pub trait Collective: Send + Sync {
    /// The number of this process in a ring, from 0.
    ///
    /// # Errors
    /// When there is no such ring.
    fn rank(&self, ring: i32) -> Result<usize>;

    /// The processes of a ring.
    ///
    /// # Errors
    /// When there is no such ring.
    fn size(&self, ring: i32) -> Result<usize>;

    /// Every rank gets the reduction of all, with the same bits.
    ///
    /// # Errors
    /// When a rank is lost or asks for something else; so for all that follow.
    fn all_reduce(&self, ring: i32, data: &mut Tensor, how: Reduction) -> Result<()>;

    /// As [`Collective::all_reduce`], beside the step that goes on. `data` is asked for by who reduces, when its turn
    /// has come: it may have to wait for a card.
    ///
    /// # Errors
    /// When there is no such ring; what goes wrong later comes out of [`Ongoing::wait`].
    fn start_all_reduce(&self, ring: i32, data: Bring, how: Reduction) -> Result<Box<dyn Ongoing>>;

    /// Rank `root` gets the reduction of all; what the others have then is unspecified.
    fn reduce(&self, ring: i32, data: &mut Tensor, how: Reduction, root: usize) -> Result<()>;

    /// Every rank gets its part of the reduction of all.
    fn reduce_scatter(
        &self,
        ring: i32,
        data: &Tensor,
        out: &mut Tensor,
        how: Reduction,
    ) -> Result<()>;

    /// Every rank gets what rank `root` has.
    fn broadcast(&self, ring: i32, data: &mut Tensor, root: usize) -> Result<()>;

    /// Every rank gets the parts of all, in the order of ranks; the parts are equally large.
    fn all_gather(&self, ring: i32, part: &Tensor, out: &mut Tensor) -> Result<()>;

    /// Every rank gets the parts of all, which may be of any size.
    fn all_gather_varied(&self, ring: i32, part: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Every rank gets its part of what rank `root` has; only there `parts` counts.
    fn scatter(&self, ring: i32, parts: &Tensor, out: &mut Tensor, root: usize) -> Result<()>;

    /// Part `i` goes to rank `i`; the parts that come are in the order of ranks.
    fn all_to_all(&self, ring: i32, parts: &Tensor, out: &mut Tensor) -> Result<()>;

    /// Sends to rank `to`, which receives.
    fn send(&self, ring: i32, data: &Tensor, to: usize) -> Result<()>;

    /// Receives what rank `from` sends; both must know the size.
    fn receive(&self, ring: i32, data: &mut Tensor, from: usize) -> Result<()>;

    /// Waits until every rank is here.
    fn barrier(&self, ring: i32) -> Result<()>;

    /// Whether every rank has a card. What ranks without one reduce by themselves, those with one must reduce alike.
    fn all_on_cards(&self) -> bool {
        true
    }

    /// The way from card to card, where the ranks of a ring have agreed on one; otherwise what cards exchange goes
    /// through the host's memory.
    fn on_card(&self, ring: i32) -> Option<Arc<dyn Exchange>> {
        let _ = ring;
        None
    }
}

/// Brings what is to be reduced.
pub type Bring = Box<dyn FnOnce() -> Result<Carried> + Send>;

/// What is reduced beside a step.
#[derive(Debug)]
pub struct Carried {
    /// The values.
    pub data: Tensor,
    /// The memory that they lie in, where it is not the tensor's own.
    pub memory: Option<Arc<dyn PageLocked>>,
}

impl From<Tensor> for Carried {
    fn from(data: Tensor) -> Carried {
        Carried { data, memory: None }
    }
}

/// A reduction under way.
pub trait Ongoing: Send {
    /// Waits for its end; the memory is the one that was handed over.
    ///
    /// # Errors
    /// When a rank is lost or asks for something else.
    fn wait(self: Box<Self>) -> Result<Carried>;
}

/// A plan's way to the other ranks, with the reductions that its step has under way.
pub struct Link {
    collective: Arc<dyn Collective>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    flights: HashMap<i64, Flight>,
    last: i64,
    /// Buffers of earlier reductions: a step in steady state allocates none.
    spare: Vec<Tensor>,
    /// The most rows that each sparse gradient had on this rank.
    most_rows: HashMap<String, usize>,
    /// How many rows of each sparse gradient the cards of a ring bring.
    agreed_rows: HashMap<(i32, String), usize>,
}

struct Flight {
    /// The step that started it; one that failed leaves its flights behind.
    step: u64,
    state: FlightState,
}

enum FlightState {
    Going(Box<dyn Ongoing>),
    Arrived(Result<Carried>),
}

impl Link {
    pub(crate) fn new(collective: Arc<dyn Collective>) -> Link {
        Link { collective, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The other ranks, with nothing under way: who asks them in the middle of reductions would ask
    /// out of turn.
    pub(crate) fn settled(&self) -> &dyn Collective {
        let mut state = self.state();
        for flight in state.flights.values_mut() {
            flight.settle();
        }
        self.collective.as_ref()
    }

    /// The other ranks, for questions that nobody else hears.
    pub(crate) fn peers(&self) -> &dyn Collective {
        self.collective.as_ref()
    }

    /// That no rank was lost while cards exchanged: what they have is of no use then.
    pub(crate) fn check_cards(&self) -> Result<()> {
        match self.collective.on_card(0).and_then(|exchange| exchange.problem()) {
            Some(problem) => Err(Error::remote(problem)),
            None => Ok(()),
        }
    }

    /// A buffer from an earlier reduction, or a new one.
    pub(crate) fn buffer(&self) -> Option<Tensor> {
        self.state().spare.pop()
    }

    /// Gives a buffer back.
    pub(crate) fn give_back(&self, buffer: Tensor) {
        /// More buffers than this are never under way at once in a program of ours.
        const MAX_SPARE: usize = 64;
        let mut state = self.state();
        if state.spare.len() < MAX_SPARE {
            state.spare.push(buffer);
        }
    }

    /// The most rows that sparse gradient `name` has had on this rank, which are `rows` now. Batches of the other ranks
    /// are as large as the largest of this one.
    pub(crate) fn most_rows(&self, name: &str, rows: usize) -> usize {
        let mut state = self.state();
        let most = state.most_rows.entry(name.to_owned()).or_default();
        *most = rows.max(*most);
        *most
    }

    /// How many rows of sparse gradient `name` every rank of a ring brings, of which this one has `rows`: the most that
    /// a rank has. The ranks agree on it before the first step, and again where all of them have more.
    ///
    /// # Errors
    /// When a rank is lost, or does not have more.
    pub(crate) fn agree_rows(&self, ring: i32, name: &str, rows: usize) -> Result<usize> {
        let key = (ring, name.to_owned());
        if let Some(agreed) = self.state().agreed_rows.get(&key).filter(|agreed| rows <= **agreed) {
            return Ok(*agreed);
        }
        let all = self.settled().all_gather_varied(ring, &(rows as u64).to_le_bytes())?;
        let read = |part: &Vec<u8>| Some(u64::from_le_bytes(part.as_slice().try_into().ok()?));
        let most = all.iter().map(read).collect::<Option<Vec<u64>>>();
        let most = most.and_then(|all| all.into_iter().max()).ok_or_else(|| {
            Error::remote(format!(
                "`{name}` has {rows} rows, more than in the steps before, and other ranks do something else: give every \
                 rank batches of one size, the largest first"
            ))
        })?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.state().agreed_rows.insert(key, most);
        Ok(most)
    }

    /// Starts a reduction in step `step` and says by which number to wait for it.
    pub(crate) fn start(&self, ring: i32, data: Bring, how: Reduction, step: u64) -> Result<i64> {
        let ongoing = self.collective.start_all_reduce(ring, data, how)?;
        let mut state = self.state();
        state.flights.retain(|_, flight| flight.step == step);
        state.last += 1;
        let ticket = state.last;
        state.flights.insert(ticket, Flight { step, state: FlightState::Going(ongoing) });
        Ok(ticket)
    }

    /// Waits for a reduction that was started.
    pub(crate) fn wait(&self, ticket: i64) -> Result<Carried> {
        let flight = self.state().flights.remove(&ticket);
        match flight.map(|flight| flight.state) {
            Some(FlightState::Going(ongoing)) => ongoing.wait(),
            Some(FlightState::Arrived(outcome)) => outcome,
            None => Err(Error::kernel("waits for a reduction that was not started in this step")),
        }
    }
}

impl Flight {
    fn settle(&mut self) {
        let empty = FlightState::Arrived(Err(Error::kernel("a reduction was interrupted")));
        self.state = match std::mem::replace(&mut self.state, empty) {
            FlightState::Going(ongoing) => FlightState::Arrived(ongoing.wait()),
            arrived => arrived,
        };
    }
}

/// The error of an op that has nobody to ask.
pub(crate) fn alone(op: &str) -> Error {
    Error::kernel(format!(
        "`{op}` talks to the other ranks of a collective job, but this executor is not connected \
         to any: run the startup program first, in a process that `fleetrun` started, or give the \
         executor a group"
    ))
}
