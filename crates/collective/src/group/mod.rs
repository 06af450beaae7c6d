//! The ranks that call together: how a group is made, and the turn that each call takes.

mod background;
mod calls;
mod forming;
mod turn;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bireme_comm::{Mesh, Role, Settings};

pub use background::Pending;
pub(crate) use turn::Turn;

use crate::call::Call;
use crate::inbox::{self, Inbox};
use crate::shared::Sharing;
use crate::{Error, Result};

/// Between two questions whether the user wants to stop.
const TICK: Duration = Duration::from_millis(100);

/// Who this process is in the group, and how the group talks.
#[derive(Debug, Clone)]
pub struct Config {
    /// Number of this process among the endpoints.
    pub rank: usize,
    /// Where each rank listens, in the order of the ranks; the own one among them.
    pub endpoints: Vec<String>,
    /// Tells this group from others at the same endpoints.
    pub name: String,
    /// Secret, TLS, deadlines and the user's interrupt.
    pub settings: Settings,
    /// What the processes are in the job, for messages. Trainers.
    pub role: Role,
    /// Whether ranks on one host meet in shared memory; otherwise they use sockets. True.
    pub shared_memory: bool,
    /// What tells hosts apart: ranks with another one never share memory. Found by itself.
    pub host: Option<String>,
}

impl Config {
    /// A group of trainers with default settings.
    pub fn new(rank: usize, endpoints: Vec<String>) -> Config {
        Config {
            rank,
            endpoints,
            name: "default".into(),
            settings: Settings::default(),
            role: Role::Trainer,
            shared_memory: true,
            host: None,
        }
    }
}

/// Ranks that call together. Clones are the same group; the last one that is dropped leaves it.
#[derive(Clone)]
pub struct Group {
    shared: Arc<Shared>,
    /// Work in the background does not wait for work in the background.
    background: bool,
}

/// What the clones of a group share.
pub(crate) struct Shared {
    core: Arc<Core>,
    /// Number of the group, the same on all its ranks.
    id: u32,
    rank: usize,
    /// The mesh rank of each rank.
    ranks: Vec<usize>,
    turns: Mutex<Turns>,
    changed: Condvar,
    subgroups: AtomicU32,
    /// Which memory the ranks share.
    sharing: Sharing,
    queue: Mutex<Option<background::Queue>>,
    /// Messages sent to and received from each rank, point to point.
    sent: Vec<Mutex<u64>>,
    received: Vec<Mutex<u64>>,
}

/// Whose turn it is.
#[derive(Default)]
struct Turns {
    /// A thread is in a call.
    busy: bool,
    /// Threads that wait for their turn.
    waiting: usize,
    /// Work in the background that is not done.
    queued: usize,
    /// Calls made so far.
    sequence: u64,
}

/// What a group and all its subgroups share.
pub(crate) struct Core {
    /// None where there is one rank.
    mesh: Option<Mesh>,
    inbox: Arc<Inbox>,
    settings: Settings,
    /// Role, rank and endpoint of this process.
    name: String,
    /// What ranks that can share memory have in common; none where they shall not.
    host: Option<String>,
    /// The groups of this mesh, so that no two have the same number.
    groups: Mutex<HashSet<u32>>,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Core {
    fn leave(&self) {
        // A rank that has heard of a failure does not say goodbye as if all were well.
        if let Some(failure) = self.inbox.failure() {
            self.fail(failure);
        }
        // First, as a thread that waits for room would keep the mesh from closing; and what has
        // not been taken, nobody wants any more.
        self.inbox.close();
        if let Some(mesh) = &self.mesh {
            mesh.close();
        }
    }
}

impl Group {
    /// Number of this process in the group.
    pub fn rank(&self) -> usize {
        self.shared.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.shared.ranks.len()
    }

    /// Bytes that this process wrote to sockets for this group and its kin, frames' headers and
    /// heartbeats included.
    pub fn bytes_sent(&self) -> u64 {
        self.shared.core.mesh.as_ref().map_or(0, Mesh::bytes_sent)
    }

    /// Why the group is at its end, if it is: calls that are made from now on say the same.
    pub fn failure(&self) -> Option<Error> {
        self.shared.core.inbox.failure()
    }

