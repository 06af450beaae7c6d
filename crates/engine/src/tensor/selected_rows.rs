//! Rows of a taller tensor: the gradient of an embedding table, where only looked-up rows differ
//! from zero. A row may be named more than once; its values then add up.

#![expect(unsafe_code, reason = "tasks copy to places that do not overlap")]

use bireme_ir::DType;
use half::{bf16, f16};

use crate::crew::{self, Parts};
use crate::tensor::{Element, Tensor};
use crate::{Error, Result, dispatch};

/// Some rows of a tensor of `height` rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedRows {
    /// Which row of the tall tensor each row of `value` is.
    pub rows: Vec<i64>,
    /// Rows of the tall tensor.
    pub height: usize,
    /// One row for each entry of `rows`.
    pub value: Tensor,
}

impl SelectedRows {
    /// No rows yet.
    pub fn empty(dtype: DType) -> SelectedRows {
        SelectedRows { rows: Vec::new(), height: 0, value: Tensor::empty(dtype) }
    }

    /// The number of elements in one row.
    pub fn width(&self) -> usize {
        self.value.dims().get(1..).map_or(1, |rest| rest.iter().product())
    }

    /// Appends the rows of `other`, which must be of the same width and type.
    pub fn append(&mut self, other: &SelectedRows) {
        self.append_all(1, |_| other);
    }

    /// Appends the rows of `count` others, which must be of the same width and type, one after the other.
    pub(crate) fn append_all<'o>(
        &mut self,
        count: usize,
        other: impl Fn(usize) -> &'o SelectedRows + Sync,
    ) {
        if count == 0 {
            return;
        }
        let (mine, first) = (self.rows.len(), other(0));
        let row_bytes = first.width() * first.value.dtype().size();
        let start =
            |at: usize| mine + (0..at).map(|before| other(before).rows.len()).sum::<usize>();
        let all = start(count);
        self.height = (0..count).map(|at| other(at).height).fold(self.height, usize::max);
        self.value.grow_rows(all);
        self.rows.resize(all, 0);
        let (rows, bytes) = (Parts::of(&mut self.rows), Parts::of(self.value.as_mut_bytes()));
        crew::share_out(count, &|at| {
            let (start, other) = (start(at), other(at));
            let end = start + other.rows.len();
            // SAFETY: each of the others has a place of its own.
            let (rows, bytes) =
                unsafe { (rows.part(start..end), bytes.part(start * row_bytes..end * row_bytes)) };
            rows.copy_from_slice(&other.rows);
            bytes.copy_from_slice(other.value.as_bytes());
        });
    }

    /// The tall tensor: zero where no row is named, sums where one is named more than once.
    ///
    /// # Errors
    /// When a row lies outside, or the elements are no floats.
    pub fn to_dense(&self) -> Result<Tensor> {
        let (dtype, width) = (self.value.dtype(), self.width());
        let mut dense = Tensor::zeros(dtype, self.value.dims().with_rows(self.height));
        dispatch!(dtype, T in [f32, f64, f16, bf16] => {
            let (from, to) = (self.value.as_slice::<T>()?, dense.as_mut_slice::<T>()?);
            for (row, values) in self.rows.iter().zip(from.chunks_exact(width.max(1))) {
                let row = usize::try_from(*row).ok().filter(|row| *row < self.height);
                let row = row.ok_or_else(|| Error::kernel("a selected row lies outside its tensor"))?;
                for (sum, value) in to[row * width..].iter_mut().zip(values) {
                    *sum = T::from_f64(Element::to_f64(*sum) + Element::to_f64(*value));
                }
            }
            Ok(dense)
        }, else => Err(Error::kernel(format!("rows of {dtype} elements cannot be added up"))))
    }
}
