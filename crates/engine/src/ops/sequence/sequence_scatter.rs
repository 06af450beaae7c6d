//! `sequence_scatter`: adds to each row of `X` the numbers in the sequence of `Updates`, at the
//! columns that the sequence of `Ids` names.

use super::offsets::only_level;
use crate::ops::prelude::*;
use crate::ops::shape::given::extend_integers;

pub(super) const DEF: OpDef = OpDef::new("sequence_scatter", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Ids"), Slot::one("Updates")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .lod_from("X")
    .gradient(Gradient::new(&["X", "Updates"], grad_kernel).reads(&["X", "Ids", "Updates"]));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    if cx.input("X")?.rank() == 0 {
        return Err(Error::kernel("`X` must have rows, but is a scalar"));
    }
    cx.like(&[("Out", "X")])
}

/// Fills `places` with the element of `x` that each update is added to.
fn read(places: &mut Vec<i64>, x: &Tensor, ids: &Tensor, updates: &Tensor) -> Result<()> {
    let (offsets, width) = (only_level(ids, "Ids")?, x.dims().tail(1));
    if x.rows() != offsets.len() - 1 || updates.numel() != ids.numel() {
        return Err(Error::kernel(format!(
            "`Ids` must have a sequence for each row of `X`, and `Updates` a number for each id, \
             but there are {} sequences, {} rows, {} ids and {} numbers",
            offsets.len() - 1,
            x.rows(),
            ids.numel(),
            updates.numel()
        )));
    }
    if ids.numel() != ids.rows() {
        return Err(Error::kernel(format!("`Ids` must be a column, not {}", ids.dims())));
    }
    places.clear();
    extend_integers(places, ids)?;
    for (row, pair) in offsets.windows(2).enumerate() {
        for place in &mut places[pair[0]..pair[1]] {
            if !(0..width as i64).contains(place) {
                return Err(Error::kernel(format!(
                    "`Ids` names column {place}, but rows of `X` have {width}"
                )));
            }
            *place += (row * width) as i64;
        }
    }
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, ids, updates) = (op.input("X")?, op.input("Ids")?, op.input("Updates")?);
    let (mut out, mut places) = (op.output("Out")?, Vec::new());
    Ok(Box::new(move |run| {
        let (x, updates, out) = (run.tensor(x)?, run.tensor(updates)?, run.out(&mut out)?);
        read(&mut places, x, run.tensor(ids)?, updates)?;
        out.resize(x.dtype(), x.dims());
        out.as_mut_bytes().copy_from_slice(x.as_bytes());
        dispatch!(x.dtype(), T in [f32, f64, i32, i64] => {
            let out = out.as_mut_slice::<T>()?;
            for (place, update) in places.iter().zip(updates.as_slice::<T>()?) {
                out[*place as usize] = out[*place as usize].plus(*update);
            }
            Ok(())
        }, else => Err(Error::kernel(format!("there are no sums of {} elements", x.dtype()))))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, ids, updates) = (op.input("X")?, op.input("Ids")?, op.input("Updates")?);
    let (dout, mut places) = (op.input("Out@GRAD")?, Vec::new());
    let (mut dx, mut dupdates) = (op.maybe_output("X@GRAD"), op.maybe_output("Updates@GRAD"));
    float_kernel!(op, "X", |run, T| {
        let (x, updates) = (run.tensor(x)?, run.tensor(updates)?);
        read(&mut places, x, run.tensor(ids)?, updates)?;
        super::offsets::check_gradient(run.tensor(dout)?, "Out@GRAD", x.numel())?;
        let dout = run.get::<T>(dout)?;
        if let Some(dx) = &mut dx {
            run.set::<T>(dx)?.copy_from_slice(dout);
        }
        if let Some(dupdates) = &mut dupdates {
            let dupdates = run.set::<T>(dupdates)?.iter_mut();
            dupdates.zip(&places).for_each(|(d, place)| *d = dout[*place as usize]);
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn a_column_that_is_not_there_is_refused() {
        let op = Op::new("sequence_scatter").input("X", ["x"]).input("Ids", ["ids"]);
        let op = op.input("Updates", ["updates"]).output("Out", ["out"]);
        let x = Tensor::from_slice([2, 2], &[0f32; 4]).unwrap();
        let updates = Tensor::from_slice([2, 1], &[0f32; 2]).unwrap();
        let mut values =
            HashMap::from([("x".to_owned(), x.into()), ("updates".to_owned(), updates.into())]);
        for bad in [2i64, -1] {
            let ids = Tensor::from_slice([2, 1], &[0, bad]).unwrap();
            values.insert("ids".to_owned(), ids.with_lod(&[vec![0, 1, 2]]).unwrap().into());
            let error = run_once(&op, &mut values).unwrap_err().to_string();
            assert!(error.contains(&format!("`Ids` names column {bad}, but rows")), "{error}");
        }
    }
}
