//! `counts_of_rows`: the shows and clicks of the samples that name rows, as selected rows of two
//! columns, one for each row that is named in order of occurrence. Without `Shows` and `Clicks` each
//! counts one show.
//!
//! Row 0 is padding where `padding_idx` is 0, and is left out.

use bireme_ir::VarKind;

use crate::ops::prelude::*;

/// What is counted without shows and clicks.
const ONE_SHOW: [f32; 2] = [1.0, 0.0];

pub(super) const DEF: OpDef = OpDef::new("counts_of_rows", kernel)
    .inputs(&[Slot::many("Rows"), Slot::one("W"), Slot::maybe("Shows"), Slot::maybe("Clicks")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::long("padding_idx", -1)])
    .infer(infer);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let table = cx.input("W")?;
    let rows = table.dims.first().copied().unwrap_or(-1);
    let mut out = Meta::new(DType::F32, [rows, 2]);
    out.kind = VarKind::SelectedRows;
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (rows, table, mut out) = (op.inputs("Rows"), op.input("W")?, op.output("Out")?);
    let counted = match (op.maybe_input("Shows"), op.maybe_input("Clicks")) {
        (Some(shows), Some(clicks)) => Some((shows, clicks)),
        (None, None) => None,
        _ => return Err(Error::kernel("takes `Shows` and `Clicks` together, or neither")),
    };
    let names = op.op.inputs_of("Rows").to_vec();
    let padding = Some(op.i64("padding_idx")?).filter(|padding| *padding != -1);
    let (mut samples, mut counts) = (vec![ONE_SHOW], Vec::new());
    Ok(Box::new(move |run| {
        let out = run.out_rows(&mut out, DType::F32);
        out.height = run.tensor(table)?.rows();
        out.rows.clear();
        if let Some((shows, clicks)) = counted {
            samples.clear();
            read_counts(run.tensor(shows)?, run.tensor(clicks)?, &mut samples)?;
        }
        counts.clear();
        for (rows, name) in rows.iter().zip(&names) {
            let rows = run.tensor(*rows)?;
            give(rows, name, &samples, &mut counts)?;
            out.rows.extend_from_slice(rows.as_slice::<i64>()?);
        }
        let is_row = |row: &i64| Some(*row) != padding;
        if padding.is_some() {
            let mut given = out.rows.iter();
            counts.retain(|_| given.next().is_some_and(is_row));
            out.rows.retain(is_row);
        }
        out.value.resize(DType::F32, [counts.len(), 2]);
        out.value.as_mut_slice::<f32>()?.copy_from_slice(counts.as_flattened());
        Ok(())
    }))
}

/// Show and click of each sample.
pub(in crate::ops) fn read_counts(
    shows: &Tensor,
    clicks: &Tensor,
    samples: &mut Vec<[f32; 2]>,
) -> Result<()> {
    if shows.numel() != shows.rows() || clicks.numel() != clicks.rows() {
        return Err(Error::kernel(format!(
            "`Shows` {} and `Clicks` {} must have one number for each sample",
            shows.dims(),
            clicks.dims()
        )));
    }
    if shows.rows() != clicks.rows() {
        return Err(Error::kernel(format!(
            "`Shows` counts {} samples, but `Clicks` {}",
            shows.rows(),
            clicks.rows()
        )));
    }
    samples.resize(shows.rows(), [0.0; 2]);
    for (which, (slot, counts)) in [("Shows", shows), ("Clicks", clicks)].into_iter().enumerate() {
        let out = samples.iter_mut().map(|pair| &mut pair[which]);
        crate::dispatch!(counts.dtype(), T in [f32, f64, i32, i64] => {
            out.zip(counts.as_slice::<T>()?).for_each(|(out, count)| *out = count.to_f64() as f32);
        }, else => return Err(not_a_count(slot, counts.dtype())));
    }
    Ok(())
}

#[cold]
fn not_a_count(slot: &str, dtype: DType) -> Error {
    Error::kernel(format!("`{slot}` must be float32, float64, int32 or int64, not {dtype}"))
}

/// Appends a pair for each id of a slot: that of the sample which the id belongs to. A sample is a
/// sequence where the slot is ragged, and where it is not, a row or as many rows as there are for
/// each. One pair counts for all samples.
pub(in crate::ops) fn give(
    ids: &Tensor,
    slot: &str,
    samples: &[[f32; 2]],
    counts: &mut Vec<[f32; 2]>,
) -> Result<()> {
    let have = ids.lod().first().map_or(ids.rows(), |offsets| offsets.len().saturating_sub(1));
    if let [pair] = samples {
        counts.resize(counts.len() + ids.numel(), *pair);
        return Ok(());
    }
    let is_flat = ids.lod().is_empty() && have.is_multiple_of(samples.len());
    if have != samples.len() && !is_flat {
        return Err(Error::kernel(format!(
            "`{slot}` has {have} samples, but `Shows` and `Clicks` count {}",
            samples.len()
        )));
    }
    let width = ids.numel() / ids.rows().max(1);
    let Some((outer, inner)) = ids.lod().split_first() else {
        let width = ids.numel() / samples.len().max(1);
        samples.iter().for_each(|pair| counts.resize(counts.len() + width, *pair));
        return Ok(());
    };
    // Offsets of an outer level count sequences of the level below it.
    let row = |at: usize| inner.iter().fold(at, |at, offsets| offsets[at]);
    for (pair, ends) in samples.iter().zip(outer.windows(2)) {
        counts.resize(counts.len() + (row(ends[1]) - row(ends[0])) * width, *pair);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn counts(padding: i64, counted: bool) -> (Vec<i64>, Vec<f32>) {
        let mut op = Op::new("counts_of_rows").input("Rows", ["a", "b"]).input("W", ["w"]);
        if counted {
            op = op.input("Shows", ["show"]).input("Clicks", ["click"]);
        }
        let op = op.output("Out", ["out"]).attr("padding_idx", padding);
        let mut ragged = Tensor::from_slice([3, 1], &[4i64, 0, 2]).unwrap();
        ragged.set_lod(&[vec![0, 1, 3]]);
        let mut values = HashMap::from([
            ("a".to_owned(), Tensor::from_slice([2, 1], &[2i64, 2]).unwrap().into()),
            ("b".to_owned(), ragged.into()),
            ("w".to_owned(), Tensor::zeros(DType::F32, [5, 3]).into()),
            ("show".to_owned(), Tensor::from_slice([2, 1], &[3i64, 1]).unwrap().into()),
            ("click".to_owned(), Tensor::from_slice([2, 1], &[0.5f32, 0.0]).unwrap().into()),
        ]);
        run_once(&op, &mut values).unwrap();
        let out = values["out"].rows().unwrap();
        assert_eq!(out.height, 5);
        (out.rows.clone(), out.value.as_slice::<f32>().unwrap().to_vec())
    }

    #[test]
    fn each_row_has_the_counts_of_its_sample() {
        let expected = (vec![2, 2, 4, 0, 2], vec![3., 0.5, 1., 0., 3., 0.5, 1., 0., 1., 0.]);
        assert_eq!(counts(-1, true), expected);
        assert_eq!(counts(0, true).0, [2, 2, 4, 2], "padding is left out");
        assert_eq!(counts(0, false).1, [1., 0., 1., 0., 1., 0., 1., 0.]);
    }
}
