//! One input of a model, as the data must provide it.

use bireme_engine::DType;
use bireme_engine::ir::Var;

use crate::{Error, Result};

/// What the values of a slot are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Feature ids: unsigned in files, `int64` in tensors with the same bits.
    Ids,
    /// Numbers: `float32`.
    Floats,
}

/// One input of a model: a name, a kind, and how many values a sample has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The variable it feeds.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
    /// The shape of one sample's values; `None` for a slot with any number of values, which
    /// becomes a tensor of shape `[n, 1]` with offsets (LoD).
    pub shape: Option<Vec<usize>>,
    /// Whether one line holds the values of a whole batch, Paddle's `input_type` 1: as many samples
    /// as its values make, one value each where `shape` is `None`. False.
    pub batched: bool,
}

/// The name of a slot that keeps the names of samples, Paddle's `ins_id`: each byte is an id. Slots
/// of text stand behind all others.
pub const INS_ID: &str = "@ins_id@";

/// As [`INS_ID`], for what lines say about samples (`content`).
pub const CONTENT: &str = "@content@";

impl Slot {
    /// A slot of one id.
    pub fn id(name: impl Into<String>) -> Slot {
        Slot::new(name.into(), Kind::Ids, Some(vec![1]))
    }

    /// A slot of any number of ids.
    pub fn ids(name: impl Into<String>) -> Slot {
        Slot::new(name.into(), Kind::Ids, None)
    }

    /// A slot of `width` numbers.
    pub fn floats(name: impl Into<String>, width: usize) -> Slot {
        Slot::new(name.into(), Kind::Floats, Some(vec![width]))
    }

    /// The slot that feeds a variable: with LoD any number of values, else its shape without the
    /// batch.
    ///
    /// # Errors
    /// When it is neither `int64` nor `float32`, or its shape has an open dimension.
    pub fn of_var(var: &Var) -> Result<Slot> {
        let kind = match var.dtype {
            DType::I64 => Kind::Ids,
            DType::F32 => Kind::Floats,
            other => {
                return Err(Error::Settings(format!(
                    "variable `{}` is {other:?}: data files feed int64 and float32 only",
                    var.name
                )));
            }
        };
        if var.lod_level > 0 {
            return Ok(Slot::new(var.name.clone(), kind, None));
        }
        let sizes = var.shape.iter().skip(1).map(|&size| usize::try_from(size));
        let shape = sizes.collect::<std::result::Result<Vec<_>, _>>().map_err(|_| {
            Error::Settings(format!(
                "variable `{}` has the shape {:?}: give every dimension but the first a size, or \
                 say `lod_level=1` if samples have different numbers of values",
                var.name, var.shape
            ))
        })?;
        Ok(Slot::new(var.name.clone(), kind, Some(shape)))
    }

    fn new(name: String, kind: Kind, shape: Option<Vec<usize>>) -> Slot {
        Slot { name, kind, shape, batched: false }
    }

    /// The type of its tensors.
    pub(crate) fn dtype(&self) -> DType {
        match self.kind {
            Kind::Ids => DType::I64,
            Kind::Floats => DType::F32,
        }
    }

    /// How many values each line has; `None` if that differs.
    pub fn width(&self) -> Option<usize> {
        self.shape.as_ref().filter(|_| !self.batched).map(|shape| shape.iter().product())
    }

    /// How many samples the values of a line of a batched slot make; `None` if they make none.
    pub(crate) fn samples_of(&self, values: usize) -> Option<usize> {
        let width = self.shape.as_ref().map_or(1, |shape| shape.iter().product());
        let whole = width > 0 && values.is_multiple_of(width);
        whole.then(|| values / width)
    }

    /// The dimensions of a tensor with the values of so many lines.
    pub(crate) fn dims(&self, lines: usize, values: usize) -> Vec<usize> {
        match &self.shape {
            Some(shape) => {
                let samples =
                    if self.batched { self.samples_of(values).unwrap_or(0) } else { lines };
                [&[samples], shape.as_slice()].concat()
            }
            None => vec![values, 1],
        }
    }

    /// Where the values of each sample end, for a slot whose samples have any number of them;
    /// `ends` are those of the lines.
    pub(crate) fn offsets(&self, values: usize, ends: impl Iterator<Item = usize>) -> Vec<usize> {
        match self.batched {
            true => (0..=values).collect(),
            false => std::iter::once(0).chain(ends).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_a_variable_decides_how_many_values_a_sample_has() {
        let mut var = Var::tensor("x", DType::F32, [-1, 2, 3]);
        assert_eq!(Slot::of_var(&var).unwrap().width(), Some(6));
        var.lod_level = 1;
        assert_eq!(Slot::of_var(&var).unwrap().width(), None);
        let open = Var::tensor("x", DType::F32, [-1, -1]);
        assert!(Slot::of_var(&open).unwrap_err().to_string().contains("lod_level=1"));
        let wrong = Var::tensor("x", DType::F64, [-1, 1]);
        assert!(Slot::of_var(&wrong).unwrap_err().to_string().contains("int64 and float32"));
    }
}
