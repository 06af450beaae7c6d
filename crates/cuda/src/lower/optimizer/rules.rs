//! The ops: from attributes to a rule.

use super::super::{Lowering, Outcome, host};
use super::powers;
use super::rows::update;
use super::target::Rule;
use crate::work::Ref;

/// The slots of Adam's kin.
pub(super) const MOMENTS: &[(&str, &str)] = &[("Moment1", "Moment1Out"), ("Moment2", "Moment2Out")];
pub(super) const POWERS: &[&str] = &["Beta1Pow", "Beta2Pow"];
/// No power was raised before the update.
pub(super) const NONE: [Ref; 2] = [Ref::NULL; 2];
const MOMENT: &[(&str, &str)] = &[("Moment", "MomentOut")];

/// The first attributes, and zeros.
pub(super) fn attributes<const N: usize>(first: [f64; N]) -> [f64; 6] {
    std::array::from_fn(|at| first.get(at).copied().unwrap_or(0.0))
}

pub(super) fn sgd(cx: &mut Lowering<'_>) -> Outcome {
    let attributes = attributes([]);
    update(
        cx,
        &Rule { name: "sgd", state: &[], powers: &[], before: NONE, attributes, keeps_rows: true },
    )
}

pub(super) fn momentum(cx: &mut Lowering<'_>) -> Outcome {
    let op = cx.op;
    let l2_decay = match op.string("regularization_method")?.as_str() {
        "" => 0.0,
        "l2_decay" => op.f64("regularization_coeff")?,
        _ => return host(),
    };
    let mu = op.f64("mu")?;
    let [of_grad, of_velocity] = if op.bool("use_nesterov")? { [1.0, mu] } else { [0.0, 1.0] };
    let attributes = attributes([mu, l2_decay, op.f64("rescale_grad")?, of_grad, of_velocity]);
    let state = &[("Velocity", "VelocityOut")];
    update(
        cx,
        &Rule { name: "momentum", state, powers: &[], before: NONE, attributes, keeps_rows: false },
    )
}

pub(super) fn adagrad(cx: &mut Lowering<'_>) -> Outcome {
    let attributes = attributes([cx.op.f64("epsilon")?]);
    let rule = Rule {
        name: "adagrad",
        state: MOMENT,
        powers: &[],
        before: NONE,
        attributes,
        keeps_rows: true,
    };
    update(cx, &rule)
}

pub(super) fn decayed_adagrad(cx: &mut Lowering<'_>) -> Outcome {
    let attributes = attributes([cx.op.f64("decay")?, cx.op.f64("epsilon")?]);
    let name = "decayed_adagrad";
    update(
        cx,
        &Rule { name, state: MOMENT, powers: &[], before: NONE, attributes, keeps_rows: false },
    )
}

pub(super) fn adam(cx: &mut Lowering<'_>) -> Outcome {
    let op = cx.op;
    let keep_powers = op.bool("use_global_beta_pow")?;
    // With a sparse gradient the powers are those of the next step, as on the host.
    let is_ahead = cx.input("Grad")?.selected.is_some() && !keep_powers;
    let attributes = [
        op.f64("beta1")?,
        op.f64("beta2")?,
        op.f64("epsilon")?,
        1.0,
        0.0,
        f64::from(u8::from(is_ahead)),
    ];
    of_adams_kind(cx, attributes, keep_powers)
}

pub(super) fn adamw(cx: &mut Lowering<'_>) -> Outcome {
    let op = cx.op;
    let decay = if op.bool("with_decay")? { op.f64("coeff")? } else { 0.0 };
    let attributes =
        [op.f64("beta1")?, op.f64("beta2")?, op.f64("epsilon")?, op.f64("lr_ratio")?, decay, 0.0];
    let keep_powers = op.bool("use_global_beta_pow")?;
    of_adams_kind(cx, attributes, keep_powers)
}

fn of_adams_kind(cx: &mut Lowering<'_>, attributes: [f64; 6], keep_powers: bool) -> Outcome {
    let keeps_rows = cx.op.bool("lazy_mode")?;
    let before = powers::raise(cx, keep_powers)?;
    let (name, state, powers) = ("adam", MOMENTS, POWERS);
    update(cx, &Rule { name, state, powers, before, attributes, keeps_rows })
}

pub(super) fn adamax(cx: &mut Lowering<'_>) -> Outcome {
    let op = cx.op;
    let attributes = attributes([op.f64("beta1")?, op.f64("beta2")?, op.f64("epsilon")?]);
    let state = &[("Moment", "MomentOut"), ("InfNorm", "InfNormOut")];
    // Another op raises the power.
    let powers = &["Beta1Pow"];
    update(cx, &Rule { name: "adamax", state, powers, before: NONE, attributes, keeps_rows: false })
}

pub(super) fn adadelta(cx: &mut Lowering<'_>) -> Outcome {
    let attributes = attributes([cx.op.f64("rho")?, cx.op.f64("epsilon")?]);
    let state =
        &[("AvgSquaredGrad", "AvgSquaredGradOut"), ("AvgSquaredUpdate", "AvgSquaredUpdateOut")];
    update(
        cx,
        &Rule { name: "adadelta", state, powers: &[], before: NONE, attributes, keeps_rows: false },
    )
}

pub(super) fn rmsprop(cx: &mut Lowering<'_>) -> Outcome {
    let op = cx.op;
    let attributes = attributes([op.f64("decay")?, op.f64("epsilon")?, op.f64("momentum")?]);
    let (powers, keeps_rows) = (&[], false);
    if op.bool("centered")? {
        let state = &[
            ("MeanSquare", "MeanSquareOut"),
            ("Moment", "MomentOut"),
            ("MeanGrad", "MeanGradOut"),
        ];
        let name = "centered_rmsprop";
        return update(cx, &Rule { name, state, powers, before: NONE, attributes, keeps_rows });
    }
    // The mean gradient takes no part, but its value goes on.
    if let (Some(from), Some(to)) = (cx.maybe_input("MeanGrad"), cx.maybe_output("MeanGradOut")) {
        cx.carry_over(&from.dense()?, &to.dense()?);
    }
    let state = &[("MeanSquare", "MeanSquareOut"), ("Moment", "MomentOut")];
    update(cx, &Rule { name: "rmsprop", state, powers, before: NONE, attributes, keeps_rows })
}

pub(super) fn ftrl(cx: &mut Lowering<'_>) -> Outcome {
    let op = cx.op;
    let attributes = attributes([op.f64("l1")?, op.f64("l2")?, -op.f64("lr_power")?]);
    let state =
        &[("SquaredAccumulator", "SquaredAccumOut"), ("LinearAccumulator", "LinearAccumOut")];
    update(
        cx,
        &Rule { name: "ftrl", state, powers: &[], before: NONE, attributes, keeps_rows: true },
    )
}
