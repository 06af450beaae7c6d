//! Files, plain, compressed or through a command, become samples.
//!
//! A [`Source`] says which files there are and how they are written; a [`Reader`] reads one of them
//! in blocks of whole lines, so that what it holds does not grow with the file.

mod files;
mod guard;
mod input;
mod output;
#[cfg(feature = "parquet")]
mod parquet_file;
mod pipe;
mod reader;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

pub use self::files::expand;
pub use self::input::open;
pub use self::output::Output;
pub(crate) use self::reader::PREVIEW;
pub use self::reader::{Reader, preview};

use crate::parse::{BadLines, Format, Named};

/// The lines of one of several processes: in turn each has [`LineShare::GROUP`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineShare {
    /// Which process, from 0.
    pub rank: u64,
    /// How many there are.
    pub of: u64,
}

impl LineShare {
    /// Lines that belong together: enough to be parsed beside each other, and few enough that
    /// processes have as many, but for one group.
    pub const GROUP: u64 = 16;

    /// Whether line `number` of a file, from 1, is of this process.
    fn has(self, number: u64) -> bool {
        (number - 1) / LineShare::GROUP % self.of == self.rank
    }
}

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
    /// Which slots lines have named.
    pub named: Arc<Named>,
    /// Which lines of every file are read, where several processes share files; all of them if there
    /// is none.
    pub share: Option<LineShare>,
    /// Whether other processes have files of the same data: a slot that no line here names may be
    /// named there. False: once all files are read, such a slot is an error where lines have names
    /// of no slot instead.
    pub partial: bool,
}

impl Source {
    /// Files of a format, whose every line must be right.
    pub fn new(files: Vec<PathBuf>, format: Format) -> Source {
        let (bad_lines, named) = (Arc::default(), Arc::default());
        Source { files, format, pipe_command: None, bad_lines, named, share: None, partial: false }
    }
}
