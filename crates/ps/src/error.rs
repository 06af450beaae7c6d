//! What can go wrong with parameters that live elsewhere.

/// An error of a parameter server or a worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The way to a peer failed, or the peer.
    #[error(transparent)]
    Comm(#[from] bireme_comm::Error),
    /// The engine refused an update.
    #[error(transparent)]
    Engine(#[from] bireme_engine::Error),
    /// A trainer is missing that others wait for.
    #[error("{0}")]
    Missing(String),
    /// The program, a table or a setting does not fit.
    #[error("{0}")]
    Config(String),
    /// A request that makes no sense: an unknown variable, wrong sizes.
    #[error("{0}")]
    Request(String),
    /// A trainer was about to push what is no number.
    #[error(
        "step {step}: `{var}` has {what} ({place}) and was not sent to the servers: check what is fed \
         (NaN in the data, a logarithm or a division of 0) and the learning rate; \
         `FLAGS_check_nan_inf=1` or `--check-finite` names the op where it begins, and \
         `FLAGS_communicator_check_finite=0` sends such values"
    )]
    NotFinite {
        /// The gradient, or the parameter of a geo trainer.
        var: String,
        /// Which part of it.
        place: String,
        /// `NaN` or `infinity`.
        what: &'static str,
        /// The trainer's step, from 1.
        step: u64,
    },
    /// A checkpoint cannot be written or read.
    #[error("{path}: {problem}")]
    File {
        /// The file or folder.
        path: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<bireme_comm::wire::Damaged> for Error {
    fn from(damaged: bireme_comm::wire::Damaged) -> Error {
        Error::Request(damaged.to_string())
    }
}

/// A result of the parameter servers.
pub type Result<T> = std::result::Result<T, Error>;
