//! `sequence_enumerate`: each entry of a sequence of ids with those that follow it, `win_size` in
//! all, and `pad_value` for those beyond the end.

use super::offsets::{only_level, ranges};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("sequence_enumerate", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::required("win_size", AttrKind::Int), attr::int("pad_value", 0)])
    .infer(infer)
    .lod_from("X");

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, window) = (cx.input("X")?, cx.op().i64("win_size")?);
    let [rows, 1 | -1] = x.dims[..] else {
        return Err(Error::kernel(format!("`X` must be a column, not of shape {:?}", x.dims)));
    };
    if window < 2 {
        return Err(Error::kernel(format!("`win_size` must be 2 or more, not {window}")));
    }
    let out = x.with_dims([rows, window]);
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let (window, pad) = (op.i64("win_size")? as usize, op.i64("pad_value")?);
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let offsets = only_level(x, "X")?;
        out.resize(x.dtype(), [x.rows(), window]);
        dispatch!(x.dtype(), T in [i64, i32] => {
            let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?);
            for range in ranges(offsets) {
                for at in range.clone() {
                    let there = &x[at..range.end.min(at + window)];
                    let (head, tail) = out[at * window..][..window].split_at_mut(there.len());
                    head.copy_from_slice(there);
                    tail.fill(pad as T);
                }
            }
            Ok(())
        }, else => Err(Error::kernel(format!("ids are int64 or int32, not {}", x.dtype()))))
    }))
}
