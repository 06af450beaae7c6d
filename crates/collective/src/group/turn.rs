//! One call on one rank: sends and receives messages that carry the call's description.

use bireme_comm::Body;

use super::Shared;
use crate::call::{ANNOUNCEMENT, Call};
use crate::inbox::{SEQUENCE_BITS, Wanted};
use crate::{Error, Result};

/// Marks the messages of `send` in the number of the group.
pub(super) const POINT_TO_POINT: u32 = 1 << super::forming::ID_BITS;

/// A call in progress.
pub(crate) struct Turn<'a> {
    shared: &'a Shared,
    key: u32,
    call: Call,
    sequence: u64,
}

impl<'a> Turn<'a> {
    pub(super) fn new(shared: &'a Shared, call: Call, sequence: u64) -> Turn<'a> {
        Turn { shared, key: shared.id, call, sequence }
    }

    /// A message from point to point, which is ordered only among those of the two ranks.
    pub(super) fn between(shared: &'a Shared, call: Call, sequence: u64) -> Turn<'a> {
        Turn { shared, key: shared.id | POINT_TO_POINT, call, sequence }
    }

    pub(crate) fn rank(&self) -> usize {
        self.shared.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.shared.ranks.len()
    }

    /// Sends one message of this call.
    pub(crate) fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        self.send_noted(to, self.call.note, bytes)
    }

    /// Sends one message whose note is not that of the call: the length of a varied part.
    pub(crate) fn send_noted(&self, to: usize, note: u64, bytes: &[u8]) -> Result<()> {
        let Some(mesh) = &self.shared.core.mesh else { return Ok(()) };
        let sent =
            mesh.send(self.shared.ranks[to], self.call.method, self.number(), note, &[bytes]);
        sent.map_err(|error| match Error::from(error) {
            Error::Interrupted { .. } => Error::Interrupted { call: self.call.to_string() },
            // The peer's last words may explain why it takes nothing any more.
            error => self.shared.core.inbox.reason(self.shared.ranks[to]).unwrap_or(error),
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
        let wanted = Wanted {
            key: self.key,
            sequence: self.sequence,
            call: self.call,
            ranks: &self.shared.ranks,
            from: self.shared.ranks[from],
        };
        core.inbox.receive(&wanted, &core.settings, || self.announce())
    }

    /// Tells all ranks in which call this one is.
    fn announce(&self) {
        let Some(mesh) = &self.shared.core.mesh else { return };
        let method = self.call.method.to_le_bytes();
        for rank in self.shared.ranks.iter().filter(|rank| mesh.is_there(**rank)) {
            // A rank that cannot be told will be noticed otherwise.
            let _ = mesh.send(*rank, ANNOUNCEMENT, self.number(), self.call.note, &[&method]);
        }
    }

    pub(crate) fn name(&self, rank: usize) -> String {
        let mesh = self.shared.core.mesh.as_ref();
        mesh.map_or_else(|| format!("rank {rank}"), |mesh| mesh.name(self.shared.ranks[rank]))
    }

    fn number(&self) -> u64 {
        u64::from(self.key) << SEQUENCE_BITS | self.sequence
    }
}
