//! One file, block by block.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use super::Source;
use super::input::Input;
use super::pipe::Pipe;
use crate::parse::{BadLines, Parser};
use crate::{Error, Result, Samples, Slot};

/// Bytes that are read and parsed at once: enough to be worth a call, and few enough for the cache.
const BLOCK: usize = 1 << 18;
/// The longest line. What is longer is no line of samples.
const MAX_LINE: usize = 1 << 26;

/// Reads one file of a [`Source`], from its first line to its last.
pub struct Reader {
    path: PathBuf,
    from: From,
    parser: Parser,
    bad_lines: Arc<BadLines>,
    /// Text that was read; the first `held` bytes have not been parsed.
    buffer: Vec<u8>,
    held: usize,
    /// The number of the first line in the buffer.
    line: u64,
    ended: bool,
}

enum From {
    Stream(Box<dyn Read + Send>),
    Command(Pipe),
}

impl Reader {
    /// Opens a file of a source, to read samples of `slots`.
    ///
    /// # Errors
    /// When the file cannot be opened, the command cannot be started, or the format does not
    /// provide the slots.
    pub fn open(source: &Source, file: usize, slots: &[Slot]) -> Result<Reader> {
        let Some(path) = source.files.get(file) else {
            return Err(Error::Settings(format!(
                "file {file} was asked for, but there are {}",
                source.files.len()
            )));
        };
        let parser = Parser::new(&source.format, slots)?;
        let input = Input::open(path).map_err(|error| failed(path, &error))?;
        // Paddle's own default, which changes nothing.
        let command = source.pipe_command.as_deref().filter(|text| text.trim() != "cat");
        let from = match command {
            Some(command) => From::Command(Pipe::start(command, path, input)?),
            None => From::Stream(input.into_read()),
        };
        Ok(Reader {
            path: path.clone(),
            from,
            parser,
            bad_lines: Arc::clone(&source.bad_lines),
            buffer: vec![0; BLOCK],
            held: 0,
            line: 1,
            ended: false,
        })
    }

    /// Appends samples until `out` holds at least `at_least_rows` or the file has ended; returns
    /// whether there may be more. Whole blocks are parsed, so there can be some thousands more.
    ///
    /// # Errors
    /// When the file cannot be read, the command fails, or there are too many bad lines.
    pub fn read(&mut self, out: &mut Samples, at_least_rows: usize) -> Result<bool> {
        while !self.ended && out.len() < at_least_rows {
            self.block(out)?;
        }
        Ok(!self.ended)
    }

    /// The number of the line that is read next, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads and parses one block.
    fn block(&mut self, out: &mut Samples) -> Result<()> {
        while self.held < self.buffer.len() {
            match self.from.read(&mut self.buffer[self.held..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => self.held += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&self.path, &error)),
            }
        }
        let text = &self.buffer[..self.held];
        let whole = match self.ended {
            true => text.len(),
            false => memchr::memrchr(b'\n', text).map_or(0, |end| end + 1),
        };
        if whole == 0 && !self.ended {
            return self.grow();
        }
        let (path, bad) = (&self.path, &self.bad_lines);
        self.line = self.parser.lines(&text[..whole], self.line, path, bad, out)?;
        self.buffer.copy_within(whole..self.held, 0);
        self.held -= whole;
        match &mut self.from {
            From::Command(pipe) if self.ended => pipe.finish(&self.path),
            _ => Ok(()),
        }
    }

    /// Makes room for a line that is longer than the buffer.
    fn grow(&mut self) -> Result<()> {
        if self.buffer.len() >= MAX_LINE {
            let problem = format!("the line is longer than {} MiB: is it text?", MAX_LINE >> 20);
            return Err(Error::Line { path: self.path.clone(), line: self.line, problem });
        }
        self.buffer.resize(2 * self.buffer.len(), 0);
        Ok(())
    }
}

impl From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            From::Stream(stream) => stream.read(buffer),
            From::Command(pipe) => pipe.read(buffer),
        }
    }
}

fn failed(path: &std::path::Path, error: &io::Error) -> Error {
    Error::File { path: path.to_owned(), problem: error.to_string() }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).field("line", &self.line).finish()
    }
}
