//! `sequence_erase`: sequences of ids without those that `tokens` names.

use super::offsets::{innermost, ranges};
use crate::ops::embedding::Id;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("sequence_erase", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::longs("tokens", &[])])
    .infer(infer);

/// How many ids are left is known only when the batch is there.
fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let [_, 1 | -1] = x.dims[..] else {
        return Err(Error::kernel(format!("`X` must be a column, not of shape {:?}", x.dims)));
    };
    cx.set("Out", x.with_dims([-1, 1]));
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, tokens) = (op.input("X")?, op.output("Out")?, op.longs("tokens")?);
    let mut lod = Vec::new();
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let offsets = innermost(x, "X")?;
        lod.clone_from(x.lod());
        dispatch!(x.dtype(), T in [i64, i32] => {
            let ids = x.as_slice::<T>()?;
            let stays = |id: &&T| !tokens.contains(&id.long());
            let Some((last, _)) = lod.split_last_mut() else { unreachable!("there are sequences") };
            last.truncate(1);
            let mut end = 0;
            last.extend(ranges(offsets).map(|range| {
                end += ids[range].iter().filter(stays).count();
                end
            }));
            out.resize(x.dtype(), [end, 1]);
            let places = out.as_mut_slice::<T>()?.iter_mut();
            places.zip(ids.iter().filter(stays)).for_each(|(place, id)| *place = *id);
            Ok(())
        }, else => Err(Error::kernel(format!("ids are int64 or int32, not {}", x.dtype()))))?;
        out.set_lod(&lod);
        Ok(())
    }))
}
