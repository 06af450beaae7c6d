//! How two processes prove to each other that they belong to the same job.
//!
//! The server sends a random challenge; the client answers with a nonce of its own, who it is, and
//! an HMAC over all of it; the server answers with an HMAC over the client's nonce. The secret never
//! crosses the wire, and an answer is good for one connection.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};

use crate::body::{Body, Pool};
use crate::connection::{Broken, Connection};
use crate::frame::{Header, Kind, MAX_STRANGER_BODY, Malformed, VERSION};
use crate::identity::Role;
use crate::{Identity, Secret};

/// Random bytes of one side.
pub type Nonce = [u8; 32];

const HELLO: usize = 32 + 32 + 40;
const WELCOME: usize = 32 + 24;

/// The link of the connection that carries heartbeats and no requests.
pub const CONTROL: u32 = u32::MAX;

/// A client's answer to the challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Random bytes for the server's proof.
    pub nonce: Nonce,
    /// Who the client is.
    pub me: Identity,
    /// Whom it expects to talk to.
    pub peer: Identity,
    /// Its session.
    pub session: u64,
    /// Which of the session's connections this is.
    pub link: u32,
    /// The session exists: a server that does not know it must refuse.
    pub resume: bool,
    /// Largest body that it takes.
    pub max_frame: u64,
}

impl Hello {
    /// The frame's body, with the proof for this challenge.
    pub fn encode(&self, secret: &Secret, challenge: &Nonce) -> Vec<u8> {
        let claims = self.claims();
        let proof = secret.sign(&[b"client", challenge, &self.nonce, &claims]);
        [&self.nonce[..], &proof, &claims].concat()
    }

    /// Reads a body; the second part is the proof, for [`Hello::is_proven`].
    pub fn decode(body: &[u8]) -> Option<(Hello, [u8; 32])> {
        let body: &[u8; HELLO] = body.try_into().ok()?;
        let u32_at = |at: usize| u32::from_le_bytes(array(&body[at..at + 4]));
        let identity = |at: usize| {
            let padding = body[at + 1..at + 4].iter().all(|byte| *byte == 0);
            let role = Role::from_byte(body[at]).filter(|_| padding)?;
            Some(Identity { role, rank: u32_at(at + 4) })
        };
        let resume = match u32_at(92) {
            0 => false,
            1 => true,
            _ => return None,
        };
        let hello = Hello {
            nonce: array(&body[..32]),
            me: identity(64)?,
            peer: identity(72)?,
            session: u64::from_le_bytes(array(&body[80..88])),
            link: u32_at(88),
            resume,
            max_frame: u64::from_le_bytes(array(&body[96..104])),
        };
        Some((hello, array(&body[32..64])))
    }

    /// Whether the sender of this knows the secret.
    pub fn is_proven(&self, secret: &Secret, challenge: &Nonce, proof: &[u8; 32]) -> bool {
        secret.verify(&[b"client", challenge, &self.nonce, &self.claims()], proof)
    }

    fn claims(&self) -> [u8; 40] {
        let mut claims = [0; 40];
        for (at, identity) in [(0, self.me), (8, self.peer)] {
            claims[at] = identity.role as u8;
            claims[at + 4..at + 8].copy_from_slice(&identity.rank.to_le_bytes());
        }
        claims[16..24].copy_from_slice(&self.session.to_le_bytes());
        claims[24..28].copy_from_slice(&self.link.to_le_bytes());
        claims[28] = self.resume.into();
        claims[32..].copy_from_slice(&self.max_frame.to_le_bytes());
        claims
    }
}

/// A server's answer to a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// One life of one server process; another one knows nothing of earlier requests.
    pub incarnation: u64,
    /// Who the server is.
    pub me: Identity,
    /// Largest body that it takes.
    pub max_frame: u64,
}

impl Welcome {
    /// The frame's body, with the proof for the client's nonce.
    pub fn encode(&self, secret: &Secret, challenge: &Nonce, nonce: &Nonce) -> Vec<u8> {
        let claims = self.claims();
        let proof = secret.sign(&[b"server", nonce, challenge, &claims]);
        [&proof[..], &claims].concat()
    }

    /// Reads a body; the second part is the proof, for [`Welcome::is_proven`].
    pub fn decode(body: &[u8]) -> Option<(Welcome, [u8; 32])> {
        let body: &[u8; WELCOME] = body.try_into().ok()?;
        let role = Role::from_byte(body[40]).filter(|_| body[41..44] == [0; 3])?;
        let me = Identity { role, rank: u32::from_le_bytes(array(&body[44..48])) };
        let incarnation = u64::from_le_bytes(array(&body[32..40]));
        let max_frame = u64::from_le_bytes(array(&body[48..56]));
        Some((Welcome { incarnation, me, max_frame }, array(&body[..32])))
    }

