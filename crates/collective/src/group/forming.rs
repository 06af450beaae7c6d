//! How groups begin: over a mesh of their own, as a part of another group, or alone.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use bireme_comm::{Bound, Mesh, Place, Settings, Transport};

use super::{Config, Core, Group, Shared, Turn};
use crate::call::{Call, Kind};
use crate::inbox::Inbox;
use crate::shared::{self, Sharing};
use crate::{Error, Result};

/// Bits of a group's number; the one above marks messages from point to point.
pub(super) const ID_BITS: u32 = 23;

impl Group {
    /// Meets all other ranks; returns when all are there, at the latest after the deadline.
    pub fn connect(config: &Config, transport: &Arc<dyn Transport>) -> Result<Group> {
        Group::connect_at(None, config, transport)
    }

    /// As [`Group::connect`], for a rank that listens at its endpoint already: so nobody else can
    /// take a port that the system chose while the others are told of it.
    pub fn connect_at(
        bound: Option<Bound>,
        config: &Config,
        transport: &Arc<dyn Transport>,
    ) -> Result<Group> {
        let names = config.endpoints.iter().enumerate();
        let names = names.map(|(rank, endpoint)| format!("{} {rank} ({endpoint})", config.role));
        let names: Vec<_> = names.collect();
        let name = names.get(config.rank).cloned().unwrap_or_default();
        let inbox = Arc::new(Inbox::new(names));
        let key = format!("{}\n{}", config.name, config.endpoints.join(","));
        let place = Place {
            role: config.role,
            rank: config.rank,
            endpoints: config.endpoints.clone(),
            session: hash(key.as_bytes()),
        };
        let settings = config.settings.clone();
        let mesh = Mesh::connect_at(bound, place, settings, transport, inbox.clone())?;
        let core = Core {
            mesh: Some(mesh),
            inbox,
            name,
            settings: config.settings.clone(),
            host: config.shared_memory.then(|| config.host.clone().or_else(shared::host)).flatten(),
            groups: Mutex::new(HashSet::new()),
        };
        core.register(0);
        let ranks = (0..config.endpoints.len()).collect();
        Group::formed(Shared::new(Arc::new(core), 0, config.rank, ranks))
    }

    /// A group of one rank, without a network.
    pub fn alone() -> Group {
        let name = "rank 0 (this process)".to_string();
        let core = Core {
            mesh: None,
            inbox: Arc::new(Inbox::new(vec![name.clone()])),
            name,
            settings: Settings::default(),
            host: None,
            groups: Mutex::new(HashSet::new()),
        };
        core.register(0);
        Group::of(Shared::new(Arc::new(core), 0, 0, vec![0]))
    }

    /// The group of these ranks of this one, in this order; none on ranks that are not among them.
    /// All ranks of this group make the call, with the same ranks.
    pub fn subgroup(&self, ranks: &[usize]) -> Result<Option<Group>> {
        let bad = |problem: String| Error::Argument { call: "subgroup", problem };
        for (at, rank) in ranks.iter().enumerate() {
            if *rank >= self.size() {
                return Err(bad(format!("there is no rank {rank} in a group of {}", self.size())));
            }
            if ranks[..at].contains(rank) {
                return Err(bad(format!("rank {rank} is named twice")));
            }
        }
        if ranks.is_empty() {
            return Err(bad("it needs at least one rank".into()));
        }
        let key: Vec<u8> = ranks.iter().flat_map(|rank| (*rank as u64).to_le_bytes()).collect();
        let call = Call::new(Kind::Subgroup, hash(&key) as usize, ranks.len());
        let number = self.run(call, |turn| {
            turn.barrier()?;
            Ok(self.shared.next_subgroup())
        })?;
        let Some(rank) = ranks.iter().position(|rank| *rank == self.rank()) else {
            return Ok(None);
        };
        let seed = [&self.shared.id.to_le_bytes()[..], &number.to_le_bytes(), &key].concat();
        let id = (hash(&seed) & ((1 << ID_BITS) - 1)) as u32;
        if !self.shared.core.register(id) {
            return Err(bad("its number is taken by another group: make it once more".into()));
        }
        let ranks = ranks.iter().map(|rank| self.shared.ranks[*rank]).collect();
        Group::formed(Shared::new(self.shared.core.clone(), id, rank, ranks)).map(Some)
    }

    /// A group whose ranks know whether they share memory.
    fn formed(mut shared: Shared) -> Result<Group> {
        if shared.ranks.len() > 1 {
            // The one call that is made before there is a group.
            let call = Call::new(Kind::Form, 0, 0);
            let turn = Turn::new(&shared, call, 0);
            let sharing = Sharing::form(&turn, shared.core.host.as_deref());
            shared.sharing = sharing.map_err(|error| shared.fail(error))?;
        }
        Ok(Group::of(shared))
    }

    fn of(shared: Shared) -> Group {
        Group { shared: Arc::new(shared), background: false }
    }
}

/// FNV-1a, then scattered over all bits: the same on every machine.
fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
