//! What can go wrong in a group. All errors but [`Error::Argument`] end the group.

use std::sync::Arc;

/// An error of a collective call; names the rank that is the cause, and its endpoint.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The group could not form, or a peer did not take what was sent to it.
    #[error("{0}")]
    Comm(Arc<bireme_comm::Error>),
    /// A rank died, stopped or left.
    #[error("{peer} is lost: {problem}, in {call}")]
    Lost {
        /// Role, rank and endpoint.
        peer: String,
        /// What happened.
        problem: String,
        /// What this rank was doing.
        call: String,
    },
    /// Another rank gave the group up and said why.
    #[error("{peer} gave up: {problem}")]
    Aborted {
        /// Role, rank and endpoint.
        peer: String,
        /// Its reason.
        problem: String,
    },
    /// A rank is there, but did not come to the same call in time.
    #[error(
        "{peer} did not join {call} within {after_s:.1} s (`FLAGS_rpc_deadline`){hint}: every rank \
         must make the same calls"
    )]
    Deadline {
        /// Role, rank and endpoint.
        peer: String,
        /// What this rank was doing.
        call: String,
        /// How long it waited, in seconds.
        after_s: f64,
        /// What the other rank is doing, if known.
        hint: String,
    },
    /// Two ranks made different calls.
    #[error(
        "the ranks disagree: here it is {ours}, on {peer} it is {theirs}: every rank must make \
         the same calls, with the same sizes and types, in the same order"
    )]
    Mismatch {
        /// Role, rank and endpoint.
        peer: String,
        /// The call of this rank.
        ours: String,
        /// The call of the other one.
        theirs: String,
    },
    /// Arguments that no group could work with; the group is unharmed.
    #[error("{call}: {problem}")]
    Argument {
        /// The call.
        call: &'static str,
        /// What is wrong and what is right.
        problem: String,
    },
    /// The user asked to stop waiting; see [`bireme_comm::Settings::interrupt`].
    #[error("interrupted in {call}")]
    Interrupted {
        /// What this rank was doing.
        call: String,
    },
    /// Work in the background panicked.
    #[error("work in the background of the group panicked: {problem}")]
    Panicked {
        /// The panic's text.
        problem: String,
    },
}

impl From<bireme_comm::Error> for Error {
    fn from(error: bireme_comm::Error) -> Error {
        match error {
            bireme_comm::Error::Interrupted { request, .. } => Error::Interrupted { call: request },
            error => Error::Comm(Arc::new(error)),
        }
    }
}

/// A result of a collective call.
pub type Result<T> = std::result::Result<T, Error>;
