//! Cells become ids and numbers, as settings and learned facts say.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::cells::{Cells, Use};
use super::hash::{hash, spread};
use super::learned::{Becomes, ColumnFacts, Learned};
use super::number::number;
use super::settings::{Label, Rule};
use crate::parse::shown;
use crate::{Column, Error, Kind, Result, Slot, Values};

/// The names that lines have for slots: the label, the weight, all numbers together, and `@ids` with
/// the place of a feature among those that become ids.
pub const LABEL: &str = "@label";
/// See [`LABEL`].
pub const WEIGHT: &str = "@weight";
/// See [`LABEL`].
pub const DENSE: &str = "@dense";
/// See [`LABEL`].
pub const IDS: &str = "@ids";

/// What columns become, ready to be used by any number of parsers.
#[derive(Clone, Debug)]
pub struct Table {
    learned: Learned,
    features: Vec<Encode>,
}

/// What becomes of the cells of a feature.
#[derive(Clone, Debug)]
enum Encode {
    Word(Ids),
    List(u8, Ids),
    Range { first: u64, edges: Vec<f64> },
    Number { log: bool, center: f64, factor: f64, fill: f32 },
}

#[derive(Clone, Debug)]
enum Ids {
    Hash { seed: u64, buckets: u64 },
    Vocabulary { first: u64, words: HashMap<Box<[u8]>, u64, BuildHasherDefault<WordHasher>> },
}

impl Table {
    /// What was learned, ready for use.
    ///
    /// # Errors
    /// When the facts are not those of the settings.
    pub fn new(learned: Learned) -> Result<Table> {
        let settings = &learned.settings;
        let both = settings.features.iter().zip(&learned.columns);
        let encode = |(feature, facts): (_, &ColumnFacts)| encode(feature, facts, settings);
        let features: Option<Vec<Encode>> = both.map(encode).collect();
        let features = features.filter(|all| all.len() == settings.features.len());
        let features = features.ok_or_else(|| {
            Error::Settings(
                "what was learned of the columns is not what the settings ask for: train again"
                    .into(),
            )
        })?;
        Ok(Table { learned, features })
    }

    /// What it was made of.
    pub fn learned(&self) -> &Learned {
        &self.learned
    }
}

/// Two are the same where what was learned is.
impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        self.learned == other.learned
    }
}

fn encode(
    feature: &super::settings::Feature,
    facts: &ColumnFacts,
    settings: &super::settings::Settings,
) -> Option<Encode> {
    let ids = || match &facts.becomes {
        Becomes::Hash => Some(Ids::Hash {
            seed: hash(0, feature.column.as_bytes()),
            buckets: settings.hash_buckets,
        }),
        Becomes::Vocabulary { first, words, .. } => {
            let word = |(at, word): (usize, &String)| {
                (word.clone().into_bytes().into_boxed_slice(), first + 1 + at as u64)
            };
            let words = words.iter().enumerate().map(word).collect();
            Some(Ids::Vocabulary { first: *first, words })
        }
        Becomes::Range { .. } | Becomes::Number { .. } => None,
    };
    match (&feature.rule, &facts.becomes) {
        _ if feature.column != facts.column => None,
        (Rule::Word(_), _) => Some(Encode::Word(ids()?)),
        (Rule::List(separator, _), _) => Some(Encode::List(u8::try_from(*separator).ok()?, ids()?)),
        (Rule::Bins(_), Becomes::Range { first, edges }) => {
            Some(Encode::Range { first: *first, edges: edges.clone() })
        }
        (Rule::Number(_), Becomes::Number { log, center, factor, fill, .. }) => {
            let (log, center, factor) = (*log, *center, *factor);
            let fill = scaled(*fill, log, center, factor);
            Some(Encode::Number { log, center, factor, fill })
        }
        _ => None,
    }
}

#[inline(always)]
fn scaled(value: f64, log: bool, center: f64, factor: f64) -> f32 {
    let value = if log { logarithm(value) } else { value };
    ((value - center) * factor) as f32
}

/// The logarithm of one more than the size of a number, with its sign.
pub(super) fn logarithm(value: f64) -> f64 {
    value.abs().ln_1p().copysign(value)
}

