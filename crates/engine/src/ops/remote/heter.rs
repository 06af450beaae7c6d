//! Ops between the stages of a heterogeneous job. Whoever runs such a program cuts it at them: a
//! batch goes through the stages in parts, so that no executor could run it from end to end.
//!
//! Attributes `ranks`, `shapes`, `dtypes` and `levels` say what arrives, which nothing else in the
//! program would tell the shape rule.

use super::{ENDPOINTS, HETER, MODE, TRAINER_ID, TRAINERS};
use crate::ops::prelude::*;

/// `send_and_recv`: values to the next stage, which answers with gradients.
pub(super) const SEND_AND_RECV: OpDef = OpDef::new("send_and_recv", refuse)
    .inputs(&[Slot::any("X")])
    .outputs(&[Slot::any("Out")])
    .attrs(&[
        STAGE,
        STAGE_TRAINERS,
        MICRO_BATCHES,
        ENDPOINTS,
        TRAINER_ID,
        TRAINERS,
        HETER,
        MODE,
        RANKS,
        SHAPES,
        DTYPES,
        LEVELS,
        attr::str("mode", "forward"),
        attr::strings("send_var_name", &[]),
        attr::strings("recv_var_name", &[]),
        attr::strings("next_endpoints", &[]),
    ])
    .infer(infer)
    .side_effect();

/// `heter_listen_and_serv`: what the stage before sends.
pub(super) const LISTEN: OpDef = OpDef::new("heter_listen_and_serv", refuse)
    .inputs(&[Slot::any("X")])
    .outputs(&[Slot::any("Out")])
    .attrs(&[
        STAGE,
        STAGE_TRAINERS,
        MICRO_BATCHES,
        ENDPOINTS,
        TRAINER_ID,
        TRAINERS,
        HETER,
        MODE,
        RANKS,
        SHAPES,
        DTYPES,
        LEVELS,
        attr::str("endpoint", ""),
        attr::int("fanin", 1),
        attr::int("pserver_id", 0),
        attr::strings("answer_varnames", &[]),
    ])
    .infer(infer)
    .side_effect();

const STAGE: AttrSpec = attr::int("stage_id", 1);
const STAGE_TRAINERS: AttrSpec = attr::ints("stage_trainers", &[]);
const MICRO_BATCHES: AttrSpec = attr::int("micro_batches", 1);
const RANKS: AttrSpec = attr::ints("ranks", &[]);
const SHAPES: AttrSpec = attr::longs("shapes", &[]);
const DTYPES: AttrSpec = attr::ints("dtypes", &[]);
const LEVELS: AttrSpec = attr::ints("levels", &[]);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (ranks, shapes) = (cx.op().longs("ranks")?, cx.op().longs("shapes")?);
    let (dtypes, levels) = (cx.op().longs("dtypes")?, cx.op().longs("levels")?);
    let count = cx.op().op.outputs_of("Out").len();
    let wrong = || Error::kernel(format!("its attributes must describe {count} variables"));
    let mut rest = shapes.as_slice();
    let mut metas = Vec::with_capacity(count);
    for (at, rank) in ranks.iter().enumerate() {
        let rank = usize::try_from(*rank).ok().filter(|rank| *rank <= rest.len());
        let (dims, after) = rest.split_at(rank.ok_or_else(wrong)?);
        let code = dtypes.get(at).and_then(|code| i32::try_from(*code).ok());
        let dtype = code.and_then(DType::from_code).ok_or_else(wrong)?;
        let mut meta = Meta::new(dtype, dims);
        let level = levels.get(at).and_then(|level| u32::try_from(*level).ok());
        meta.lod_level = level.ok_or_else(wrong)?;
        metas.push(meta);
        rest = after;
    }
    if metas.len() != count || !rest.is_empty() {
        return Err(wrong());
    }
    cx.set_each("Out", metas);
    Ok(())
}

fn refuse(_: &OpView<'_>) -> Result<Kernel> {
    Err(Error::kernel(
        "this is a stage of a job with heter workers: run it with `HeterTrainer`, `HeterWorker`, \
         or the Python executor, which carry values from stage to stage",
    ))
}
