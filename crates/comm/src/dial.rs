//! Opens connections: over the transport, encrypted where that is wanted, and proven by the
//! handshake. A peer on this host is reached by a socket whose name any program may take; one that
//! does not answer as the peer is left alone, and TCP used instead.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::body::Pool;
use crate::connection::{Connection, lock};
use crate::handshake::{self, Failed, Hello, Refusal, Welcome};
use crate::transport::{Encryption, Stream};
use crate::{Error, Result, Secret, Settings, Transport};

/// How long the handshake over this host's own sockets may take before the network is tried.
const LOCAL_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens connections to one endpoint or to several.
pub(crate) struct Dialer {
    transport: Arc<dyn Transport>,
    encryption: Option<Encryption>,
    secret: Secret,
    /// Endpoints whose local socket is another program's: its name was taken.
    local_name_taken: Mutex<HashSet<String>>,
}

impl Dialer {
    pub(crate) fn new(transport: Arc<dyn Transport>, settings: &Settings) -> Result<Dialer> {
        let encryption = settings.tls.as_ref().map(Encryption::load).transpose()?;
        let (secret, local_name_taken) = (settings.secret.clone(), Mutex::default());
        Ok(Dialer { transport, encryption, secret, local_name_taken })
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
        if lock(&self.local_name_taken).contains(endpoint) {
            let stream = self.transport.connect_tcp(endpoint, timeout).map_err(unreachable)?;
            return self.greet(stream, endpoint, hello, end, pool);
        }
        let stream = self.transport.connect(endpoint, timeout).map_err(unreachable)?;
        if !stream.is_local() {
            return self.greet(stream, endpoint, hello, end, pool);
        }
        let soon = end.min(Instant::now() + LOCAL_HANDSHAKE_TIMEOUT);
        let failed = match self.greet(stream, endpoint, hello, soon, pool) {
            // Only the peer itself says so.
            Err(Failed::Refused(refusal @ (Refusal::Session | Refusal::Full), text, number)) => {
                return Err(Failed::Refused(refusal, text, number));
            }
            Err(failed) => failed,
            opened => return opened,
        };
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let Ok(stream) = self.transport.connect_tcp(endpoint, left) else { return Err(failed) };
        if stream.is_local() {
            return Err(failed);
        }
        let opened = self.greet(stream, endpoint, hello, end, pool)?;
        let problem = failed.problem();
        if !is_strangers(&failed) {
            // The peer itself may be slow, so the next connection is tried there again.
            tracing::debug!(
                "the Unix socket of `{endpoint}` did not answer in time ({problem}): TCP is used \
                 for this connection"
            );
        } else if lock(&self.local_name_taken).insert(endpoint.to_owned()) {
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

/// Whether an answer that the peer did not give on its other socket came from another program.
fn is_strangers(failed: &Failed) -> bool {
    match failed {
        Failed::Refused(refusal, ..) => *refusal != Refusal::Late,
        Failed::Other(_) => true,
        Failed::Broken(_) | Failed::ConnectionRefused(_) => false,
    }
}

fn unreachable(error: Error) -> Failed {
    match error {
        Error::Io { source, .. } if source.kind() == ErrorKind::ConnectionRefused => {
            Failed::ConnectionRefused(source.to_string())
        }
        Error::Io { source, .. } => Failed::Broken(source.to_string()),
        other => Failed::Broken(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Result as IoResult};

    use super::*;
    use crate::handshake::CONTROL;
    use crate::transport::Bound;
    use crate::{Body, Handler, Identity, Memory, Peer, Reply, Server};

    /// A network whose local sockets belong to a program that says this, or nothing.
    struct Taken(Memory, Mutex<&'static [u8]>);

    impl Transport for Taken {
        fn listen(&self, endpoint: &str) -> Result<Bound> {
            self.0.listen(endpoint)
        }

        fn connect(&self, _: &str, _: Duration) -> Result<Box<dyn Stream>> {
            Ok(Box::new(Stranger(*lock(&self.1))))
        }

        fn connect_tcp(&self, endpoint: &str, timeout: Duration) -> Result<Box<dyn Stream>> {
            self.0.connect(endpoint, timeout)
        }
    }

    struct Stranger(&'static [u8]);

    impl Stream for Stranger {
        fn read(&self, buffer: &mut [u8]) -> IoResult<usize> {
            let length = buffer.len().min(self.0.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            Ok(length)
        }

        fn write(&self, _: &mut [IoSlice<'_>]) -> IoResult<()> {
            Ok(())
        }

        fn set_read_timeout(&self, _: Option<Duration>) -> IoResult<()> {
            Ok(())
        }

        fn set_write_timeout(&self, _: Option<Duration>) -> IoResult<()> {
            Ok(())
        }

        fn shutdown(&self) {}

        fn address(&self) -> String {
            "this host".to_owned()
        }

        fn is_local(&self) -> bool {
            true
        }
    }

    struct Silent;

    impl Handler for Silent {
        fn handle(&self, _: &Peer, _: u16, _: &Body, _: Reply) {}
    }

    #[test]
    fn only_a_wrong_answer_shows_that_a_name_is_taken() {
        let network = Arc::new(Taken(Memory::new(0), Mutex::new(b"")));
        let (peer, settings) = (Identity::server(0), Settings::default());
        let serve = || {
            let silent = Arc::new(Silent);
            Server::start(network.clone(), "host:0", peer, settings.clone(), silent).unwrap()
        };
        let (first, second) = (serve(), serve());
        let dialer = Dialer::new(network.clone(), &settings).unwrap();
        let open = |server: &Server, session| {
            let (nonce, me, max_frame) = ([0; 32], Identity::trainer(0), 1 << 20);
            let (link, resume) = (CONTROL, false);
            let hello = Hello { nonce, me, peer, session, link, resume, max_frame };
            dialer.open(server.endpoint(), &hello, settings.deadline, &Arc::default()).unwrap();
            lock(&dialer.local_name_taken).contains(server.endpoint())
        };
        // It gives up, as a machine that is too busy does.
        assert!(!open(&first, 1));
        *lock(&network.1) = b"HTTP/1.1 400 Bad Request: this is no frame of ours, is it?";
        assert!(open(&first, 2));
        assert!(!lock(&dialer.local_name_taken).contains(second.endpoint()));
    }
}
