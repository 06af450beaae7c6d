//! `sequence_reshape`: the numbers of each sequence in rows of another width.

use super::offsets::{check_gradient, only_level, ranges, set_lengths};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("sequence_reshape", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::required("new_dim", AttrKind::Int)])
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X"]).lod_from("X"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, width) = (cx.input("X")?, cx.op().i64("new_dim")?);
    if x.rank() != 2 || width < 1 {
        return Err(Error::kernel(format!(
            "`X` must have rank 2, and `new_dim` be 1 or more, but are of shape {:?} and {width}",
            x.dims
        )));
    }
    cx.set("Out", Meta { lod_level: 1, ..x.with_dims([-1, width]) });
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, width) = (op.input("X")?, op.output("Out")?, op.i64("new_dim")? as usize);
    let mut lod = [Vec::new()];
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let (offsets, given) = (only_level(x, "X")?, x.dims()[1]);
        if let Some(bad) =
            ranges(offsets).find(|range| !(range.len() * given).is_multiple_of(width))
        {
            return Err(Error::kernel(format!(
                "a sequence of {} rows of {given} numbers cannot have rows of {width}",
                bad.len()
            )));
        }
        out.resize(x.dtype(), [x.numel() / width, width]);
        set_lengths(out, &mut lod, ranges(offsets).map(|range| range.len() * given / width));
        out.as_mut_bytes().copy_from_slice(x.as_bytes());
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dout, mut dx) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    Ok(Box::new(move |run| {
        let (x, dout, dx) = (run.tensor(x)?, run.tensor(dout)?, run.out(&mut dx)?);
        check_gradient(dout, "Out@GRAD", x.numel())?;
        dx.resize(dout.dtype(), x.dims());
        dx.as_mut_bytes().copy_from_slice(dout.as_bytes());
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn numbers_that_do_not_fill_their_rows_are_refused() {
        let op = Op::new("sequence_reshape").input("X", ["x"]).output("Out", ["out"]);
        let x = Tensor::from_slice([4, 2], &[0f32; 8]).unwrap();
        let x = x.with_lod(&[vec![0, 1, 4]]).unwrap();
        let mut values = HashMap::from([("x".to_owned(), x.into())]);
        let error = run_once(&op.attr("new_dim", 4), &mut values).unwrap_err().to_string();
        assert!(error.contains("a sequence of 1 rows of 2 numbers cannot"), "{error}");
    }
}
