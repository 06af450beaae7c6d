//! `tril_triu`: the lower or upper triangle of matrices, 0 elsewhere.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef =
    OpDef::new("tril_triu", |op| kernel(op, op.input("X")?, op.output("Out")?))
        .inputs(&[Slot::one("X")])
        .outputs(&[Slot::one("Out")])
        .attrs(&[attr::int("diagonal", 0), attr::bool("lower", false)])
        .infer(|cx| infer(cx, "X", "Out"))
        .split(SplitRule::Fn(split))
        .gradient(
            Gradient::new(&["X"], |op| kernel(op, op.input("Out@GRAD")?, op.output("X@GRAD")?))
                .infer(|cx| infer(cx, "Out@GRAD", "X@GRAD"))
                .second(second::linear),
        );

fn infer(cx: &mut Infer<'_>, from: &str, to: &str) -> Result<()> {
    let x = cx.input(from)?;
    if x.rank() < 2 {
        return Err(crate::Error::kernel(format!("{:?} is no matrix", x.dims)));
    }
    cx.set(to, x.clone());
    Ok(())
}

/// A batch of matrices is row by row; the rows of one matrix are not alike.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    if view.inputs[0].rank() > 2 { SplitRule::RowWise.apply(view) } else { None }
}

fn kernel(op: &OpView<'_>, x: In, mut out: Out) -> Result<Kernel> {
    let (diagonal, lower) = (op.i64("diagonal")?, op.bool("lower")?);
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let (dims, size) = (x.dims(), x.dtype().size());
        out.resize(x.dtype(), dims);
        let (rows, columns) = (dims[dims.len() - 2], dims[dims.len() - 1]);
        if dims.numel() == 0 {
            return Ok(());
        }
        let lines = x.as_bytes().chunks_exact(columns * size);
        let outs = out.as_mut_bytes().chunks_exact_mut(columns * size);
        for (number, (out, x)) in outs.zip(lines).enumerate() {
            // The first column right of the diagonal (lower), or on it (upper).
            let edge = (number % rows) as i64 + diagonal + i64::from(lower);
            let edge = edge.clamp(0, columns as i64) as usize * size;
            let (kept, cleared) =
                if lower { (0..edge, edge..out.len()) } else { (edge..out.len(), 0..edge) };
            out[kept.clone()].copy_from_slice(&x[kept]);
            out[cleared].fill(0);
        }
        Ok(())
    }))
}
