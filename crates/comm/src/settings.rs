//! What both ends of a connection agree on or limit: secret, TLS, deadlines, sizes, counts.
//! A secret is never printed, not even by `Debug`.

use std::cell::Cell;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ring::hmac;

use crate::{Error, Result};

/// Bounds of all times: what a clock can measure, and add up without an overflow.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The word that the processes of a job share; who does not know it is refused.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// The secret made of these bytes, of any length.
    pub fn new(bytes: &[u8]) -> Secret {
        Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Whether this is the secret that everybody knows.
    pub fn is_default(&self) -> bool {
        let tag = |secret: &Secret| hmac::sign(&secret.0, b"default");
        tag(self).as_ref() == tag(&Secret::default()).as_ref()
    }

    /// The secret written in an environment variable; blanks around it do not count, and an empty
    /// text means the default secret.
    pub fn from_env_text(text: &str) -> Secret {
        match text.trim() {
            "" => Secret::default(),
            text => Secret::new(text.as_bytes()),
        }
    }

    pub(crate) fn sign(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(part);
        }
        context.sign().as_ref().try_into().expect("HMAC-SHA256 gives 32 bytes")
    }

    pub(crate) fn verify(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        hmac::verify(&self.0, &parts.concat(), tag).is_ok()
    }
}

impl Default for Secret {
    /// The secret of a job without one: it keeps jobs of other programs out, not attackers.
    fn default() -> Secret {
        Secret::new(b"bireme")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// TLS between the processes: each shows its certificate, each checks the other's.
#[derive(Debug, Clone)]
pub struct Tls {
    /// PEM file with the certificate chain of this process.
    pub certificate: PathBuf,
    /// PEM file with its private key.
    pub key: PathBuf,
    /// PEM file with the certificates that sign those of the peers.
    pub authority: PathBuf,
    /// The name in the servers' certificates; without it, the host of the endpoint.
    pub name: Option<String>,
}

/// The question whether the user wants a wait to end, asked about ten times a second by the threads
/// that wait for a connection or a reply.
#[derive(Clone)]
pub struct Interrupt(Arc<dyn Fn() -> bool + Send + Sync>);

impl Interrupt {
    /// Waits end when `question` says yes.
    pub fn new(question: impl Fn() -> bool + Send + Sync + 'static) -> Interrupt {
        Interrupt(Arc::new(question))
    }

    /// Asks; threads in the background are told no.
    pub fn is_wanted(&self) -> bool {
        !IN_BACKGROUND.get() && (self.0)()
    }

    /// From now on the user's interrupt does not concern this thread: it works in the background,
    /// and what it sends must arrive even when a step in the foreground is given up.
    pub fn ignore_on_this_thread() {
        IN_BACKGROUND.set(true);
    }
}

thread_local! {
    static IN_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupt(..)")
    }
}

/// Limits and times of a client or a server.
///
/// ```
/// use std::time::Duration;
/// let settings = bireme_comm::Settings {
///     deadline: Duration::from_secs(60),
///     ..Default::default()
/// };
/// assert_eq!(settings.retries, 3);
/// ```
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the processes of the job share; by default that of a job without a secret.
    pub secret: Secret,
    /// Encrypts all connections; by default none is.
    pub tls: Option<Tls>,
    /// How long a request may take (`FLAGS_rpc_deadline`); also how long a client tries to reach a
    /// server that is not there yet. 180 s.
    pub deadline: Duration,
    /// How many connections in a row may break without an answer before a request is given up, if
    /// `deadline` has passed meanwhile as well (`FLAGS_rpc_retry_times`). 3.
    pub retries: u32,
    /// Between two heartbeats. 1 s.
    pub heartbeat: Duration,
    /// A peer not heard of for this long is lost. 10 s.
    pub heartbeat_timeout: Duration,
    /// A connection that has not proven itself after this time is closed. 5 s.
    pub handshake: Duration,
    /// Largest body of a frame, in bytes; more is refused before a byte is read. 1 GiB.
    pub max_frame: usize,
    /// Connections that a server keeps, all peers together. 4096.
    pub max_connections: usize,
    /// Connections that a server lets prove themselves at one time; the oldest is dropped for the
    /// next one. 256.
    pub max_handshakes: usize,
    /// Requests of one client that may be unanswered at one time; the next waits. 1024.
    pub max_pending: usize,
    /// Connections of the lane `Send` (`FLAGS_rpc_send_thread_num`), opened when needed. 12.
    pub send_connections: usize,
    /// Connections of the lane `Get` (`FLAGS_rpc_get_thread_num`), opened when needed. 12.
    pub get_connections: usize,
    /// Connections of the lane `Prefetch` (`FLAGS_rpc_prefetch_thread_num`), opened when needed. 12.
    pub prefetch_connections: usize,
    /// Ends the waits of a client with [`crate::Error::Interrupted`]. None.
    pub interrupt: Option<Interrupt>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            secret: Secret::default(),
            tls: None,
            deadline: Duration::from_secs(180),
            retries: 3,
            heartbeat: Duration::from_secs(1),
            heartbeat_timeout: Duration::from_secs(10),
            handshake: Duration::from_secs(5),
            max_frame: 1 << 30,
            max_connections: 4096,
            max_handshakes: 256,
            max_pending: 1024,
            send_connections: 12,
            get_connections: 12,
            prefetch_connections: 12,
            interrupt: None,
        }
    }
}

