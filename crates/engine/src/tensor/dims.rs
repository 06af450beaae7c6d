//! Dimensions of a tensor, inline: copying them never allocates.

use std::fmt;
use std::ops::Deref;

use bireme_ir::DType;

/// The most dimensions a tensor can have (Paddle's limit).
pub const MAX_RANK: usize = 9;

/// The dimensions of one tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dims {
    len: u8,
    dims: [usize; MAX_RANK],
}

impl Dims {
    /// Dimensions from a slice.
    ///
    /// # Panics
    /// When there are more than [`MAX_RANK`]; shape rules reject such programs before any tensor
    /// exists.
    pub fn new(dims: &[usize]) -> Dims {
        assert!(dims.len() <= MAX_RANK, "a tensor has at most {MAX_RANK} dimensions");
        let mut all = [0; MAX_RANK];
        all[..dims.len()].copy_from_slice(dims);
        Dims { len: dims.len() as u8, dims: all }
    }

    /// The number of elements: the product of the dimensions, 1 for a scalar. A product that does
    /// not fit is the largest number, never a small one; no tensor has such dimensions.
    pub fn numel(&self) -> usize {
        self.iter().fold(1, |product, dim| product.saturating_mul(*dim))
    }

    /// The bytes of a tensor with these dimensions; `None` when no tensor can have them.
    ///
    /// Dimensions of zero count as one in that question: strides and the products of some of the
    /// dimensions must not overflow either.
    pub fn bytes(&self, dtype: DType) -> Option<usize> {
        let mut known = self.iter().copied().filter(|dim| *dim > 0);
        let most = known.try_fold(dtype.size(), usize::checked_mul)?;
        isize::try_from(most).ok()?;
        Some(if self.contains(&0) { 0 } else { most })
    }

    /// The product of the dimensions from `axis` on.
    pub fn tail(&self, axis: usize) -> usize {
        self[axis..].iter().product()
    }

    /// The dimensions as a matrix: the first `columns_from` dimensions make rows, the rest columns.
    pub fn matrix(&self, columns_from: usize) -> (usize, usize) {
        (self[..columns_from].iter().product(), self[columns_from..].iter().product())
    }

    /// The same dimensions with the first one replaced.
    pub fn with_rows(mut self, rows: usize) -> Dims {
        if self.len > 0 {
            self.dims[0] = rows;
        }
        self
    }

    /// Distance in elements between neighbours along each axis, in row-major order.
    pub fn strides(&self) -> Dims {
        let mut strides = *self;
        let mut step = 1;
        for axis in (0..self.len()).rev() {
            strides.dims[axis] = step;
            step *= self.dims[axis];
        }
        strides
    }
}

impl Deref for Dims {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.dims[..usize::from(self.len)]
    }
}

impl<const N: usize> From<[usize; N]> for Dims {
    fn from(dims: [usize; N]) -> Dims {
        Dims::new(&dims)
    }
}

impl From<&[usize]> for Dims {
    fn from(dims: &[usize]) -> Dims {
        Dims::new(dims)
    }
}

impl From<Vec<usize>> for Dims {
    fn from(dims: Vec<usize>) -> Dims {
        Dims::new(&dims)
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}
