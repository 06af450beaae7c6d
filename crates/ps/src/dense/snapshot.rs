//! Values of one instant, read in parts of 16 MiB while training goes on: the first update since copies what
//! was there before. So a checkpoint of a block that stays as it is costs no memory, and an update
//! waits for a copy at most, never for the disk.

use bireme_engine::Value;
use bireme_engine::tensor::Tensor;

use super::Block;
use crate::checkpoint::Part;
use crate::{Error, Result};

/// Bytes that are copied under one hold of the lock.
const PART: usize = 16 << 20;

/// Values that are being read.
pub(super) struct Snapshot {
    places: Vec<usize>,
    /// As they were, once they have changed.
    before: Option<Vec<Tensor>>,
}

impl Snapshot {
    /// The values are about to change.
    pub(super) fn keep(&mut self, values: &[Value]) -> bireme_engine::Result<()> {
        if self.before.is_none() {
            let copy = |place: &usize| {
                let value = values[*place].tensor()?;
                let mut copy = Tensor::empty(value.dtype());
                copy.copy_from(value);
                Ok(copy)
            };
            self.before = Some(self.places.iter().map(copy).collect::<bireme_engine::Result<_>>()?);
        }
        Ok(())
    }

    /// Whether the values are still those that it began with.
    pub(super) fn is_untouched(&self) -> bool {
        self.before.is_none()
    }

    fn value<'a>(&'a self, at: usize, values: &'a [Value]) -> Result<&'a Tensor> {
        match &self.before {
            Some(before) => Ok(&before[at]),
            None => Ok(values[self.places[at]].tensor()?),
        }
    }
}

/// Ends the reading, however it ends.
struct Reading<'a>(&'a Block);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.write_unit().snapshot = None;
    }
}

impl Block {
    /// As [`Block::read_all`], some bytes at a time; no lock is held while `look` runs.
    ///
    /// # Errors
    /// As [`Block::read`], those of `look`, and when somebody else reads the block like that.
    pub fn read_in_parts(
        &self,
        names: &[&str],
        look: &mut dyn FnMut(&Part<'_>) -> Result<()>,
    ) -> Result<()> {
        let places = names.iter().map(|name| self.kept_as(name)).collect::<Result<Vec<_>>>()?;
        let mut unit = self.write_unit();
        if unit.snapshot.is_some() {
            return Err(Error::Request(format!("{names:?} are being saved already")));
        }
        unit.snapshot = Some(Snapshot { places, before: None });
        drop(unit);
        let _reading = Reading(self);
        let mut buffer = Vec::new();
        for value in 0..names.len() {
            let (mut start, mut length) = (0, 1);
            while start < length {
                let unit = self.read_unit();
                let snapshot = unit.snapshot.as_ref().expect("it is there while this reads");
                let tensor = snapshot.value(value, &unit.values)?;
                let (dtype, dims) = (tensor.dtype(), tensor.dims());
                let bytes = tensor.as_bytes();
                length = bytes.len();
                let end = length.min(start + PART);
                buffer.clear();
                buffer.extend_from_slice(&bytes[start..end]);
                drop(unit);
                look(&Part { value, dtype, dims, start, bytes: &buffer })?;
                start = end;
            }
        }
        Ok(())
    }
}
