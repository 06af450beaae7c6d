//! `lod_reset`: the same rows cut into other sequences: those of `Y`, those whose offsets `Y`
//! holds, or those of attribute `target_lod`; with `append`, inside the ones that `X` has.

use super::offsets::check_gradient;
use crate::ops::prelude::*;
use crate::ops::shape::given::extend_integers;

pub(super) const DEF: OpDef = OpDef::new("lod_reset", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("Y")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::longs("target_lod", &[]), attr::bool("append", false)])
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X"]).lod_from("X"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (mut out, append) = (cx.input("X")?.clone(), cx.op().bool("append")?);
    if out.rank() == 0 {
        return Err(Error::kernel("`X` must have rows, but is a scalar"));
    }
    out.lod_level = match cx.maybe_input("Y") {
        Some(y) if y.lod_level > 0 => y.lod_level,
        _ if append => out.lod_level + 1,
        _ => 1,
    };
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.maybe_input("Y"), op.output("Out")?);
    let (target, append) = (op.longs("target_lod")?, op.bool("append")?);
    if y.is_none() && target.is_empty() {
        return Err(Error::kernel("neither `Y` nor `target_lod` says where sequences begin"));
    }
    let (mut given, mut lod) = (Vec::new(), Vec::new());
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        out.resize(x.dtype(), x.dims());
        out.as_mut_bytes().copy_from_slice(x.as_bytes());
        let y = y.map(|y| run.tensor(y)).transpose()?;
        if let Some(y) = y.filter(|y| !y.lod().is_empty()) {
            lod.clone_from(y.lod());
        } else {
            given.clear();
            match y {
                Some(y) => extend_integers(&mut given, y)?,
                None => given.extend_from_slice(&target),
            }
            lod.clear();
            lod.extend(append.then(|| x.lod().clone()).into_iter().flatten());
            lod.push(offsets_of(&given)?);
        }
        check(&lod, x.rows())?;
        out.set_lod(&lod);
        Ok(())
    }))
}

fn offsets_of(given: &[i64]) -> Result<Vec<usize>> {
    let offset = |offset: &i64| usize::try_from(*offset);
    given.iter().map(offset).collect::<std::result::Result<_, _>>().map_err(|_| {
        Error::kernel(format!("offsets of sequences cannot be negative, but are {given:?}"))
    })
}

/// That the levels fit one another and `rows`.
fn check(lod: &[Vec<usize>], rows: usize) -> Result<()> {
    for (level, offsets) in lod.iter().enumerate() {
        let end = lod.get(level + 1).map_or(rows, |next| next.len().saturating_sub(1));
        let sorted = offsets.is_sorted() && offsets.first() == Some(&0);
        if !sorted || offsets.len() < 2 || offsets.last() != Some(&end) {
            return Err(Error::kernel(format!(
                "the offsets of level {level} must rise from 0 to {end}, but are {offsets:?}"
            )));
        }
    }
    Ok(())
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
    fn offsets_that_do_not_fit_are_refused() {
        let op = Op::new("lod_reset").input("X", ["x"]).output("Out", ["out"]);
        let x: Value = Tensor::from_slice([3, 1], &[0f32; 3]).unwrap().into();
        let mut values = HashMap::from([("x".to_owned(), x)]);
        for bad in [vec![0, 2], vec![1, 3], vec![0, 4, 3], vec![3], vec![0, -1, 3]] {
            let error = run_once(&op.clone().attr("target_lod", bad), &mut values).unwrap_err();
            assert!(error.to_string().contains("offsets of"), "{error}");
        }
        let error = run_once(&op, &mut values).unwrap_err().to_string();
        assert!(error.contains("neither `Y` nor `target_lod`"), "{error}");
    }
}
