//! The nodes of a job find each other before it starts and stay in touch until it ends.
//!
//! One node hosts a [`board`]: a log of what happened to the job, to which every node adds and which
//! every node follows, over `comm`. The log decides: its first failure is everybody's failure, and
//! workers are done when it says so. A node that falls silent is lost, for all others at once.
//!
//! The layers: [`message`] (what is said) · [`board`] (what follows from it; no clock, no network) ·
//! `host` (the board behind a server) · `member` (one node's view: [`join`], then [`Peers`]).

mod board;
mod host;
mod member;
mod message;
mod rehearsal;
mod secret;
mod waiting;

use std::time::Duration;

pub use member::{Config, Expected, Membership, Place, join};
pub use message::{Card, Failure, JobSecret, Seat};
#[doc(hidden)]
pub use rehearsal::fuzz_board;
pub use secret::settings;

/// The port of the node that hosts the meeting of nodes, where nothing else is said (`--http_port`,
/// `--gloo_port`).
pub const DEFAULT_PORT: u16 = 6767;

/// What reaches this node from the others.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A process failed, here or elsewhere, and was the first to: the job ends.
    Failed(Failure),
    /// A node is gone: the job ends.
    NodeLost {
        /// Its address.
        node: String,
        /// How that was noticed, and what to look at.
        why: String,
    },
    /// All workers of all nodes are done: servers may end, and so may this node.
    AllWorkersDone,
    /// A process failed, but the job begins again on all nodes: end what runs here, then say
    /// [`Peers::local_stopped`].
    Restart {
        /// How often the job has been begun again, this time included.
        round: u32,
        /// What failed.
        failure: Failure,
    },
    /// The processes of all nodes have ended: start this round's.
    Begin {
        /// The round of the [`Event::Restart`] before.
        round: u32,
        /// The last checkpoint that the job has saved, on whichever node.
        checkpoint: Option<String>,
    },
}

/// The other nodes of a job, as the supervisor of this node's processes sees them.
pub trait Peers: Send + Sync {
    /// A process of this node failed. What follows comes as an event: usually this very failure,
    /// but another one if that was first, or a restart.
    fn local_failed(&self, failure: &Failure);

    /// All workers of this node are done; also to be said by a node that has none.
    fn local_workers_done(&self);

    /// No process of this node runs any more, as a restart asked for; `checkpoint` is the last one
    /// that they have saved, if they did.
    fn local_stopped(&self, round: u32, checkpoint: Option<String>);

    /// The next event, waiting for at most `patience`.
    fn next_event(&self, patience: Duration) -> Option<Event>;

    /// Takes leave at the end of the job. The node that hosts the board waits until the others
    /// know how the job ended, for a bounded time.
    fn leave(&self);
}

/// The peers of a job on one node: there are none, so that whatever happens here decides at once.
#[derive(Debug, Default)]
pub struct Alone {
    events: std::sync::Mutex<std::collections::VecDeque<Event>>,
    arrived: std::sync::Condvar,
}

impl Alone {
    pub(crate) fn push(&self, event: Event) {
        self.events.lock().unwrap_or_else(|poison| poison.into_inner()).push_back(event);
        self.arrived.notify_all();
    }
}

impl Peers for Alone {
    fn local_failed(&self, failure: &Failure) {
        self.push(Event::Failed(failure.clone()));
    }

    fn local_workers_done(&self) {
        self.push(Event::AllWorkersDone);
    }

    fn local_stopped(&self, round: u32, checkpoint: Option<String>) {
        self.push(Event::Begin { round, checkpoint });
    }

    fn next_event(&self, patience: Duration) -> Option<Event> {
        let events = self.events.lock().unwrap_or_else(|poison| poison.into_inner());
        let waited = self.arrived.wait_timeout_while(events, patience, |events| events.is_empty());
        waited.unwrap_or_else(|poison| poison.into_inner()).0.pop_front()
    }

    fn leave(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_what_happens_here_decides() {
        let peers = Alone::default();
        assert_eq!(peers.next_event(Duration::ZERO), None);
        let failure = Failure::of_node("10.0.0.1", "it broke");
        peers.local_failed(&failure);
        peers.local_workers_done();
        assert_eq!(peers.next_event(Duration::ZERO), Some(Event::Failed(failure)));
        assert_eq!(peers.next_event(Duration::ZERO), Some(Event::AllWorkersDone));
        peers.leave();
    }
}
