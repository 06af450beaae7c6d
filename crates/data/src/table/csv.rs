//! Cells between separators: one pass over the bytes of a line, several bytes at a time.
//!
//! A cell may stand in quotes, within which a quote is doubled; a line end within quotes is an
//! error. Spaces around a cell are not part of it.

use std::ops::Range;

use bireme_engine::ir::{did_you_mean, nearest};

use super::cells::{Cells, Wanted};
use super::settings::{Csv, Header};
use crate::parse::shown;

/// The place of a column that nobody wants.
const NOBODY: u32 = u32::MAX;
/// Names that a message lists.
const LISTED: usize = 12;
/// Eight bytes of 1.
const ONES: u64 = u64::from_le_bytes([1; 8]);

#[derive(Clone, Debug)]
pub(super) struct Rows {
    csv: Csv,
    separator: u8,
    quote: Option<u8>,
    wanted: Wanted,
    /// For each column of the file the wanted one that it is.
    places: Vec<u32>,
    /// The column that a line may lack, and the place that it has otherwise: the label, where nobody
    /// wants it.
    spare: Option<usize>,
    /// Whether `places` are those of the file.
    is_known: bool,
    /// A quoted cell as it was before it was quoted.
    unquoted: Vec<u8>,
}

impl Rows {
    /// Rows of files with the columns that are wanted; `spare` is the name of one that may be
    /// missing.
    pub(super) fn new(csv: &Csv, wanted: Wanted, spare: Option<&str>) -> Result<Rows, String> {
        let one_byte = |name: &str, sign: char| {
            u8::try_from(sign)
                .ok()
                .filter(|byte| byte.is_ascii() && !matches!(byte, b'\n' | b'\r'))
                .ok_or_else(|| format!("the {name} `{sign}` is not one byte of ASCII"))
        };
        let mut rows = Rows {
            csv: csv.clone(),
            separator: one_byte("separator", csv.separator)?,
            quote: csv.quote.map(|quote| one_byte("quote", quote)).transpose()?,
            wanted,
            places: Vec::new(),
            spare: None,
            is_known: false,
            unquoted: Vec::new(),
        };
        match &csv.header {
            Header::Line => {}
            Header::Names(names) => {
                rows.set_names(names)?;
                rows.spare = spare.and_then(|spare| names.iter().position(|name| name == spare));
            }
            Header::Numbers => {
                let numbers = rows.wanted.columns.iter().map(|column| {
                    let number = column.name.parse::<usize>().ok().filter(|number| *number > 0);
                    number.ok_or_else(|| {
                        format!(
                            "without a header a column has its number as its name, from 1, and \
                             `{}` is none: write `header: True`, or the names as a list",
                            column.name
                        )
                    })
                });
                for (at, number) in numbers.collect::<Result<Vec<_>, _>>()?.into_iter().enumerate()
                {
                    if rows.places.len() < number {
                        rows.places.resize(number, NOBODY);
                    }
                    rows.places[number - 1] = at as u32;
                }
            }
        }
        Ok(rows)
    }

    /// Takes the header of a file from its first lines; returns where the line behind it starts, and
    /// how many lines were read.
    pub(super) fn begin(&mut self, text: &[u8]) -> Result<(usize, u64), String> {
        if self.csv.header != Header::Line {
            return Ok((0, 0));
        }
        let (mut at, mut lines) = (0, 0);
        while let Some(next) = self.skip(text, at) {
            (at, lines) = (next, lines + 1);
        }
        if at == text.len() {
            return Ok((at, lines));
        }
        let (mut names, mut is_last) = (Vec::new(), false);
        while !is_last {
            let cell = self.cell(text, at)?;
            (at, is_last) = (cell.next, cell.is_last);
            let bytes = if cell.is_unquoted { &self.unquoted } else { &text[cell.range] };
            names.push(String::from_utf8_lossy(bytes).into_owned());
        }
        self.set_names(&names)?;
        Ok((at, lines + 1))
    }

