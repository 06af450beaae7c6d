//! `fake_init`: stands in a trainer's startup program for the initial values of a table that lives
//! on servers. The trainer's variable has the table's width and no rows.

use super::{MODE, TRAINER_ID, TRAINERS};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("fake_init", kernel)
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::required("shape", AttrKind::Longs),
        attr::int("dtype", DType::F32.code()),
        TRAINER_ID,
        TRAINERS,
        MODE,
    ])
    .infer(|cx: &mut Infer<'_>| {
        // The declaration says how many rows the table has on the servers.
        let out = Meta::new(cx.op().dtype("dtype")?, [-1, width(cx.op())?]);
        cx.set("Out", out);
        Ok(())
    });

fn width(op: &OpView<'_>) -> Result<i64> {
    match op.longs("shape")?.as_slice() {
        &[_, width] if width >= 0 => Ok(width),
        other => Err(Error::kernel(format!("a table has shape [rows, width], not {other:?}"))),
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mut out, dtype, width) = (op.output("Out")?, op.dtype("dtype")?, width(op)? as usize);
    Ok(Box::new(move |run| {
        run.out(&mut out)?.resize(dtype, Dims::new(&[0, width]));
        Ok(())
    }))
}
