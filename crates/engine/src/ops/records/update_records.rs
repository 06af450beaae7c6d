//! `update_records`: a push to the records of one of Paddle's accessors, which the trainer holds.
//!
//! `Record` has lent records ([`crate::accessor`]); `Param` has what pulls of them give, so that
//! lookups read it as they read any table, and is kept so. Gradients of one row are added up, and so
//! are `Counts`, the shows and clicks that `counts_of_rows` gives; without them each row counts one
//! show.

use crate::accessor::{Ctr, CtrConfig, Entry, SparseRule};
use crate::ops::prelude::*;
use crate::optimizer::RowMerger;

pub(super) const DEF: OpDef = OpDef::new("update_records", kernel)
    .inputs(&[Slot::one("Param"), Slot::one("Record"), Slot::one("Grad"), Slot::maybe("Counts")])
    .outputs(&[Slot::one("ParamOut"), Slot::one("RecordOut")])
    .attrs(&[
        // The JSON form of Paddle's `TableAccessorParameter`.
        attr::str("accessor", ""),
        attr::str("entry", ""),
        // The network's optimizer, from which rules follow that the accessor does not give.
        attr::str("optimizer", ""),
        attr::float("beta1", 0.9),
        attr::float("beta2", 0.999),
        attr::float("epsilon", 1e-8),
    ])
    .updates(&[("Param", "ParamOut"), ("Record", "RecordOut")]);

/// The accessor that an `update_records` describes, of a table whose pulls have `width` columns.
///
/// # Errors
/// When its attributes do not fit one another.
pub fn accessor_of(op: &OpView<'_>, width: usize) -> Result<Ctr> {
    let number = |name: &str| op.f64(name).map(|number| number as f32);
    let adam = [number("beta1")?, number("beta2")?, number("epsilon")?];
    // The server draws first values, so their range does not matter here.
    let rule = SparseRule::for_optimizer(&op.string("optimizer")?, adam, 0.0);
    let config = CtrConfig::from_json(&op.string("accessor")?, width, rule);
    let entry = Entry::parse(&op.string("entry")?).map_err(Error::kernel)?;
    Ctr::new(config.map_err(Error::kernel)?, &entry, width).map_err(Error::kernel)
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut param = op.in_out("Param", "ParamOut")?;
    let mut record = op.in_out("Record", "RecordOut")?;
    let (grad, counts) = (op.input("Grad")?, op.maybe_input("Counts"));
    let view = op.op.clone();
    let mut mergers = [(); 2].map(|()| RowMerger::<f32>::default());
    let mut ctr = None;
    Ok(Box::new(move |run| {
        let params = run.continued(&mut param)?;
        let records = run.continued(&mut record)?;
        let width = params.numel() / params.rows().max(1);
        let ctr = match &mut ctr {
            Some(ctr) => ctr,
            none => none.insert(accessor_of(&OpView::new(&view)?, width)?),
        };
        let lent_width = ctr.lent_width();
        if width != ctr.width || records.numel() != params.rows() * lent_width {
            return Err(Error::kernel(format!(
                "`Record` {} must have {lent_width} numbers for each row of `Param` {}",
                records.dims(),
                params.dims()
            )));
        }
        let rows = params.rows();
        let (params, records) = (params.as_mut_slice::<f32>()?, records.as_mut_slice::<f32>()?);
        let [of_grads, of_counts] = &mut mergers;
        if let Some(counts) = counts {
            for (row, counts) in of_counts.merge(rows_in(run, counts)?, rows)?.iter() {
                records[row * lent_width..][Ctr::PUSHED].copy_from_slice(counts);
            }
        }
        for (row, grads) in of_grads.merge(rows_in(run, grad)?, rows)?.iter() {
            let lent = &mut records[row * lent_width..][..lent_width];
            let pushed = match counts {
                Some(_) => [lent[1], lent[2]],
                None => [1.0, 0.0],
            };
            lent[Ctr::PUSHED].fill(0.0);
            ctr.push_lent(lent, grads, pushed);
            ctr.pull_lent(lent, &mut params[row * width..][..width]);
        }
        Ok(())
    }))
}

fn rows_in<'a>(run: &Run<'a>, input: In) -> Result<&'a SelectedRows> {
    match run.value(input) {
        Value::Rows(rows) => Ok(rows),
        Value::Tensor(_) => Err(Error::kernel("`Grad` and `Counts` must hold selected rows")),
    }
}

#[cfg(test)]
mod tests {
    use super::accessor_of;
    use crate::accessor::Ctr;
    use crate::ops::testing::*;

    fn op() -> Op {
        let accessor = r#"{"accessor_class": "CtrCommonAccessor", "embedx_threshold": 2.0,
            "embed_sgd_param": {"name": "naive", "naive": {"learning_rate": 0.5}},
            "embedx_sgd_param": {"name": "naive", "naive": {"learning_rate": 0.5}}}"#;
        Op::new("update_records")
            .input("Param", ["w"])
            .input("Record", ["r"])
            .input("Grad", ["g"])
            .input("Counts", ["c"])
            .output("ParamOut", ["w"])
            .output("RecordOut", ["r"])
            .attr("accessor", accessor)
    }

    fn rows(rows: &[i64], width: usize, values: &[f32]) -> Value {
        let value = Tensor::from_slice([rows.len(), width], values).unwrap();
        Value::Rows(SelectedRows { rows: rows.to_vec(), height: 2, value })
    }

    #[test]
    fn gradients_and_counts_of_a_row_are_added_up() {
        let op = op();
        let ctr = accessor_of(&OpView::new(&op).unwrap(), 4).unwrap();
        let mut lent = vec![0f32; 2 * ctr.lent_width()];
        lent[ctr.lent_width() + Ctr::LENT_HEAD + ctr.embedx.start] = 0.25;
        let lent = Tensor::from_slice([2, ctr.lent_width()], &lent).unwrap();
        let mut values = HashMap::from([
            ("w".to_owned(), Tensor::zeros(DType::F32, [2, 4]).into()),
            ("r".to_owned(), lent.into()),
            ("g".to_owned(), rows(&[1, 1], 4, &[9., 9., 0.5, 8., 9., 9., 1.5, 8.])),
            ("c".to_owned(), rows(&[1, 1], 2, &[4., 0., 6., 1.])),
        ]);
        run_once(&op, &mut values).unwrap();
        let read = |values: &HashMap<String, Value>, name: &str| {
            values[name].tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
        };
        // Score 9 * 0.1 + 1 = 1.9: no long part yet.
        assert_eq!(read(&values, "w"), [0., 0., 0., 0., 10., 1., -1., 0.]);
        run_once(&op, &mut values).unwrap();
        assert_eq!(read(&values, "w")[4..], [20., 2., -2., 0.25]);
        run_once(&op, &mut values).unwrap();
        assert_eq!(read(&values, "w")[4..], [30., 3., -3., 0.25 - 8.0]);
        assert_eq!(read(&values, "r")[ctr.lent_width()..][Ctr::PUSHED], [0.0, 0.0]);
        assert_eq!(read(&values, "r")[..ctr.lent_width()], vec![0.0; ctr.lent_width()]);
    }
}
