//! Where samples come from, as datasets see it: numbered files that are read from front to back.
//!
//! Datasets know no format and no file system; parsers and sources stand behind these two traits,
//! and tests put rows of their own there.

use crate::{Result, Samples};

/// Files of samples.
pub trait Input: Send + Sync {
    /// How many there are.
    fn files(&self) -> usize;

    /// Begins to read a file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn open(&self, file: usize) -> Result<Box<dyn Rows>>;
}

/// A file that is being read.
pub trait Rows: Send {
    /// Appends at least so many samples, or all that are left; whether there may be more.
    ///
    /// # Errors
    /// When the file cannot be read on, or holds what it must not.
    fn read(&mut self, out: &mut Samples, at_least_rows: usize) -> Result<bool>;
}

/// Batches for one training thread.
pub trait Batches: Send {
    /// Replaces what `batch` holds by the next samples; false when there are none left.
    ///
    /// # Errors
    /// When the data cannot be read or understood.
    fn next(&mut self, batch: &mut crate::Batch) -> Result<bool>;

    /// Leaves out so many batches, or all that are left; how many it were. Training that goes on
    /// after a crash leaves out what it had done.
    ///
    /// # Errors
    /// As [`Batches::next`].
    fn skip(&mut self, batches: u64) -> Result<u64>;

    /// Ends a [`Batches::next`] that waits, and all that follow; to be called from another thread.
    fn closer(&self) -> Closer {
        Box::new(|| ())
    }
}

/// See [`Batches::closer`].
pub type Closer = Box<dyn Fn() + Send + Sync>;
