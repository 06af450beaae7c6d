//! Values on their way to a trainer: copied under their locks, sent without them. A slow trainer
//! never holds up an update.

use bireme_engine::DType;
use bireme_engine::tensor::{Dims, Tensor};

use crate::message::{Answer, Array};

/// Copies of values for one answer, as many as it can hold.
pub(super) struct Gather<'a> {
    /// The bytes of all values, each at a multiple of 8, and what is left of an earlier answer.
    words: Vec<u64>,
    /// How many of them are this answer's.
    used: usize,
    items: Vec<(&'a str, Item)>,
    /// The version of each item; 0 where nobody counts.
    versions: Vec<u64>,
    /// Bytes that the answer has beside them: names, dimensions, the numbers of rows.
    heads: usize,
    /// Bytes that the answer can hold.
    limit: usize,
}

/// Bytes that an answer has for a value beside its name and its elements, at most.
const HEAD: usize = 128;

enum Item {
    Dense { dtype: DType, dims: Dims, start: u64, at: usize, bytes: usize },
    Rows { dtype: DType, dims: Dims, height: u64, rows: Vec<i64>, at: usize, bytes: usize },
}

impl<'a> Gather<'a> {
    /// Uses the memory of `words`.
    pub(super) fn new(words: Vec<u64>, limit: usize) -> Gather<'a> {
        Gather { words, used: 0, items: Vec::new(), versions: Vec::new(), heads: 0, limit }
    }

    /// Gives the memory back.
    pub(super) fn into_words(self) -> Vec<u64> {
        self.words
    }

    /// Copies elements of a tensor from `start` on; returns whether the rest of it fitted.
    pub(super) fn dense(&mut self, name: &'a str, tensor: &Tensor, start: u64) -> bool {
        let (dtype, size) = (tensor.dtype(), tensor.dtype().size());
        let all = tensor.as_bytes();
        let from = usize::try_from(start).unwrap_or(usize::MAX).saturating_mul(size);
        let rest = all.get(from.min(all.len())..).unwrap_or(&[]);
        let fitting = rest.len().min(self.room() / 8 * 8);
        if fitting == 0 && !rest.is_empty() {
            return false;
        }
        let at = self.copy(&rest[..fitting]);
        let item = Item::Dense { dtype, dims: tensor.dims(), start, at, bytes: fitting };
        self.push(name, item);
        fitting == rest.len()
    }

    /// Says which version of its value the last one is.
    pub(super) fn version(&mut self, version: u64) {
        if let Some(last) = self.versions.last_mut() {
            *last = version;
        }
    }

    /// Says that a tensor is as the trainer has it; whether there was room to say so.
    pub(super) fn nothing_new(&mut self, name: &'a str, tensor: &Tensor, version: u64) -> bool {
        if self.room() < HEAD + name.len() {
            return false;
        }
        let (dtype, dims, at) = (tensor.dtype(), tensor.dims(), self.used * 8);
        self.push(name, Item::Dense { dtype, dims, start: dims.numel() as u64, at, bytes: 0 });
        self.version(version);
        true
    }

    /// Changes the copy of the last value, when it is dense and of 32-bit reals: its first element
    /// here, and the elements.
    pub(super) fn adjust_last(&mut self, change: impl FnOnce(usize, &mut [f32])) {
        let Some((_, Item::Dense { dtype: DType::F32, start, at, bytes, .. })) = self.items.last()
        else {
            return;
        };
        let all: &mut [f32] = bytemuck::cast_slice_mut(&mut self.words);
        change(*start as usize, &mut all[at / 4..(at + bytes) / 4]);
    }

    /// Values that are here.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the last value is here to its end.
    pub(super) fn is_whole(&self) -> bool {
        match self.items.last() {
            Some((_, Item::Dense { dtype, dims, start, bytes, .. })) => {
                let end = *start as usize * dtype.size() + bytes;
                dims.bytes(*dtype).is_none_or(|all| end >= all)
            }
            Some((_, Item::Rows { .. })) | None => true,
        }
    }

    /// How many rows of `width` bytes fit.
    pub(super) fn rows_that_fit(&self, width: usize) -> usize {
        self.room() / (width + size_of::<i64>())
    }

    /// Copies rows of a tensor, which must have them.
    pub(super) fn rows(&mut self, name: &'a str, tensor: &Tensor, rows: Vec<i64>) {
        let width = tensor.as_bytes().len() / tensor.rows().max(1);
        let bytes = rows.len() * width;
        let (at, to) = self.room_for(bytes);
        for (to, row) in to.chunks_exact_mut(width.max(1)).zip(&rows) {
            let start = *row as usize * width;
            to.copy_from_slice(&tensor.as_bytes()[start..start + width]);
        }
        let (dtype, height) = (tensor.dtype(), tensor.rows() as u64);
        let dims = tensor.dims().with_rows(rows.len());
        self.heads += size_of_val(rows.as_slice());
        self.push(name, Item::Rows { dtype, dims, height, rows, at, bytes });
    }

    fn push(&mut self, name: &'a str, item: Item) {
        self.heads += name.len() + HEAD;
        self.items.push((name, item));
        self.versions.push(0);
    }

    /// The answer.
    pub(super) fn answer(&self) -> Answer<'_> {
        let all: &[u8] = bytemuck::cast_slice(&self.words);
        let values = self.items.iter().map(|(name, item)| match item {
            Item::Dense { dtype, dims, start, at, bytes } => {
                let bytes = &all[*at..at + bytes];
                (*name, Array::Dense { dtype: *dtype, dims: *dims, start: *start, bytes })
            }
            Item::Rows { dtype, dims, height, rows, at, bytes } => {
                let bytes = &all[*at..at + bytes];
                (*name, Array::Rows { dtype: *dtype, dims: *dims, height: *height, rows, bytes })
            }
        });
        Answer::Values { values: values.collect(), versions: self.versions.clone() }
    }

    fn copy(&mut self, bytes: &[u8]) -> usize {
        let (at, to) = self.room_for(bytes.len());
        to.copy_from_slice(bytes);
        at
    }

    /// Where the next value begins, and its memory: overwritten, it need not be cleared.
    fn room_for(&mut self, bytes: usize) -> (usize, &mut [u8]) {
        let at = self.used * 8;
        self.used += bytes.div_ceil(8);
        if self.words.len() < self.used {
            self.words.resize(self.used, 0);
        }
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        (at, &mut all[at..at + bytes])
    }

    fn room(&self) -> usize {
        self.limit.saturating_sub(self.used * 8 + self.heads)
    }
}
