//! `lod_array_length`: the number of places of a tensor array.

use super::list;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("lod_array_length", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .infer(|cx| {
        cx.set("Out", Meta::new(DType::I64, [1]));
        Ok(())
    })
    .any_width();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        run.set::<i64>(&mut out)?[0] = list(run, x)?.items.len() as i64;
        Ok(())
    }))
}
