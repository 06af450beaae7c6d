//! Who takes the cells of a row, and which columns they want.

use std::ops::Range;

use super::settings::{Rule, Settings};

/// What a cell is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Label,
    Weight,
    /// The feature with this index.
    Feature(usize),
}

/// Takes the cells of one row after the other.
pub(super) trait Cells {
    /// Takes a cell; one that is absent is empty.
    ///
    /// # Errors
    /// What is wrong with it.
    fn cell(&mut self, of: Use, cell: &[u8]) -> Result<(), String>;
}

/// The columns that somebody wants.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) columns: Vec<Column>,
    uses: Vec<Use>,
}

/// A column, and where its uses are.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// Whether a row may have several cells of it.
    pub(super) repeats: bool,
    uses: Range<usize>,
}

impl Wanted {
    /// The columns of these uses.
    pub(super) fn new(settings: &Settings, uses: &[Use]) -> Wanted {
        let name = |of: Use| match of {
            Use::Label => settings.label.column.as_str(),
            Use::Weight => settings.weight.as_deref().unwrap_or_default(),
            Use::Feature(at) => &settings.features[at].column,
        };
        let repeats = |of: &Use| match of {
            Use::Feature(at) => matches!(settings.features[*at].rule, Rule::List(..)),
            Use::Label | Use::Weight => false,
        };
        let mut wanted = Wanted { columns: Vec::new(), uses: Vec::new() };
        for column in settings.columns() {
            let own: Vec<Use> = uses.iter().copied().filter(|&of| name(of) == column).collect();
            if own.is_empty() {
                continue;
            }
            let (start, repeats) = (wanted.uses.len(), own.iter().all(repeats));
            wanted.uses.extend(own);
            let uses = start..wanted.uses.len();
            wanted.columns.push(Column { name: column.to_owned(), repeats, uses });
        }
        wanted
    }

    /// One column, for no use in particular.
    pub(super) fn of_column(name: &str) -> Wanted {
        let column = Column { name: name.to_owned(), repeats: false, uses: 0..1 };
        Wanted { columns: vec![column], uses: vec![Use::Label] }
    }

    /// These columns, each as the feature with its place.
    pub(super) fn of_columns(names: &[String]) -> Wanted {
        let column = |(at, name): (usize, &String)| Column {
            name: name.clone(),
            repeats: false,
            uses: at..at + 1,
        };
        let columns = names.iter().enumerate().map(column).collect();
        Wanted { columns, uses: (0..names.len()).map(Use::Feature).collect() }
    }

    /// What a column is for.
    #[inline(always)]
    pub(super) fn uses(&self, column: usize) -> &[Use] {
        &self.uses[self.columns[column].uses.clone()]
    }

    /// The column of this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}
