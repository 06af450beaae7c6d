//! Sums of gradients that travel together: dense ones element by element, selected rows by row.

use bireme_engine::dispatch;
use bireme_engine::tensor::{SelectedRows, Tensor};

use super::distinct::Distinct;
use crate::{Error, Result};

/// Adds `more` to `sum`, which must have its type and shape.
pub(crate) fn add_dense(name: &str, sum: &mut Tensor, more: &Tensor) -> Result<()> {
    if sum.dtype() != more.dtype() || sum.dims() != more.dims() {
        return Err(Error::Request(format!(
            "`{name}` was sent as {} {} and then as {} {}: its type and shape must not change",
            sum.dtype(),
            sum.dims(),
            more.dtype(),
            more.dims()
        )));
    }
    dispatch!(sum.dtype(), T in [f32, f64, i64, i32] => {
        let more = more.as_slice::<T>()?;
        for (sum, more) in sum.as_mut_slice::<T>()?.iter_mut().zip(more) {
            *sum += *more;
        }
        Ok(())
    }, else => Err(cannot_add(name, sum)))
}

/// Multiplies every element; integers are left as they are.
pub(crate) fn scale(tensor: &mut Tensor, factor: f64) -> Result<()> {
    dispatch!(tensor.dtype(), T in [f32, f64] => {
        for value in tensor.as_mut_slice::<T>()? {
            *value *= factor as T;
        }
    }, else => ());
    Ok(())
}

/// Adds rows up; keeps its memory between calls.
#[derive(Default)]
pub(crate) struct RowSums {
    distinct: Distinct,
    numbers: Vec<u32>,
}

impl RowSums {
    /// Writes `from` to `to` with every row named once, in order of first appearance; rows named
    /// more often are added up.
    pub(crate) fn copy(
        &mut self,
        name: &str,
        from: &SelectedRows,
        to: &mut SelectedRows,
    ) -> Result<()> {
        self.distinct.reset(from.rows.len());
        self.numbers.clear();
        let numbers = from.rows.iter().map(|row| self.distinct.number(*row as u64));
        self.numbers.extend(numbers);
        to.height = from.height;
        to.rows.clear();
        to.rows.extend(self.distinct.keys().iter().map(|key| *key as i64));
        let rows = to.rows.len();
        to.value.resize(from.value.dtype(), from.value.dims().with_rows(rows));
        if rows == from.rows.len() {
            to.value.as_mut_bytes().copy_from_slice(from.value.as_bytes());
            return Ok(());
        }
        dispatch!(from.value.dtype(), T in [f32, f64] => {
            let (from_rows, to_rows) = (from.value.as_slice::<T>()?, to.value.as_mut_slice::<T>()?);
            sum_rows(&self.numbers, from.width(), from_rows, to_rows);
            Ok(())
        }, else => Err(cannot_add(name, &from.value)))
    }

    /// Adds the rows of `more` to those of `sum`, each of which names a row once.
    pub(crate) fn add(
        &mut self,
        name: &str,
        sum: &mut SelectedRows,
        more: &SelectedRows,
    ) -> Result<()> {
        if sum.value.dtype() != more.value.dtype() || sum.width() != more.width() {
            return Err(Error::Request(format!(
                "rows of `{name}` were sent with {} columns and then with {}",
                sum.width(),
                more.width()
            )));
        }
        let both = {
            let mut both = sum.clone();
            both.append(more);
            both
        };
        self.copy(name, &both, sum)
    }
}

/// Row `i` of `from` is added to row `numbers[i]` of `to`; the first one of a number is copied.
fn sum_rows<T: Copy + std::ops::AddAssign>(
    numbers: &[u32],
    width: usize,
    from: &[T],
    to: &mut [T],
) {
    if width == 0 {
        return;
    }
    let mut next = 0;
    for (number, row) in numbers.iter().zip(from.chunks_exact(width)) {
        let number = *number as usize;
        let sum = &mut to[number * width..][..width];
        if number == next {
            sum.copy_from_slice(row);
            next += 1;
        } else {
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += *value);
        }
    }
}

fn cannot_add(name: &str, tensor: &Tensor) -> Error {
    Error::Request(format!("`{name}` holds {} elements, which cannot be added up", tensor.dtype()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[i64], values: &[f32]) -> SelectedRows {
        let value = Tensor::from_slice([rows.len(), values.len() / rows.len()], values).unwrap();
        SelectedRows { rows: rows.to_vec(), height: 10, value }
    }

    #[test]
    fn equal_rows_are_added_up() {
        let mut to = rows(&[9], &[8.0]);
        let mut sums = RowSums::default();
        let from = rows(&[4, 2, 4, 4], &[1., 2., 3., 4., 10., 20., 100., 200.]);
        sums.copy("g", &from, &mut to).unwrap();
        assert_eq!(to, rows(&[4, 2], &[111., 222., 3., 4.]));
        sums.add("g", &mut to, &rows(&[1, 2], &[5., 6., 0.5, 0.5])).unwrap();
        assert_eq!(to, rows(&[4, 2, 1], &[111., 222., 3.5, 4.5, 5., 6.]));
    }

    #[test]
    fn dense_values_are_added_and_scaled() {
        let mut sum = Tensor::from_slice([3], &[1f32, 2., 3.]).unwrap();
        add_dense("g", &mut sum, &Tensor::from_slice([3], &[3f32, 2., 1.]).unwrap()).unwrap();
        scale(&mut sum, 0.5).unwrap();
        assert_eq!(sum, Tensor::from_slice([3], &[2f32, 2., 2.]).unwrap());

        let mut steps = Tensor::scalar(1i64);
        add_dense("counter", &mut steps, &Tensor::scalar(1i64)).unwrap();
        assert_eq!(steps, Tensor::scalar(2i64));
        let error = add_dense("g", &mut sum, &steps).unwrap_err().to_string();
        assert!(error.starts_with("`g` was sent as"), "{error}");
    }
}
