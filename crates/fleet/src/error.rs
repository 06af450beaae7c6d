//! What can go wrong in a job.

/// An error of a job; says which role, rank or setting it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting or an environment variable is missing or wrong.
    #[error("{0}")]
    Config(String),
    /// The transpiler refused the program.
    #[error(transparent)]
    Transpiler(#[from] bireme_transpiler::Error),
    /// A server or the way to it failed.
    #[error(transparent)]
    Ps(#[from] bireme_ps::Error),
    /// The way to other processes failed.
    #[error(transparent)]
    Comm(#[from] bireme_comm::Error),
    /// The way to other ranks failed.
    #[error(transparent)]
    Group(#[from] bireme_collective::Error),
    /// A program is no longer one when it is cut.
    #[error(transparent)]
    Program(#[from] bireme_ir::Error),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] bireme_engine::Error),
}

/// A result of a job.
pub type Result<T> = std::result::Result<T, Error>;
