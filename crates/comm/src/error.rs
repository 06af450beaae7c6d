//! What can go wrong between two processes.

use std::time::Duration;

/// An error of communication; names the peer and what was asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peer cannot be reached, or went away and did not come back in time.
    #[error("{peer} is lost: {problem}")]
    Lost {
        /// Role, rank and endpoint of the peer.
        peer: String,
        /// What happened, and what we waited for.
        problem: String,
    },
    /// The peer is there, but did not answer in time.
    #[error("{peer} did not answer {request} within {:.1} s", .after.as_secs_f64())]
    Deadline {
        /// Role, rank and endpoint of the peer.
        peer: String,
        /// What was asked.
        request: String,
        /// How long we waited.
        after: Duration,
    },
    /// The peer refused the connection: wrong secret, wrong version, limits.
    #[error("{peer} refused the connection: {problem}")]
    Refused {
        /// Role, rank and endpoint of the peer.
        peer: String,
        /// Why, and what to do.
        problem: String,
    },
    /// The peer answered with an error of its own.
    #[error("{peer}: {problem}")]
    Remote {
        /// Role, rank and endpoint of the peer.
        peer: String,
        /// What it said.
        problem: String,
    },
    /// Bytes that are no frame of ours.
    #[error("{peer} sent {problem}")]
    Protocol {
        /// The peer.
        peer: String,
        /// What is wrong with them.
        problem: String,
    },
    /// The local machine refused: an address in use, no file descriptors left.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A setting that cannot work.
    #[error("`{setting}` of the connection settings {problem}")]
    Settings {
        /// Its name.
        setting: &'static str,
        /// What is wrong with it, and what is right.
        problem: String,
    },
    /// The user asked to stop waiting; see [`crate::Settings::interrupt`].
    #[error("interrupted while waiting for {request} of {peer}")]
    Interrupted {
        /// Role, rank and endpoint of the peer.
        peer: String,
        /// What was asked.
        request: String,
    },
    /// This side was closed.
    #[error("the connection to {peer} is closed")]
    Closed {
        /// The peer.
        peer: String,
    },
}

/// A result of communication.
pub type Result<T> = std::result::Result<T, Error>;
