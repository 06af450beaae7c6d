//! `put_rows`: some rows of a variable become others, in place. Ours: records of a pass come into
//! its tables by it, see `fleet/src/gpubox`. The rows must be distinct.

use super::positions;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("put_rows", kernel)
    .inputs(&[Slot::one("Param"), Slot::one("Rows"), Slot::one("Values")])
    .outputs(&[Slot::one("ParamOut")])
    .updates(&[("Param", "ParamOut")]);

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (rows, values) = (op.input("Rows")?, op.input("Values")?);
    let mut param = op.in_out("Param", "ParamOut")?;
    let mut places = Vec::new();
    Ok(Box::new(move |run| {
        let values = run.tensor(values)?;
        let to = run.continued(&mut param)?;
        positions::read(&mut places, run.tensor(rows)?, to.rows())?;
        let width = to.numel() / to.rows().max(1);
        if values.dtype() != to.dtype() || values.numel() != places.len() * width {
            return Err(Error::kernel(format!(
                "{} rows of {width} {} elements cannot become {} {}",
                places.len(),
                to.dtype(),
                values.dims(),
                values.dtype()
            )));
        }
        let bytes = width * to.dtype().size();
        if bytes > 0 {
            for (value, row) in values.as_bytes().chunks_exact(bytes).zip(&places) {
                to.as_mut_bytes()[row * bytes..(row + 1) * bytes].copy_from_slice(value);
            }
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn named_rows_become_others() {
        let op = Op::new("put_rows")
            .input("Param", ["w"])
            .input("Rows", ["rows"])
            .input("Values", ["values"])
            .output("ParamOut", ["w"]);
        let mut given = HashMap::from([
            (
                "w".to_owned(),
                Tensor::from_slice([3, 2], &[0f32, 1., 2., 3., 4., 5.]).unwrap().into(),
            ),
            ("rows".to_owned(), Tensor::from_slice([2], &[2i64, 0]).unwrap().into()),
            ("values".to_owned(), Tensor::from_slice([2, 2], &[9f32, 8., 7., 6.]).unwrap().into()),
        ]);
        run_once(&op, &mut given).unwrap();
        let made = given["w"].tensor().unwrap().as_slice::<f32>().unwrap();
        assert_eq!(made, [7.0, 6.0, 2.0, 3.0, 9.0, 8.0]);
        given.insert("rows".to_owned(), Tensor::from_slice([2], &[3i64, 0]).unwrap().into());
        assert!(run_once(&op, &mut given).unwrap_err().to_string().contains("outside 0..3"));
    }
}
