//! What can go wrong while a program is split.

/// An error of the transpiler; says which setting or variable it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting, or a combination of settings, makes no sense.
    #[error("{0}")]
    Config(String),
    /// The program cannot be distributed.
    #[error("{0}")]
    Program(String),
}

/// A result of the transpiler.
pub type Result<T> = std::result::Result<T, Error>;
