//! TLS over any stream: both sides show a certificate and check the other's.
//!
//! The session's state is locked only to encrypt or decrypt, never while the socket waits, so one
//! thread can read while another writes. The TLS handshake happens inside the first reads.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore};
use rustls::{ServerConfig, ServerConnection};

use super::Stream;
use crate::connection::lock;
use crate::settings::Tls;
use crate::{Error, Result};

/// Plain bytes encrypted and written at a time.
const CHUNK: usize = 256 << 10;
/// Encrypted bytes read at a time.
const BUFFER: usize = 64 << 10;

/// Certificates and keys, read and checked.
pub(crate) struct Encryption {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: Option<String>,
}

impl Encryption {
    pub(crate) fn load(tls: &Tls) -> Result<Encryption> {
        let bad = |what: String, problem: String| Error::Io {
            what,
            source: io::Error::new(ErrorKind::InvalidData, problem),
        };
        let file = |path: &std::path::Path| format!("cannot use `{}` for TLS", path.display());
        let certificates = |path: &std::path::Path| {
            CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
                .map_err(|error| bad(file(path), error.to_string()))
        };
        let chain = certificates(&tls.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&tls.key)
            .map_err(|error| bad(file(&tls.key), error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(&tls.authority)? {
            roots.add(root).map_err(|error| bad(file(&tls.authority), error.to_string()))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| bad(file(&tls.authority), error.to_string()))?;
        let unfit = |error: rustls::Error| bad(file(&tls.certificate), error.to_string());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(unfit)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(unfit)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unfit)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(unfit)?;
        Ok(Encryption { client: client.into(), server: server.into(), name: tls.name.clone() })
    }

    /// Wraps a connection to `endpoint`.
    pub(crate) fn client(
        &self,
        stream: Box<dyn Stream>,
        endpoint: &str,
    ) -> io::Result<Box<dyn Stream>> {
        let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_string()).map_err(invalid)?;
        let session = ClientConnection::new(self.client.clone(), name).map_err(invalid)?;
        Ok(TlsStream::wrap(stream, session.into()))
    }

    /// Wraps a connection that was taken.
    pub(crate) fn server(&self, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let session = ServerConnection::new(self.server.clone()).map_err(invalid)?;
        Ok(TlsStream::wrap(stream, session.into()))
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

struct TlsStream {
    stream: Box<dyn Stream>,
    session: Mutex<Connection>,
    /// Held while bytes go to the socket, so that they go in the order of their encryption.
    writer: Mutex<Outgoing>,
    /// Encrypted bytes that the session has not taken yet.
    reader: Mutex<Received>,
}

/// Encrypted bytes on their way to the socket; the buffer is kept from write to write.
#[derive(Default)]
struct Outgoing {
    encrypted: Vec<u8>,
    /// How many of them the socket has taken.
    sent: usize,
    /// Plain bytes of the caller that they stand for; told when the socket has taken all.
    accepted: usize,
}

struct Received {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl TlsStream {
    fn wrap(stream: Box<dyn Stream>, mut session: Connection) -> Box<dyn Stream> {
        // Writers bound what they hand over; a limit here would cut a frame.
        session.set_buffer_limit(None);
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Box::new(TlsStream {
            stream,
            session: Mutex::new(session),
            writer: Mutex::default(),
            reader: Mutex::new(Received { buffer, start: 0, end: 0 }),
        })
    }

    /// Writes what the session has for the other side. What a timeout leaves here is written
    /// first by the next call.
    fn flush(&self, outgoing: &mut Outgoing) -> io::Result<()> {
        {
            let mut session = lock(&self.session);
            while session.wants_write() {
                session.write_tls(&mut outgoing.encrypted)?;
            }
        }
        while outgoing.sent < outgoing.encrypted.len() {
            let rest = &outgoing.encrypted[outgoing.sent..];
            match self.stream.write_some(&mut [IoSlice::new(rest)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => outgoing.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        outgoing.encrypted.clear();
        outgoing.sent = 0;
        Ok(())
    }

    /// Writes what reading made necessary: the handshake, alerts. A thread that writes just now
    /// is not waited for, as it may wait for us to read.
    fn flush_after_read(&self) -> io::Result<()> {
        if !lock(&self.session).wants_write() {
            return Ok(());
        }
        let Ok(mut outgoing) = self.writer.try_lock() else { return Ok(()) };
        match self.flush(&mut outgoing) {
            Err(error) if is_timeout(&error) => Ok(()),
            result => result,
        }
    }

    /// Decrypts what was received; none when more is needed.
    fn decrypt(&self, received: &mut Received, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut session = lock(&self.session);
        loop {
            match session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result.map(Some),
            }
            if received.start == received.end {
                return Ok(None);
            }
            let mut bytes = &received.buffer[received.start..received.end];
            let count = session.read_tls(&mut bytes)?;
            received.start += count;
            session.process_new_packets().map_err(invalid)?;
        }
    }
}

impl Stream for TlsStream {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut received = lock(&self.reader);
        loop {
            let decrypted = self.decrypt(&mut received, buffer);
            // An alert tells the other side what is wrong, so it goes out before the error.
            let flushed = self.flush_after_read();
            if let Some(count) = decrypted? {
                return Ok(count);
            }
            flushed?;
            let count = self.stream.read(&mut received.buffer)?;
            if count == 0 {
                return Ok(0);
            }
            (received.start, received.end) = (0, count);
        }
    }

    fn write(&self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut outgoing = lock(&self.writer);
        let mut waiting = 0;
        for chunk in parts.iter().flat_map(|part| part.chunks(CHUNK)) {
            lock(&self.session).writer().write_all(chunk)?;
            waiting += chunk.len();
            if waiting >= CHUNK {
                self.flush(&mut outgoing)?;
                waiting = 0;
            }
        }
        self.flush(&mut outgoing)
    }

    fn write_some(&self, parts: &mut [IoSlice<'_>]) -> io::Result<usize> {
        let mut outgoing = lock(&self.writer);
        if outgoing.accepted == 0 {
            let mut left = CHUNK;
            for part in parts.iter() {
                let chunk = &part[..part.len().min(left)];
                lock(&self.session).writer().write_all(chunk)?;
                left -= chunk.len();
            }
            outgoing.accepted = CHUNK - left;
        }
        self.flush(&mut outgoing)?;
        Ok(std::mem::take(&mut outgoing.accepted))
    }

    fn try_write(&self, frame: &[u8]) -> io::Result<bool> {
        let Ok(mut outgoing) = self.writer.try_lock() else { return Ok(false) };
        if outgoing.sent < outgoing.encrypted.len() {
            return Ok(false);
        }
        let mut session = lock(&self.session);
        if session.is_handshaking() {
            return Ok(false);
        }
        session.writer().write_all(frame)?;
        while session.wants_write() {
            session.write_tls(&mut outgoing.encrypted)?;
        }
        drop(session);
        if self.stream.try_write(&outgoing.encrypted)? {
            outgoing.encrypted.clear();
        }
        // Otherwise the next write takes it along.
        Ok(true)
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }

    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_write_timeout(timeout)
    }

    fn shutdown(&self) {
        self.stream.shutdown();
    }

    fn address(&self) -> String {
        self.stream.address()
    }
}
