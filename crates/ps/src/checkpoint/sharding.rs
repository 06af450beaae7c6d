//! Which server has a key: Paddle's rule, from the key's global shard.

use serde::{Deserialize, Serialize};

/// One server among its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerIndex {
    /// Which one, from 0.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

/// How the keys of a table are shared out among servers. Every key has one server, and each server
/// has a run of neighbouring shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    shards: u64,
    per_server: u64,
}

impl Sharding {
    /// The sharing of `shards` shards among `servers` servers; none counts as one.
    pub fn new(shards: u64, servers: u32) -> Sharding {
        let shards = shards.max(1);
        Sharding { shards, per_server: shards.div_ceil(u64::from(servers.max(1))) }
    }

    /// The shard of a key.
    pub fn shard(&self, key: u64) -> u64 {
        key % self.shards
    }

    /// The server of a key.
    pub fn server(&self, key: u64) -> u32 {
        u32::try_from(self.shard(key) / self.per_server).expect("there are at most 2^32 servers")
    }

    /// The shards of a server.
    pub fn shards_of(&self, server: u32) -> std::ops::Range<u64> {
        let start = (u64::from(server) * self.per_server).min(self.shards);
        start..(start + self.per_server).min(self.shards)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_key_has_one_server(shards in 1u64..2000, servers in 1u32..70, key: u64) {
            let sharding = Sharding::new(shards, servers);
            let server = sharding.server(key);
            prop_assert!(server < servers);
            for other in 0..servers {
                let has = sharding.shards_of(other).contains(&sharding.shard(key));
                prop_assert_eq!(has, other == server);
            }
        }
    }
}
