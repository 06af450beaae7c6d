//! Files, plain, compressed or through a command, become samples.
//!
//! A [`Source`] says which files there are and how they are written; a [`Reader`] reads one of them
//! in blocks of whole lines, so that what it holds does not grow with the file.

mod files;
mod guard;
mod input;
mod output;
mod pipe;
mod reader;
#[cfg(feature = "parquet")]
mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

pub use self::files::expand;
pub use self::input::open;
pub use self::output::Output;
pub use self::reader::{Reader, preview};

use crate::parse::{BadLines, Format};

/// Files of one format, and how they are read.
#[derive(Clone, Debug)]
pub struct Source {
    /// The files, in the order in which they are read; see [`expand`]. Those that are compressed
    /// with gzip or zstd are known by their first bytes; so are Parquet files, which are read with the
    /// feature `parquet`, by the names that the format has for slots.
    pub files: Vec<PathBuf>,
    /// How the lines are written: of the files, or of what the command prints.
    pub format: Format,
    /// A shell command that every file goes through, on its standard input, before it is parsed.
    pub pipe_command: Option<String>,
    /// How many bad lines all files together may have.
    pub bad_lines: Arc<BadLines>,
}

impl Source {
    /// Files of a format, whose every line must be right.
    pub fn new(files: Vec<PathBuf>, format: Format) -> Source {
        Source { files, format, pipe_command: None, bad_lines: Arc::default() }
    }
}
