//! `sequence_expand`: repeats each sequence (or row) of `X` as often as the sequence of `Y` at
//! level `ref_level` has entries.

use super::offsets::ranges;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("sequence_expand", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Y")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("ref_level", -1)])
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Y"]).lod_from("X"));

/// How often things repeat is known only when the batch is there.
fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let Some((_, rest)) = x.dims.split_first() else {
        return Err(Error::kernel("`X` must have at least one dimension"));
    };
    cx.set("Out", x.with_dims([&[-1], rest].concat()));
    Ok(())
}

/// Fills `plan` with the rows of `X` to take and how often: `(first row, rows, repeats)`.
fn repeats(
    x: &Tensor,
    y: &Tensor,
    ref_level: i64,
    plan: &mut Vec<(usize, usize, usize)>,
) -> Result<()> {
    let levels = y.lod().len();
    let level = if ref_level == -1 { levels.wrapping_sub(1) } else { ref_level as usize };
    let Some(counts) = y.lod().get(level) else {
        return Err(Error::kernel(format!(
            "`ref_level` is {ref_level}, but `Y` has {levels} levels of sequences"
        )));
    };
    plan.clear();
    let sequences = x.lod().first().map_or(x.rows(), |offsets| offsets.len() - 1);
    if counts.len() <= 1 {
        // Nothing to repeat by: `X` passes unchanged.
        plan.push((0, x.rows(), 1));
        return Ok(());
    }
    if x.lod().len() > 1 || sequences != counts.len() - 1 {
        return Err(Error::kernel(format!(
            "`X` has {sequences} sequences in {} levels, but `Y` repeats {} of one level",
            x.lod().len(),
            counts.len() - 1
        )));
    }
    for (at, repeat) in ranges(counts).enumerate() {
        let (first, rows) = match x.lod().first() {
            Some(offsets) => (offsets[at], offsets[at + 1] - offsets[at]),
            None => (at, 1),
        };
        plan.push((first, rows, repeat.len()));
    }
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    let ref_level = op.i64("ref_level")?;
    let (mut plan, mut lod) = (Vec::new(), vec![Vec::new()]);
    Ok(Box::new(move |run| {
        let (x, y, out) = (run.tensor(x)?, run.tensor(y)?, run.out(&mut out)?);
        repeats(x, y, ref_level, &mut plan)?;
        let rows: usize = plan.iter().map(|(_, rows, repeat)| rows * repeat).sum();
        let dims = x.dims().with_rows(rows);
        out.resize(x.dtype(), dims);
        lod[0].clear();
        lod[0].push(0);
        let lengths = plan.iter().flat_map(|(_, rows, repeat)| std::iter::repeat_n(*rows, *repeat));
        lod[0].extend(lengths.scan(0, |end, rows| {
            *end += rows;
            Some(*end)
        }));
        out.set_lod(if x.lod().is_empty() { &[] } else { &lod });
        let bytes = dims.tail(1) * x.dtype().size();
        let (x, mut rest) = (x.as_bytes(), out.as_mut_bytes());
        for &(first, rows, repeat) in &plan {
            let source = &x[first * bytes..(first + rows) * bytes];
            for _ in 0..repeat {
                let (head, tail) = rest.split_at_mut(source.len());
                head.copy_from_slice(source);
                rest = tail;
            }
        }
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let ref_level = op.i64("ref_level")?;
    let mut plan = Vec::new();
    float_kernel!(op, "X", |run, T| {
        let (x, y) = (run.tensor(x)?, run.tensor(y)?);
        repeats(x, y, ref_level, &mut plan)?;
        let width = x.dims().tail(1);
        let (mut rest, dx) = (run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        dx.fill(0.0);
        for &(first, rows, repeat) in &plan {
            let dx = &mut dx[first * width..(first + rows) * width];
            for _ in 0..repeat {
                let Some((head, tail)) = rest.split_at_checked(dx.len()) else {
                    return Err(Error::kernel("`Out@GRAD` has fewer rows than `Out`"));
                };
                for (dx, dout) in dx.iter_mut().zip(head) {
                    *dx += dout;
                }
                rest = tail;
            }
        }
    })
}