    /// A rank of this group that has left it, by role, rank and endpoint.
    pub fn departed(&self) -> Option<String> {
        self.shared.core.inbox.departed(&self.shared.ranks)
    }

    /// How long a rank may be late.
    pub fn deadline(&self) -> Duration {
        self.shared.core.settings.deadline
    }

    /// Leaves, with all subgroups, whoever still holds a clone: waits until the other ranks have read all that this one
    /// sent. A process that ends must say so, for what it holds at its end is never dropped, and a connection that breaks
    /// takes along what is still on its way.
    pub fn leave(&self) {
        self.shared.core.leave();
    }

    /// Gives the group up: all calls fail, here and on all other ranks, for this reason.
    pub fn abort(&self, why: &str) {
        let peer = self.shared.core.name.clone();
        self.shared.fail(Error::Aborted { peer, problem: why.to_string() });
    }

    /// Makes a call when its turn has come; an error ends the group.
    fn run<R>(&self, call: Call, work: impl FnOnce(&Turn<'_>) -> Result<R>) -> Result<R> {
        let sequence = self.shared.enter(call, self.background)?;
        let _leave = Leave(&self.shared);
        let turn = Turn::new(&self.shared, call, sequence).in_background(self.background);
        work(&turn).map_err(|error| self.shared.fail(error))
    }
}

/// Ends a turn, also when the call panics.
struct Leave<'a>(&'a Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut turns = self.0.lock();
        turns.busy = false;
        // Nearly always nobody waits, and telling nobody takes a system call too.
        if turns.waiting > 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for other threads and for the work in the background; the number of the call.
    fn enter(&self, call: Call, background: bool) -> Result<u64> {
        let mut turns = self.lock();
        while turns.busy || (turns.queued > 0 && !background) {
            turns.waiting += 1;
            let waited = self.changed.wait_timeout(turns, TICK);
            waited.unwrap_or_else(PoisonError::into_inner).0.waiting -= 1;
            if self.core.is_interrupted() {
                return Err(self.fail(Error::Interrupted { call: call.to_string() }));
            }
            turns = self.lock();
        }
        if let Some(failure) = self.core.inbox.failure() {
            drop(turns);
            return Err(self.fail(failure));
        }
        turns.busy = true;
        turns.sequence += 1;
        Ok(turns.sequence)
    }

    fn fail(&self, error: Error) -> Error {
        self.core.fail(error)
    }
}

impl Core {
    /// Ends the group on all ranks; the first reason counts and is returned.
    fn fail(&self, error: Error) -> Error {
        if let Error::Argument { .. } = error {
            return error;
        }
        let first = self.inbox.fail(error);
        if let Some(mesh) = &self.mesh {
            // Who heard of it from another passes on the first one's words.
            mesh.abort(&match &first {
                Error::Aborted { peer, problem } => inbox::last_words(peer, problem),
                other => inbox::last_words(&self.name, &other.to_string()),
            });
        }
        first
    }

    fn is_interrupted(&self) -> bool {
        self.settings.interrupt.as_ref().is_some_and(|interrupt| interrupt.is_wanted())
    }

    /// Takes a number for a group; false if there is such a group.
    fn register(&self, id: u32) -> bool {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.insert(id)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut groups = self.core.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.remove(&self.id);
        drop(groups);
        self.core.inbox.forget(self.id);
        self.core.inbox.forget(self.id | turn::POINT_TO_POINT);
    }
}

impl Shared {
    fn new(core: Arc<Core>, id: u32, rank: usize, ranks: Vec<usize>) -> Shared {
        let counters = || ranks.iter().map(|_| Mutex::new(0)).collect();
        Shared {
            core,
            id,
            rank,
            turns: Mutex::default(),
            changed: Condvar::new(),
            subgroups: AtomicU32::new(0),
            sharing: Sharing::Nothing,
            queue: Mutex::new(None),
            sent: counters(),
            received: counters(),
            ranks,
        }
    }

    fn next_subgroup(&self) -> u32 {
        self.subgroups.fetch_add(1, Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group(rank {} of {})", self.rank(), self.size())
    }
}
