//! The text of one column, as it stands in lines: names of samples, for those who print them.

use super::cells::{Cells, Use, Wanted};
use super::csv::Rows;
use super::settings::{Layout, Settings};

/// Finds the cell of one column in lines of a table.
#[derive(Clone, Debug)]
pub struct TextColumn {
    rows: Rows,
}

/// Keeps the last cell.
struct Kept(String);

impl Cells for Kept {
    fn cell(&mut self, _: Use, cell: &[u8]) -> Result<(), String> {
        self.0 = String::from_utf8_lossy(cell).into_owned();
        Ok(())
    }
}

impl TextColumn {
    /// Of any column, whether the settings use it or not.
    ///
    /// # Errors
    /// When lines have no columns, or none of this name.
    pub fn new(settings: &Settings, column: &str) -> Result<TextColumn, String> {
        let Layout::Csv(csv) = &settings.layout else {
            return Err(format!("only csv and tsv have a column `{column}` that can be printed"));
        };
        let label = settings.label.column.as_str();
        let rows = Rows::new(csv, Wanted::of_column(column), (label != column).then_some(label))?;
        Ok(TextColumn { rows })
    }

    /// Takes the header of a file.
    ///
    /// # Errors
    /// When it does not have the column.
    pub fn begin(&mut self, header: &[u8]) -> Result<(), String> {
        self.rows.begin(header).map(drop)
    }

    /// The text of the column in a line.
    ///
    /// # Errors
    /// When the line has other columns than the file.
    pub fn of(&mut self, line: &[u8]) -> Result<String, String> {
        let mut kept = Kept(String::new());
        self.rows.each(line, 0, &mut kept)?;
        Ok(kept.0)
    }
}
