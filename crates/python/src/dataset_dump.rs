//! `dump_fields` and `dump_param`: values of every sample, and parameters after every step, in
//! files, as Paddle writes them; one file for each training thread.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use bireme_data::train::Progress;
use bireme_data::{CONTENT, Error, INS_ID, Result};
use bireme_engine::Scope;
use bireme_engine::tensor::Tensor;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset_train::values;
use crate::kwargs::Kwargs;

/// What is written, and where.
pub(crate) struct Dump {
    /// Variables of whose values each sample has some; they are the last of the fetches.
    fields: Vec<String>,
    params: Vec<String>,
    folder: PathBuf,
    rank: usize,
    /// Whether names and contents of samples have a place in a line, be they empty.
    in_memory: bool,
    files: Mutex<HashMap<usize, BufWriter<File>>>,
}

impl Dump {
    pub(crate) fn read(settings: &Bound<'_, PyDict>) -> PyResult<Dump> {
        let mut given = Kwargs::new("dump".to_owned(), settings)?;
        let dump = Dump {
            fields: given.need("fields")?,
            params: given.need("params")?,
            folder: PathBuf::from(given.need::<String>("folder")?),
            rank: given.need("rank")?,
            in_memory: given.need("in_memory")?,
            files: Mutex::default(),
        };
        given.end()?;
        Ok(dump)
    }

    /// The variables to fetch for it.
    pub(crate) fn fields(&self) -> &[String] {
        &self.fields
    }

    /// After a step, whose fetches from `first` on are the fields.
    pub(crate) fn after(&self, done: &Progress<'_>, first: usize, scope: &Scope) -> Result<()> {
        let mut text = String::new();
        let [names, contents] = [INS_ID, CONTENT].map(|slot| done.data.texts(slot));
        let of = |texts: &[String], row: usize| texts.get(row).cloned().unwrap_or_default();
        for row in 0..done.data.rows() {
            if self.in_memory {
                text.push_str(&format!("{}\t{}", of(&names, row), of(&contents, row)));
            }
            for (at, field) in self.fields.iter().enumerate() {
                let tensor = done.fetched(first + at);
                let Some((start, end)) = range(tensor, row, done.data.rows()) else { continue };
                let own = values(tensor, ",", start..end);
                text.push_str(&format!("\t{field}:{}:{own}", end - start));
            }
            text.push('\n');
        }
        for name in &self.params {
            let tensor = scope.get(name)?;
            let all = values(&tensor, ",", 0..tensor.dims().numel());
            text.push_str(&format!("({},{},{name}){all}\n", done.thread, done.batch - 1));
        }
        self.write(done.thread, &text)
    }

    /// Lets what was written reach its files.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for (thread, file) in &mut *files {
            file.flush().map_err(|error| self.failed(*thread, &error))?;
        }
        Ok(())
    }

    fn write(&self, thread: usize, text: &str) -> Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || {
            fs::create_dir_all(&self.folder)?;
            File::create(self.path(thread)).map(BufWriter::new)
        };
        let file = match files.entry(thread) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(open().map_err(|error| self.failed(thread, &error))?)
            }
        };
        file.write_all(text.as_bytes()).map_err(|error| self.failed(thread, &error))
    }

    fn path(&self, thread: usize) -> PathBuf {
        self.folder.join(format!("part-{:03}-{thread:05}", self.rank))
    }

    fn failed(&self, thread: usize, error: &std::io::Error) -> Error {
        let problem = format!("cannot be written: {error}");
        Error::File { path: self.path(thread), problem }
    }
}

/// Where the values of a sample are, in a tensor that has some for each.
fn range(tensor: &Tensor, row: usize, rows: usize) -> Option<(usize, usize)> {
    let dims = tensor.dims();
    let height = dims.first().copied().unwrap_or(1);
    let width = dims.numel().checked_div(height)?;
    if let Some(offsets) = tensor.lod().first() {
        let (start, end) = (*offsets.get(row)?, *offsets.get(row + 1)?);
        return (offsets.len() == rows + 1).then_some((start * width, end * width));
    }
    (height == rows).then_some((row * width, (row + 1) * width))
}
