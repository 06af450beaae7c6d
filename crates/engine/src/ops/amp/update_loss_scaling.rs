//! `update_loss_scaling`: raises the factor of the loss after many good steps, lowers it after bad ones, and makes the
//! gradients of a bad step zero.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("update_loss_scaling", kernel)
    .inputs(&[
        Slot::any("X"),
        Slot::one("FoundInfinite"),
        Slot::one("PrevLossScaling"),
        Slot::one("InGoodSteps"),
        Slot::one("InBadSteps"),
        Slot::maybe("StopUpdate"),
    ])
    .outputs(&[
        Slot::any("Out"),
        Slot::one("LossScaling"),
        Slot::one("OutGoodSteps"),
        Slot::one("OutBadSteps"),
    ])
    .attrs(&[
        attr::required("incr_every_n_steps", AttrKind::Int),
        attr::required("decr_every_n_nan_or_inf", AttrKind::Int),
        attr::required("incr_ratio", AttrKind::Float),
        attr::required("decr_ratio", AttrKind::Float),
        attr::bool("stop_update", false),
    ])
    .updates(&[
        ("X", "Out"),
        ("PrevLossScaling", "LossScaling"),
        ("InGoodSteps", "OutGoodSteps"),
        ("InBadSteps", "OutBadSteps"),
    ]);

/// How the factor follows from what happened.
#[derive(Clone, Copy)]
struct Policy {
    raise_after: i32,
    lower_after: i32,
    raise_by: f32,
    lower_by: f32,
}

/// The factor, and the good and the bad steps since it changed.
type State = (f32, i32, i32);

impl Policy {
    fn of(op: &OpView<'_>) -> Result<Policy> {
        Ok(Policy {
            raise_after: op.i64("incr_every_n_steps")? as i32,
            lower_after: op.i64("decr_every_n_nan_or_inf")? as i32,
            raise_by: op.f32("incr_ratio")?,
            lower_by: op.f32("decr_ratio")?,
        })
    }

    /// The state after a step.
    fn after(self, is_bad: bool, (scale, good, bad): State) -> State {
        if is_bad {
            return match bad + 1 {
                // A factor below 1 would make gradients smaller still.
                bad if bad == self.lower_after => ((scale * self.lower_by).max(1.0), 0, 0),
                bad => (scale, 0, bad),
            };
        }
        match good + 1 {
            good if good == self.raise_after => {
                let raised = scale * self.raise_by;
                (if raised.is_finite() { raised } else { scale }, 0, 0)
            }
            good => (scale, good, 0),
        }
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mut gradients, found) = (super::gradients(op)?, op.input("FoundInfinite")?);
    let mut scale = op.in_out("PrevLossScaling", "LossScaling")?;
    let mut good = op.in_out("InGoodSteps", "OutGoodSteps")?;
    let mut bad = op.in_out("InBadSteps", "OutBadSteps")?;
    let (stop, never) = (op.maybe_input("StopUpdate"), op.bool("stop_update")?);
    let policy = Policy::of(op)?;
    Ok(Box::new(move |run| {
        let is_bad = run.first::<u8>(found)? != 0;
        for gradient in &mut gradients {
            run.carry_over(gradient)?;
            if is_bad {
                match run.out_value(&mut gradient.out) {
                    Value::Tensor(out) => out.as_mut_bytes().fill(0),
                    Value::Rows(out) => out.value.as_mut_bytes().fill(0),
                }
            }
        }
        let stopped = match stop {
            Some(stop) => run.first::<u8>(stop)? != 0,
            None => never,
        };
        let scale = number(run.update::<f32>(&mut scale)?)?;
        let (good, bad) = (number(run.update(&mut good)?)?, number(run.update(&mut bad)?)?);
        if !stopped {
            (*scale, *good, *bad) = policy.after(is_bad, (*scale, *good, *bad));
        }
        Ok(())
    }))
}

fn number<T>(values: &mut [T]) -> Result<&mut T> {
    values.first_mut().ok_or_else(|| Error::kernel("an empty tensor stands for a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_rises_and_falls() {
        let policy = Policy { raise_after: 2, lower_after: 2, raise_by: 2.0, lower_by: 0.5 };
        let mut state = (8.0, 0, 0);
        let mut seen = Vec::new();
        for is_bad in [false, false, true, false, true, true, false] {
            state = policy.after(is_bad, state);
            seen.push(state);
        }
        let expected = [
            (8.0, 1, 0),
            (16.0, 0, 0),
            (16.0, 0, 1),
            (16.0, 1, 0),
            (16.0, 0, 1),
            (8.0, 0, 0),
            (8.0, 1, 0),
        ];
        assert_eq!(seen, expected);
        assert_eq!(policy.after(true, (1.0, 0, 1)).0, 1.0, "it does not fall below 1");
        assert_eq!(
            policy.after(false, (f32::MAX, 1, 0)).0,
            f32::MAX,
            "nor rise beyond all numbers"
        );
    }
}