impl Ids {
    #[inline(always)]
    fn of(&self, word: &[u8]) -> u64 {
        match self {
            Ids::Hash { seed, buckets } => 1 + spread(hash(*seed, word), *buckets),
            Ids::Vocabulary { first, words } => words.get(word).copied().unwrap_or(*first),
        }
    }
}

/// Hands cells of a table to the columns of samples.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    table: Arc<Table>,
    /// The columns of label, weight and numbers.
    label: Option<usize>,
    weight: Option<usize>,
    dense: Option<usize>,
    /// For each feature its column, or its place among the numbers.
    places: Vec<usize>,
}

impl Encoder {
    /// For slots that have these names in a table.
    ///
    /// # Errors
    /// When a name is none, or a slot is not what the table has for it.
    pub(super) fn new(table: &Arc<Table>, slots: &[Slot], names: &[String]) -> Result<Encoder> {
        let settings = &table.learned.settings;
        let sparse: Vec<usize> = settings.sparse().map(|(at, _)| at).collect();
        let mut encoder = Encoder {
            table: Arc::clone(table),
            label: None,
            weight: None,
            dense: None,
            places: vec![usize::MAX; settings.features.len()],
        };
        for (at, (slot, name)) in slots.iter().zip(names).enumerate() {
            let width = slot.width();
            let (ok, wanted) = match name.as_str() {
                LABEL => {
                    encoder.label = Some(at);
                    (width == Some(1), "one value")
                }
                WEIGHT => {
                    encoder.weight = Some(at);
                    (width == Some(1) && slot.kind == Kind::Floats, "one number")
                }
                DENSE => {
                    encoder.dense = Some(at);
                    let fits = width == Some(settings.dense()) && slot.kind == Kind::Floats;
                    (fits, "as many numbers as there are dense columns")
                }
                name => {
                    let place = name.strip_prefix(IDS).and_then(|place| place.parse().ok());
                    let Some(&feature) = place.and_then(|place: usize| sparse.get(place)) else {
                        return Err(Error::Settings(format!(
                            "slot `{}` is not in the data: tables have no `{name}`",
                            slot.name
                        )));
                    };
                    encoder.places[feature] = at;
                    match settings.features[feature].rule {
                        Rule::List(..) => {
                            (width.is_none() && slot.kind == Kind::Ids, "any number of ids")
                        }
                        _ => (width == Some(1) && slot.kind == Kind::Ids, "one id"),
                    }
                }
            };
            if !ok {
                return Err(Error::Settings(format!("slot `{}` must take {wanted}", slot.name)));
            }
        }
        let numbers = settings.features.iter().enumerate();
        let numbers = numbers.filter(|(_, feature)| !feature.rule.is_sparse()).map(|(at, _)| at);
        for (place, feature) in numbers.enumerate() {
            encoder.places[feature] = place;
        }
        Ok(encoder)
    }

    /// What it takes cells for.
    pub(super) fn uses(&self) -> Vec<Use> {
        let features = self.table.learned.settings.features.iter().enumerate();
        let wanted = features.filter(|(at, feature)| match feature.rule.is_sparse() {
            true => self.places[*at] != usize::MAX,
            false => self.dense.is_some(),
        });
        let label = self.label.map(|_| Use::Label);
        let weight = self.weight.map(|_| Use::Weight);
        label.into_iter().chain(weight).chain(wanted.map(|(at, _)| Use::Feature(at))).collect()
    }

    /// Takes the cells of a row for these columns.
    #[inline(always)]
    pub(super) fn row<'a>(&'a self, columns: &'a mut [Column]) -> Row<'a> {
        let mut numbers_from = 0;
        if let Some(dense) = self.dense
            && let Values::Floats(values) = columns[dense].values_mut()
        {
            numbers_from = values.len();
            values.resize(numbers_from + self.table.learned.settings.dense(), 0.0);
        }
        Row { encoder: self, columns, numbers_from }
    }
}

/// One row.
pub(super) struct Row<'a> {
    encoder: &'a Encoder,
    columns: &'a mut [Column],
    /// Where its numbers start.
    numbers_from: usize,
}