    /// Whether the sender of this knows the secret.
    pub fn is_proven(
        &self,
        secret: &Secret,
        challenge: &Nonce,
        nonce: &Nonce,
        proof: &[u8; 32],
    ) -> bool {
        secret.verify(&[b"server", nonce, challenge, &self.claims()], proof)
    }

    fn claims(&self) -> [u8; 24] {
        let mut claims = [0; 24];
        claims[..8].copy_from_slice(&self.incarnation.to_le_bytes());
        claims[8] = self.me.role as u8;
        claims[12..16].copy_from_slice(&self.me.rank.to_le_bytes());
        claims[16..].copy_from_slice(&self.max_frame.to_le_bytes());
        claims
    }
}

/// Why a server closes a new connection; travels as the method of a `Refused` frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Refusal {
    /// The proof is wrong.
    Secret = 1,
    /// The client speaks another version.
    Version = 2,
    /// No connection is free.
    Full = 3,
    /// The session is not known here, or was given up.
    Session = 4,
    /// The client looks for another process.
    Identity = 5,
    /// The bytes make no sense.
    Malformed = 6,
    /// Nothing came in time.
    Late = 7,
}

impl Refusal {
    fn from_code(code: u16) -> Option<Refusal> {
        use Refusal::*;
        [Secret, Version, Full, Session, Identity, Malformed, Late]
            .into_iter()
            .find(|refusal| *refusal as u16 == code)
    }
}

/// Why a handshake failed, seen from the client.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The server said no; the number is its incarnation, or 0.
    Refused(Refusal, String, u64),
    /// The server is another one than expected.
    Other(String),
    /// The connection broke or nothing came in time: try again.
    Broken(String),
    /// Nothing listens at the endpoint.
    ConnectionRefused(String),
}

impl Failed {
    /// What happened, in words.
    pub(crate) fn problem(&self) -> &str {
        match self {
            Failed::Refused(_, problem, _)
            | Failed::Other(problem)
            | Failed::Broken(problem)
            | Failed::ConnectionRefused(problem) => problem,
        }
    }
}

/// A random number that nobody can guess.
pub fn random() -> u64 {
    u64::from_le_bytes(array(&nonce()[..8]))
}

fn nonce() -> Nonce {
    let mut nonce = [0; 32];
    SystemRandom::new().fill(&mut nonce).expect("the system gives random bytes");
    nonce
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("a slice of this length")
}

/// The client's part.
pub(crate) fn ask(
    connection: &Connection,
    mut hello: Hello,
    secret: &Secret,
    timeout: Duration,
    pool: &Arc<Pool>,
) -> Result<Welcome, Failed> {
    let end = Instant::now() + timeout;
    let late = || Failed::Broken(format!("no answer within {:.1} s", timeout.as_secs_f64()));
    let receive = |wanted: Kind, size: usize| {
        let frame = receive(connection, end, pool).map_err(|broken| match broken {
            Broken::Malformed(problem) => {
                Failed::Refused(Refusal::Malformed, format!("it sent {problem}"), 0)
            }
            // Certificates do not get better by trying again.
            Broken::Io(error) if error.kind() == ErrorKind::InvalidData => {
                Failed::Refused(Refusal::Malformed, format!("TLS: {error}"), 0)
            }
            broken => Failed::Broken(broken.to_string()),
        })?;
        let (header, body) = frame.ok_or_else(late)?;
        if header.kind == Kind::Refused {
            let text = String::from_utf8_lossy(&body).into_owned();
            let refusal = Refusal::from_code(header.method).unwrap_or(Refusal::Malformed);
            return Err(Failed::Refused(refusal, text, header.number));
        }
        if header.kind != wanted || body.len() != size {
            let problem = "the handshake is not ours".to_string();
            return Err(Failed::Refused(Refusal::Malformed, problem, 0));
        }
        Ok(body)
    };
    let challenge = array(&receive(Kind::Challenge, 32)?);
    hello.nonce = nonce();
    let body = hello.encode(secret, &challenge);
    connection
        .send(Header::new(Kind::Hello), &[&body])
        .map_err(|error| Failed::Broken(error.to_string()))?;
    let body = receive(Kind::Welcome, WELCOME)?;
    let (welcome, proof) = Welcome::decode(&body)
        .ok_or_else(|| Failed::Refused(Refusal::Malformed, "its welcome is not ours".into(), 0))?;
    if !welcome.is_proven(secret, &challenge, &hello.nonce, &proof) {
        let problem = "it did not prove that it knows the secret of this job";
        return Err(Failed::Refused(Refusal::Secret, problem.into(), 0));
    }
    if welcome.me != hello.peer {
        return Err(Failed::Other(format!("{} answers there, not {}", welcome.me, hello.peer)));
    }
    Ok(welcome)
}

