//! `lamb` and `lars_momentum`: steps whose length follows from norms of whole tensors.

use super::super::lowering::suffix;
use super::super::{Lowering, Outcome, host};
use super::powers;
use super::rows::merge;
use super::rules::{MOMENTS, NONE, POWERS, attributes};
use super::target::{Rule, Target};

/// Threads of a block, and blocks at most, each of which leaves sums of squares.
const THREADS: usize = 256;
const MAX_BLOCKS: usize = 512;

pub(super) fn lamb(cx: &mut Lowering<'_>) -> Outcome {
    let op = cx.op;
    let attributes = attributes([
        op.f64("beta1")?,
        op.f64("beta2")?,
        op.f64("epsilon")?,
        op.f64("weight_decay")?,
        f64::from(u8::from(op.bool("always_adapt")?)),
    ]);
    let before = powers::raise(cx, false)?;
    let (name, state, powers, keeps_rows) = ("lamb", MOMENTS, POWERS, false);
    let rule = Rule { name, state, powers, before, attributes, keeps_rows };
    update(cx, &rule, ["lamb_moments", "lamb_move"])
}

pub(super) fn lars(cx: &mut Lowering<'_>) -> Outcome {
    let op = cx.op;
    let [decay] = op.floats("lars_weight_decay")?[..] else { return host() };
    let attributes = attributes([
        op.f64("mu")?,
        op.f64("lars_coeff")?,
        decay,
        op.f64("epsilon")?,
        op.f64("rescale_grad")?,
    ]);
    let state = &[("Velocity", "VelocityOut")];
    let rule =
        Rule { name: "lars", state, powers: &[], before: NONE, attributes, keeps_rows: false };
    update(cx, &rule, ["lars_norms", "lars_move"])
}

fn update(cx: &mut Lowering<'_>, rule: &Rule, kernels: [&str; 2]) -> Outcome {
    let (mut target, grad) = Target::of(cx, rule)?;
    if grad.selected.is_some() {
        merge(cx, &mut target, &grad)?;
    }
    let blocks = target.count.div_ceil(THREADS * 4).min(MAX_BLOCKS) as u32;
    let partial = cx.scratch(2 * 8 * blocks as usize);
    for (kernel, adds_up) in kernels.into_iter().zip([false, true]) {
        let places = target.places();
        let count = places.len();
        let kernel = format!("{kernel}_{}", suffix(target.dtype)?);
        let launch = cx
            .kernel(kernel, [blocks, 1, 1], THREADS as u32)
            .refs(places, count)
            .value(target.extent(rule, 0))
            .at(partial);
        let launch = if adds_up { launch.value(blocks) } else { launch };
        launch.launch();
    }
    Ok(())
}
