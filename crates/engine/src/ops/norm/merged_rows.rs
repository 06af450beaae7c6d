//! Selected rows with each row named once: what a norm of them must see, because values of a row
//! that is named twice add up before they are squared.

use crate::Result;
use crate::ops::real::{Real, sum};
use crate::tensor::SelectedRows;

/// Adds up repeated rows; keeps its memory from step to step.
#[derive(Default)]
pub(super) struct Merger {
    /// Positions in the input, by row.
    order: Vec<usize>,
}

impl Merger {
    /// Makes `out` the rows of `input` in rising order, each once.
    pub(super) fn merge<T: Real>(
        &mut self,
        input: &SelectedRows,
        out: &mut SelectedRows,
    ) -> Result<()> {
        self.order.clear();
        self.order.extend(0..input.rows.len());
        // Stable, so the order of additions, and with it every bit, depends on the input alone.
        self.order.sort_by_key(|at| input.rows[*at]);
        out.height = input.height;
        out.rows.clear();
        out.rows.extend(self.order.iter().map(|at| input.rows[*at]));
        out.rows.dedup();
        out.value.resize(T::DTYPE, input.value.dims().with_rows(out.rows.len()));
        let width = input.width();
        let (values, merged) = (input.value.as_slice::<T>()?, out.value.as_mut_slice::<T>()?);
        merged.fill(T::ZERO);
        let mut row = 0;
        for at in &self.order {
            if out.rows[row] != input.rows[*at] {
                row += 1;
            }
            let source = &values[at * width..][..width];
            for (merged, value) in merged[row * width..][..width].iter_mut().zip(source) {
                *merged += *value;
            }
        }
        Ok(())
    }
}

/// The sum of squares.
pub(super) fn square_sum<T: Real>(values: &[T]) -> T {
    sum(values, |x| x * x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn repeated_rows_add_up() {
        let value = Tensor::from_slice([3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let input = SelectedRows { rows: vec![7, 2, 7], height: 9, value };
        let mut out = SelectedRows::empty(bireme_ir::DType::F32);
        Merger::default().merge::<f32>(&input, &mut out).unwrap();
        assert_eq!((out.rows.as_slice(), out.height), ([2, 7].as_slice(), 9));
        assert_eq!(out.value.as_slice::<f32>().unwrap(), [3.0, 4.0, 6.0, 8.0]);
        assert_eq!(square_sum(out.value.as_slice::<f32>().unwrap()), 125.0);
    }
}