/// The server's part up to the client's proof; the connection is welcomed by [`welcome`].
pub(crate) fn challenge(
    connection: &Connection,
    secret: &Secret,
    timeout: Duration,
    pool: &Arc<Pool>,
) -> Result<(Hello, Nonce), (Refusal, String)> {
    let end = Instant::now() + timeout;
    let challenge = nonce();
    let broken = |problem: String| (Refusal::Late, problem);
    connection
        .send(Header::new(Kind::Challenge), &[&challenge])
        .map_err(|error| broken(error.to_string()))?;
    let (header, body) = receive(connection, end, pool)
        .map_err(|problem| match problem {
            Broken::Malformed(Malformed::Version(version)) => {
                (Refusal::Version, format!("it speaks version {version}, this process {VERSION}"))
            }
            Broken::Malformed(problem) => (Refusal::Malformed, format!("it sent {problem}")),
            other => broken(other.to_string()),
        })?
        .ok_or_else(|| broken("it said nothing in time".into()))?;
    let hello = Some(&body).filter(|_| header.kind == Kind::Hello);
    let (hello, proof) = hello
        .and_then(|body| Hello::decode(body))
        .ok_or_else(|| (Refusal::Malformed, "its hello is not ours".to_string()))?;
    if !hello.is_proven(secret, &challenge, &proof) {
        let problem = "the secrets differ: give all processes of the job the same one";
        return Err((Refusal::Secret, problem.into()));
    }
    Ok((hello, challenge))
}

/// The server's proof, which ends the handshake.
pub(crate) fn welcome(
    connection: &Connection,
    secret: &Secret,
    challenge: &Nonce,
    hello: &Hello,
    welcome: &Welcome,
) -> std::io::Result<()> {
    let body = welcome.encode(secret, challenge, &hello.nonce);
    connection.send(Header::new(Kind::Welcome), &[&body])
}

/// Tells the client why and closes.
pub(crate) fn refuse(connection: &Connection, refusal: Refusal, problem: &str, incarnation: u64) {
    let text = &problem.as_bytes()[..problem.len().min(MAX_STRANGER_BODY)];
    let method = refusal as u16;
    let header = Header { method, number: incarnation, ..Header::new(Kind::Refused) };
    // A stranger may be gone already.
    let _ = connection.send(header, &[text]);
    connection.shutdown();
}

fn receive(
    connection: &Connection,
    end: Instant,
    pool: &Arc<Pool>,
) -> Result<Option<(Header, Body)>, Broken> {
    let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    connection.stream().set_read_timeout(Some(left)).map_err(Broken::Io)?;
    connection.receive(MAX_STRANGER_BODY, pool)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello() -> Hello {
        Hello {
            nonce: [3; 32],
            me: Identity::trainer(1),
            peer: Identity::server(2),
            session: u64::MAX - 1,
            link: CONTROL,
            resume: true,
            max_frame: 1 << 40,
        }
    }

    #[test]
    fn a_hello_is_good_for_one_challenge_and_one_secret() {
        let (secret, challenge) = (Secret::default(), nonce());
        let body = hello().encode(&secret, &challenge);
        let (read, proof) = Hello::decode(&body).unwrap();
        assert_eq!(read, hello());
        assert!(read.is_proven(&secret, &challenge, &proof));
        assert!(!read.is_proven(&secret, &nonce(), &proof));
        assert!(!read.is_proven(&Secret::new(b"x"), &challenge, &proof));
        let other = Hello { me: Identity::trainer(2), ..read };
        assert!(!other.is_proven(&secret, &challenge, &proof));
    }

    #[test]
    fn a_welcome_is_no_hello() {
        let (secret, challenge, own) = (Secret::default(), nonce(), nonce());
        let welcome = Welcome { incarnation: 5, me: Identity::server(2), max_frame: 9 };
        let (read, proof) = Welcome::decode(&welcome.encode(&secret, &challenge, &own)).unwrap();
        assert_eq!(read, welcome);
        assert!(read.is_proven(&secret, &challenge, &own, &proof));
        assert!(!read.is_proven(&secret, &own, &challenge, &proof));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_nothing(
            hello in prop::collection::vec(0u8..3, HELLO..=HELLO),
            any in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            for bytes in [&hello, &any] {
                if let Some((read, proof)) = Hello::decode(bytes) {
                    prop_assert_eq!([&read.nonce[..], &proof, &read.claims()].concat(), &bytes[..]);
                }
                let _ = Welcome::decode(bytes);
            }
        }
    }
}
