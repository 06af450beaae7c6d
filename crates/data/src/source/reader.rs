//! One file, block by block.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::input::Input;
#[cfg(feature = "parquet")]
use super::parquet_file::Table;
use super::pipe::{self, Pipe};
use super::{LineShare, Source};
use crate::parse::{BadLines, Named, Parser};
use crate::table::{Learner, Settings, TableParser};
use crate::{Error, Result, Samples, Slot};

/// Bytes that are read and parsed at once: enough to be worth a call, and few enough for the cache.
const BLOCK: usize = 1 << 18;
/// Bytes that are enough to see how a file is written.
pub(crate) const PREVIEW: usize = 1 << 20;
/// How some editors of Windows begin a file; it is no part of the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The longest line. What is longer is no line of samples.
const MAX_LINE: usize = 1 << 26;

/// Reads one file of a [`Source`], from its first line to its last.
pub struct Reader {
    path: PathBuf,
    from: Text,
    parser: Parser,
    bad_lines: Arc<BadLines>,
    named: Arc<Named>,
    share: Option<LineShare>,
    /// Text that was read; the first `held` bytes have not been parsed.
    buffer: Vec<u8>,
    held: usize,
    /// The number of the first line in the buffer.
    line: u64,
    ended: bool,
}

enum Text {
    Stream(Box<dyn Read + Send>),
    Command(Pipe),
    /// Not text, and not looked into yet.
    #[cfg(feature = "parquet")]
    Parquet(std::fs::File),
    #[cfg(feature = "parquet")]
    Table(Box<Table>),
}

impl Reader {
    /// Opens a file of a source, to read samples of `slots`.
    ///
    /// # Errors
    /// When the file cannot be opened, the command cannot be started, or the format does not
    /// provide the slots.
    pub fn open(source: &Source, file: usize, slots: &[Slot]) -> Result<Reader> {
        Reader::open_until(source, file, slots, &Arc::default())
    }

