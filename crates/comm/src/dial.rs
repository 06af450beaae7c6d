//! Opens connections: over the transport, encrypted where that is wanted, and proven by the
//! handshake. A peer on this host is reached by a socket whose name any program may take; one that
//! does not answer as the peer is passed by over the network.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::body::Pool;
use crate::connection::Connection;
use crate::handshake::{self, Failed, Hello, Refusal, Welcome};
use crate::transport::{Encryption, Stream};
use crate::{Error, Result, Secret, Settings, Transport};

/// How long the handshake over this host's own sockets may take before the network is tried.
const LOCAL: Duration = Duration::from_secs(1);

/// Opens connections to one endpoint or to several.
pub(crate) struct Dialer {
    transport: Arc<dyn Transport>,
    encryption: Option<Encryption>,
    secret: Secret,
    /// Somebody else has the name of the peer's local socket.
    squatted: AtomicBool,
}

impl Dialer {
    pub(crate) fn new(transport: Arc<dyn Transport>, settings: &Settings) -> Result<Dialer> {
        let encryption = settings.tls.as_ref().map(Encryption::load).transpose()?;
        let (secret, squatted) = (settings.secret.clone(), AtomicBool::new(false));
        Ok(Dialer { transport, encryption, secret, squatted })
    }

    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    pub(crate) fn encryption(&self) -> Option<&Encryption> {
        self.encryption.as_ref()
    }

    /// Opens a connection and lets both sides prove themselves, once.
    pub(crate) fn open(
        &self,
        endpoint: &str,
        hello: &Hello,
        timeout: Duration,
        pool: &Arc<Pool>,
    ) -> std::result::Result<(Arc<Connection>, Welcome), Failed> {
        let end = Instant::now() + timeout;
        if self.squatted.load(Ordering::Relaxed) {
            let stream = self.transport.connect_far(endpoint, timeout).map_err(unreachable)?;
            return self.greet(stream, endpoint, hello, end, pool);
        }
        let stream = self.transport.connect(endpoint, timeout).map_err(unreachable)?;
        if !stream.is_local() {
            return self.greet(stream, endpoint, hello, end, pool);
        }
        let soon = end.min(Instant::now() + LOCAL);
        let failed = match self.greet(stream, endpoint, hello, soon, pool) {
            // Only the peer itself says so.
            Err(Failed::Refused(refusal @ (Refusal::Session | Refusal::Full), text, number)) => {
                return Err(Failed::Refused(refusal, text, number));
            }
            Err(failed) => failed,
            opened => return opened,
        };
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let Ok(stream) = self.transport.connect_far(endpoint, left) else { return Err(failed) };
        if stream.is_local() {
            return Err(failed);
        }
        let opened = self.greet(stream, endpoint, hello, end, pool)?;
        if !self.squatted.swap(true, Ordering::Relaxed) {
            let problem = failed.problem();
            tracing::warn!(
                "another program answers on the Unix socket of `{endpoint}` ({problem}): TCP is \
                 used instead"
            );
        }
        Ok(opened)
    }

    fn greet(
        &self,
        stream: Box<dyn Stream>,
        endpoint: &str,
        hello: &Hello,
        end: Instant,
        pool: &Arc<Pool>,
    ) -> std::result::Result<(Arc<Connection>, Welcome), Failed> {
        let broken = |error: std::io::Error| Failed::Broken(error.to_string());
        let stream = match &self.encryption {
            Some(encryption) => encryption.client(stream, endpoint).map_err(broken)?,
            None => stream,
        };
        let connection = Arc::new(Connection::new(stream));
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        connection.stream().set_write_timeout(Some(left)).map_err(broken)?;
        let welcome = handshake::ask(&connection, hello.clone(), &self.secret, left, pool)?;
        Ok((connection, welcome))
    }
}

fn unreachable(error: Error) -> Failed {
    match error {
        Error::Io { source, .. } if source.kind() == ErrorKind::ConnectionRefused => {
            Failed::Nobody(source.to_string())
        }
        Error::Io { source, .. } => Failed::Broken(source.to_string()),
        other => Failed::Broken(other.to_string()),
    }
}
