//! A position in one line of text, and the small steps of the parser.
//!
//! Every step either moves forward or fails with the column it stands at; none can panic, as
//! positions only ever rest on character boundaries.

use super::is_bare_char;
use crate::{Error, Result};

/// A reading position in a line.
pub(super) struct Cursor<'a> {
    /// Line number, from 1.
    line: usize,
    text: &'a str,
    /// Byte offset of the next character.
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: usize, text: &'a str) -> Cursor<'a> {
        Cursor { line, text, at: 0 }
    }

    /// What is left of the line.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Takes what is left of the line, without the spaces around it.
    pub(super) fn rest_of_line(&mut self) -> &'a str {
        let rest = self.rest().trim();
        self.at = self.text.len();
        rest
    }

    /// An error at this position.
    pub(super) fn fail<T>(&self, problem: impl Into<String>) -> Result<T> {
        self.fail_at(self.at, problem)
    }

    fn fail_at<T>(&self, at: usize, problem: impl Into<String>) -> Result<T> {
        let column = self.text[..at].chars().count() + 1;
        Err(Error::Text { line: self.line, column, problem: problem.into() })
    }

    /// An error that says what should stand here, and what does.
    pub(super) fn expected<T>(&self, what: &str) -> Result<T> {
        let found: String = self.rest().trim().chars().take(20).collect();
        if found.is_empty() {
            self.fail(format!("expected {what}, found the end of the line"))
        } else {
            self.fail(format!("expected {what}, found `{found}`"))
        }
    }

    pub(super) fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Skips spaces and `token`, if it is next.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let next = self.rest().starts_with(token);
        if next {
            self.at += token.len();
        }
        next
    }

    /// Skips spaces and the whole word `word`, if it is next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        self.skip_spaces();
        let after = self.rest().strip_prefix(word);
        let next = after.is_some_and(|after| !after.starts_with(is_bare_char));
        if next {
            self.at += word.len();
        }
        next
    }

    pub(super) fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { self.expected(&format!("`{token}`")) }
    }

    pub(super) fn expect_end(&mut self) -> Result<()> {
        self.skip_spaces();
        if self.rest().is_empty() { Ok(()) } else { self.expected("the end of the line") }
    }

    /// A run of name characters; may be empty.
    pub(super) fn word(&mut self) -> &'a str {
        self.skip_spaces();
        let rest = self.rest();
        let end = rest.find(|c| !is_bare_char(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A name, in quotes or without.
    pub(super) fn name(&mut self, what: &str) -> Result<String> {
        self.skip_spaces();
        if self.rest().starts_with('\'') {
            return self.quoted();
        }
        match self.word() {
            "" => self.expected(what),
            word => Ok(word.to_owned()),
        }
    }

    /// A string in single quotes.
    pub(super) fn quoted(&mut self) -> Result<String> {
        if !self.eat("'") {
            return self.expected("a string in single quotes");
        }
        let mut text = String::new();
        let start = self.at;
        let mut chars = self.rest().char_indices();
        while let Some((offset, c)) = chars.next() {
            match c {
                '\'' => {
                    self.at = start + offset + 1;
                    return Ok(text);
                }
                '\\' => match escape(&mut chars) {
                    Some(c) => text.push(c),
                    None => {
                        return self.fail_at(
                            start + offset,
                            r"unknown escape: use \\, \', \n, \r, \t or \u{...}",
                        );
                    }
                },
                c => text.push(c),
            }
        }
        self.fail("the string is not closed: expected `'`")
    }

    /// A number of type `T`, of which `what` is the name.
    pub(super) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        self.skip_spaces();
        let start = self.at;
        match self.word().parse() {
            Ok(number) => Ok(number),
            Err(_) => {
                self.at = start;
                self.expected(what)
            }
        }
    }

    /// Runs `parse` at this position; what it fails on without moving is reported here.
    pub(super) fn word_as<T>(
        &mut self,
        what: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        self.skip_spaces();
        let start = self.at;
        match parse(self.word()) {
            Some(value) => Ok(value),
            None => {
                self.at = start;
                self.expected(what)
            }
        }
    }

    /// `True` or `False`.
    pub(super) fn truth(&mut self) -> Result<bool> {
        self.word_as("`True` or `False`", |word| match word {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        })
    }

    /// Items between here and `close`, separated by commas; the last may be followed by one.
    pub(super) fn items(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Cursor<'a>) -> Result<()>,
    ) -> Result<()> {
        while !self.eat(close) {
            item(self)?;
            if !self.eat(",") {
                if self.eat(close) {
                    return Ok(());
                }
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
        Ok(())
    }
}

/// The character of an escape whose backslash has been read.
fn escape(chars: &mut std::str::CharIndices<'_>) -> Option<char> {
    match chars.next()?.1 {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        c @ ('\\' | '\'') => Some(c),
        'u' => {
            if chars.next()?.1 != '{' {
                return None;
            }
            let mut code = 0_u32;
            loop {
                match chars.next()?.1 {
                    '}' => return char::from_u32(code),
                    // Saturates past the last character, so any number of digits is harmless.
                    c => code = code.saturating_mul(16).saturating_add(c.to_digit(16)?),
                }
            }
        }
        _ => None,
    }
}
