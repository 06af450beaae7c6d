//! Samples from a Parquet file: a column for each slot, by the names that text would have.
//!
//! A slot takes a column of numbers or a list of them. A row without a value is padded with zeros as
//! in `slot:value` text; nulls within a list are passed over.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::basic::{ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use crate::parse::BadLines;
use crate::{Error, Kind, Result, Samples, Slot, Values};

/// Rows that are read at once.
const ROWS: usize = 4096;

/// A file that is read row group by row group.
pub(super) struct Table {
    path: PathBuf,
    file: SerializedFileReader<File>,
    slots: Vec<Slot>,
    /// The column of each slot.
    leaves: Vec<usize>,
    /// The row group that comes next, and the columns of the one that is read.
    next_group: usize,
    columns: Vec<Leaf>,
    left: usize,
    /// The number of the next row, from 1.
    row: u64,
}

/// A column of a row group.
struct Leaf {
    reader: ColumnReader,
    max_def: i16,
    is_list: bool,
    unsigned: bool,
}

/// The values of some rows.
struct Decoded {
    values: Values,
    /// How many each row has.
    counts: Vec<usize>,
}

impl Table {
    /// Opens a file and finds the column of each slot.
    pub(super) fn open(path: &Path, file: File, slots: &[Slot], names: &[String]) -> Result<Table> {
        let file = SerializedFileReader::new(file).map_err(|error| failed(path, &error))?;
        let columns = file.metadata().file_metadata().schema_descr().columns();
        let leaf = |name: &String| {
            let named = |column: &ColumnDescriptor| column.path().parts().first() == Some(name);
            let Some(leaf) = columns.iter().position(|column| named(column)) else {
                return Err(Error::File {
                    path: path.to_owned(),
                    problem: format!("it has no column `{name}`"),
                });
            };
            Ok(leaf)
        };
        let leaves = names.iter().map(leaf).collect::<Result<Vec<_>>>()?;
        Ok(Table {
            path: path.to_owned(),
            file,
            slots: slots.to_vec(),
            leaves,
            next_group: 0,
            columns: Vec::new(),
            left: 0,
            row: 1,
        })
    }

    /// The number of the row that is read next, from 1.
    pub(super) fn row(&self) -> u64 {
        self.row
    }

    /// Appends some rows; returns whether there may be more.
    pub(super) fn read(&mut self, bad: &BadLines, out: &mut Samples) -> Result<bool> {
        while self.left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(false);
            }
            self.open_group().map_err(|error| failed(&self.path, &error))?;
        }
        let rows = self.left.min(ROWS);
        let (path, slots) = (&self.path, &self.slots);
        let decode = |(leaf, slot): (&mut Leaf, &Slot)| leaf.decode(rows, slot, path);
        let decoded = self.columns.iter_mut().zip(slots).map(decode).collect::<Result<Vec<_>>>()?;
        let mut starts = vec![0; decoded.len()];
        for row in 0..rows {
            let appended = append(slots, &decoded, &mut starts, row, out);
            match appended {
                Ok(()) => out.end_row(),
                Err(problem) => {
                    out.drop_unfinished();
                    bad.report(path, self.row + row as u64, problem)?;
                }
            }
        }
        self.row += rows as u64;
        self.left -= rows;
        Ok(true)
    }

    fn open_group(&mut self) -> std::result::Result<(), ParquetError> {
        let group = self.file.get_row_group(self.next_group)?;
        self.columns.clear();
        for &leaf in &self.leaves {
            let description = group.metadata().column(leaf).column_descr();
            self.columns.push(Leaf {
                reader: group.get_column_reader(leaf)?,
                max_def: description.max_def_level(),
                is_list: description.max_rep_level() > 0,
                unsigned: is_unsigned(description),
            });
        }
        self.left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        self.next_group += 1;
        Ok(())
    }
}

