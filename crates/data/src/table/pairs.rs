//! LibSVM's and LibFFM's lines: a label, then `index:value` or `field:index:value`.
//!
//! What a line does not name is an empty cell; names that nobody wants are passed over.

use std::collections::HashMap;

use super::cells::{Cells, Use, Wanted};
use super::number::number;
use super::settings::{ALL_INDICES, Rule, Settings};
use crate::parse::{line_at, shown};

#[derive(Clone, Debug)]
pub(super) struct Rows {
    wanted: Wanted,
    /// The wanted column of a name.
    names: HashMap<Vec<u8>, usize>,
    /// Whether pairs have a field in front.
    has_fields: bool,
    /// The wanted column that has the label.
    label: Option<usize>,
    /// The wanted column that takes all indices.
    all: Option<usize>,
    /// For each feature whether it takes the value of a pair, not the index.
    takes_value: Vec<bool>,
    /// The columns that the line at hand has.
    seen: Vec<bool>,
}

impl Rows {
    pub(super) fn new(settings: &Settings, wanted: Wanted, has_fields: bool) -> Rows {
        let label = wanted.find(&settings.label.column);
        let all = wanted.find(ALL_INDICES).filter(|_| !has_fields);
        let named = wanted.columns.iter().enumerate();
        let named = named.filter(|(at, _)| Some(*at) != label && Some(*at) != all);
        let names = named.map(|(at, column)| (column.name.clone().into_bytes(), at)).collect();
        let takes_value = |rule: &Rule| matches!(rule, Rule::Bins(_) | Rule::Number(_));
        let takes_value = settings.features.iter().map(|feature| takes_value(&feature.rule));
        let takes_value = takes_value.collect();
        let seen = vec![false; wanted.columns.len()];
        Rows { wanted, names, has_fields, label, all, takes_value, seen }
    }

    /// Hands over the cells of the line at `start`; returns where the next one starts.
    pub(super) fn each(
        &mut self,
        text: &[u8],
        start: usize,
        to: &mut impl Cells,
    ) -> Result<usize, String> {
        let line = line_at(text, start);
        let next = (start + line.len() + 1).min(text.len());
        let line = &line[..memchr::memchr(b'#', line).unwrap_or(line.len())];
        let mut tokens = line.split(u8::is_ascii_whitespace).filter(|token| !token.is_empty());
        self.seen.fill(false);
        let mut rest = tokens.clone();
        // Lines of a prediction may begin with the first pair.
        let has_label = rest.next().is_some_and(|token| !token.contains(&b':'));
        if has_label {
            let label = tokens.next().unwrap_or_default();
            self.hand_over(self.label, label, to)?;
        } else if self.label.is_some() {
            return Err(format!("{} does not begin with a label", shown(line)));
        }
        for token in tokens {
            self.pair(token, to)?;
        }
        for column in 0..self.seen.len() {
            if !self.seen[column] {
                for &of in self.wanted.uses(column) {
                    to.cell(of, b"")?;
                }
            }
        }
        Ok(next)
    }

    fn pair(&mut self, token: &[u8], to: &mut impl Cells) -> Result<(), String> {
        let mut parts = token.splitn(if self.has_fields { 3 } else { 2 }, |&byte| byte == b':');
        let form = if self.has_fields { "field:index:value" } else { "index:value" };
        let wrong = || format!("{} is not `{form}`", shown(token));
        let name = parts.next().filter(|name| !name.is_empty()).ok_or_else(wrong)?;
        let index = if self.has_fields { parts.next().ok_or_else(wrong)? } else { name };
        let value = parts.next().ok_or_else(wrong)?;
        if let Some(all) = self.all {
            match number(value) {
                Some(0.0) => {}
                Some(1.0) => {
                    self.seen[all] = true;
                    for &of in self.wanted.uses(all) {
                        to.cell(of, index)?;
                    }
                }
                _ => return Err(no_weight(token, name)),
            }
        }
        let Some(&column) = self.names.get(name) else { return Ok(()) };
        if self.seen[column] && !self.wanted.columns[column].repeats {
            return Err(format!(
                "column `{}` is there twice: put it under `data.multi`",
                self.wanted.columns[column].name
            ));
        }
        self.seen[column] = true;
        for &of in self.wanted.uses(column) {
            let takes_value = match of {
                Use::Feature(at) => self.takes_value[at],
                Use::Label | Use::Weight => true,
            };
            match takes_value || !self.has_fields {
                true => to.cell(of, value)?,
                false if number(value) == Some(1.0) => to.cell(of, index)?,
                false => return Err(no_weight(token, name)),
            }
        }
        Ok(())
    }

    fn hand_over(
        &mut self,
        column: Option<usize>,
        cell: &[u8],
        to: &mut impl Cells,
    ) -> Result<(), String> {
        let Some(column) = column else { return Ok(()) };
        self.seen[column] = true;
        self.wanted.uses(column).iter().try_for_each(|&of| to.cell(of, cell))
    }
}

/// That an index has a value, which ids have not.
fn no_weight(token: &[u8], name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    format!(
        "{}: an id has no value beside 1: put `{name}` under `data.dense` for its number",
        shown(token)
    )
}
