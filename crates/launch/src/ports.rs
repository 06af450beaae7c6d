//! Ports that stay free from the moment they are chosen until a process of the job listens there.
//!
//! A reservation is a bound socket with `SO_REUSEADDR` that never listens. Linux gives its port to
//! nobody who asks for any port, but lets a process of the job bind the very port with
//! `SO_REUSEADDR`, as every server does, because nobody listens on it yet. The reservation is kept
//! as long as the job runs, so that a process that is started again finds its port too.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, sockopt};

use crate::addresses::resolve;
use crate::arguments::join;

/// Where a plan gets its ports from.
pub trait Ports {
    /// Any free port of an address of this machine.
    ///
    /// # Errors
    /// When there is none, or the address is not this machine's.
    fn any(&mut self, host: &str) -> Result<u16>;

    /// This very port.
    ///
    /// # Errors
    /// When somebody has it, or the address is not this machine's.
    fn this(&mut self, host: &str, port: u16) -> Result<()>;
}

/// Ports held for a job; they are let go when this is dropped.
#[derive(Debug, Default)]
pub struct Reservations {
    held: Vec<(SocketAddr, OwnedFd)>,
}

impl Reservations {
    /// None yet.
    pub fn new() -> Reservations {
        Reservations::default()
    }

    /// How many ports are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn hold(&mut self, host: &str, port: u16) -> Result<u16> {
        let address = SocketAddr::new(first(host)?, port);
        if self.held.iter().any(|(held, _)| *held == address) {
            bail!("{address} is given to two processes of this job: write another port for one");
        }
        let (taken, socket) = reserve(address).map_err(|error| refused(host, port, &error))?;
        self.held.push((taken, socket));
        Ok(taken.port())
    }
}

impl Ports for Reservations {
    fn any(&mut self, host: &str) -> Result<u16> {
        self.hold(host, 0)
    }

    fn this(&mut self, host: &str, port: u16) -> Result<()> {
        // A socket that reuses addresses may share a port with anybody who does so and does not
        // listen at the moment; a listener is refused by the reservation itself.
        self.hold(host, port).map(|_| ())
    }
}

fn first(host: &str) -> Result<IpAddr> {
    let addresses = resolve(host)?;
    // IPv4 first: a name such as `localhost` often has both, and servers listen on one.
    let best = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    best.copied().ok_or_else(|| anyhow!("the host `{host}` has no address"))
}

fn reserve(address: SocketAddr) -> io::Result<(SocketAddr, OwnedFd)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    let bound = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok((bound, socket))
}

/// What to tell a user whose port cannot be had.
fn refused(host: &str, port: u16, error: &io::Error) -> anyhow::Error {
    let endpoint = join(host, port);
    match error.kind() {
        io::ErrorKind::AddrInUse if port == 0 => anyhow!("no port of {host} is free"),
        io::ErrorKind::AddrInUse => {
            let owner = match owner(port) {
                Some(owner) => format!("by {owner}"),
                None => "by another process".to_owned(),
            };
            anyhow!(
                "the port of {endpoint} is taken {owner}: end that process, or write another port \
                 (without one, a free port is chosen on one machine)"
            )
        }
        io::ErrorKind::AddrNotAvailable => anyhow!(
            "{host} is not an address of this machine, so no process here can listen on \
             {endpoint}: write one of its own addresses"
        ),
        io::ErrorKind::PermissionDenied => {
            anyhow!("{endpoint}: ports below 1024 need root: write a higher port")
        }
        _ => anyhow!("cannot reserve {endpoint}: {error}"),
    }
}

/// The process that has a TCP port of this machine, if `/proc` tells: `` `python3` (process 42) ``.
fn owner(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let inodes: Vec<String> = tables
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| inodes(&table, port))
        .collect();
    let links: Vec<_> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else {
            continue;
        };
        if has_link(&entry.path().join("fd"), &links) {
            let command = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            return Some(format!("`{}` (process {process})", command.trim()));
        }
    }
    None
}

/// The inodes of the sockets on a port, in a table such as `/proc/net/tcp`.
fn inodes(table: &str, port: u16) -> Vec<String> {
    let inode = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (_, written) = fields.get(1)?.rsplit_once(':')?;
        let found = u16::from_str_radix(written, 16).ok()? == port;
        fields.get(9).filter(|inode| found && **inode != "0").map(|inode| (*inode).to_owned())
    };
    table.lines().skip(1).filter_map(inode).collect()
}

fn has_link(folder: &Path, links: &[String]) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        fs::read_link(entry.path())
            .is_ok_and(|target| links.iter().any(|link| target.as_os_str() == link.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;

    use super::*;

    #[test]
    fn a_reserved_port_is_free_for_the_job_and_taken_for_others() {
        let mut ports = Reservations::new();
        let port = ports.any("127.0.0.1").unwrap();
        // Nobody who asks for any port gets it, listeners and outgoing connections alike.
        let listeners: Vec<_> =
            (0..200).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        assert!(listeners.iter().all(|other| other.local_addr().unwrap().port() != port));
        for other in listeners.iter().take(50) {
            let stream = TcpStream::connect(other.local_addr().unwrap()).unwrap();
            assert_ne!(stream.local_addr().unwrap().port(), port);
        }
        // A process of the job listens on it, and again when it is restarted.
        for _ in 0..2 {
            let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            drop((stream, listener));
        }
        assert_eq!(ports.len(), 1);
    }

    #[test]
    fn another_program_can_listen_on_a_reserved_port() {
        let mut ports = Reservations::new();
        let port = ports.any("127.0.0.1").unwrap();
        let code = format!(
            "import socketserver\nsocketserver.TCPServer.allow_reuse_address = True\n\
             socketserver.TCPServer(('127.0.0.1', {port}), None).server_close()\nprint('bound')"
        );
        let Ok(output) = Command::new("python3").args(["-c", &code]).output() else { return };
        assert_eq!(String::from_utf8_lossy(&output.stdout), "bound\n", "{output:?}");
    }

    #[test]
    fn a_taken_port_names_its_owner() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = other.local_addr().unwrap().port();
        let error = Reservations::new().this("127.0.0.1", port).unwrap_err().to_string();
        let process = std::process::id();
        assert!(
            error.starts_with(&format!("the port of 127.0.0.1:{port} is taken by `")),
            "{error}"
        );
        assert!(error.contains(&format!("(process {process})")), "{error}");
    }

    #[test]
    fn a_port_is_given_once_and_only_here() {
        let mut ports = Reservations::new();
        let port = ports.any("127.0.0.1").unwrap();
        let twice = ports.this("127.0.0.1", port).unwrap_err().to_string();
        assert!(twice.contains("is given to two processes of this job"), "{twice}");
        let elsewhere = ports.this("192.0.2.1", 6170).unwrap_err().to_string();
        assert!(
            elsewhere.starts_with("192.0.2.1 is not an address of this machine"),
            "{elsewhere}"
        );
    }

    #[test]
    fn sockets_of_a_port_are_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                     uid  timeout inode\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 \
                     00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0\n";
        assert_eq!(inodes(table, 8080), ["4242"]);
        assert!(inodes(table, 8081).is_empty());
    }
}
