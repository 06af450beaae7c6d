//! What the columns of a table are, as somebody says it; nothing that was learned from data.

use serde::{Deserialize, Serialize};

/// The column that stands for all indices of a LibSVM line.
pub const ALL_INDICES: &str = "features";

/// What is in a table, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How a line is written.
    pub layout: Layout,
    /// What is predicted.
    pub label: Label,
    /// The column with the weight of a sample, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// What becomes ids or numbers, in the order of slots and of dense numbers.
    pub features: Vec<Feature>,
    /// Cells that stand for no number, beside empty ones.
    pub missing: Vec<String>,
    /// How many ids the words of all columns that are hashed have together.
    pub hash_buckets: u64,
}

/// How a line is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "format", rename_all = "lowercase")]
pub enum Layout {
    /// Cells between separators.
    Csv(Csv),
    /// `LABEL INDEX:VALUE ...`: an index is the name of a column.
    LibSvm,
    /// `LABEL FIELD:INDEX:VALUE ...`: a field is the name of a column, its indices are words.
    LibFfm,
}

/// Choices of [`Layout::Csv`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Csv {
    /// What stands between cells.
    pub separator: char,
    /// What stands around a cell that holds a separator; doubled within it.
    pub quote: Option<char>,
    /// Where the names of columns are from.
    pub header: Header,
    /// Lines that start with this hold no sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Where the names of columns are from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Header {
    /// The first line of every file.
    Line,
    /// Given, in the order of the cells.
    Names(Vec<String>),
    /// The number of a column is its name, from 1.
    Numbers,
}

/// The column that is predicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Its name.
    pub column: String,
    /// What means 1, and what means 0. Where both are empty: the numbers 1 and 0, or -1.
    pub positive: Vec<String>,
    /// See `positive`.
    pub negative: Vec<String>,
}

/// A column, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feature {
    /// Its name.
    pub column: String,
    /// What becomes of its cells.
    pub rule: Rule,
}

/// What becomes of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The id of the word that it is.
    Word(Words),
    /// The ids of the words that it holds, with this between them; of an empty one the id of no
    /// word.
    List(char, Words),
    /// The id of the range that its number is in.
    Bins(Bins),
    /// A number.
    Number(Number),
}

/// How words get ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Words {
    /// By a hash; words may share an id.
    Hash,
    /// One id for each word that the training data has so often, and one for all others.
    Vocabulary {
        /// How often.
        min_count: u64,
    },
}

/// Ranges of numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bins {
    /// So many, with about as many training samples in each.
    Quantiles(usize),
    /// Between these numbers, which rise; a number is in the range that it begins.
    Edges(Vec<f64>),
}

/// What becomes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// How its size is changed.
    pub scale: Scale,
    /// What a missing one is.
    pub fill: Fill,
}

/// How the size of numbers is changed, by what the training data has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Not at all.
    None,
    /// To a mean of 0 and a standard deviation of 1.
    Standard,
    /// To 0 for the least and 1 for the largest.
    MinMax,
    /// The logarithm of one more than its size, with its sign, and then as [`Scale::Standard`].
    Log,
}

/// What a missing number is, before its size is changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fill {
    /// The mean of the training data.
    Mean,
    /// This.
    Value(f64),
}

impl Settings {
    /// Columns that are read, each once, in the order of their first use.
    pub fn columns(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = Vec::new();
        let features = self.features.iter().map(|feature| feature.column.as_str());
        let all = std::iter::once(self.label.column.as_str());
        for column in all.chain(self.weight.as_deref()).chain(features) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns
    }

    /// Whether the training data must be read before anything else.
    pub fn must_learn(&self) -> bool {
        self.features.iter().any(|feature| feature.rule.must_learn())
    }

    /// Features that become ids: a slot for each.
    pub fn sparse(&self) -> impl Iterator<Item = (usize, &Feature)> {
        self.features.iter().enumerate().filter(|(_, feature)| feature.rule.is_sparse())
    }

    /// How many numbers a sample has.
    pub fn dense(&self) -> usize {
        self.features.len() - self.sparse().count()
    }
}

impl Rule {
    /// Whether ids come out.
    pub fn is_sparse(&self) -> bool {
        !matches!(self, Rule::Number(_))
    }

    fn must_learn(&self) -> bool {
        match self {
            Rule::Word(words) | Rule::List(_, words) => matches!(words, Words::Vocabulary { .. }),
            Rule::Bins(bins) => matches!(bins, Bins::Quantiles(_)),
            Rule::Number(number) => number.scale != Scale::None || number.fill == Fill::Mean,
        }
    }
}
