//! `increment`: adds `step` to a one-element counter.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("increment", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::float("step", 1.0)])
    .like(&[("Out", "X")])
    .inplace(&[("X", "Out")]);

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mut x, step) = (op.in_out("X", "Out")?, op.f64("step")?);
    Ok(Box::new(move |run| {
        let dtype = run.before(&x)?.dtype();
        dispatch!(dtype, T in [i64, i32, f32, f64] => {
            match run.update::<T>(&mut x)? {
                [counter] => {
                    *counter += T::from_f64(step);
                    Ok(())
                }
                others => {
                    Err(Error::kernel(format!("`X` must have one element, not {}", others.len())))
                }
            }
        }, else => Err(Error::kernel(format!("cannot count in {dtype}"))))
    }))
}
