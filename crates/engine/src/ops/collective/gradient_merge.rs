//! `gradient_merge`: adds a gradient to those of the steps before. The first of every `k_steps`
//! starts anew, so that nobody has to clear `Out`, which keeps its value from step to step.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("gradient_merge", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Step")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("k_steps", 1)])
    .like(&[("Out", "X")]);

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, step, mut out) = (op.input("X")?, op.input("Step")?, op.output("Out")?);
    let steps = op.i64("k_steps")?;
    if steps < 1 {
        return Err(Error::kernel(format!("`k_steps` is {steps}, but must be at least 1")));
    }
    Ok(Box::new(move |run: &Run<'_>| {
        // Steps are counted from 1: the counter is raised before.
        let is_first = (run.first::<i64>(step)? - 1).rem_euclid(steps) == 0;
        let sum = run.out_value(&mut out);
        let is_empty = sum.rows().is_some_and(|sum| sum.rows.is_empty());
        if is_first || is_empty {
            return run.copy(x, &mut out);
        }
        match (run.value(x), sum) {
            (Value::Rows(x), Value::Rows(sum)) => {
                sum.append(x);
                Ok(())
            }
            (Value::Tensor(x), Value::Tensor(sum)) => {
                let dtype = sum.dtype();
                dispatch!(dtype, T in [f32, f64] => {
                    let (sum, x) = (sum.as_mut_slice::<T>()?, x.as_slice::<T>()?);
                    vectorized(
                        #[inline(always)]
                        || sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += *x),
                    );
                    Ok(())
                }, else => Err(Error::kernel(format!("cannot merge gradients of {dtype}"))))
            }
            _ => Err(Error::kernel("a gradient was dense in one step and sparse in another")),
        }
    }))
}
