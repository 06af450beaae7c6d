//! Lines of text as rows of feeds.
//!
//! A line becomes one row in every feed or an error that says what is wrong with it; a bad line
//! leaves the rows before it as they were.

mod id;
mod json;
mod slot;
mod trained;

use anyhow::{Context, Result, bail, ensure};
use bireme_engine::tensor::{Element, MAX_RANK, Tensor};
use bireme_ir::{DType, Program, Var};

pub(crate) use id::Id;
pub(crate) use trained::Trained;

/// The most rows that one batch may have, whether a flag or the model asks for them.
pub(crate) const MAX_ROWS: usize = 1 << 20;
/// The most values that the rows of one feed may have together once they are made up.
const MAX_VALUES: usize = 1 << 30;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// A JSON object a line: `{"x": [0.5, 1.5], "id": 7}`
    Json,
    /// The lines that the model was trained on; for a model that was not trained from YAML,
    /// PaddleRec's slot text: `click:0 dense_feature:0.1 C1:123 C2:456`
    Slot,
}

impl Format {
    /// The format that a first line looks like.
    pub(crate) fn guess(line: &[u8]) -> Format {
        if line.trim_ascii_start().starts_with(b"{") { Format::Json } else { Format::Slot }
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
    /// The product of the dimensions that are not free.
    known: usize,
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
    /// When the program does not declare a feed, text cannot express its type, its shape is none
    /// that a tensor can have, or two feeds are fixed to different numbers of rows.
    pub(crate) fn new(program: &Program, feeds: &[String]) -> Result<Rows> {
        let columns = feeds.iter().map(|feed| Column::new(program, feed)).collect::<Result<_>>()?;
        let mut fixed = None;
        for var in feeds.iter().filter_map(|feed| program.global().var(feed)) {
            if let Some(rows) = fixed_rows(var)? {
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

    /// Row `row` alone.
    pub(crate) fn single(&self, row: usize) -> Rows {
        let columns = self.columns.iter().map(|column| column.single(row)).collect();
        Rows { columns, count: 1, fixed: self.fixed }
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
        let rank = var.shape.len();
        ensure!(rank <= MAX_RANK, "feed `{feed}` has {rank} dimensions: at most {MAX_RANK} work");
        let dims: Vec<_> = var.shape.iter().skip(1).map(|dim| usize::try_from(*dim).ok()).collect();
        let known = dims.iter().flatten().try_fold(1usize, |all, dim| all.checked_mul(*dim));
        let known = known.filter(|known| (1..=MAX_VALUES).contains(known)).with_context(|| {
            format!(
                "feed `{feed}` has shape {:?}: a row needs between 1 and {MAX_VALUES} values",
                var.shape
            )
        })?;
        Ok(Column {
            name: feed.to_owned(),
            dtype: var.dtype,
            dims,
            known,
            ragged: var.lod_level > 0,
            values,
            offsets: vec![0],
        })
    }

    fn single(&self, row: usize) -> Column {
        let range = self.offsets[row]..self.offsets[row + 1];
        let offsets = vec![0, range.len()];
        let values = match &self.values {
            Values::Integers(values) => Values::Integers(values[range].to_vec()),
            Values::Reals(values) => Values::Reals(values[range].to_vec()),
        };
        let (name, dims) = (self.name.clone(), self.dims.clone());
        Column { name, dims, values, offsets, ..*self }
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
                let id: i128 =
                    text.parse().ok().with_context(|| format!("`{text}` is not a whole number"))?;
                let id = integer(id, self.dtype)
                    .with_context(|| format!("`{text}` does not fit {}", self.dtype))?;
                values.push(id);
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
        let known = self.known;
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
                given.is_multiple_of(known),
                "feed `{}` needs a multiple of {known} values, but {given} are given",
                self.name
            );
        }
        Ok(())
    }

    fn tensor(&self, rows: usize, fixed: Option<usize>) -> Result<Tensor> {
        let known = self.known;
        let entries = |row: usize| (self.offsets[row + 1] - self.offsets[row]) / known;
        let (first, free) = if self.ragged {
            (self.len() / known, 1)
        } else {
            let free = if rows == 0 { 0 } else { entries(0) };
            if let Some(row) = (1..rows).find(|row| entries(*row) != free) {
                bail!(
                    "feed `{}` has {} values in one line and {} in another of the same batch",
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

/// The number of rows that `var` is declared with, unless it takes any.
fn fixed_rows(var: &Var) -> Result<Option<usize>> {
    let rows = var.shape.first().and_then(|rows| usize::try_from(*rows).ok());
    let rows = rows.filter(|_| var.lod_level == 0);
    ensure!(
        rows.is_none_or(|rows| (1..=MAX_ROWS).contains(&rows)),
        "feed `{}` takes {} rows at once: only 1 to {MAX_ROWS} work",
        var.name,
        var.shape[0]
    );
    Ok(rows)
}

/// `number` as a column of this type stores it, if it fits.
fn integer(number: i128, dtype: DType) -> Option<i64> {
    match dtype {
        DType::U8 => u8::try_from(number).ok().map(i64::from),
        DType::I32 => i32::try_from(number).ok().map(i64::from),
        // Ids of 64 bits without a sign are stored as Paddle stores them: the same bits.
        _ => i64::try_from(number).ok().or_else(|| u64::try_from(number).ok().map(|id| id as i64)),
    }
}

/// A tensor of these values; where they are too few, the last row is repeated.
fn build<V, T: Element>(dims: Vec<usize>, values: &[V], cast: impl Fn(&V) -> T) -> Result<Tensor> {
    let width: usize = dims[1..].iter().product();
    let needed = dims[0].checked_mul(width).filter(|needed| *needed <= MAX_VALUES);
    let needed = needed.with_context(|| {
        format!("a batch of {} rows with {width} values each is too large", dims[0])
    })?;
    let mut all: Vec<T> = values.iter().map(cast).collect();
    while all.len() < needed && all.len() >= width {
        all.extend_from_within(all.len() - width..);
    }
    Ok(Tensor::from_slice(dims, &all)?)
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