impl Settings {
    /// An error that names the first setting with which nothing would work.
    pub(crate) fn check(&self) -> Result<()> {
        let times = [
            ("deadline", self.deadline),
            ("heartbeat", self.heartbeat),
            ("heartbeat_timeout", self.heartbeat_timeout),
            ("handshake", self.handshake),
        ];
        for (setting, time) in times {
            if time < SHORTEST || time > LONGEST {
                let problem = format!("is {time:?}: choose between {SHORTEST:?} and 10 years");
                return Err(Error::Settings { setting, problem });
            }
        }
        if self.heartbeat * 2 > self.heartbeat_timeout {
            let problem = format!(
                "is {:?}: at least two heartbeats ({:?} each) must fit",
                self.heartbeat_timeout, self.heartbeat
            );
            return Err(Error::Settings { setting: "heartbeat_timeout", problem });
        }
        let counts = [
            ("max_frame", self.max_frame),
            ("max_connections", self.max_connections),
            ("max_handshakes", self.max_handshakes),
            ("max_pending", self.max_pending),
            ("send_connections", self.send_connections),
            ("get_connections", self.get_connections),
            ("prefetch_connections", self.prefetch_connections),
        ];
        match counts.into_iter().find(|(_, count)| *count == 0) {
            None => Ok(()),
            Some((setting, _)) => {
                Err(Error::Settings { setting, problem: "is 0: choose at least 1".into() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_signs_and_hides() {
        let secret = Secret::new(b"word");
        let tag = secret.sign(&[b"ab", b"c"]);
        assert!(secret.verify(&[b"a", b"bc"], &tag));
        assert!(!Secret::new(b"other").verify(&[b"abc"], &tag));
        assert!(!format!("{:?}", Settings { secret, ..Default::default() }).contains("word"));
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        let problem = |settings: Settings| settings.check().unwrap_err().to_string();
        assert!(Settings::default().check().is_ok());
        assert_eq!(
            problem(Settings { deadline: Duration::MAX, ..Default::default() }),
            format!(
                "`deadline` of the connection settings is {:?}: choose between 1ms and 10 years",
                Duration::MAX
            )
        );
        assert_eq!(
            problem(Settings { heartbeat: Duration::from_secs(6), ..Default::default() }),
            "`heartbeat_timeout` of the connection settings is 10s: at least two heartbeats (6s \
             each) must fit"
        );
        assert_eq!(
            problem(Settings { get_connections: 0, ..Default::default() }),
            "`get_connections` of the connection settings is 0: choose at least 1"
        );
    }

    #[test]
    fn an_empty_text_is_the_default_secret() {
        assert!(Secret::from_env_text("").is_default() && !Secret::new(b"mine").is_default());
        let tag = Secret::default().sign(&[b"x"]);
        assert!(Secret::from_env_text("  ").verify(&[b"x"], &tag));
        assert!(Secret::from_env_text("bireme\n").verify(&[b"x"], &tag));
        assert!(!Secret::from_env_text("b").verify(&[b"x"], &tag));
    }
}
