//! A value on its way: what a variable holds, borrowed.

use bireme_comm::wire::{self, Reader, Writer, damaged};
use bireme_engine::Value;
use bireme_engine::tensor::{Dims, MAX_RANK, SelectedRows, Tensor};
use bireme_ir::DType;

use super::field::Field;
use crate::Result;

/// A tensor (or a piece of one), or rows of one; the elements are as they lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Array<'a> {
    /// Consecutive elements of a dense tensor; all of them, unless it is too large for a message.
    Dense {
        /// The type of the elements.
        dtype: DType,
        /// The dimensions of the whole tensor.
        dims: Dims,
        /// The first element that is here.
        start: u64,
        /// The elements.
        bytes: &'a [u8],
    },
    /// Rows of a taller tensor.
    Rows {
        /// The type of the elements.
        dtype: DType,
        /// The dimensions of the rows that are here.
        dims: Dims,
        /// Rows of the tall tensor.
        height: u64,
        /// Which rows these are; one may be named more than once.
        rows: &'a [i64],
        /// The elements.
        bytes: &'a [u8],
    },
}

impl<'a> Array<'a> {
    /// All of a tensor.
    pub fn of_tensor(tensor: &'a Tensor) -> Array<'a> {
        let (dtype, dims) = (tensor.dtype(), tensor.dims());
        Array::Dense { dtype, dims, start: 0, bytes: tensor.as_bytes() }
    }

    /// Elements `start .. end` of a tensor.
    ///
    /// # Panics
    /// When it has no such elements.
    pub fn of_range(tensor: &'a Tensor, start: usize, end: usize) -> Array<'a> {
        let (dtype, dims, size) = (tensor.dtype(), tensor.dims(), tensor.dtype().size());
        let bytes = &tensor.as_bytes()[start * size..end * size];
        Array::Dense { dtype, dims, start: start as u64, bytes }
    }

    /// Selected rows.
    pub fn of_rows(rows: &'a SelectedRows) -> Array<'a> {
        Array::Rows {
            dtype: rows.value.dtype(),
            dims: rows.value.dims(),
            height: rows.height as u64,
            rows: &rows.rows,
            bytes: rows.value.as_bytes(),
        }
    }

    /// What a variable holds.
    pub fn of_value(value: &'a Value) -> Array<'a> {
        match value {
            Value::Tensor(tensor) => Array::of_tensor(tensor),
            Value::Rows(rows) => Array::of_rows(rows),
        }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            Array::Dense { dtype, .. } | Array::Rows { dtype, .. } => *dtype,
        }
    }

    /// The dimensions of the whole tensor, or of the rows that are here.
    pub fn dims(&self) -> Dims {
        match self {
            Array::Dense { dims, .. } | Array::Rows { dims, .. } => *dims,
        }
    }

    /// The elements that are here.
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Array::Dense { bytes, .. } | Array::Rows { bytes, .. } => bytes,
        }
    }

    /// In the place of a tensor that has not changed: what lies behind its last element.
    pub fn nothing_new(tensor: &Tensor) -> Array<'a> {
        let (dtype, dims) = (tensor.dtype(), tensor.dims());
        Array::Dense { dtype, dims, start: dims.numel() as u64, bytes: &[] }
    }

    /// Whether it is [`Array::nothing_new`] of a tensor that has elements.
    pub fn is_nothing_new(&self) -> bool {
        let Array::Dense { dims, start, bytes, .. } = self else { return false };
        bytes.is_empty() && *start > 0 && *start == dims.numel() as u64
    }

    /// Whether it is all there is: selected rows, or a tensor from its first element to its last.
    pub fn is_whole(&self) -> bool {
        match self {
            Array::Dense { dtype, dims, start, bytes } => {
                *start == 0 && dims.bytes(*dtype) == Some(bytes.len())
            }
            Array::Rows { .. } => true,
        }
    }

    /// The element after the last one that is here, counted in the whole tensor.
    pub fn end(&self) -> u64 {
        let start = if let Array::Dense { start, .. } = self { *start } else { 0 };
        start + (self.bytes().len() / self.dtype().size()) as u64
    }