impl Cells for Row<'_> {
    #[inline(always)]
    fn cell(&mut self, of: Use, cell: &[u8]) -> std::result::Result<(), String> {
        let settings = &self.encoder.table.learned.settings;
        let at = match of {
            Use::Feature(at) => at,
            Use::Label => {
                let label = label(&settings.label, cell)?;
                return self.push(self.encoder.label, f32::from(u8::from(label)));
            }
            Use::Weight => {
                let column = settings.weight.as_deref().unwrap_or_default();
                let weight = weight(column, cell)?;
                return self.push(self.encoder.weight, weight);
            }
        };
        let place = self.encoder.places[at];
        match &self.encoder.table.features[at] {
            Encode::Word(ids) => self.push_id(place, ids.of(cell)),
            Encode::List(separator, ids) => {
                let words = cell.split(|byte| byte == separator).map(<[u8]>::trim_ascii);
                let mut words = words.filter(|word| !word.is_empty()).peekable();
                if words.peek().is_none() {
                    self.push_id(place, ids.of(b""));
                }
                words.for_each(|word| self.push_id(place, ids.of(word)));
            }
            Encode::Range { first, edges } => {
                let column = &settings.features[at].column;
                let id = match number_or_none(column, cell, &settings.missing)? {
                    None => *first,
                    Some(value) => 1 + first + edges.partition_point(|&edge| edge <= value) as u64,
                };
                self.push_id(place, id);
            }
            Encode::Number { log, center, factor, fill } => {
                let column = &settings.features[at].column;
                let value = match number_or_none(column, cell, &settings.missing)? {
                    None => *fill,
                    Some(value) => scaled(value, *log, *center, *factor),
                };
                let dense = self.encoder.dense.map(|dense| self.columns[dense].values_mut());
                if let Some(Values::Floats(values)) = dense {
                    values[self.numbers_from + place] = value;
                }
            }
        }
        Ok(())
    }
}

impl Row<'_> {
    #[inline(always)]
    fn push_id(&mut self, column: usize, id: u64) {
        if let Values::Ids(ids) = self.columns[column].values_mut() {
            ids.push(id);
        }
    }

    fn push(&mut self, column: Option<usize>, value: f32) -> std::result::Result<(), String> {
        match column.map(|column| self.columns[column].values_mut()) {
            Some(Values::Ids(ids)) => ids.push(value as u64),
            Some(Values::Floats(floats)) => floats.push(value),
            None => {}
        }
        Ok(())
    }
}

/// Whether a cell says 1.
pub(super) fn label(label: &Label, cell: &[u8]) -> std::result::Result<bool, String> {
    let wrong =
        |known: String| format!("column `{}`: {} is no label: {known}", label.column, shown(cell));
    if label.positive.is_empty() && label.negative.is_empty() {
        return match number(cell) {
            Some(1.0) => Ok(true),
            Some(0.0 | -1.0) => Ok(false),
            _ => Err(wrong(
                "labels are 1 and 0 (or -1); `data.positive` and `data.negative` name others"
                    .into(),
            )),
        };
    }
    let is = |words: &[String]| words.iter().any(|word| word.as_bytes() == cell);
    let listed = |words: &[String]| {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        words.join(", ")
    };
    match (is(&label.positive), is(&label.negative)) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(wrong(format!(
            "`data.positive` is {}, `data.negative` is {}",
            listed(&label.positive),
            listed(&label.negative)
        ))),
    }
}

/// The weight that a cell says.
pub(super) fn weight(column: &str, cell: &[u8]) -> std::result::Result<f32, String> {
    let weight = number(cell).filter(|weight| *weight >= 0.0).map(|weight| weight as f32);
    weight.ok_or_else(|| format!("column `{column}`: {} is no weight from 0 on", shown(cell)))
}

/// The number that a cell holds; none where it is missing.
#[inline(always)]
pub(super) fn number_or_none(
    column: &str,
    cell: &[u8],
    missing: &[String],
) -> std::result::Result<Option<f64>, String> {
    match number(cell) {
        Some(value) => Ok(Some(value)),
        None if cell.is_empty() || missing.iter().any(|word| word.as_bytes() == cell) => Ok(None),
        None => Err(format!(
            "column `{column}`: {} is not a finite number (`data.missing` lists what stands for a \
             missing one)",
            shown(cell)
        )),
    }
}

/// The hash of words in maps that live as long as a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(self.0, bytes);
    }

    fn write_usize(&mut self, value: usize) {
        // The length of a word is in its own hash.
        self.0 ^= value as u64;
    }
}
