//! What the columns of a text seem to be: where cells end, whether they have names, and what is in
//! them. For a first configuration, and for figures about a file.

use std::collections::HashMap;

use super::cells::{Cells, Use, Wanted};
use super::csv::Rows;
use super::number::number;
use super::settings::{Csv, Header, Layout};
use crate::parse::{line_at, shown};

/// Lines that a separator is found from.
const LINES: usize = 50;
/// Different words of a column that are counted.
const MOST_WORDS: usize = 1 << 16;
/// Separators, the likeliest first.
const SEPARATORS: [char; 4] = [',', '\t', ';', '|'];
/// What stands between the words of a list.
const LISTS: [u8; 3] = [b'|', b';', b' '];
/// Words that stand for nothing.
const MISSING: [&str; 7] = ["NA", "N/A", "NaN", "nan", "null", "NULL", "?"];

/// What a text seems to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// How lines are written; with the names of all columns where the first line has none.
    pub layout: Layout,
    /// The names of the columns.
    pub names: Vec<String>,
}

/// What is in a column.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Its cells.
    pub cells: u64,
    /// Those of them that hold nothing, or a word for that.
    pub missing: u64,
    /// Those that are numbers, and whole numbers.
    pub numbers: u64,
    /// See `numbers`.
    pub whole: u64,
    /// The least number, the largest, and the mean.
    pub least: f64,
    /// See `least`.
    pub largest: f64,
    /// See `least`.
    pub mean: f64,
    /// Different words and how often they occur; no further ones beyond 65,536.
    pub words: HashMap<String, u64>,
    /// How many cells hold each sign that may stand between words.
    pub signs: [u64; 3],
}

/// How a text is written, as its first lines look; whole lines.
///
/// # Errors
/// When they look like no table.
pub fn guess(text: &[u8]) -> Result<Guess, String> {
    let lines: Vec<&[u8]> = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#"))
        .take(LINES)
        .collect();
    let first = *lines.first().ok_or("there is no line")?;
    if let Some(layout) = pairs(&lines) {
        return Ok(Guess { layout, names: Vec::new() });
    }
    let separator = SEPARATORS.into_iter().find(|&sign| cells(&lines, sign).is_some());
    let separator = separator.ok_or_else(|| {
        format!(
            "{} looks like no line of a table: no comma, tab, semicolon or bar stands in every line \
             as often as in the others",
            shown(first)
        )
    })?;
    let rows = cells(&lines, separator).unwrap_or_default();
    let header = has_header(&rows);
    let names: Vec<String> = match header {
        true => rows[0].clone(),
        false => (1..=rows[0].len()).map(|number| number.to_string()).collect(),
    };
    let comment = text.starts_with(b"#") || memchr::memmem::find(text, b"\n#").is_some();
    let csv = Csv {
        separator,
        quote: Some('"'),
        header: if header { Header::Line } else { Header::Numbers },
        comment: comment.then(|| "#".to_owned()),
    };
    Ok(Guess { layout: Layout::Csv(csv), names })
}

/// LibSVM or LibFFM, if all lines are a label and pairs.
fn pairs(lines: &[&[u8]]) -> Option<Layout> {
    let mut colons = None;
    for line in lines {
        let mut tokens = line.split(u8::is_ascii_whitespace).filter(|token| !token.is_empty());
        number(tokens.next()?)?;
        for token in tokens.take_while(|token| !token.starts_with(b"#")) {
            let count = token.iter().filter(|&&byte| byte == b':').count();
            if count == 0 || colons.is_some_and(|colons| colons != count) {
                return None;
            }
            colons = Some(count);
        }
    }
    match colons? {
        1 => Some(Layout::LibSvm),
        2 => Some(Layout::LibFfm),
        _ => None,
    }
}

/// The cells of lines, if all of them have as many, and more than one.
fn cells(lines: &[&[u8]], separator: char) -> Option<Vec<Vec<String>>> {
    let rows: Vec<Vec<String>> = lines.iter().map(|line| split(line, separator)).collect();
    let count = rows.first()?.len();
    (count > 1 && rows.iter().all(|row| row.len() == count)).then_some(rows)
}

/// The cells of one line; separators within quotes are part of a cell.
fn split(line: &[u8], separator: char) -> Vec<String> {
    let text = String::from_utf8_lossy(line);
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    for sign in text.trim_end_matches('\r').chars() {
        match sign {
            '"' => quoted = !quoted,
            _ if sign == separator && !quoted => {
                cells.push(std::mem::take(&mut cell).trim_matches(' ').to_owned());
            }
            _ => cell.push(sign),
        }
    }
    cells.push(cell.trim_matches(' ').to_owned());
    cells
}

/// Whether the first row has names: no numbers, nothing twice, and none that the rows have too.
fn has_header(rows: &[Vec<String>]) -> bool {
    let (first, others) = match rows {
        [first, others @ ..] if !others.is_empty() => (first, others),
        _ => return false,
    };
    let is_name = |(at, name): (usize, &String)| {
        let is_number = number(name.as_bytes()).is_some();
        let twice = first[..at].contains(name);
        !name.is_empty() && !is_number && !twice && others.iter().all(|row| row[at] != *name)
    };
    first.iter().enumerate().all(is_name)
}