    /// Copies it to a variable, in the memory that it has when that suffices.
    ///
    /// # Errors
    /// When it is a piece of a tensor, but the variable has another type or shape.
    pub fn store(&self, to: &mut Value) -> Result<()> {
        match self {
            Array::Dense { .. } => {
                if let Value::Rows(_) = to {
                    *to = Value::Tensor(Tensor::empty(self.dtype()));
                }
                self.store_tensor(to.tensor_mut()?)
            }
            Array::Rows { dtype, dims, height, rows, bytes } => {
                if let Value::Tensor(_) = to {
                    *to = Value::Rows(SelectedRows::empty(*dtype));
                }
                let Value::Rows(to) = to else { unreachable!("made rows above") };
                to.rows.clear();
                to.rows.extend_from_slice(rows);
                to.height = *height as usize;
                to.value.resize(*dtype, *dims);
                to.value.as_mut_bytes().copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Copies it to a tensor.
    ///
    /// # Errors
    /// When it is selected rows, or a piece of a tensor of another type or shape.
    pub fn store_tensor(&self, to: &mut Tensor) -> Result<()> {
        let Array::Dense { dtype, dims, start, bytes } = self else {
            return Err(damaged("selected rows came where a tensor must come").into());
        };
        if self.is_whole() {
            to.resize(*dtype, *dims);
            to.set_lod(&[]);
        } else if to.dtype() != *dtype || to.dims() != *dims {
            return Err(damaged("a piece of a tensor does not fit the pieces before it").into());
        }
        let start = *start as usize * dtype.size();
        to.as_mut_bytes()[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Writes it; its elements are sent from where they lie.
    pub(crate) fn put(&self, to: &mut Writer<'a>) {
        match self {
            Array::Dense { dtype, dims, start, bytes } => {
                write_shape(to, 0, *dtype, dims);
                to.head(&start.to_le_bytes());
                to.slice(bytes);
            }
            Array::Rows { dtype, dims, height, rows, bytes } => {
                write_shape(to, 1, *dtype, dims);
                to.head(&height.to_le_bytes());
                to.slice(rows);
                to.array(bytes);
            }
        }
    }

    /// Checks sizes and rows against one another.
    fn check(&self) -> wire::Result<()> {
        match self {
            Array::Dense { dtype, dims, start, bytes } => {
                let size = dtype.size() as u64;
                let all = dims.bytes(*dtype).unwrap_or(0) as u64;
                let end = start.checked_mul(size).and_then(|s| s.checked_add(bytes.len() as u64));
                if !(bytes.len() as u64).is_multiple_of(size) || end.is_none_or(|end| end > all) {
                    return Err(damaged("an array has more elements than its dimensions say"));
                }
            }
            Array::Rows { dims, height, rows, .. } => {
                if dims.first() != Some(&rows.len()) {
                    return Err(damaged("selected rows have not one number for each row"));
                }
                if i64::try_from(*height).is_err() {
                    return Err(damaged("selected rows are too tall"));
                }
                if rows.iter().any(|row| *row < 0 || *row as u64 >= *height) {
                    return Err(damaged("a selected row lies outside its tensor"));
                }
            }
        }
        Ok(())
    }
}

impl<'a> Field<'a> for Array<'a> {
    // Kind, type, rank, start and length.
    const LEAST: usize = 3 + 8;

    fn write<'w>(&'w self, to: &mut Writer<'w>) {
        self.put(to);
    }

    fn read(from: &mut Reader<'a>) -> wire::Result<Self> {
        let kind = u8::read(from)?;
        let (dtype, dims) = read_shape(from)?;
        let array = match kind {
            0 => {
                let start = u64::read(from)?;
                Array::Dense { dtype, dims, start, bytes: Field::read(from)? }
            }
            1 => {
                let (height, rows) = (u64::read(from)?, Field::read(from)?);
                let bytes = dims.bytes(dtype).unwrap_or(usize::MAX) as u64;
                Array::Rows { dtype, dims, height, rows, bytes: from.array(bytes)? }
            }
            _ => return Err(damaged("an array is neither dense nor selected rows")),
        };
        array.check()?;
        Ok(array)
    }
}

/// The number of an element type on the wire: its place in [`DType::ALL`].
fn dtype_code(dtype: DType) -> u8 {
    DType::ALL.iter().position(|known| *known == dtype).expect("`ALL` has every type") as u8
}

fn write_shape(to: &mut Writer<'_>, kind: u8, dtype: DType, dims: &Dims) {
    to.head(&[kind, dtype_code(dtype), dims.len() as u8]);
    dims.iter().for_each(|dim| to.head(&(*dim as u64).to_le_bytes()));
}

fn read_shape(from: &mut Reader<'_>) -> wire::Result<(DType, Dims)> {
    let code = u8::read(from)?;
    let dtype = DType::ALL.get(usize::from(code)).copied();
    let dtype = dtype.ok_or_else(|| damaged("an array has an unknown element type"))?;
    let rank = usize::from(u8::read(from)?);
    if rank > MAX_RANK {
        return Err(damaged("an array has too many dimensions"));
    }
    let mut dims = [0; MAX_RANK];
    for dim in &mut dims[..rank] {
        *dim = usize::read(from)?;
    }
    let dims = Dims::new(&dims[..rank]);
    match dims.bytes(dtype) {
        Some(_) => Ok((dtype, dims)),
        None => Err(damaged("no tensor has the dimensions of an array")),
    }
}
