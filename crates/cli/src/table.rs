//! Plain tables in columns: text to the left, numbers to the right.

use std::fmt;

use crate::terminal::printable;

/// Where the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows under a header.
#[derive(Debug)]
pub(crate) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Table {
        let header = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Table { align: columns.iter().map(|(_, align)| *align).collect(), rows: vec![header] }
    }

    /// Adds a row, one cell for each column.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.cells(cells);
    }

    /// The same for a number of columns that is known only now.
    pub(crate) fn cells(&mut self, cells: impl IntoIterator<Item = String>) {
        // Cells hold names from files; none may move the cursor or add a line.
        let row: Vec<_> = cells.into_iter().map(|cell| printable(&cell).into_owned()).collect();
        assert_eq!(row.len(), self.align.len(), "a row has a cell for each column");
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), align) in row.iter().zip(&widths).zip(&self.align) {
                line.push_str(&match align {
                    Align::Left => format!("{cell:<width$}  "),
                    Align::Right => format!("{cell:>width$}  "),
                });
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("op", Align::Left), ("count", Align::Right)]);
        table.row(["mul".into(), "5".into()]);
        table.row(["con\tcat".into(), "12".into()]);
        assert_eq!(table.to_string(), "op        count\nmul           5\ncon\\tcat     12\n");
    }
}
