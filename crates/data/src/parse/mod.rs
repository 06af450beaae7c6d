//! Lines of text become samples: one pass over the bytes, every value checked.
//!
//! A line is a whole sample or an error that names the slot and says what is wrong with it; a bad
//! line leaves no trace in the samples. Ids are exact or an error, numbers are the `f32` nearest to
//! what is written.

mod bad_lines;
mod criteo;
mod format;
mod guess;
mod multi_slot;
mod named;
mod number;
mod plain_lines;
mod python_hash;
mod slot_value;
#[cfg(test)]
mod tests;
mod write;

use std::path::Path;

pub use self::bad_lines::{BadLine, BadLines};
pub use self::format::{CriteoOptions, Format, MultiSlotOptions, SlotValueOptions, TableOptions};
pub use self::guess::criteo_slots;
pub use self::named::Named;
pub use self::write::LineWriter;

use self::criteo::Criteo;
use self::multi_slot::MultiSlot;
pub(crate) use self::named::Met;
use self::plain_lines::LANES;
use self::slot_value::SlotValue;
use crate::table::TableParser;
use crate::{Result, Samples, Slot};

/// Turns lines of one format into samples of given slots.
///
/// Made once for each thread: it learns in what order the names of slots stand in the lines.
///
/// ```
/// use bireme_data::parse::{Format, Parser};
/// use bireme_data::{Samples, Slot, Values};
///
/// let slots = [Slot::ids("query"), Slot::id("click")];
/// let mut parser = Parser::new(&Format::multi_slot(), &slots)?;
/// let mut samples = Samples::of(&slots);
/// parser.line(b"3 1926 8 17 1 1", &mut samples).unwrap();
/// assert_eq!(*samples.columns()[0].values(), Values::Ids(vec![1926, 8, 17]));
/// # Ok::<(), bireme_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parser {
    by_format: ByFormat,
    /// See [`plain_lines::append`].
    counts: Vec<[u32; LANES]>,
}

/// So many lines in a row that are not plain, and the rest of a text is taken for like them.
const UNUSUAL_LINES: u32 = 16;

#[derive(Clone, Debug)]
enum ByFormat {
    MultiSlot(MultiSlot),
    SlotValue(SlotValue),
    Criteo(Box<Criteo>),
    Table(Box<TableParser>),
}

impl Parser {
    /// A parser of lines that hold these slots.
    ///
    /// # Errors
    /// When the format cannot provide a slot.
    pub fn new(format: &Format, slots: &[Slot]) -> Result<Parser> {
        let by_format = match format {
            Format::MultiSlot(options) => ByFormat::MultiSlot(MultiSlot::new(*options, slots)),
            Format::SlotValue(options) => ByFormat::SlotValue(SlotValue::new(options, slots)?),
            Format::Criteo(options) => ByFormat::Criteo(Box::new(Criteo::new(options, slots)?)),
            Format::Table(options) => {
                let names = format.names(slots)?;
                let parser = TableParser::new(&options.table, slots, &names)?;
                ByFormat::Table(Box::new(parser))
            }
        };
        Ok(Parser { by_format, counts: Vec::new() })
    }

    /// A parser of lines of a table, which learns and makes samples without any slot.
    pub(crate) fn learning(parser: TableParser) -> Parser {
        Parser { by_format: ByFormat::Table(Box::new(parser)), counts: Vec::new() }
    }

    /// The parser of a table.
    pub(crate) fn into_table(self) -> Option<TableParser> {
        match self.by_format {
            ByFormat::Table(parser) => Some(*parser),
            _ => None,
        }
    }

    /// Reads what stands before the samples of a file, from its first whole lines; returns where the
    /// samples start, and how many lines it was. Files of most formats have nothing there.
    ///
    /// # Errors
    /// When a header lacks a column.
    pub fn begin(&mut self, text: &[u8]) -> std::result::Result<(usize, u64), String> {
        match &mut self.by_format {
            ByFormat::Table(parser) => parser.begin(text),
            _ => Ok((0, 0)),
        }
    }

    /// Appends the sample of one line, with or without its line end, to `out`, which has the slots
    /// of this parser.
    ///
    /// # Errors
    /// What is wrong with the line; `out` is as it was.
    pub fn line(&mut self, line: &[u8], out: &mut Samples) -> std::result::Result<(), String> {
        let ended = self.sample(line, 0, out).and_then(|end| match end == line.len() {
            true => Ok(()),
            false => Err("there is a line end within the line".to_owned()),
        });
        match &ended {
            Ok(()) => out.end_row(),
            Err(_) => out.drop_unfinished(),
        }
        ended
    }

