//! Real sockets: TCP, and for peers on the same host a Unix socket in Linux's abstract namespace
//! that is named after the TCP endpoint. So a Unix socket exists exactly as long as its server.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{connect, socket_with, sockopt};

use super::{Bound, Listener, Stream, Transport};
use crate::{Error, Result};

/// Asked of the system for each Unix socket, which grants what its limits allow; TCP tunes itself.
const SOCKET_BUFFER: usize = 4 << 20;
/// Ports that are passed by where any will do, because somebody has the Unix socket of that name.
const MOST_PASSED_BY: usize = 16;

/// Connections that may wait to be taken; the system may allow fewer.
const BACKLOG: i32 = 4096;

/// Which kinds of socket are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Path {
    /// A Unix socket where the peer is on this host, otherwise TCP.
    #[default]
    Auto,
    /// TCP alone.
    Tcp,
    /// Unix sockets alone; peers on other hosts are out of reach.
    Unix,
}

impl Path {
    /// The path named in an environment variable; none for an unknown name.
    pub fn from_env_text(text: &str) -> Option<Path> {
        match text.trim() {
            "" | "auto" => Some(Path::Auto),
            "tcp" => Some(Path::Tcp),
            "unix" => Some(Path::Unix),
            _ => None,
        }
    }
}

/// The sockets of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Network {
    /// Which kinds of socket are used.
    pub path: Path,
}

impl Network {
    /// Sockets of the kinds that `path` allows.
    pub fn new(path: Path) -> Network {
        Network { path }
    }
}

impl Transport for Network {
    fn listen(&self, endpoint: &str) -> Result<Bound> {
        let fail = |source| Error::Io { what: format!("cannot listen on `{endpoint}`"), source };
        let any_port = endpoint.ends_with(":0");
        // Held until a port is found, so that the system does not choose it again.
        let mut passed_by = Vec::new();
        loop {
            // The TCP socket reserves the port even where only the Unix socket is used.
            let tcp = TcpListener::bind(&*resolve(endpoint)?).map_err(fail)?;
            deepen(&tcp);
            let address = tcp.local_addr().map_err(fail)?;
            let mut listeners: Vec<Box<dyn Listener>> = Vec::new();
            if self.path != Path::Tcp {
                let name = UnixAddress::from_abstract_name(unix_name(address)).map_err(fail)?;
                match UnixListener::bind_addr(&name) {
                    Ok(unix) => {
                        deepen(&unix);
                        listeners.push(Box::new(unix));
                    }
                    // A server that is ending has given up the port, but not yet the name.
                    Err(error)
                        if any_port
                            && error.kind() == ErrorKind::AddrInUse
                            && passed_by.len() < MOST_PASSED_BY =>
                    {
                        passed_by.push(tcp);
                        continue;
                    }
                    Err(source) if self.path == Path::Unix => return Err(fail(source)),
                    Err(error) => tracing::warn!(
                        "no Unix socket for `{address}` ({error}): peers on this host will use TCP"
                    ),
                }
            }
            if self.path == Path::Unix {
                listeners.push(Box::new(Reserved(tcp)));
            } else {
                listeners.push(Box::new(tcp));
            }
            return Ok(Bound { endpoint: real_endpoint(endpoint, address), listeners });
        }
    }

    fn connect(&self, endpoint: &str, timeout: Duration) -> Result<Box<dyn Stream>> {
        let fail = |source| Error::Io { what: format!("cannot reach `{endpoint}`"), source };
        let mut problem = ErrorKind::AddrNotAvailable.into();
        for address in resolve(endpoint)? {
            if self.path != Path::Tcp {
                match connect_unix(address) {
                    Ok(stream) => return Ok(Box::new(stream)),
                    Err(error) => problem = error,
                }
            }
            if self.path != Path::Unix {
                match TcpStream::connect_timeout(&address, timeout.max(Duration::from_millis(1))) {
                    Ok(stream) => {
                        stream.set_nodelay(true).map_err(fail)?;
                        return Ok(Box::new(stream));
                    }
                    Err(error) => problem = error,
                }
            }
        }
        Err(fail(problem))
    }

