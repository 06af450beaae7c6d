//! What the numbers of a record are, for checkpoints and for people.

use serde::{Deserialize, Serialize};

/// Some neighbouring numbers of a record with one meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// `weight`, `moment1`, `show`, …; unique in its table.
    pub name: String,
    /// How many numbers.
    pub width: usize,
    /// What they are.
    pub kind: ColumnKind,
}

/// What the numbers of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Trained values; all columns of this kind, one after another, are the embedding.
    Weight,
    /// What the optimizer keeps.
    State,
    /// How often the key was shown.
    Show,
    /// How often it was clicked.
    Click,
    /// Any other counter or mark.
    Counter,
}

impl Column {
    /// A column of this name, width and kind.
    pub(super) fn new(name: &str, width: usize, kind: ColumnKind) -> Column {
        Column { name: name.to_owned(), width, kind }
    }
}

/// Which rows a save takes; Paddle's modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaveMode {
    /// Every row (0).
    #[default]
    Full,
    /// Rows that changed enough since they were last saved (1).
    Delta,
    /// Rows that are shown often enough (2), as the base of later deltas.
    Base,
    /// Every row, and each of them is a day older afterwards (3).
    FullAging,
}

impl SaveMode {
    /// The mode of Paddle's number, or `None` if there is none.
    pub fn from_code(code: u32) -> Option<SaveMode> {
        const ALL: [SaveMode; 4] =
            [SaveMode::Full, SaveMode::Delta, SaveMode::Base, SaveMode::FullAging];
        ALL.into_iter().find(|mode| mode.code() == code)
    }

    /// Paddle's number.
    pub fn code(self) -> u32 {
        match self {
            SaveMode::Full => 0,
            SaveMode::Delta => 1,
            SaveMode::Base => 2,
            SaveMode::FullAging => 3,
        }
    }
}
