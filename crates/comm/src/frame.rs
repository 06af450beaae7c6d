//! The unit of the wire: a fixed header of 40 bytes, little-endian, then a body.
//! The header is checked, length included, before a byte of the body is believed.

/// Bytes of a header.
pub const HEADER: usize = 40;
/// First bytes of every frame.
pub const MAGIC: [u8; 4] = *b"BRM\x01";
/// Version of the protocol; peers of another one are refused. Goes up with every change to frames,
/// requests or answers: 2 acknowledges large replies, and tells servers what a job goes on from; 3 lets a server
/// that ends say why.
pub const VERSION: u16 = 3;
/// Largest body before a connection has proven itself.
pub const MAX_STRANGER_BODY: usize = 1024;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Server to client, first frame: a random challenge.
    Challenge = 1,
    /// Client to server: the answer, and who it is.
    Hello = 2,
    /// Server to client: the server's own proof.
    Welcome = 3,
    /// Server to client: why the connection is closed now; on the one of heartbeats, why the server ends.
    Refused = 4,
    /// A request.
    Request = 5,
    /// A request that is executed at most once.
    RequestOnce = 6,
    /// The reply to a request.
    Reply = 7,
    /// The reply to a request that failed: a text.
    Failure = 8,
    /// Asks for a [`Kind::Pong`]: are all frames before this one there?
    Ping = 9,
    /// Answers a [`Kind::Ping`].
    Pong = 10,
    /// The sender is alive; the server answers with another one.
    Heartbeat = 11,
    /// The client leaves on purpose; the server answers with another one.
    Goodbye = 12,
    /// The client has the replies that `acknowledged` says, so they need not be kept.
    Received = 13,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        use Kind::*;
        [
            Challenge,
            Hello,
            Welcome,
            Refused,
            Request,
            RequestOnce,
            Reply,
            Failure,
            Ping,
            Pong,
            Heartbeat,
            Goodbye,
            Received,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Version of the protocol that the sender speaks.
    pub version: u16,
    /// What the frame is for.
    pub kind: Kind,
    /// What is asked, in a request.
    pub method: u16,
    /// Counts the frames of one direction of one connection from 0, so that a lost or doubled
    /// frame is noticed.
    pub sequence: u32,
    /// Number of the request, counted from 1 on each link of a session.
    pub number: u64,
    /// All `once` requests of this link with a smaller number are answered or given up.
    pub acknowledged: u64,
    /// Bytes of the body.
    pub length: u64,
}

impl Header {
    /// A header of this kind with nothing else set.
    pub fn new(kind: Kind) -> Header {
        Header {
            version: VERSION,
            kind,
            method: 0,
            sequence: 0,
            number: 0,
            acknowledged: 0,
            length: 0,
        }
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.version.to_le_bytes());
        bytes[6] = self.kind as u8;
        bytes[8..10].copy_from_slice(&self.method.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.acknowledged.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Reads a header whose body may have at most `limit` bytes; the error is the end of a sentence
    /// that begins with "sent".
    pub fn decode(bytes: &[u8; HEADER], limit: usize) -> Result<Header, Malformed> {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u64_at = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a slice of 8 bytes"))
        };
        if bytes[0..4] != MAGIC {
            return Err(Malformed::Magic);
        }
        // Before the kind: another version may have other kinds.
        let version = u16_at(4);
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let kind = Kind::from_byte(bytes[6]).ok_or(Malformed::Kind(bytes[6]))?;
        if bytes[7] != 0 || u16_at(10) != 0 {
            return Err(Malformed::Reserved);
        }
        let length = u64_at(32);
        if length > limit as u64 {
            return Err(Malformed::Length { kind, number: u64_at(16), length, limit });
        }
        Ok(Header {
            version,
            kind,
            method: u16_at(8),
            sequence: u32::from_le_bytes(bytes[12..16].try_into().expect("a slice of 4 bytes")),
            number: u64_at(16),
            acknowledged: u64_at(24),
            length,
        })
    }
}

/// Why bytes are no header of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The first bytes are not ours.
    #[error("bytes that are no frame of this protocol")]
    Magic,
    /// Another version of the protocol.
    #[error(
        "version {0} of the protocol, but this process speaks {VERSION}: use the same release everywhere"
    )]
    Version(u16),
    /// A kind that does not exist.
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    /// Bytes that must be zero are not.
    #[error("a header with reserved bytes set")]
    Reserved,
    /// More body than allowed here.
    #[error("a frame of {length} bytes where at most {limit} are allowed")]
    Length {
        /// Kind of the frame.
        kind: Kind,
        /// Number of its request.
        number: u64,
        /// Bytes it claims.
        length: u64,
        /// Bytes allowed.
        limit: usize,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_reads_back() {
        let header = Header {
            method: 7,
            sequence: 3,
            number: 1 << 40,
            acknowledged: 9,
            length: 55,
            ..Header::new(Kind::RequestOnce)
        };
        assert_eq!(Header::decode(&header.encode(), 55), Ok(header));
    }

    #[test]
    fn a_claim_of_4_gib_is_refused() {
        let header = Header { length: 1 << 32, ..Header::new(Kind::Request) };
        let problem = Header::decode(&header.encode(), 1 << 30).unwrap_err().to_string();
        assert_eq!(problem, "a frame of 4294967296 bytes where at most 1073741824 are allowed");
    }

    #[test]
    fn another_version_is_named() {
        // Version 1 did not know all frames and requests of today.
        for version in [1, 9] {
            let header = Header { version, ..Header::new(Kind::Hello) };
            assert_eq!(Header::decode(&header.encode(), 0), Err(Malformed::Version(version)));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_header_or_an_error(mut bytes: [u8; HEADER], real: bool, kind in 0u8..15) {
            if real {
                bytes[0..4].copy_from_slice(&MAGIC);
                bytes[4..8].copy_from_slice(&[VERSION as u8, 0, kind, 0]);
                bytes[10..12].fill(0);
            }
            if let Ok(header) = Header::decode(&bytes, usize::MAX) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }
    }
}