/// Appends a row to the columns; says which slot is wrong, and how.
fn append(
    slots: &[Slot],
    decoded: &[Decoded],
    starts: &mut [usize],
    row: usize,
    out: &mut Samples,
) -> std::result::Result<(), String> {
    let mut problem = None;
    let columns = out.columns_mut().iter_mut().zip(slots);
    for (((column, slot), from), start) in columns.zip(decoded).zip(starts) {
        let count = from.counts[row];
        let range = *start..*start + count;
        // Even of a bad row, so that the next one starts where it should.
        *start += count;
        let width = slot.width().unwrap_or(count.max(1));
        if count > 0 && count != width {
            problem = Some(format!("slot `{}` has {count} values, not {width}", slot.name));
            continue;
        }
        let padding = width - count;
        match (column.values_mut(), &from.values) {
            (Values::Ids(to), Values::Ids(from)) => {
                to.extend_from_slice(&from[range]);
                to.extend(std::iter::repeat_n(0, padding));
            }
            (Values::Floats(to), Values::Floats(from)) => {
                if let Some(wrong) = from[range.clone()].iter().find(|value| !value.is_finite()) {
                    problem = Some(format!("slot `{}`: {wrong} is not a finite number", slot.name));
                }
                to.extend_from_slice(&from[range]);
                to.extend(std::iter::repeat_n(0.0, padding));
            }
            _ => unreachable!("values were decoded for the kind of their slot"),
        }
    }
    problem.map_or(Ok(()), Err)
}

impl Leaf {
    /// The values of the next `rows` rows.
    fn decode(&mut self, rows: usize, slot: &Slot, path: &Path) -> Result<Decoded> {
        let (max_def, is_list, unsigned) = (self.max_def, self.is_list, self.unsigned);
        let form = (max_def, is_list);
        let failed = |error: ParquetError| failed(path, &error);
        let (values, counts) = match (&mut self.reader, slot.kind) {
            (ColumnReader::Int64ColumnReader(reader), Kind::Ids) => {
                let (values, counts) = records(reader, rows, form).map_err(failed)?;
                (Values::Ids(values.into_iter().map(|value| value as u64).collect()), counts)
            }
            (ColumnReader::Int32ColumnReader(reader), Kind::Ids) => {
                let (values, counts) = records(reader, rows, form).map_err(failed)?;
                let id = |value: i32| match unsigned {
                    true => u64::from(value as u32),
                    false => i64::from(value) as u64,
                };
                (Values::Ids(values.into_iter().map(id).collect()), counts)
            }
            (ColumnReader::FloatColumnReader(reader), Kind::Floats) => {
                let (values, counts) = records(reader, rows, form).map_err(failed)?;
                (Values::Floats(values), counts)
            }
            (ColumnReader::DoubleColumnReader(reader), Kind::Floats) => {
                let (values, counts) = records(reader, rows, form).map_err(failed)?;
                (Values::Floats(values.into_iter().map(|value| value as f32).collect()), counts)
            }
            (_, kind) => {
                let types = if kind == Kind::Ids { "INT64 or INT32" } else { "FLOAT or DOUBLE" };
                return Err(Error::Settings(format!(
                    "slot `{}` needs a column of {types} in `{}`",
                    slot.name,
                    path.display()
                )));
            }
        };
        Ok(Decoded { values, counts })
    }
}

/// Values that are there, and how many each row has.
fn records<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    (max_def, is_list): (i16, bool),
) -> std::result::Result<(Vec<T::T>, Vec<usize>), ParquetError> {
    let (mut values, mut defs, mut reps) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let (records, _, _) =
            reader.read_records(rows - read, Some(&mut defs), Some(&mut reps), &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF(format!("a column ends after {read} of {rows} rows")));
        }
        read += records;
    }
    // Without levels every row has one value.
    if max_def == 0 && !is_list {
        return Ok((values, vec![1; rows]));
    }
    let mut counts = Vec::with_capacity(rows);
    for (level, def) in defs.iter().enumerate() {
        if !is_list || reps.get(level) == Some(&0) {
            counts.push(0);
        }
        if let Some(count) = counts.last_mut() {
            *count += usize::from(*def == max_def);
        }
    }
    match counts.len() == rows && counts.iter().sum::<usize>() == values.len() {
        true => Ok((values, counts)),
        false => Err(ParquetError::General("the levels of a column fit no rows".to_owned())),
    }
}

fn is_unsigned(column: &ColumnDescriptor) -> bool {
    match column.logical_type_ref() {
        Some(LogicalType::Integer(integer)) => !integer.is_signed,
        _ => matches!(
            column.converted_type(),
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32
        ),
    }
}

fn failed(path: &Path, error: &ParquetError) -> Error {
    Error::File { path: path.to_owned(), problem: error.to_string() }
}
