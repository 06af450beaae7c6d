//! `count_rows`: what a push counts in the entry of a plain table. `Counts` is what `counts_of_rows`
//! gives; an entry by count adds one for each row that is named, however often. A row that is counted
//! is made.

use crate::accessor::{Entry, Mark};
use crate::ops::prelude::*;
use crate::optimizer::RowMerger;

pub(super) const DEF: OpDef = OpDef::new("count_rows", kernel)
    .inputs(&[Slot::one("Entry"), Slot::one("Counts")])
    .outputs(&[Slot::one("EntryOut")])
    .attrs(&[attr::str("entry", "")])
    .updates(&[("Entry", "EntryOut")]);

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mut entries, counts) = (op.in_out("Entry", "EntryOut")?, op.input("Counts")?);
    let entry = Entry::parse(&op.string("entry")?).map_err(Error::kernel)?;
    let mut merger = RowMerger::<f32>::default();
    Ok(Box::new(move |run| {
        let Value::Rows(counts) = run.value(counts) else {
            return Err(Error::kernel("`Counts` must hold selected rows"));
        };
        let entries = run.continued(&mut entries)?;
        let (rows, width) = (entries.rows(), entries.numel() / entries.rows().max(1));
        if width != 1 + entry.counters() {
            return Err(Error::kernel(format!("`Entry` has {width} columns, which does not fit")));
        }
        let entries = entries.as_mut_slice::<f32>()?;
        for (row, counts) in merger.merge(counts, rows)?.iter() {
            let [mark, counters @ ..] = &mut entries[row * width..][..width] else { continue };
            if Mark::of(*mark) == Mark::Refused {
                continue;
            }
            *mark = Mark::Made.number();
            let counts = match entry {
                Entry::CountFilter(_) => [1.0, 0.0],
                _ => [counts[0], counts[1]],
            };
            entry.count(counters, counts);
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn counted(entry: &str, width: usize) -> Vec<f32> {
        let op = Op::new("count_rows").input("Entry", ["e"]).input("Counts", ["c"]);
        let op = op.output("EntryOut", ["e"]).attr("entry", entry);
        let value = Tensor::from_slice([3, 2], &[2f32, 1., 5., 0., 3., 1.]).unwrap();
        let rows = SelectedRows { rows: vec![2, 1, 2], height: 3, value };
        let mut values = HashMap::from([
            ("e".to_owned(), Tensor::zeros(DType::F32, [3, width]).into()),
            ("c".to_owned(), Value::Rows(rows)),
        ]);
        run_once(&op, &mut values).unwrap();
        values["e"].tensor().unwrap().as_slice().unwrap().to_vec()
    }

    #[test]
    fn rows_count_what_names_them() {
        assert_eq!(counted("count_filter_entry:3", 2), [0., 0., 1., 1., 1., 1.]);
        assert_eq!(counted("show_click_entry:s:c", 3), [0., 0., 0., 1., 5., 0., 1., 5., 2.]);
    }
}