    /// Finds the wanted columns among these names.
    fn set_names(&mut self, names: &[String]) -> Result<(), String> {
        self.places = vec![NOBODY; names.len()];
        for (at, column) in self.wanted.columns.iter().enumerate() {
            let mut found = (0..names.len()).filter(|&place| names[place] == column.name);
            match (found.next(), found.next()) {
                (Some(place), None) => self.places[place] = at as u32,
                (Some(_), Some(_)) => {
                    return Err(format!("two columns have the name `{}`", column.name));
                }
                (None, _) => return Err(no_column(&column.name, names)),
            }
        }
        self.is_known = true;
        Ok(())
    }

    /// Where the line behind the one at `at` starts, if that holds no sample.
    #[inline(always)]
    pub(super) fn skip(&self, text: &[u8], at: usize) -> Option<usize> {
        let first = *text.get(at)?;
        let is_comment = || {
            let comment = self.csv.comment.as_deref().unwrap_or_default().as_bytes();
            !comment.is_empty() && text[at..].starts_with(comment)
        };
        let is_blank = || {
            let line = crate::parse::line_at(text, at);
            line.trim_ascii().is_empty() && !line.contains(&self.separator)
        };
        let skips = (first <= b' ' && is_blank()) || (self.csv.comment.is_some() && is_comment());
        skips.then(|| at + crate::parse::line_at(text, at).len() + 1).map(|at| at.min(text.len()))
    }

    /// Hands over the cells of the line at `at`; returns where the next one starts.
    #[inline(always)]
    pub(super) fn each(
        &mut self,
        text: &[u8],
        start: usize,
        to: &mut impl Cells,
    ) -> Result<usize, String> {
        if !self.is_known {
            self.count(text, start)?;
        }
        if self.spare.is_some() {
            self.fit(text, start);
        }
        let (mut at, mut column) = (start, 0);
        loop {
            let cell = self.cell(text, at)?;
            let Some(&place) = self.places.get(column) else {
                return Err(self.other_count(text, start));
            };
            if place != NOBODY {
                let bytes = match cell.is_unquoted {
                    true => &self.unquoted[..],
                    false => &text[cell.range],
                };
                for &of in self.wanted.uses(place as usize) {
                    to.cell(of, bytes)?;
                }
            }
            (at, column) = (cell.next, column + 1);
            if cell.is_last {
                break;
            }
        }
        match column == self.places.len() {
            true => Ok(at),
            false => Err(self.other_count(text, start)),
        }
    }

    /// Sees how many columns the first line has, where no header says so, or whether it lacks one.
    #[cold]
    fn count(&mut self, text: &[u8], at: usize) -> Result<(), String> {
        let count = self.columns_of(text, at)?;
        if count < self.places.len() {
            return Err(format!(
                "the line has {count} columns, and column {} is wanted",
                self.places.len()
            ));
        }
        self.places.resize(count, NOBODY);
        self.is_known = true;
        Ok(())
    }

    /// Forgets the column that may be missing where a line has one less: prediction needs no labels.
    #[cold]
    fn fit(&mut self, text: &[u8], at: usize) {
        if let Some(spare) = self.spare.take()
            && self.columns_of(text, at).is_ok_and(|count| count + 1 == self.places.len())
        {
            self.places.remove(spare);
        }
    }

    fn columns_of(&mut self, text: &[u8], mut at: usize) -> Result<usize, String> {
        let mut count = 1;
        loop {
            let cell = self.cell(text, at)?;
            if cell.is_last {
                return Ok(count);
            }
            (at, count) = (cell.next, count + 1);
        }
    }

    #[cold]
    fn other_count(&mut self, text: &[u8], at: usize) -> String {
        match self.columns_of(text, at) {
            Ok(count) => {
                let sign = self.csv.separator.escape_default();
                let columns = self.places.len();
                format!("the line has {count} columns (between `{sign}`), not {columns}")
            }
            Err(problem) => problem,
        }
    }

