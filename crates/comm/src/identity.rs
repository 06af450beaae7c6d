//! Who talks to whom: the role and rank of a process, and the lane a request travels on.

use std::fmt;

/// What a process does in the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// Computes gradients.
    Trainer = 0,
    /// Holds parameters.
    Server = 1,
    /// Anything else: a launcher, an inspector.
    Other = 2,
    /// Computes a part of what trainers compute, for them.
    HeterWorker = 3,
}

impl Role {
    pub(crate) fn from_byte(byte: u8) -> Option<Role> {
        const ALL: [Role; 4] = [Role::Trainer, Role::Server, Role::Other, Role::HeterWorker];
        ALL.into_iter().find(|role| *role as u8 == byte)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Trainer => "trainer",
            Role::Server => "server",
            Role::Other => "process",
            Role::HeterWorker => "heter worker",
        })
    }
}

/// A process of the job: `trainer 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// What the process does.
    pub role: Role,
    /// Its number among the processes of this role, from 0.
    pub rank: u32,
}

impl Identity {
    /// The process of this role with this rank.
    pub fn new(role: Role, rank: u32) -> Identity {
        Identity { role, rank }
    }

    /// A trainer.
    pub fn trainer(rank: u32) -> Identity {
        Identity::new(Role::Trainer, rank)
    }

    /// A heter worker, counted over all stages.
    pub fn heter_worker(rank: u32) -> Identity {
        Identity::new(Role::HeterWorker, rank)
    }

    /// A server.
    pub fn server(rank: u32) -> Identity {
        Identity::new(Role::Server, rank)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role, self.rank)
    }
}

/// A client as its server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Role and rank, as proven by the job's secret.
    pub identity: Identity,
    /// One life of one client; drawn at random when the client is made.
    pub session: u64,
    /// Where its first connection came from.
    pub address: String,
    /// Whether the system vouches that it belongs to the user who runs the server.
    pub is_same_user: bool,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.identity, self.address)
    }
}

/// Requests of one lane never wait behind those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Lane {
    /// Gradients and barriers.
    Send = 0,
    /// Parameters.
    Get = 1,
    /// Rows of sparse tables.
    Prefetch = 2,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        assert_eq!(Identity::trainer(1).to_string(), "trainer 1");
        let (identity, address) = (Identity::server(0), "here".to_owned());
        let peer = Peer { identity, session: 7, address, is_same_user: false };
        assert_eq!(peer.to_string(), "server 0 (here)");
        assert_eq!(Role::from_byte(2), Some(Role::Other));
        assert_eq!(Role::from_byte(3), Some(Role::HeterWorker));
        assert_eq!(Role::from_byte(4), None);
    }
}
