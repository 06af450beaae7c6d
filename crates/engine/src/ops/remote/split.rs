//! `split_byref` and `split_selected_rows`: a gradient in the pieces that the servers hold.

use bireme_ir::VarKind;

use crate::ops::prelude::*;

pub(super) const BY_REF: OpDef = OpDef::new("split_byref", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::many("Out")])
    .attrs(&[attr::longs("sections", &[]), attr::int("num", 0), attr::int("axis", 0)])
    .infer(infer);

pub(super) const SELECTED_ROWS: OpDef = OpDef::new("split_selected_rows", rows_kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::many("Out")])
    .attrs(&[attr::longs("height_sections", &[])])
    .infer(infer_rows);

/// Rows of each piece; they must add up to `rows` where that is known.
fn sections(op: &OpView<'_>, name: &str, rows: i64) -> Result<Vec<i64>> {
    let (sections, count) = (op.longs(name)?, op.op.outputs_of("Out").len());
    let fits = sections.len() == count && sections.iter().all(|rows| *rows > 0);
    if fits && (rows < 0 || sections.iter().sum::<i64>() == rows) {
        return Ok(sections);
    }
    Err(Error::kernel(format!("cannot cut {rows} rows into {count} pieces of {sections:?}")))
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let sections = sections(cx.op(), "sections", x.dims.first().copied().unwrap_or(-1))?;
    let piece = |rows: i64| {
        let mut piece = x.clone();
        piece.dims[0] = rows;
        piece
    };
    cx.set_each("Out", sections.into_iter().map(piece).collect::<Vec<Meta>>());
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut outs) = (op.input("X")?, op.outputs("Out"));
    let sections = sections(op, "sections", -1)?;
    Ok(Box::new(move |run| {
        let x = run.tensor(x)?;
        let row = x.dims().tail(1) * x.dtype().size();
        let mut rest = x.as_bytes();
        for (out, rows) in outs.iter_mut().zip(&sections) {
            let out = run.out(out)?;
            out.resize(x.dtype(), x.dims().with_rows(*rows as usize));
            let bytes = (*rows as usize * row).min(rest.len());
            let (piece, after) = rest.split_at(bytes);
            if out.as_bytes().len() != piece.len() {
                return Err(Error::kernel("`X` has fewer rows than `sections` says"));
            }
            out.as_mut_bytes().copy_from_slice(piece);
            rest = after;
        }
        Ok(())
    }))
}

fn infer_rows(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let sections = sections(cx.op(), "height_sections", -1)?;
    let piece = |rows: i64| {
        let mut piece = x.clone();
        piece.kind = VarKind::SelectedRows;
        if let Some(first) = piece.dims.first_mut() {
            *first = rows;
        }
        piece
    };
    cx.set_each("Out", sections.into_iter().map(piece).collect::<Vec<Meta>>());
    Ok(())
}

/// Row numbers count from the start of their piece, as the servers do.
fn rows_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut outs) = (op.input("X")?, op.outputs("Out"));
    let sections = sections(op, "height_sections", -1)?;
    Ok(Box::new(move |run| {
        let x = run.value(x).rows().ok_or_else(|| Error::kernel("`X` must be selected rows"))?;
        let row = x.width() * x.value.dtype().size();
        let mut first = 0i64;
        for (out, height) in outs.iter_mut().zip(&sections) {
            let out = run.out_rows(out, x.value.dtype());
            let inside = |id: &i64| (first..first + height).contains(id);
            out.rows.clear();
            out.rows.extend(x.rows.iter().filter(|id| inside(id)).map(|id| id - first));
            out.height = *height as usize;
            out.value.resize(x.value.dtype(), x.value.dims().with_rows(out.rows.len()));
            copy_rows(x, row, inside, out.value.as_mut_bytes());
            first += height;
        }
        match x.rows.iter().find(|id| !(0..first).contains(*id)) {
            Some(id) => Err(Error::kernel(format!("row {id} lies outside the {first} rows"))),
            None => Ok(()),
        }
    }))
}

fn copy_rows(
    x: &crate::tensor::SelectedRows,
    row: usize,
    inside: impl Fn(&i64) -> bool,
    out: &mut [u8],
) {
    if row == 0 {
        return;
    }
    let from = x.rows.iter().zip(x.value.as_bytes().chunks_exact(row));
    let chosen = from.filter(|(id, _)| inside(id)).map(|(_, bytes)| bytes);
    for (out, bytes) in out.chunks_exact_mut(row).zip(chosen) {
        out.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn dense_gradients_are_cut_by_rows() {
        let x = Tensor::from_slice([3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let mut values = HashMap::from([("x".to_owned(), Value::from(x))]);
        let op = Op::new("split_byref").input("X", ["x"]).output("Out", ["a", "b"]);
        run_once(&op.clone().attr("sections", vec![2i64, 1]), &mut values).unwrap();
        assert_eq!(values["a"].tensor().unwrap().to_f64_vec(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(values["b"].tensor().unwrap().to_f64_vec(), [5.0, 6.0]);
        let error = run_once(&op.attr("sections", vec![2i64, 2]), &mut values).unwrap_err();
        assert!(error.to_string().contains("cannot cut 3 rows into 2 pieces of [2, 2]"));
    }

    #[test]
    fn selected_rows_are_cut_by_height() {
        let value = Tensor::from_slice([3, 1], &[1f32, 2.0, 3.0]).unwrap();
        let rows = SelectedRows { rows: vec![5, 0, 3], height: 6, value };
        let mut values = HashMap::from([("x".to_owned(), Value::Rows(rows))]);
        let op = Op::new("split_selected_rows").input("X", ["x"]).output("Out", ["a", "b"]);
        run_once(&op.clone().attr("height_sections", vec![3i64, 3]), &mut values).unwrap();
        let piece = |name: &str| {
            let rows = values[name].rows().unwrap();
            (rows.rows.clone(), rows.value.to_f64_vec(), rows.height)
        };
        assert_eq!(piece("a"), (vec![0], vec![2.0], 3));
        assert_eq!(piece("b"), (vec![2, 0], vec![1.0, 3.0], 3));
        let error = run_once(&op.attr("height_sections", vec![3i64, 2]), &mut values).unwrap_err();
        assert!(error.to_string().contains("row 5 lies outside the 5 rows"), "{error}");
    }
}
