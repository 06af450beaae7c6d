//! What carries bytes between two processes: real sockets, or queues in memory with faults.

mod memory;
mod network;
mod tls;

use std::io::{self, IoSlice};
use std::time::Duration;

pub use memory::{Faults, Memory};
pub use network::{Network, Path, outside_address};
pub(crate) use tls::Encryption;

use crate::Result;

/// Makes connections.
pub trait Transport: Send + Sync {
    /// Waits for connections at an endpoint; port 0 means any free one.
    fn listen(&self, endpoint: &str) -> Result<Bound>;

    /// Opens a connection to an endpoint, once.
    fn connect(&self, endpoint: &str, timeout: Duration) -> Result<Box<dyn Stream>>;

    /// As [`Transport::connect`], over the network even to a peer on this host, if that is allowed.
    fn connect_tcp(&self, endpoint: &str, timeout: Duration) -> Result<Box<dyn Stream>> {
        self.connect(endpoint, timeout)
    }
}

/// An endpoint that takes connections.
pub struct Bound {
    /// The endpoint with its real port.
    pub endpoint: String,
    /// The doors to it: TCP and, for peers on this host, a Unix socket.
    pub listeners: Vec<Box<dyn Listener>>,
}

/// One door to an endpoint.
pub trait Listener: Send + Sync {
    /// The next connection; an error after [`Listener::close`].
    fn accept(&self) -> io::Result<Box<dyn Stream>>;

    /// Takes no more connections, and wakes the thread that waits for one.
    fn close(&self);
}

/// A connection: bytes in order, both ways. One thread may read while another writes.
pub trait Stream: Send + Sync {
    /// Reads some bytes; 0 at the end, `WouldBlock` or `TimedOut` after the read timeout.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all the parts, which together are one frame.
    fn write(&self, parts: &mut [IoSlice<'_>]) -> io::Result<()>;

    /// Writes some bytes of the parts, at least one. After `WouldBlock` or `TimedOut` nothing is
    /// lost: the caller goes on with the same parts, and with nothing else.
    fn write_some(&self, parts: &mut [IoSlice<'_>]) -> io::Result<usize> {
        let total = parts.iter().map(|part| part.len()).sum();
        self.write(parts)?;
        Ok(total)
    }

    /// Writes these few bytes, which are one frame, if that needs no waiting; otherwise nothing,
    /// and false.
    fn try_write(&self, frame: &[u8]) -> io::Result<bool> {
        let _ = frame;
        Ok(false)
    }

    /// How long a read waits for its first byte; none: until the connection ends.
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;

    /// How long a write waits for progress; none: until the connection ends.
    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;

    /// Ends both directions and wakes the threads that wait here.
    fn shutdown(&self);

    /// The other side, for messages.
    fn address(&self) -> String;

    /// Whether it is a socket of this host, whose name any program may have taken.
    fn is_local(&self) -> bool {
        false
    }

    /// Whether the system vouches that the other side is a process of the user who runs this one.
    fn is_same_user(&self) -> bool {
        false
    }
}
