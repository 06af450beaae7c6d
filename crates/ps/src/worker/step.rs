//! The pushes of a step that waits for them at its end: started as soon as they are worth a message,
//! so that servers work while the rest of the step is computed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use bireme_comm::{Lane, Pending};
use bireme_engine::Value;
use bireme_engine::remote::{Sending, TableRef};

use super::link::{Links, unexpected, wait_done};
use super::merge::RowSums;
use super::outbox::servers;
use super::parcel::{Parcel, push_values};
use super::route::Route;
use crate::Result;
use crate::message::{Answer, Array, Request};

/// Values for one server are gathered up to this many bytes: a message costs about as much as
/// copying them.
const WORTH: usize = 128 << 10;

/// Requests of one step that may be on their way.
const MOST: usize = 256;

/// The pushes of the running steps. Each thread gathers its own, so that ops that run beside each
/// other do not wait for one another; whoever ends a step waits for all.
#[derive(Default)]
pub(crate) struct Steps {
    state: Mutex<State>,
    /// Held while pushes are waited for: they may be those of another thread, which waits too.
    ending: Mutex<()>,
}

#[derive(Default)]
struct State {
    running: HashMap<ThreadId, Step>,
    /// Steps that are over, whose memory is used again: threads come and go.
    over: Vec<Step>,
}

impl Steps {
    /// Goes on with what this thread pushes.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Step) -> Result<T>) -> Result<T> {
        let thread = std::thread::current().id();
        let mut state = self.lock();
        let known = state.running.remove(&thread).or_else(|| state.over.pop());
        drop(state);
        let mut step = known.unwrap_or_default();
        let done = work(&mut step);
        let mut state = self.lock();
        match step.is_over() {
            true => state.over.push(step),
            false => drop(state.running.insert(thread, step)),
        }
        done
    }

    /// Sends what is left, waits until the servers have all of it, and calls `done` if there was
    /// anything, before anybody else goes on.
    pub(crate) fn finish(&self, links: &Links, done: impl FnOnce()) -> Result<()> {
        let _ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let running = std::mem::take(&mut self.lock().running);
        if running.is_empty() {
            return Ok(());
        }
        // All are on their way before the first is waited for.
        let mut steps: Vec<Step> = running.into_values().collect();
        steps.iter_mut().try_for_each(|step| step.start_all(links))?;
        steps.iter_mut().try_for_each(|step| wait_done(step.pending.drain(..)))?;
        self.lock().over.extend(steps);
        done();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the running step has pushed.
#[derive(Default)]
pub(crate) struct Step {
    /// Small values that wait for more.
    small: Parcel,
    /// Gradients of a keyed table on their way out.
    table: Parcel,
    sums: RowSums,
    pending: VecDeque<Pending>,
}

impl Step {
    /// Pushes values; small ones wait for more, or for the barrier.
    pub(crate) fn send(
        &mut self,
        links: &Links,
        server: usize,
        how: &Sending,
        at: usize,
        value: &Value,
    ) -> Result<()> {
        let name = &how.pieces[at].name;
        match value {
            // A large dense value is sent from where it lies, and takes the small ones along.
            Value::Tensor(tensor) if tensor.as_bytes().len() >= WORTH => {
                let large = (name.as_str(), Array::of_tensor(tensor));
                self.start(links, server, Some(large))
            }
            value => {
                if self.small.holds(server, name) {
                    // Of a step before this one, after which nothing was received.
                    self.start(links, server, None)?;
                }
                self.small.put(server, name, how.merge_add, value, &mut self.sums)?;
                match self.small.bytes(server) >= WORTH {
                    true => self.start(links, server, None),
                    false => Ok(()),
                }
            }
        }
    }

    /// Pushes gradients of a keyed table.
    pub(crate) fn push_rows(
        &mut self,
        links: &Links,
        table: &TableRef,
        route: &Route,
        grads: &[&[f32]],
        counts: Option<&[[f32; 2]]>,
    ) -> Result<()> {
        let servers = servers(links, table)?;
        self.table.clear();
        self.table.put_rows(&table.name, table.width, servers, route, grads, counts);
        for ask in self.table.asks(links) {
            self.pending.push_back(links.start(&ask)?);
        }
        self.bound()
    }

    /// Starts what waits for a server, and one more value.
    fn start<'a>(
        &'a mut self,
        links: &Links,
        server: usize,
        another: Option<(&'a str, Array<'a>)>,
    ) -> Result<()> {
        let mut asks = Vec::new();
        push_values(links, server, self.small.values(server).chain(another), &mut asks);
        let started = asks.iter().map(|ask| links.start(ask)).collect::<Result<Vec<_>>>()?;
        drop(asks);
        self.pending.extend(started);
        self.small.clear_values(server);
        self.bound()
    }

    /// Whether nothing of it is left to be sent or waited for.
    pub(crate) fn is_over(&self) -> bool {
        self.pending.is_empty() && self.small.is_empty()
    }

    fn bound(&mut self) -> Result<()> {
        while self.pending.len() > MOST {
            wait_done(self.pending.pop_front())?;
        }
        Ok(())
    }

    /// Sends what is left.
    fn start_all(&mut self, links: &Links) -> Result<()> {
        for server in 0..links.len() {
            self.start(links, server, None)?;
        }
        self.small.clear();
        Ok(())
    }
}

/// The barrier of all trainers: the update of this step has been applied. How long the slowest
/// server took for that.
pub(crate) fn barrier(links: &Links, servers: &[usize]) -> Result<Duration> {
    let request = Request::Barrier { trainer: links.trainer };
    let ask = |server: &usize| super::link::Ask {
        server: *server,
        lane: Lane::Send,
        what: "the barrier that ends a step".to_owned(),
        request: request.clone(),
    };
    let mut longest = Duration::ZERO;
    for body in links.ask_each(&servers.iter().map(ask).collect::<Vec<_>>())? {
        match Answer::decode(&body)? {
            Answer::Updated { nanos } => longest = longest.max(Duration::from_nanos(nanos)),
            Answer::Done => {}
            other => return Err(unexpected("a barrier", &other)),
        }
    }
    Ok(longest)
}
