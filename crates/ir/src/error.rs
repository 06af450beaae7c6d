//! Everything that can be wrong with a program.

/// An error about a program; names the op, variable or place it is about.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text program does not parse.
    #[error("line {line}: {problem}")]
    Text {
        /// Line number, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// An op does not fit its inputs; raised by shape rules.
    #[error("op `{op}`{}: {problem}", at(.site))]
    BadOp {
        /// The op's type.
        op: String,
        /// The line of user code that created it.
        site: Option<String>,
        /// What does not fit, with the variables' names.
        problem: String,
    },
}

fn at(site: &Option<String>) -> String {
    site.as_ref().map_or_else(String::new, |site| format!(" (created at {site})"))
}

/// The result of an operation on programs.
pub type Result<T> = std::result::Result<T, Error>;
