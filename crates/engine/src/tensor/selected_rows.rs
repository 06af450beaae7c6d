//! Rows of a taller tensor: the gradient of an embedding table, where only looked-up rows differ
//! from zero. A row may be named more than once; its values then add up.

use bireme_ir::DType;

use crate::tensor::Tensor;

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
        let (mine, theirs) = (self.rows.len(), other.rows.len());
        let row_bytes = other.width() * other.value.dtype().size();
        self.height = self.height.max(other.height);
        self.value.grow_rows(mine + theirs);
        self.rows.extend_from_slice(&other.rows);
        self.value.as_mut_bytes()[mine * row_bytes..].copy_from_slice(other.value.as_bytes());
    }
}