    /// The cell at `at`.
    #[inline(always)]
    fn cell(&mut self, text: &[u8], mut at: usize) -> Result<Cell, String> {
        // A separator that is a space does not stand around cells.
        while text.get(at) == Some(&b' ') && self.separator != b' ' {
            at += 1;
        }
        if let Some(quote) = self.quote
            && text.get(at) == Some(&quote)
        {
            return self.quoted(text, at + 1, quote);
        }
        let stop = find(text, at, self.separator);
        let is_last = text.get(stop) != Some(&self.separator);
        let mut end = stop;
        while end > at && matches!(text[end - 1], b' ' | b'\r') {
            end -= 1;
        }
        let next = (stop + 1).min(text.len());
        Ok(Cell { range: at..end, is_unquoted: false, is_last, next })
    }

    /// The cell whose first byte within quotes is at `at`.
    #[inline(never)]
    fn quoted(&mut self, text: &[u8], mut at: usize, quote: u8) -> Result<Cell, String> {
        let (start, mut is_unquoted) = (at, false);
        self.unquoted.clear();
        let end = loop {
            let Some(found) = memchr::memchr2(quote, b'\n', &text[at..]).map(|found| at + found)
            else {
                return Err(unended(text, start));
            };
            if text[found] == b'\n' {
                return Err(unended(text, start));
            }
            if text.get(found + 1) != Some(&quote) {
                break found;
            }
            self.unquoted.extend_from_slice(&text[at..=found]);
            (at, is_unquoted) = (found + 2, true);
        };
        if is_unquoted {
            self.unquoted.extend_from_slice(&text[at..end]);
        }
        let mut stop = end + 1;
        while matches!(text.get(stop), Some(b' ' | b'\r')) && self.separator != b' ' {
            stop += 1;
        }
        let is_last = match text.get(stop) {
            Some(&byte) if byte == self.separator => false,
            Some(b'\n') | None => true,
            Some(_) => {
                let cell = shown(&text[start - 1..=end]);
                return Err(format!(
                    "{cell} is in quotes, and text follows it: double the quotes \
                                    within a cell"
                ));
            }
        };
        Ok(Cell { range: start..end, is_unquoted, is_last, next: (stop + 1).min(text.len()) })
    }
}

struct Cell {
    range: Range<usize>,
    /// Whether it is in `Rows::unquoted`, because quotes were doubled in it.
    is_unquoted: bool,
    is_last: bool,
    /// Where the next cell or line starts.
    next: usize,
}

/// Where the next separator or line end is, or where the text ends.
#[inline(always)]
fn find(text: &[u8], mut at: usize, separator: u8) -> usize {
    let separators = ONES.wrapping_mul(u64::from(separator));
    let ends = ONES.wrapping_mul(u64::from(b'\n'));
    while let Some(bytes) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let bytes = u64::from_le_bytes(*bytes);
        let found = zeros(bytes ^ separators) | zeros(bytes ^ ends);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    let found = rest.iter().position(|&byte| byte == separator || byte == b'\n');
    found.map_or(text.len(), |found| at + found)
}

/// The highest bits of the bytes that are zero; above the first of them, perhaps of others.
#[inline(always)]
fn zeros(bytes: u64) -> u64 {
    bytes.wrapping_sub(ONES) & !bytes & (ONES << 7)
}

fn unended(text: &[u8], start: usize) -> String {
    let line = crate::parse::line_at(text, start - 1);
    format!(
        "{} begins with a quote and does not end in its line: line ends within cells are not read, \
         and `quote: \"\"` takes quotes as they are",
        shown(line)
    )
}

/// That a file has no column of a name.
pub(super) fn no_column(name: &str, names: &[String]) -> String {
    let near = did_you_mean(&nearest(name, names.iter().map(String::as_str)));
    let listed: Vec<String> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > LISTED { ", …" } else { "" };
    format!("there is no column `{name}`{near}; the columns are {}{more}", listed.join(", "))
}
