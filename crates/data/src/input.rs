//! Where samples come from, as datasets see it: numbered files that are read from front to back.
//!
//! Datasets know no format and no file system; parsers and sources stand behind these two traits,
//! and tests put rows of their own there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::source::{Reader, Source};
use crate::{Result, Samples, Slot};

/// Files of samples.
pub trait Input: Send + Sync {
    /// How many there are.
    fn files(&self) -> usize;

    /// Begins to read a file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn open(&self, file: usize) -> Result<Box<dyn Rows>>;

    /// Ends reads that wait, and all that follow; to be called from another thread.
    fn stop(&self) {}
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

/// The files of a [`Source`], parsed for some slots.
#[derive(Clone, Debug)]
pub struct Files {
    source: Source,
    slots: Vec<Slot>,
    stop: Arc<AtomicBool>,
}

impl Files {
    /// The files of a source; nothing is read yet.
    ///
    /// # Errors
    /// When the format does not provide the slots.
    pub fn new(source: Source, slots: &[Slot]) -> Result<Files> {
        crate::parse::Parser::new(&source.format, slots)?;
        Ok(Files { source, slots: slots.to_vec(), stop: Arc::default() })
    }

    /// The source.
    pub fn source(&self) -> &Source {
        &self.source
    }
}

impl Input for Files {
    fn files(&self) -> usize {
        self.source.files.len()
    }

    fn open(&self, file: usize) -> Result<Box<dyn Rows>> {
        Ok(Box::new(Reader::open_until(&self.source, file, &self.slots, &self.stop)?))
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Rows for Reader {
    fn read(&mut self, out: &mut Samples, at_least_rows: usize) -> Result<bool> {
        Reader::read(self, out, out.len() + at_least_rows)
    }
}
