//! `send`: hands values to parameter servers.

use super::{ENDPOINTS, EPMAP, HETER, MODE, TRAINER_ID, TRAINERS, dummies, pieces};
use crate::ops::prelude::*;
use crate::remote::Sending;

pub(super) const DEF: OpDef = OpDef::new("send", kernel)
    .inputs(&[Slot::many("X")])
    .outputs(&[Slot::any("Out")])
    .attrs(&[
        attr::strings("send_varnames", &[]),
        EPMAP,
        ENDPOINTS,
        TRAINER_ID,
        TRAINERS,
        HETER,
        MODE,
        attr::longs("sections", &[]),
        attr::bool("merge_add", false),
        attr::bool("use_send_handler", true),
        attr::bool("sync_mode", false),
    ])
    .infer(|cx| {
        dummies(cx, "Out");
        Ok(())
    })
    .side_effect();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (remote, values) = (op.remote()?, op.inputs("X"));
    let pieces = pieces(op, "send_varnames", values.len())?;
    let sending = Sending { pieces, merge_add: op.bool("merge_add")? };
    Ok(Box::new(move |run| {
        let values: Vec<&Value> = values.iter().map(|value| run.value(*value)).collect();
        remote.send(&sending, &values)
    }))
}
