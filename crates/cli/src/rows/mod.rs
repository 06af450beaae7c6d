//! Lines of text as rows of feeds.
//!
//! A line becomes one row in every feed or an error that says what is wrong with it; a bad line
//! leaves the rows before it as they were.

mod json;
mod slot;

use anyhow::{Context, Result, bail, ensure};
use bireme_engine::tensor::{Element, Tensor};
use bireme_ir::{DType, Program};

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// A JSON object a line: `{"x": [0.5, 1.5], "id": 7}`
    Json,
    /// PaddleRec's slot text: `click:0 dense_feature:0.1 1:123 2:456`
    Slot,
}

impl Format {
    /// The format that a first line looks like.
    pub(crate) fn guess(line: &str) -> Format {
        if line.trim_start().starts_with('{') { Format::Json } else { Format::Slot }
    }
}

/// Rows that have been read and not been run yet.
#[derive(Debug)]
pub(crate) struct Rows {
    columns: Vec<Column>,
    count: usize,
    /// The one number of rows that the program takes, if it is fixed.
    fixed: Option<usize>,
}

/// One feed.
#[derive(Debug)]
struct Column {
    name: String,
    dtype: DType,
    /// Dimensions of one row; a single free one is the length of the row's list.
    dims: Vec<Option<usize>>,
    /// Whether a row is a sequence of any length.
    ragged: bool,
    values: Values,
    /// Where each row starts in `values`, and at last where the next will.
    offsets: Vec<usize>,
}

/// Numbers as they stand in the text. Integers are kept apart: an id does not fit a float.
#[derive(Debug)]
enum Values {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
}

impl Rows {
    /// No rows yet, for these feeds of `program`.
    ///
    /// # Errors
    /// When the program does not declare a feed, text cannot express its type, or two feeds are
    /// fixed to different numbers of rows.
    pub(crate) fn new(program: &Program, feeds: &[String]) -> Result<Rows> {
        let columns = feeds.iter().map(|feed| Column::new(program, feed)).collect::<Result<_>>()?;
        let mut fixed = None;
        for var in feeds.iter().filter_map(|feed| program.global().var(feed)) {
            let rows = var.shape.first().and_then(|rows| usize::try_from(*rows).ok());
            if let Some(rows) = rows.filter(|_| var.lod_level == 0) {
                let other = *fixed.get_or_insert(rows);
                ensure!(
                    other == rows,
                    "the model takes {other} rows in one feed, {rows} in another"
                );
            }
        }
        Ok(Rows { columns, count: 0, fixed })
    }

    /// The one number of rows that the program takes, if it is fixed.
    pub(crate) fn fixed(&self) -> Option<usize> {
        self.fixed
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds the row that `line` holds.
    ///
    /// # Errors
    /// When the line is not well-formed, names an unknown feed, or lacks or overfills one; the rows
    /// are then as before.
    pub(crate) fn push(&mut self, line: &str, format: Format) -> Result<()> {
        let read = match format {
            Format::Json => json::read(line, self),
            Format::Slot => slot::read(line, self),
        };
        let read = read.and_then(|()| self.columns.iter().try_for_each(Column::check_row));
        match read {
            Ok(()) => {
                self.count += 1;
                self.columns.iter_mut().for_each(|column| column.offsets.push(column.len()));
            }
            Err(_) => self.columns.iter_mut().for_each(Column::forget_row),
        }
        read
    }

    /// The rows as one tensor for each feed, in the order given to [`Rows::new`]; the last row is
    /// repeated to make up a fixed number.
    ///
    /// # Errors
    /// When rows of one feed differ in length without it being a sequence.
    pub(crate) fn tensors(&self) -> Result<Vec<Tensor>> {
        let tensor = |column: &Column| column.tensor(self.count, self.fixed);
        self.columns.iter().map(tensor).collect()
    }

    /// Forgets all rows; their memory is used again.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        for column in &mut self.columns {
            column.offsets.truncate(1);
            column.forget_row();
        }
    }

    fn column(&mut self, name: &str) -> Option<&mut Column> {
        self.columns.iter_mut().find(|column| column.name == name)
    }

    fn unknown(&self, name: &str) -> anyhow::Error {
        let names = self.columns.iter().map(|column| column.name.as_str());
        let near = bireme_ir::nearest(name, names.clone());
        let hint = if near.is_empty() {
            format!("the model takes {}", quoted(names))
        } else {
            format!("did you mean {}?", quoted(near.iter().map(String::as_str)))
        };
        anyhow::anyhow!("the model has no feed `{name}`: {hint}")
    }
}

