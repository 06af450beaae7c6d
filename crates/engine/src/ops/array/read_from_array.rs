//! `read_from_array`: an item of a tensor array. Its gradient is an array with one item, and nothing in other places.

use std::sync::Arc;

use super::{items, list, place};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("read_from_array", kernel)
    .inputs(&[Slot::one("X"), Slot::one("I"), Slot::any("X_W")])
    .outputs(&[Slot::one("Out")])
    .infer(|cx| {
        let out = items(cx.input("X")?)?;
        cx.set("Out", out);
        Ok(())
    })
    .any_width()
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "I"]));

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, i, mut out) = (op.input("X")?, op.input("I")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let item = list(run, x)?.get(place(run, i)?)?;
        run.out(&mut out)?.copy_from(item.tensor()?);
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, i, given) = (op.input("X")?, op.input("I")?, op.input("Out@GRAD")?);
    let mut out = op.output("X@GRAD")?;
    Ok(Box::new(move |run| {
        let mut items = List::empty(list(run, x)?.kind);
        items.set(place(run, i)?, Arc::new(run.value(given).clone()));
        *run.out(&mut out)? = Tensor::of_list(run.tensor(x)?.dtype(), items);
        Ok(())
    }))
}