    fn connect_tcp(&self, endpoint: &str, timeout: Duration) -> Result<Box<dyn Stream>> {
        let path = if self.path == Path::Unix { Path::Unix } else { Path::Tcp };
        Network { path }.connect(endpoint, timeout)
    }
}

/// The address from which this machine reaches others, if it does; nothing is sent for it.
pub fn outside_address() -> Option<IpAddr> {
    // An address of the documentation's network: it is routed as any other, and belongs to nobody.
    let somewhere: IpAddr = [192, 0, 2, 1].into();
    let socket = UdpSocket::bind((IpAddr::from([0; 4]), 0)).ok()?;
    socket.connect((somewhere, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

fn resolve(endpoint: &str) -> Result<Vec<SocketAddr>> {
    let addresses = endpoint.to_socket_addrs().map_err(|source| {
        let named = endpoint.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let what = match named {
            Some((host, _)) => format!("no address of the host `{host}` is known here"),
            None => format!("`{endpoint}` is no endpoint: write `host:port`"),
        };
        Error::Io { what, source }
    })?;
    Ok(addresses.collect())
}

/// The endpoint as it was asked for, with the port that the system chose for 0.
fn real_endpoint(endpoint: &str, address: SocketAddr) -> String {
    match endpoint.rsplit_once(':') {
        Some((host, _)) => format!("{host}:{}", address.port()),
        None => address.to_string(),
    }
}

fn unix_name(address: SocketAddr) -> String {
    format!("bireme/{address}")
}

/// Connects to the Unix socket of a server on this host that listens on this address, or on all
/// addresses of this host if this is one of them.
fn connect_unix(address: SocketAddr) -> io::Result<UnixStream> {
    let connect_to = |address| -> io::Result<UnixStream> {
        let name = unix_name(address);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // A server that was stopped takes no connections, and a connect that blocks has no timeout.
        connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        enlarge(&stream);
        Ok(stream)
    };
    connect_to(address).or_else(|error| {
        // Only an own address can be bound; another host's must not lead to a server here.
        UdpSocket::bind((address.ip(), 0)).map_err(|_| error)?;
        let any: IpAddr = match address {
            SocketAddr::V4(_) => [0; 4].into(),
            SocketAddr::V6(_) => [0; 16].into(),
        };
        connect_to(SocketAddr::new(any, address.port()))
    })
}

/// Lets more connections wait to be taken than the standard library's 128: beyond that a crowd of
/// strangers would cost a trainer a second, which is when TCP tries again.
fn deepen(listener: impl AsFd) {
    let _ = rustix::net::listen(listener, BACKLOG);
}

fn enlarge(stream: &UnixStream) {
    // Only speed depends on it.
    let _ = sockopt::set_socket_send_buffer_size(stream, SOCKET_BUFFER);
    let _ = sockopt::set_socket_recv_buffer_size(stream, SOCKET_BUFFER);
}

/// A port that is held, but takes no connections.
struct Reserved(TcpListener);

impl Listener for Reserved {
    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        // Whoever comes here is sent away; the loop ends when the listener is closed.
        loop {
            self.0.accept()?;
        }
    }

    fn close(&self) {
        self.0.close();
    }
}

/// Wakes the thread that waits in `accept`.
fn close(listener: impl AsFd) {
    let _ = rustix::net::shutdown(listener, Shutdown::Both);
}

impl Listener for TcpListener {
    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        let (stream, _) = TcpListener::accept(self)?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }

    fn close(&self) {
        close(self);
    }
}

impl Listener for UnixListener {
    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        let (stream, _) = UnixListener::accept(self)?;
        enlarge(&stream);
        Ok(Box::new(stream))
    }

    fn close(&self) {
        close(self);
    }
}

