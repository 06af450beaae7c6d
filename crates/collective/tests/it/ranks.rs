//! Threads as ranks.

use std::net::TcpListener;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use bireme_collective::{Config, Group, Result};
use bireme_comm::{Memory, Network, Path, Settings, Transport};

/// What connects the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Memory,
    Unix,
    Tcp,
    /// Shared memory; what else there is to say goes over a Unix socket.
    Shared,
    /// Two ranks on each host, as far as the ranks know.
    Hosts,
}

impl Way {
    pub(crate) const ALL: [Way; 5] = [Way::Memory, Way::Unix, Way::Tcp, Way::Shared, Way::Hosts];

    pub(crate) fn transport(self) -> Arc<dyn Transport> {
        match self {
            Way::Memory | Way::Hosts => Arc::new(Memory::new(0)),
            Way::Unix | Way::Shared => Arc::new(Network::new(Path::Unix)),
            Way::Tcp => Arc::new(Network::new(Path::Tcp)),
        }
    }

    /// Endpoints for this many ranks, and what keeps the ports free for them.
    pub(crate) fn endpoints(self, ranks: usize) -> (Vec<String>, Vec<rustix::fd::OwnedFd>) {
        match self {
            Way::Memory | Way::Hosts => {
                ((1..=ranks).map(|port| format!("host:{port}")).collect(), Vec::new())
            }
            _ => (0..ranks).map(|_| held_port()).unzip(),
        }
    }
}

/// A free port, and a socket that is bound to it but does not listen: nobody else gets it.
fn held_port() -> (String, rustix::fd::OwnedFd) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &std::net::SocketAddrV4::new([127, 0, 0, 1].into(), 0)).unwrap();
    let address: std::net::SocketAddr = getsockname(&socket).unwrap().try_into().unwrap();
    (address.to_string(), socket)
}

pub(crate) fn settings() -> Settings {
    Settings {
        deadline: Duration::from_secs(30),
        heartbeat: Duration::from_millis(50),
        heartbeat_timeout: Duration::from_secs(20),
        ..Settings::default()
    }
}

/// Runs `work` on each rank of a group of its own; what they return, by rank.
pub(crate) fn each_rank<R: Send>(
    way: Way,
    ranks: usize,
    work: impl Fn(Group) -> R + Sync,
) -> Vec<R> {
    let formed = Barrier::new(ranks);
    let change = |_: usize, _: &mut Config| {};
    each_rank_with(way, ranks, change, |group| {
        // A rank that ends soon must not end the forming of others.
        formed.wait();
        work(group.unwrap())
    })
}

/// The same with a change to each rank's configuration, and with groups that do not form.
pub(crate) fn each_rank_with<R: Send>(
    way: Way,
    ranks: usize,
    change: impl Fn(usize, &mut Config) + Sync,
    work: impl Fn(Result<Group>) -> R + Sync,
) -> Vec<R> {
    let transport = way.transport();
    let (endpoints, _held) = way.endpoints(ranks);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let (transport, endpoints) = (&transport, endpoints.clone());
                let (change, work) = (&change, &work);
                scope.spawn(move || {
                    let mut config =
                        Config { settings: settings(), ..Config::new(rank, endpoints) };
                    config.shared_memory = matches!(way, Way::Shared | Way::Hosts);
                    // Neighbours are on different hosts, and the last may be alone.
                    let host = format!("host {}", rank % ranks.div_ceil(2));
                    config.host = (way == Way::Hosts).then_some(host);
                    change(rank, &mut config);
                    work(Group::connect(&config, transport))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A listener on a free port, for tests that need one taken.
pub(crate) fn taken_port() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap().to_string(), listener)
}
