//! The pushes of a step that ends with a barrier: started as soon as they are worth a message,
//! waited for at the barrier.

use std::collections::VecDeque;

use bireme_comm::{Lane, Pending};
use bireme_engine::Value;
use bireme_engine::remote::{Sending, TableRef};

use super::link::{Links, wait_done};
use super::merge::RowSums;
use super::outbox::servers;
use super::parcel::{Parcel, push_values};
use super::route::Route;
use crate::Result;
use crate::message::{Array, Request};

/// Values for one server are gathered up to this many bytes: a message costs about as much as
/// copying them.
const WORTH: usize = 128 << 10;

/// Requests of one step that may be on their way.
const MOST: usize = 256;

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

    fn bound(&mut self) -> Result<()> {
        while self.pending.len() > MOST {
            wait_done(self.pending.pop_front())?;
        }
        Ok(())
    }

    /// Sends what is left and waits until the servers have all of it.
    pub(crate) fn finish(&mut self, links: &Links) -> Result<()> {
        for server in 0..links.len() {
            self.start(links, server, None)?;
        }
        self.small.clear();
        wait_done(self.pending.drain(..))
    }
}

/// The barrier of all trainers: the update of this step has been applied.
pub(crate) fn barrier(links: &Links, servers: &[usize]) -> Result<()> {
    let request = Request::Barrier { trainer: links.trainer };
    let ask = |server: &usize| super::link::Ask {
        server: *server,
        lane: Lane::Send,
        what: "the barrier that ends a step".to_owned(),
        request: request.clone(),
    };
    let bodies = links.ask_each(&servers.iter().map(ask).collect::<Vec<_>>())?;
    bodies.iter().try_for_each(|body| super::link::check_done(body))
}