impl Column {
    fn new(program: &Program, feed: &str) -> Result<Column> {
        let var = program.global().var(feed);
        let var = var.with_context(|| format!("the program does not declare its feed `{feed}`"))?;
        let values = match var.dtype {
            DType::F32 | DType::F64 => Values::Reals(Vec::new()),
            DType::I64 | DType::I32 | DType::U8 => Values::Integers(Vec::new()),
            other => bail!("feed `{feed}` holds {other}, which cannot be read from text"),
        };
        let dims = var.shape.iter().skip(1).map(|dim| usize::try_from(*dim).ok()).collect();
        Ok(Column {
            name: feed.to_owned(),
            dtype: var.dtype,
            dims,
            ragged: var.lod_level > 0,
            values,
            offsets: vec![0],
        })
    }

    fn len(&self) -> usize {
        match &self.values {
            Values::Integers(values) => values.len(),
            Values::Reals(values) => values.len(),
        }
    }

    /// Where the row that is being read starts.
    fn start(&self) -> usize {
        *self.offsets.last().expect("offsets start with 0")
    }

    fn forget_row(&mut self) {
        let start = self.start();
        match &mut self.values {
            Values::Integers(values) => values.truncate(start),
            Values::Reals(values) => values.truncate(start),
        }
    }

    /// Adds one number, given as text.
    fn push_text(&mut self, text: &str) -> Result<()> {
        match &mut self.values {
            Values::Integers(values) => {
                // Ids of 64 bits without a sign are stored as Paddle stores them: the same bits.
                let id = text.parse::<i64>().or_else(|_| text.parse::<u64>().map(|id| id as i64));
                let id = id.ok();
                values.push(id.with_context(|| format!("`{text}` is not a whole number"))?);
            }
            Values::Reals(values) => {
                values.push(text.parse().ok().with_context(|| format!("`{text}` is no number"))?);
            }
        }
        Ok(())
    }

    /// Checks the number of values of the row that was just read.
    fn check_row(&self) -> Result<()> {
        let given = self.len() - self.start();
        let known: usize = self.dims.iter().flatten().product();
        let free = self.dims.iter().filter(|dim| dim.is_none()).count();
        if free == 0 && !self.ragged {
            ensure!(
                given == known,
                "feed `{}` needs {known} values, but {given} are given",
                self.name
            );
        } else {
            ensure!(free < 2, "feed `{}` has more than one free dimension", self.name);
            ensure!(
                given.is_multiple_of(known.max(1)),
                "feed `{}` needs a multiple of {known} values, but {given} are given",
                self.name
            );
        }
        Ok(())
    }

    fn tensor(&self, rows: usize, fixed: Option<usize>) -> Result<Tensor> {
        let known: usize = self.dims.iter().flatten().product::<usize>().max(1);
        let entries = |row: usize| (self.offsets[row + 1] - self.offsets[row]) / known;
        let (first, free) = if self.ragged {
            (self.len() / known, 1)
        } else {
            let free = if rows == 0 { 0 } else { entries(0) };
            if let Some(row) = (1..rows).find(|row| entries(*row) != free) {
                bail!(
                    "feed `{}` has {} values in one line and {} in another of the same batch: \
                     use `--batch-size 1`",
                    self.name,
                    free * known,
                    entries(row) * known
                );
            }
            (fixed.unwrap_or(rows), free)
        };
        let tail = self.dims.iter().map(|dim| dim.unwrap_or(free));
        let dims: Vec<usize> = [first].into_iter().chain(tail).collect();
        let tensor = match (&self.values, self.dtype) {
            (Values::Reals(values), DType::F32) => build(dims, values, |x| *x as f32)?,
            (Values::Reals(values), _) => build(dims, values, |x| *x)?,
            (Values::Integers(values), DType::I64) => build(dims, values, |x| *x)?,
            (Values::Integers(values), DType::I32) => build(dims, values, |x| *x as i32)?,
            (Values::Integers(values), _) => build(dims, values, |x| *x as u8)?,
        };
        if !self.ragged {
            return Ok(tensor);
        }
        let offsets = self.offsets[..=rows].iter().map(|offset| offset / known).collect();
        Ok(tensor.with_lod(&[offsets])?)
    }
}

/// A tensor of these values; where they are too few, the last row is repeated.
fn build<V, T: Element>(dims: Vec<usize>, values: &[V], cast: impl Fn(&V) -> T) -> Result<Tensor> {
    let width: usize = dims[1..].iter().product();
    let mut all: Vec<T> = values.iter().map(cast).collect();
    while all.len() < dims[0] * width && all.len() >= width {
        all.extend_from_within(all.len() - width..);
    }
    Ok(Tensor::from_slice(dims, &all)?)
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
