//! `reduce_any` and `reduce_all`: whether some, or all, of the elements are true.

use super::axes::{self, Axes};
use crate::Result;
use crate::op::{Kernel, OpDef, OpView};

pub(super) const ANY: OpDef = axes::def("reduce_any", |op| kernel(op, false));
pub(super) const ALL: OpDef = axes::def("reduce_all", |op| kernel(op, true));

fn kernel(op: &OpView<'_>, all: bool) -> Result<Kernel> {
    let (x, out) = (op.input("X")?, op.output("Out")?);
    let axes = Axes::of(op)?;
    Ok(Box::new(move |run| {
        let (walk, _) = axes.walk(run.dims(x)?)?;
        let (x, out) = (run.get::<u8>(x)?, run.set::<u8>(out)?);
        if all {
            let run = |so_far: u8, x: &[u8]| so_far & u8::from(!x.contains(&0));
            axes::reduce(&walk, x, out, 1, |so_far, x| so_far & x, run);
        } else {
            let run = |so_far: u8, x: &[u8]| so_far | u8::from(x.contains(&1));
            axes::reduce(&walk, x, out, 0, |so_far, x| so_far | x, run);
        }
        Ok(())
    }))
}
