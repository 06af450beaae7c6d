//! What can go wrong between a file and a batch.

use std::path::PathBuf;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of reading data; says which file, where in it, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("cannot read `{}`: {problem}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`: {problem}", path.display())]
    Output {
        /// Which one.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// A line is not what its format says.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file it is in.
        path: PathBuf,
        /// Its number in the file, from 1.
        line: u64,
        /// Which slot or token is wrong, and how.
        problem: String,
    },
    /// A command that files are piped through failed.
    #[error("{0}")]
    Pipe(String),
    /// Settings do not fit together, or do not fit the data.
    #[error("{0}")]
    Settings(String),
    /// Other trainers are lost, or do something else.
    #[error("{0}")]
    Peers(String),
    /// A training step failed.
    #[error(transparent)]
    Engine(#[from] bireme_engine::Error),
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}
