//! What training data says about its columns, as a file that people can read.

use std::path::Path;

use bireme_engine::io;
use serde::{Deserialize, Serialize};

use super::settings::{Feature, Rule, Settings, Words};
use crate::{Error, Result};

/// The version of the file; others are refused.
const VERSION: u32 = 1;

/// Settings, and what was learned for each feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    version: u32,
    /// What it was learned for.
    pub settings: Settings,
    /// The files that it was learned from; none where nothing had to be.
    pub files: Vec<FileMark>,
    /// Samples that were read for it.
    pub samples: u64,
    /// Those of them with a label of 1.
    pub positive: u64,
    /// For each feature of the settings, in their order.
    pub columns: Vec<ColumnFacts>,
}

/// A file as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    /// Its name, without folders.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last changed, in seconds since 1970.
    pub modified: u64,
}

/// What was learned for a feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnFacts {
    /// The name of the column.
    pub column: String,
    /// What its cells become.
    #[serde(flatten)]
    pub becomes: Becomes,
}

/// What cells become.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "becomes", rename_all = "snake_case")]
pub enum Becomes {
    /// An id by a hash.
    Hash,
    /// The id of a word: `first + 1` for the first of them and so on; `first` for all others.
    Vocabulary {
        /// See there.
        first: u64,
        /// Words that the data has too seldom for an id of their own.
        rare: u64,
        /// The words, the most frequent one first.
        words: Vec<String>,
    },
    /// The id of a range: `first + 1` below the first edge and so on; `first` for a missing number.
    Range {
        /// See there.
        first: u64,
        /// Where ranges begin.
        edges: Vec<f64>,
    },
    /// `(number - center) * factor`, where the number is a logarithm if `log` says so.
    Number {
        /// Whether the logarithm is taken first.
        log: bool,
        /// See there.
        center: f64,
        /// See there.
        factor: f64,
        /// What stands for a missing number, before all that.
        fill: f64,
        /// Missing numbers among the samples.
        missing: u64,
        /// The least number and the largest.
        least: f64,
        /// See `least`.
        largest: f64,
    },
}

impl Learned {
    /// The outcome for settings, whose ids are numbered here: hashed ones from 1, then each feature
    /// has a range of its own. 0 is no id.
    pub(super) fn new(
        settings: Settings,
        files: Vec<FileMark>,
        (samples, positive): (u64, u64),
        becomes: Vec<Becomes>,
    ) -> Learned {
        let hashes = |feature: &Feature| {
            matches!(&feature.rule, Rule::Word(Words::Hash) | Rule::List(_, Words::Hash))
        };
        let mut next = 1;
        if settings.features.iter().any(hashes) {
            next += settings.hash_buckets;
        }
        let numbered = |(feature, mut becomes): (&Feature, Becomes)| {
            let ids = becomes.ids();
            if let Becomes::Vocabulary { first, .. } | Becomes::Range { first, .. } = &mut becomes {
                *first = next;
                next += ids;
            }
            ColumnFacts { column: feature.column.clone(), becomes }
        };
        let columns = settings.features.iter().zip(becomes).map(numbered).collect();
        Learned { version: VERSION, settings, files, samples, positive, columns }
    }

    /// The number of ids, 0 included: rows of a table for all of them.
    pub fn rows(&self) -> u64 {
        let own = self.columns.iter().map(|facts| facts.becomes.ids()).sum::<u64>();
        let hashed = self.columns.iter().any(|facts| facts.becomes == Becomes::Hash);
        1 + own + if hashed { self.settings.hash_buckets } else { 0 }
    }

    /// Reads it from a file.
    ///
    /// # Errors
    /// When there is no such file, or it is not one of these.
    pub fn read(path: &Path) -> Result<Learned> {
        let failed = |problem: String| Error::File { path: path.to_owned(), problem };
        let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        let learned: Learned = serde_json::from_slice(&text)
            .map_err(|error| failed(format!("it does not describe columns: {error}")))?;
        match learned.version {
            VERSION => Ok(learned),
            other => Err(failed(format!(
                "it is of version {other}, and this program reads version {VERSION}: train again"
            ))),
        }
    }

    /// Writes it to a file, which appears when it is whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let failed = |problem: String| Error::Output { path: path.to_owned(), problem };
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|error| failed(error.to_string()))?;
        text.push(b'\n');
        io::write_file(path, |out| out.write_all(&text)).map_err(|error| failed(error.to_string()))
    }
}

impl FileMark {
    /// How a file is now.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn of(path: &Path) -> Result<FileMark> {
        let failed = |error: std::io::Error| Error::File {
            path: path.to_owned(),
            problem: error.to_string(),
        };
        let found = path.metadata().map_err(failed)?;
        let since = found.modified().map_err(failed)?.duration_since(std::time::UNIX_EPOCH);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(FileMark {
            name: name.unwrap_or_default(),
            bytes: found.len(),
            modified: since.map_or(0, |since| since.as_secs()),
        })
    }
}

impl Becomes {
    /// Ids of its own.
    fn ids(&self) -> u64 {
        match self {
            Becomes::Hash | Becomes::Number { .. } => 0,
            Becomes::Vocabulary { words, .. } => 1 + words.len() as u64,
            Becomes::Range { edges, .. } => 2 + edges.len() as u64,
        }
    }
}
