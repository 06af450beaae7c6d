//! What can go wrong between a YAML file and a trained model.

use std::path::PathBuf;

use crate::config::Place;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a run; says which file or key it is about, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value in a configuration, or the text of the file itself, is wrong.
    #[error("{place}: {problem}")]
    Config {
        /// Where it stands.
        place: Place,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// A file or folder cannot be read or written.
    #[error("`{}`: {problem}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// Settings do not fit together.
    #[error("{0}")]
    Settings(String),
    /// Reading data failed.
    #[error(transparent)]
    Data(bireme_data::Error),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] bireme_engine::Error),
    /// The job failed.
    #[error(transparent)]
    Fleet(#[from] bireme_fleet::Error),
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// An error about a file, from what the system says.
    pub(crate) fn file(path: impl Into<PathBuf>, problem: impl ToString) -> Error {
        Error::File { path: path.into(), problem: problem.to_string() }
    }
}

impl From<bireme_data::Error> for Error {
    fn from(error: bireme_data::Error) -> Error {
        match error {
            bireme_data::Error::Interrupted => Error::Interrupted,
            other => Error::Data(other),
        }
    }
}
