//! `clip_by_norm`: scales a tensor, or selected rows, down to norm `max_norm`.

use super::merged_rows::{merge, square_sum};
use crate::ops::prelude::*;
use crate::optimizer::RowMergers;

pub(super) const DEF: OpDef = OpDef::new("clip_by_norm", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::required("max_norm", AttrKind::Float)])
    .like(&[("Out", "X")])
    .lod_from("X");

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, max_norm) = (op.input("X")?, op.output("Out")?, op.f64("max_norm")?);
    if max_norm.is_nan() || max_norm <= 0.0 {
        return Err(Error::kernel(format!("`max_norm` must be greater than 0, not {max_norm}")));
    }
    let mut mergers = RowMergers::default();
    float_kernel!(op, "X", |run, T| {
        let values = match run.value(x) {
            Value::Tensor(x) => {
                let out = run.set::<T>(&mut out)?;
                out.copy_from_slice(x.as_slice::<T>()?);
                out
            }
            Value::Rows(x) => {
                let out = run.out_rows(&mut out, T::DTYPE);
                merge::<T>(&mut mergers, x, out)?;
                out.value.as_mut_slice::<T>()?
            }
        };
        clip(values, max_norm as T);
    })
}

fn clip<T: Real>(values: &mut [T], max_norm: T) {
    let norm = square_sum(values).sqrt();
    if norm > max_norm {
        let factor = max_norm / norm;
        values.iter_mut().for_each(|value| *value *= factor);
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn clips_selected_rows_by_the_norm_of_their_sum() {
        let value = Tensor::from_slice([2, 1], &[3.0f32, 3.0]).unwrap();
        let rows = Value::Rows(SelectedRows { rows: vec![4, 4], height: 9, value });
        let mut values = HashMap::from([("x".to_owned(), rows)]);
        let op = Op::new("clip_by_norm").input("X", ["x"]).output("Out", ["out"]);
        run_once(&op.attr("max_norm", 2.0f32), &mut values).unwrap();
        let out = values["out"].rows().unwrap();
        assert_eq!((out.rows.as_slice(), out.height), ([4].as_slice(), 9));
        assert_eq!(out.value.as_slice::<f32>().unwrap(), [2.0]);
    }
}
