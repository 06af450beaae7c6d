//! `send_barrier` and `fetch_barrier`: the ends of the two halves of a step.

use super::{ENDPOINTS, HETER, MODE, TRAINER_ID, TRAINERS, dummies};
use crate::ops::prelude::*;

pub(super) const SEND_BARRIER: OpDef = definition("send_barrier", |op| {
    let (remote, endpoints) = (op.remote()?, op.strings("endpoints")?);
    Ok(Box::new(move |_| remote.send_barrier(&endpoints)))
});

pub(super) const FETCH_BARRIER: OpDef = definition("fetch_barrier", |op| {
    let (remote, endpoints) = (op.remote()?, op.strings("endpoints")?);
    Ok(Box::new(move |_| remote.fetch_barrier(&endpoints)))
});

const INPUTS: &[Slot] = &[Slot::any("X")];
const OUTPUTS: &[Slot] = &[Slot::any("Out")];
const ATTRS: &[AttrSpec] = &[
    ENDPOINTS,
    TRAINER_ID,
    TRAINERS,
    HETER,
    MODE,
    attr::bool("half_async", false),
    attr::int("staleness", 0),
];

const fn definition(name: &'static str, kernel: fn(&OpView<'_>) -> Result<Kernel>) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(INPUTS)
        .outputs(OUTPUTS)
        .attrs(ATTRS)
        .infer(|cx| {
            dummies(cx, "Out");
            Ok(())
        })
        .side_effect()
}
