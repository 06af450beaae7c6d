//! Selected rows with each row named once: what a bound or a norm of them must see, because values
//! of a row that is named twice add up first.

use crate::ops::prelude::*;
use crate::optimizer::RowMergers;

/// Makes `out` the rows of `x`, each once, in the order of their first occurrence.
pub(in crate::ops) fn merge<T: Real>(
    mergers: &mut RowMergers,
    x: &SelectedRows,
    out: &mut SelectedRows,
) -> Result<()> {
    let merged = mergers.of::<T>().merge(x, x.height)?;
    out.height = x.height;
    out.rows.clear();
    out.rows.extend_from_slice(merged.rows);
    out.value.resize(T::DTYPE, x.value.dims().with_rows(merged.rows.len()));
    out.value.as_mut_slice::<T>()?.copy_from_slice(merged.values);
    Ok(())
}

/// The sum of squares.
pub(super) fn square_sum<T: Real>(values: &[T]) -> T {
    sum_of(values, |x| x * x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn repeated_rows_add_up() {
        let value = Tensor::from_slice([3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let x = SelectedRows { rows: vec![7, 2, 7], height: 9, value };
        let mut out = SelectedRows::empty(DType::F32);
        merge::<f32>(&mut RowMergers::default(), &x, &mut out).unwrap();
        assert_eq!((out.rows.as_slice(), out.height), ([7, 2].as_slice(), 9));
        assert_eq!(out.value.as_slice::<f32>().unwrap(), [6.0, 8.0, 3.0, 4.0]);
        assert_eq!(square_sum(out.value.as_slice::<f32>().unwrap()), 125.0);
    }
}
