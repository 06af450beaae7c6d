//! How many bad lines are passed over before one is an error.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

/// How many bad lines are remembered.
const REMEMBERED: usize = 10;

/// A budget of bad lines that all readers of a data set share; by default there is none, and the
/// first bad line is an error.
#[derive(Debug, Default)]
pub struct BadLines {
    tolerated: u64,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    count: u64,
    first: Vec<BadLine>,
}

/// A line that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The file it is in.
    pub path: PathBuf,
    /// Its number in the file, from 1; for a piped file, in the output of the command.
    pub line: u64,
    /// Which slot or token is wrong, and how.
    pub problem: String,
}

impl BadLines {
    /// Passes over this many bad lines; the next one is an error.
    pub fn tolerate(count: u64) -> BadLines {
        BadLines { tolerated: count, ..BadLines::default() }
    }

    /// Counts a bad line.
    ///
    /// # Errors
    /// When there have been more than are tolerated.
    pub fn report(&self, path: &Path, line: u64, problem: String) -> Result<()> {
        let mut found = self.found();
        if found.count >= self.tolerated {
            let problem = match self.tolerated {
                0 => problem,
                count => format!(
                    "{problem}; it is one bad line more than the {count} that may be skipped"
                ),
            };
            return Err(Error::Line { path: path.to_owned(), line, problem });
        }
        found.count += 1;
        if found.first.len() < REMEMBERED {
            found.first.push(BadLine { path: path.to_owned(), line, problem });
        }
        Ok(())
    }

    /// How many bad lines were passed over.
    pub fn count(&self) -> u64 {
        self.found().count
    }

    /// The first few of them, in the order in which they were found.
    pub fn first(&self) -> Vec<BadLine> {
        self.found().first.clone()
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        // A count and a list are right at any time.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_beyond_the_budget_is_an_error() {
        let path = Path::new("part-0");
        let strict = BadLines::default();
        let error = strict.report(path, 7, "slot `a`: no value".into()).unwrap_err();
        assert_eq!(error.to_string(), "part-0:7: slot `a`: no value");
        let bad = BadLines::tolerate(2);
        bad.report(path, 1, "x".into()).unwrap();
        bad.report(path, 2, "y".into()).unwrap();
        let error = bad.report(path, 3, "z".into()).unwrap_err().to_string();
        assert_eq!(error, "part-0:3: z; it is one bad line more than the 2 that may be skipped");
        assert_eq!(bad.count(), 2);
        assert_eq!(bad.first()[1], BadLine { path: path.into(), line: 2, problem: "y".into() });
    }
}