    /// As [`Reader::open`]; a reader that waits for its command ends when `stop` becomes true.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_until(
        source: &Source,
        file: usize,
        slots: &[Slot],
        stop: &Arc<AtomicBool>,
    ) -> Result<Reader> {
        let Some(path) = source.files.get(file) else {
            return Err(Error::Settings(format!(
                "file {file} was asked for, but there are {}",
                source.files.len()
            )));
        };
        let parser = Parser::new(&source.format, slots)?;
        let from = Text::open(path, source.pipe_command.as_deref(), stop)?;
        #[cfg(feature = "parquet")]
        let from = match from {
            Text::Parquet(file) => {
                if source.share.is_some() {
                    let problem =
                        "its rows cannot be shared by several trainers: use as many files";
                    return Err(Error::File { path: path.clone(), problem: problem.to_owned() });
                }
                // A table has a column for every slot, or cannot be opened.
                source.named.add(path, &crate::parse::Met::all(slots.len()));
                let names = source.format.names(slots)?;
                Text::Table(Box::new(Table::open(path, file, slots, &names)?))
            }
            text => text,
        };
        Ok(Reader::new(source, path, from, parser))
    }

    /// Opens a file of a source, to learn about the columns of its table.
    ///
    /// # Errors
    /// When the file cannot be opened, or the settings do not fit together.
    pub(crate) fn learning(source: &Source, file: usize, settings: &Settings) -> Result<Reader> {
        let path = &source.files[file];
        let parser = Parser::learning(TableParser::learning(settings)?);
        let from = Text::open(path, source.pipe_command.as_deref(), &Arc::default())?;
        Ok(Reader::new(source, path, from, parser))
    }

    /// What was learned about the columns of a table.
    ///
    /// # Errors
    /// When it was opened for samples.
    pub(crate) fn into_facts(self) -> Result<Learner> {
        let learner = self.parser.into_table().and_then(TableParser::into_facts);
        learner.ok_or_else(|| Error::Settings("a reader of samples learns nothing".into()))
    }

    fn new(source: &Source, path: &Path, from: Text, parser: Parser) -> Reader {
        Reader {
            path: path.to_owned(),
            from,
            parser,
            bad_lines: Arc::clone(&source.bad_lines),
            named: Arc::clone(&source.named),
            share: source.share,
            buffer: vec![0; BLOCK],
            held: 0,
            line: 1,
            ended: false,
        }
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
        #[cfg(feature = "parquet")]
        if let Text::Table(table) = &mut self.from {
            self.ended = !table.read(&self.bad_lines, out)?;
            self.line = table.row();
            return Ok(());
        }
        self.held += self.from.fill(&self.path, &mut self.buffer[self.held..])?;
        self.ended = self.held < self.buffer.len();
        let text = &self.buffer[..self.held];
        let whole = match self.ended {
            true => text.len(),
            false => memchr::memrchr(b'\n', text).map_or(0, |end| end + 1),
        };
        if whole == 0 && !self.ended {
            return self.grow();
        }
        let (path, bad) = (&self.path, &self.bad_lines);
        let lines = &text[..whole];
        let lines = match self.line {
            1 => {
                let lines = lines.strip_prefix(BYTE_ORDER_MARK).unwrap_or(lines);
                // Whose lines these are does not matter: every process needs the names of columns.
                let began = self.parser.begin(lines);
                let (start, count) = began.map_err(|problem| Error::Line {
                    path: path.clone(),
                    line: 1,
                    problem,
                })?;
                self.line += count;
                &lines[start..]
            }
            _ => lines,
        };
        self.line = match self.share {
            None => self.parser.lines(lines, self.line, path, bad, out)?,
            Some(share) => own_lines(&mut self.parser, share, lines, self.line, path, bad, out)?,
        };
        self.buffer.copy_within(whole..self.held, 0);
        self.held -= whole;
        if let Some(met) = self.parser.met() {
            self.named.add(&self.path, met);
        }
        match &mut self.from {
            Text::Command(pipe) if self.ended => pipe.finish(&self.path),
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

/// Parses the lines of one process among whole lines; returns the number of the line that comes next.
fn own_lines(
    parser: &mut Parser,
    share: LineShare,
    text: &[u8],
    first_line: u64,
    path: &Path,
    bad: &BadLines,
    out: &mut Samples,
) -> Result<u64> {
    let (mut at, mut number) = (0, first_line);
    while at < text.len() {
        let is_own = share.has(number);
        let (start, first) = (at, number);
        // The group may have begun in the block before.
        while at < text.len() && share.has(number) == is_own {
            at = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end + 1);
            number += 1;
        }
        if is_own {
            parser.lines(&text[start..at], first, path, bad, out)?;
        }
    }
    Ok(number)
}

impl Text {
    fn open(path: &Path, command: Option<&str>, stop: &Arc<AtomicBool>) -> Result<Text> {
        let input = Input::open(path).map_err(|error| failed(path, &error))?;
        // Paddle's own default, which changes nothing.
        Ok(match (command.filter(|command| command.trim() != "cat"), input) {
            (Some(command), input) => {
                Text::Command(Pipe::start(command, path, input, Arc::clone(stop))?)
            }
            #[cfg(feature = "parquet")]
            (None, Input::Table(file)) => Text::Parquet(file),
            (None, input) => Text::Stream(input.into_read()),
        })
    }

    /// Fills a buffer as far as there is something to read; returns how far.
    fn fill(&mut self, path: &Path, buffer: &mut [u8]) -> Result<usize> {
        let mut held = 0;
        while held < buffer.len() {
            match self.read(&mut buffer[held..]) {
                Ok(0) => break,
                Ok(count) => held += count,
                Err(error) if pipe::is_stopped(&error) => return Err(Error::Interrupted),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(path, &error)),
            }
        }
        Ok(held)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Text::Stream(stream) => stream.read(buffer),
            Text::Command(pipe) => pipe.read(buffer),
            #[cfg(feature = "parquet")]
            Text::Parquet(_) | Text::Table(_) => {
                Err(io::Error::other("it is a Parquet file, not lines of text"))
            }
        }
    }
}

/// The first whole lines of a file, or of what a command makes of it: at most 1 MiB, to find
/// out how they are written.
///
/// # Errors
/// When the file cannot be read, or the command cannot be started or fails.
pub fn preview(path: &Path, pipe_command: Option<&str>) -> Result<Vec<u8>> {
    let mut text = vec![0; PREVIEW];
    let mut from = Text::open(path, pipe_command, &Arc::default())?;
    let held = from.fill(path, &mut text)?;
    if let Text::Command(pipe) = &mut from
        && held < text.len()
    {
        pipe.finish(path)?;
    }
    let cut = held == text.len();
    text.truncate(held);
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    if cut {
        let whole = memchr::memrchr(b'\n', &text).map_or(text.len(), |end| end + 1);
        text.truncate(whole);
    }
    Ok(text)
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::File { path: path.to_owned(), problem: error.to_string() }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).field("line", &self.line).finish()
    }
}
