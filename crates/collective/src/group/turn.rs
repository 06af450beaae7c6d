//! One call on one rank: sends and receives messages that carry the call's description.

use std::cell::Cell;
use std::time::Duration;

use bireme_comm::Body;

use super::Shared;
use crate::call::{ANNOUNCEMENT, Call};
use crate::inbox::{ANNOUNCE, SEQUENCE_BITS, Wanted};
use crate::shared::Sharing;
use crate::{Error, Result};

/// Marks the messages of `send` in the number of the group.
pub(super) const POINT_TO_POINT: u32 = 1 << super::forming::ID_BITS;

/// A call in progress.
pub(crate) struct Turn<'a> {
    shared: &'a Shared,
    key: u32,
    call: Call,
    sequence: u64,
    /// Number of this process among `ranks`.
    rank: usize,
    /// The mesh ranks of those who take part: the whole group, or a part of it for a step.
    ranks: &'a [usize],
    /// The group's own thread makes the call.
    background: bool,
    /// The others were told in which call this rank is.
    announced: Cell<bool>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(shared: &'a Shared, call: Call, sequence: u64) -> Turn<'a> {
        Turn::keyed(shared, shared.id, call, sequence)
    }

    /// The same on the group's own thread, beside which others compute.
    pub(super) fn in_background(self, background: bool) -> Turn<'a> {
        Turn { background, ..self }
    }

    pub(crate) fn is_in_background(&self) -> bool {
        self.background
    }

    /// A message from point to point, which is ordered only among those of the two ranks.
    pub(super) fn between(shared: &'a Shared, call: Call, sequence: u64) -> Turn<'a> {
        Turn::keyed(shared, shared.id | POINT_TO_POINT, call, sequence)
    }

    fn keyed(shared: &'a Shared, key: u32, call: Call, sequence: u64) -> Turn<'a> {
        let (rank, ranks) = (shared.rank, &shared.ranks[..]);
        let (background, announced) = (false, Cell::new(false));
        Turn { shared, key, call, sequence, rank, ranks, background, announced }
    }

    /// The same call among a part of the ranks, given by their mesh ranks; this process is the one
    /// with number `rank` there.
    pub(crate) fn among<'b>(&'b self, ranks: &'b [usize], rank: usize) -> Turn<'b> {
        Turn { rank, ranks, announced: Cell::new(self.announced.get()), ..*self }
    }

    /// The mesh ranks of those who take part.
    pub(crate) fn ranks(&self) -> &'a [usize] {
        self.ranks
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.ranks.len()
    }

    pub(crate) fn call(&self) -> Call {
        self.call
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Which memory the ranks share.
    pub(crate) fn sharing(&self) -> &'a Sharing {
        &self.shared.sharing
    }

    /// Looks whether it makes sense to wait for a rank in shared memory, as this rank has for so
    /// long.
    pub(crate) fn check_peer(&self, rank: usize, waited: Duration) -> Result<()> {
        let core = &self.shared.core;
        if core.is_interrupted() {
            return Err(Error::Interrupted { call: self.call.to_string() });
        }
        if waited > ANNOUNCE && !self.announced.replace(true) {
            self.announce();
        }
        core.inbox.check(&self.wanted(rank), waited, core.settings.deadline)
    }

    /// Sends one message of this call.
    pub(crate) fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        self.send_noted(to, self.call.note, bytes)
    }

    /// Sends one message whose note is not that of the call: the length of a varied part.
    pub(crate) fn send_noted(&self, to: usize, note: u64, bytes: &[u8]) -> Result<()> {
        let Some(mesh) = &self.shared.core.mesh else { return Ok(()) };
        let sent = mesh.send(self.ranks[to], self.call.method, self.number(), note, &[bytes]);
        sent.map_err(|error| match Error::from(error) {
            Error::Interrupted { .. } => Error::Interrupted { call: self.call.to_string() },
            // The peer's last words may explain why it takes nothing any more.
            error => self.shared.core.inbox.reason(self.ranks[to]).unwrap_or(error),
        })
    }

    /// The next message of this call from a rank, which has as many bytes as expected.
    pub(crate) fn receive(&self, from: usize, length: usize) -> Result<Body> {
        let (_, body) = self.receive_noted(from)?;
        if body.len() == length {
            return Ok(body);
        }
        Err(Error::Mismatch {
            peer: self.name(from),
            ours: format!("{} with a message of {length} bytes", self.call),
            theirs: format!("one of {} bytes", body.len()),
        })
    }

    /// The next message of this call from a rank, and its note.
    pub(crate) fn receive_noted(&self, from: usize) -> Result<(u64, Body)> {
        let core = &self.shared.core;
        core.inbox.receive(&self.wanted(from), &core.settings, || {
            if !self.announced.replace(true) {
                self.announce();
            }
        })
    }

    fn wanted(&self, from: usize) -> Wanted<'_> {
        Wanted {
            key: self.key,
            sequence: self.sequence,
            call: self.call,
            ranks: self.ranks,
            from: self.ranks[from],
        }
    }

    /// Tells all ranks in which call this one is.
    fn announce(&self) {
        let Some(mesh) = &self.shared.core.mesh else { return };
        let method = self.call.method.to_le_bytes();
        for rank in self.ranks.iter().filter(|rank| mesh.is_there(**rank)) {
            // A rank that cannot be told will be noticed otherwise.
            let _ = mesh.send(*rank, ANNOUNCEMENT, self.number(), self.call.note, &[&method]);
        }
    }

    pub(crate) fn name(&self, rank: usize) -> String {
        let mesh = self.shared.core.mesh.as_ref();
        mesh.map_or_else(|| format!("rank {rank}"), |mesh| mesh.name(self.ranks[rank]))
    }

    fn number(&self) -> u64 {
        u64::from(self.key) << SEQUENCE_BITS | self.sequence
    }
}
