//! Where samples come from, as datasets see it: numbered files that are read from front to back.
//!
//! Datasets know no format and no file system; parsers and sources stand behind these two traits,
//! and tests put rows of their own there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::parse::{BadLines, Format, Named, Parser};
use crate::source::{PREVIEW, Reader, Source, preview};
use crate::{Error, Result, Samples, Slot};

/// Files of samples.
pub trait Input: Send + Sync {
    /// How many there are.
    fn files(&self) -> usize;

    /// Begins to read a file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn open(&self, file: usize) -> Result<Box<dyn Rows>>;

    /// Looks at what all files together must have; called when they have been read.
    ///
    /// # Errors
    /// When they lack something.
    fn check(&self) -> Result<()> {
        Ok(())
    }

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
        Parser::new(&source.format, slots)?;
        Ok(Files { source, slots: slots.to_vec(), stop: Arc::default() })
    }

    /// The source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Looks at the first lines, before anything is trained: a warning about a slot that none of
    /// them names, which is 0 in all samples unless later lines name it.
    ///
    /// # Errors
    /// When there are no other lines, and these have names of no slot instead.
    pub fn look_ahead(&self) -> Result<Option<String>> {
        let Source { files, format, pipe_command, partial, .. } = &self.source;
        let [first, others @ ..] = &files[..] else { return Ok(None) };
        // What is read of a pipe is gone; and a command may take its time.
        if !matches!(format, Format::SlotValue(_)) || pipe_command.is_some() || !first.is_file() {
            return Ok(None);
        }
        // What cannot be read is said when it is read.
        let Ok(text) = preview(first, None) else { return Ok(None) };
        let mut parser = Parser::new(format, &self.slots)?;
        let (mut samples, bad) = (Samples::of(&self.slots), BadLines::tolerate(u64::MAX));
        parser.block(&text, 1, first, &bad, &mut samples)?;
        let Some(met) = parser.met() else { return Ok(None) };
        let named = Named::default();
        named.add(first, met);
        let tokens = format.names(&self.slots)?;
        let Some(problem) = named.problem(&named.slots(), &self.slots, &tokens) else {
            return Ok(None);
        };
        // A text that was cut at the end of a line is longer.
        let is_all = others.is_empty() && !partial && text.len() < PREVIEW / 2;
        let is_all = is_all && bad.count() == 0;
        match (is_all, named.has_unknown_names()) {
            (true, true) => Err(Error::Settings(problem)),
            (true, false) => Ok(Some(problem)),
            (false, true) => {
                Ok(Some(format!("{problem}: if later lines do not, it will be an error")))
            }
            (false, false) => Ok(Some(format!("{problem}, unless later lines do"))),
        }
    }

    /// What is wrong with the slots that no line names, if lines named these; none if that are all.
    ///
    /// # Errors
    /// When the format does not provide the slots.
    pub fn unnamed(&self, named: &[bool]) -> Result<Option<String>> {
        let tokens = self.source.format.names(&self.slots)?;
        Ok(self.source.named.problem(named, &self.slots, &tokens))
    }
}

impl Input for Files {
    fn files(&self) -> usize {
        self.source.files.len()
    }

    fn open(&self, file: usize) -> Result<Box<dyn Rows>> {
        Ok(Box::new(Reader::open_until(&self.source, file, &self.slots, &self.stop)?))
    }

    fn check(&self) -> Result<()> {
        let named = &self.source.named;
        if self.source.partial || !named.has_unknown_names() {
            return Ok(());
        }
        self.unnamed(&named.slots())?.map_or(Ok(()), |problem| Err(Error::Settings(problem)))
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