    /// Appends the samples of whole lines, the first of which is line `first_line` of the file
    /// `path`, to `out`. Lines of nothing but white space hold no sample.
    ///
    /// # Errors
    /// When a line is bad and `bad` tolerates no more of them.
    pub fn block(
        &mut self,
        text: &[u8],
        first_line: u64,
        path: &Path,
        bad: &BadLines,
        out: &mut Samples,
    ) -> Result<()> {
        self.lines(text, first_line, path, bad, out).map(drop)
    }

    /// Whether a line holds no sample, by itself: a comment.
    pub fn skips(&self, line: &[u8]) -> bool {
        match &self.by_format {
            ByFormat::Table(parser) => parser.skip(line, 0).is_some(),
            _ => false,
        }
    }

    /// As [`Parser::block`]; returns the number of the line that comes next.
    pub(crate) fn lines(
        &mut self,
        text: &[u8],
        first_line: u64,
        path: &Path,
        bad: &BadLines,
        out: &mut Samples,
    ) -> Result<u64> {
        let (mut at, mut number, mut unusual) = (0, first_line, 0);
        while at < text.len() {
            if let ByFormat::Table(parser) = &self.by_format
                && let Some(next) = parser.skip(text, at)
            {
                (at, number) = (next, number + 1);
                continue;
            }
            if unusual < UNUSUAL_LINES {
                let before = out.len();
                at = plain_lines::append(&self.by_format, text, at, &mut self.counts, out);
                number += (out.len() - before) as u64;
                unusual = if out.len() > before { 1 } else { unusual + 1 };
                if at == text.len() {
                    break;
                }
            }
            match self.sample(text, at, out) {
                Ok(end) => {
                    out.end_row();
                    at = end;
                }
                Err(mut problem) => {
                    out.drop_unfinished();
                    let line = line_at(text, at);
                    at += line.len() + 1;
                    if at > text.len() {
                        problem += "; the file ends here, without a line end: is it cut?";
                    }
                    if !line.trim_ascii().is_empty() {
                        bad.report(path, number, problem)?;
                    }
                }
            }
            number += 1;
        }
        Ok(number)
    }

    /// Which names the lines had so far; none where there was no line, or lines have no names.
    pub(crate) fn met(&self) -> Option<&Met> {
        match &self.by_format {
            ByFormat::SlotValue(parser) => parser.met(),
            _ => None,
        }
    }

    /// Appends the values of the line that starts at `at`; returns where the next one starts.
    fn sample(
        &mut self,
        text: &[u8],
        at: usize,
        out: &mut Samples,
    ) -> std::result::Result<usize, String> {
        match &mut self.by_format {
            ByFormat::MultiSlot(parser) => parser.sample(text, at, out),
            ByFormat::SlotValue(parser) => parser.sample(text, at, out),
            ByFormat::Criteo(parser) => parser.sample(text, at, out),
            ByFormat::Table(parser) => parser.sample(text, at, out),
        }
    }
}

/// The line that starts at `at`, without its end.
pub(crate) fn line_at(text: &[u8], at: usize) -> &[u8] {
    let rest = text.get(at..).unwrap_or_default();
    &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())]
}

/// Where the spaces from `at` on end: at a token, at a line end or at the end of the text.
#[inline(always)]
fn skip_spaces(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at)
        && byte <= b' '
        && matches!(byte, b' ' | b'\t' | b'\r')
    {
        at += 1;
    }
    at
}

/// The token that starts at `at`, up to white space.
fn token_at(text: &[u8], at: usize) -> &[u8] {
    let rest = text.get(at..).unwrap_or_default();
    let end = rest.iter().position(|&byte| number::is_space(byte)).unwrap_or(rest.len());
    &rest[..end]
}

/// Bytes of a file in backticks, as [`plain`] shows them, and short.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 60;
    let text = plain(&bytes[..bytes.len().min(4 * MOST)]);
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Bytes of a file as a message shows them: control characters as escapes, and no more of them than
/// somebody reads.
fn plain(bytes: &[u8]) -> String {
    const MOST: usize = 4096;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]);
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    let mut text: String = text.chars().map(escape).collect();
    if bytes.len() > MOST {
        text.push('…');
    }
    text
}