/// Both kinds of socket have the same methods, but no trait for them.
macro_rules! socket_stream {
    ($socket:ty, $address:expr, $local:expr) => {
        impl Stream for $socket {
            fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                let mut socket = self;
                Read::read(&mut socket, buffer)
            }

            fn write(&self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
                write_all(self, parts)
            }

            fn write_some(&self, parts: &mut [IoSlice<'_>]) -> io::Result<usize> {
                let mut socket = self;
                Write::write_vectored(&mut socket, parts)
            }

            fn try_write(&self, frame: &[u8]) -> io::Result<bool> {
                try_write(self, frame)
            }

            fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                <$socket>::set_read_timeout(self, timeout)
            }

            fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                <$socket>::set_write_timeout(self, timeout)
            }

            fn shutdown(&self) {
                // Fails where the peer has ended it already.
                let _ = <$socket>::shutdown(self, std::net::Shutdown::Both);
            }

            fn address(&self) -> String {
                let address: fn(&$socket) -> String = $address;
                address(self)
            }

            fn is_local(&self) -> bool {
                $local
            }

            fn is_same_user(&self) -> bool {
                let own = rustix::process::geteuid();
                $local && sockopt::socket_peercred(self).is_ok_and(|other| other.uid == own)
            }
        }
    };
}

fn peer_address(socket: &TcpStream) -> String {
    let address = socket.peer_addr().map(|address| address.to_string());
    address.unwrap_or_else(|_| "a closed connection".into())
}

socket_stream!(TcpStream, peer_address, false);
socket_stream!(UnixStream, |_| "this host".into(), true);

fn try_write(socket: impl AsFd, frame: &[u8]) -> io::Result<bool> {
    match rustix::net::send(socket, frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(count) if count == frame.len() => Ok(true),
        Ok(_) => Err(ErrorKind::WriteZero.into()),
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn write_all(mut socket: impl Write, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !parts.is_empty() {
        match socket.write_vectored(parts) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut parts, count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(path: Path, endpoint: &str) -> String {
        let network = Network::new(path);
        let bound = network.listen(endpoint).unwrap();
        let ends: Vec<_> = std::thread::scope(|scope| {
            let doors: Vec<_> = bound
                .listeners
                .iter()
                .map(|door| {
                    scope.spawn(move || {
                        let end = door.accept()?;
                        assert_eq!(end.is_same_user(), end.is_local());
                        Ok::<_, io::Error>(end.address())
                    })
                })
                .collect();
            let port = bound.endpoint.rsplit_once(':').unwrap().1;
            let stream =
                network.connect(&format!("127.0.0.1:{port}"), Duration::from_secs(5)).unwrap();
            let mut byte = [0];
            // The other side is dropped at once.
            assert_eq!(stream.read(&mut byte).unwrap(), 0);
            bound.listeners.iter().for_each(|door| door.close());
            doors.into_iter().filter_map(|door| door.join().unwrap().ok()).collect()
        });
        assert_eq!(ends.len(), 1);
        ends.into_iter().next().unwrap()
    }

    #[test]
    fn the_path_decides_the_socket() {
        assert_eq!(round(Path::Auto, "127.0.0.1:0"), "this host");
        assert_eq!(round(Path::Unix, "localhost:0"), "this host");
        assert_eq!(round(Path::Auto, "0.0.0.0:0"), "this host");
        assert!(round(Path::Tcp, "127.0.0.1:0").starts_with("127.0.0.1:"));
    }

    #[test]
    fn paths_have_names() {
        assert_eq!(Path::from_env_text(" tcp "), Some(Path::Tcp));
        assert_eq!(Path::from_env_text("pigeon"), None);
    }

    #[test]
    fn an_endpoint_without_a_port_is_named() {
        let problem = Network::default().listen("nowhere").err().unwrap().to_string();
        assert!(problem.contains("`nowhere` is no endpoint"), "{problem}");
    }
}
