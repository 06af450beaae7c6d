//! Roles of a job that `mpirun` started: of each two processes the first is a server and the second
//! a worker, as Paddle's `MPISymetricRoleMaker` has it.
//!
//! Who is what follows from rank and addresses alone ([`symmetric`]), whoever asked MPI for them:
//! [`Mpi`] (the feature `mpi`) or Python's mpi4py.

#[cfg(not(feature = "mpi"))]
mod absent;
#[cfg(feature = "mpi")]
mod binding;
mod twister;

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};

#[cfg(not(feature = "mpi"))]
pub use absent::Mpi;
#[cfg(feature = "mpi")]
pub use binding::Mpi;

use crate::role::{Role, RoleMaker, UserDefined};
use crate::{Error, Result};
use twister::Twister;

/// Whether this build can ask MPI itself.
pub const IS_BUILT_IN: bool = cfg!(feature = "mpi");

/// Who takes part in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// All processes.
    All,
    /// Those of this process's role.
    Role,
}

/// The role of the process with this rank, where `hosts` are the addresses of all of them.
///
/// The port is the one that Paddle draws; a second server on a host takes the next.
///
/// # Errors
/// When the processes do not come in pairs.
pub fn symmetric(rank: usize, hosts: &[String]) -> Result<RoleMaker> {
    let count = hosts.len();
    if count == 0 || !count.is_multiple_of(2) {
        return Err(Error::Config(format!(
            "a job by MPI needs a worker for each server, but it has {count} processes: start an \
             even number of them (`mpirun -n 4 …`)"
        )));
    }
    if rank >= count {
        return Err(Error::Config(format!("rank {rank} is none of {count} processes")));
    }
    let first_port = server_port(count / 2);
    let mut taken: HashMap<&str, u16> = HashMap::new();
    let mut server_endpoints = Vec::with_capacity(count / 2);
    for host in hosts.iter().step_by(2) {
        let next = taken.entry(host).or_insert(0);
        server_endpoints.push(endpoint(host, first_port + *next));
        *next += 1;
    }
    let role = if rank.is_multiple_of(2) { Role::Server } else { Role::Worker };
    RoleMaker::user_defined(UserDefined {
        current_id: (rank / 2) as i64,
        role,
        worker_num: Some((count / 2) as i64),
        server_endpoints,
        // Workers have addresses but do not listen; Paddle lists them without a port.
        worker_endpoints: Vec::new(),
    })
}

/// The port that Paddle's servers take: `random.seed(servers); random.randint(60001, 64000)`.
fn server_port(servers: usize) -> u16 {
    let seed = u32::try_from(servers).unwrap_or(u32::MAX);
    60001 + Twister::new(seed).below(4000)
}

fn endpoint(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// The address under which other machines find this one: that of its name, as Paddle takes it,
/// unless that is the loopback; then the one it would reach others from.
pub fn own_address() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let named = (name.as_str(), 0).to_socket_addrs().ok().and_then(|found| {
        let all: Vec<IpAddr> = found.map(|address| address.ip()).collect();
        all.iter().find(|ip| ip.is_ipv4()).or(all.first()).copied()
    });
    let outside = || bireme_comm::outside_address();
    match named.filter(|ip| !ip.is_loopback()).or_else(outside).or(named) {
        Some(ip) => ip.to_string(),
        None => "127.0.0.1".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `random.seed(n); random.randint(60001, 64000)` of CPython 3.11.
    #[test]
    fn servers_take_the_port_that_paddle_draws() {
        for (servers, port) in PORTS {
            assert_eq!(server_port(servers), port, "{servers}");
        }
    }

    const PORTS: [(usize, u16); 5] =
        [(1, 60551), (2, 63916), (3, 60975), (16, 61481), (1000, 63185)];

    #[test]
    fn ranks_alternate_and_hosts_keep_their_order() {
        let hosts = ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"].map(str::to_owned);
        let port = server_port(2);
        let servers = [format!("10.0.0.1:{port}"), format!("10.0.0.2:{port}")];
        for (rank, role) in
            [(0, Role::Server), (1, Role::Worker), (2, Role::Server), (3, Role::Worker)]
        {
            let found = symmetric(rank, &hosts).unwrap();
            assert_eq!((found.role(), found.index() as usize), (role, rank / 2));
            assert_eq!((found.server_endpoints(), found.worker_num()), (&servers[..], 2));
        }
    }

    #[test]
    fn servers_of_one_host_have_different_ports() {
        let role = symmetric(3, &["::1", "::1", "::1", "::1"].map(str::to_owned)).unwrap();
        let port = server_port(2);
        assert_eq!(
            role.server_endpoints(),
            [format!("[::1]:{port}"), format!("[::1]:{}", port + 1)]
        );
    }

    #[test]
    fn processes_come_in_pairs() {
        let error = symmetric(0, &["a".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("it has 1 processes: start an even number"), "{error}");
        assert!(symmetric(2, &["a", "b"].map(str::to_owned)).is_err());
    }

    #[test]
    fn this_machine_has_an_address() {
        assert!(own_address().parse::<IpAddr>().is_ok());
    }
}
