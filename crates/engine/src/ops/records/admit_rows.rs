//! `admit_rows`: the rows of a plain table with an entry that a step reads, and those that it trains;
//! row 0, which reads as zeros, stands for all others.
//!
//! `Entry` has a row for each row of the table: its mark, then the counters of the entry, as they are
//! before the step. A key that the step itself admits reads as zeros and is trained, as a server does
//! it, which counts a push before it applies it.

use crate::accessor::{Entry, Mark};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("admit_rows", kernel)
    .inputs(&[Slot::many("Rows"), Slot::one("Entry")])
    .outputs(&[Slot::many("Out"), Slot::any("Trained")])
    .attrs(&[attr::str("entry", "")])
    .infer(infer);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let rows: Vec<Meta> = cx.inputs("Rows").into_iter().cloned().collect();
    cx.set_each("Out", rows.iter().cloned());
    cx.set_each("Trained", rows);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (rows, entries) = (op.inputs("Rows"), op.input("Entry")?);
    let (mut outs, mut trained) = (op.outputs("Out"), op.outputs("Trained"));
    let entry = Entry::parse(&op.string("entry")?).map_err(Error::kernel)?;
    Ok(Box::new(move |run| {
        let entries = run.tensor(entries)?;
        let width = entries.numel() / entries.rows().max(1);
        let entries = entries.as_slice::<f32>()?;
        for (at, rows) in rows.iter().enumerate() {
            let rows = run.tensor(*rows)?;
            let out = run.out(&mut outs[at])?;
            out.set_lod(rows.lod());
            let rows = rows.as_slice::<i64>()?;
            for (to, row) in out.as_mut_slice::<i64>()?.iter_mut().zip(rows) {
                *to = if reads(&entry, of(entries, width, *row)?) { *row } else { 0 };
            }
            let Some(trained) = trained.get_mut(at) else { continue };
            for (to, row) in run.set::<i64>(trained)?.iter_mut().zip(rows) {
                *to = if trains(&entry, of(entries, width, *row)?) { *row } else { 0 };
            }
        }
        Ok(())
    }))
}

/// Mark and counters of a row.
fn of(entries: &[f32], width: usize, row: i64) -> Result<&[f32]> {
    let at = usize::try_from(row).unwrap_or(usize::MAX).saturating_mul(width);
    let found = entries.get(at..at.saturating_add(width)).filter(|found| !found.is_empty());
    found.ok_or_else(|| Error::kernel(format!("row {row} lies outside of `Entry`")))
}

fn reads(entry: &Entry, of: &[f32]) -> bool {
    Mark::of(of[0]) == Mark::Made && entry.admits(&of[1..])
}

/// Whether a push, which counts one show, would be applied.
fn trains(entry: &Entry, of: &[f32]) -> bool {
    match (Mark::of(of[0]), entry) {
        (Mark::Refused, _) => false,
        (_, Entry::CountFilter(least)) => of[1] + 1.0 >= *least as f32,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn admitted(entry: &str, width: usize, entries: &[f32]) -> [Vec<i64>; 2] {
        let op = Op::new("admit_rows").input("Rows", ["rows"]).input("Entry", ["entries"]);
        let op = op.output("Out", ["out"]).output("Trained", ["trained"]).attr("entry", entry);
        let count = entries.len() / width;
        let rows: Vec<i64> = (0..count as i64).collect();
        let mut values = HashMap::from([
            ("rows".to_owned(), Tensor::from_slice([count, 1], &rows).unwrap().into()),
            ("entries".to_owned(), Tensor::from_slice([count, width], entries).unwrap().into()),
        ]);
        run_once(&op, &mut values).unwrap();
        ["out", "trained"].map(|out| values[out].tensor().unwrap().as_slice().unwrap().to_vec())
    }

    #[test]
    fn rows_are_read_and_trained_as_the_entry_says() {
        // Row 0 is nobody's; the others were pushed never, once, twice and three times.
        let entries = [0., 0., 0., 0., 1., 1., 1., 2., 1., 3.];
        let [read, trained] = admitted("count_filter_entry:3", 2, &entries);
        assert_eq!((read, trained), (vec![0, 0, 0, 0, 4], vec![0, 0, 0, 3, 4]));
        let entries = [0., 0., 0., 0., 0., 0., 1., 0., 0.];
        let [read, trained] = admitted("show_click_entry:s:c", 3, &entries);
        assert_eq!((read, trained), (vec![0, 0, 2], vec![0, 1, 2]));
        let [read, trained] = admitted("probability_entry:0.5", 1, &[0., -1., 1.]);
        assert_eq!((read, trained), (vec![0, 0, 2], vec![0, 0, 2]));
    }
}