impl Guess {
    /// What is in the columns of a text, from its start on.
    ///
    /// # Errors
    /// When a line has other columns.
    pub fn profiles(&self, text: &[u8]) -> Result<Vec<Profile>, String> {
        let mut profiles = Profile::of_names(&self.names);
        let Layout::Csv(csv) = &self.layout else { return Ok(profiles) };
        let wanted = Wanted::of_columns(&self.names);
        let mut rows = Rows::new(csv, wanted, None)?;
        let (mut at, _) = rows.begin(text)?;
        while at < text.len() {
            match rows.skip(text, at) {
                Some(next) => at = next,
                None => {
                    let line = shown(line_at(text, at));
                    let mut to = Profiles(&mut profiles);
                    at = rows
                        .each(text, at, &mut to)
                        .map_err(|problem| format!("{line}: {problem}"))?;
                }
            }
        }
        Ok(profiles)
    }
}

struct Profiles<'a>(&'a mut [Profile]);

impl Cells for Profiles<'_> {
    fn cell(&mut self, of: Use, cell: &[u8]) -> Result<(), String> {
        if let Use::Feature(at) = of {
            self.0[at].take(cell);
        }
        Ok(())
    }
}

impl Profile {
    fn of_names(names: &[String]) -> Vec<Profile> {
        names.iter().map(|name| Profile { name: name.clone(), ..Profile::default() }).collect()
    }

    fn take(&mut self, cell: &[u8]) {
        self.cells += 1;
        if cell.is_empty() || MISSING.iter().any(|word| word.as_bytes() == cell) {
            self.missing += 1;
        } else if let Some(value) = number(cell) {
            if self.numbers == 0 {
                (self.least, self.largest) = (value, value);
            }
            (self.least, self.largest) = (self.least.min(value), self.largest.max(value));
            self.numbers += 1;
            self.whole += u64::from(value == value.trunc());
            self.mean += (value - self.mean) / self.numbers as f64;
        }
        for (count, sign) in self.signs.iter_mut().zip(LISTS) {
            *count += u64::from(cell.contains(&sign));
        }
        let word = String::from_utf8_lossy(cell);
        if let Some(count) = self.words.get_mut(&*word) {
            *count += 1;
        } else if self.words.len() < MOST_WORDS {
            self.words.insert(word.into_owned(), 1);
        }
    }

    /// Whether all that is there is numbers.
    pub fn is_numeric(&self) -> bool {
        self.numbers > 0 && self.numbers + self.missing == self.cells
    }

    /// The sign between the words of a list, if cells seem to be lists: the words of many cells occur
    /// in others.
    pub fn list_sign(&self) -> Option<char> {
        let held = self.cells - self.missing;
        let often =
            |(count, sign): (&u64, u8)| (*count * 10 >= held * 3 && held > 0).then_some(sign);
        let sign = self.signs.iter().zip(LISTS).find_map(often)?;
        let mut parts: HashMap<&str, u64> = HashMap::new();
        for (word, count) in &self.words {
            let own = word.split(char::from(sign)).filter(|part| !part.trim().is_empty());
            own.for_each(|part| *parts.entry(part.trim()).or_default() += count);
        }
        // Words of prose hardly repeat; those of lists do.
        let (distinct, all) = (parts.len() as u64, parts.values().sum::<u64>());
        let factor = if sign == b' ' { 2 } else { 1 };
        let repeats = distinct * 4 <= all && distinct * factor < self.words.len() as u64;
        repeats.then_some(char::from(sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> (char, bool, Vec<String>) {
        let Guess { layout, names } = guess(text.as_bytes()).unwrap();
        let Layout::Csv(csv) = layout else { panic!("csv") };
        (csv.separator, csv.header == Header::Line, names)
    }

    #[test]
    fn separators_and_headers_are_found() {
        assert_eq!(csv("a,b\n1,x y\n2,z\n"), (',', true, vec!["a".into(), "b".into()]));
        assert_eq!(csv("1\tx,y\n2\tz\n"), ('\t', false, vec!["1".into(), "2".into()]));
        assert_eq!(csv("a;\"b;c\"\n1;2\n").0, ';');
        assert!(!csv("x,y\nx,z\nq,y\n").1);
        assert_eq!(guess(b"1 3:1 4:0.5\n-1 2:1\n").unwrap().layout, Layout::LibSvm);
        assert_eq!(guess(b"1 0:3:1\n").unwrap().layout, Layout::LibFfm);
        let error = guess(b"one\ntwo\n").unwrap_err();
        assert!(error.contains("`one` looks like no line of a table"), "{error}");
    }

    #[test]
    fn columns_are_numbers_words_or_lists() {
        let rows: String = (0..40)
            .map(|at| format!("{at}.5,w{},{}|{}|{},?\n", at % 3, at % 4, at % 5, at % 7))
            .collect();
        let text = format!("x,w,l,n\n{rows}");
        let profiles = guess(text.as_bytes()).unwrap().profiles(text.as_bytes()).unwrap();
        let [x, w, l, n] = &profiles[..] else { panic!("four columns") };
        assert!(x.is_numeric() && !w.is_numeric() && !n.is_numeric());
        assert_eq!((x.least, x.largest, x.whole, x.cells), (0.5, 39.5, 0, 40));
        assert_eq!((w.words.len(), n.missing), (3, 40));
        assert_eq!((l.list_sign(), w.list_sign()), (Some('|'), None));
    }
}
