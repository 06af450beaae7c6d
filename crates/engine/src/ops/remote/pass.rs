//! Ops that describe to a GPUBox trainer what lies where: they have no results, so no step runs
//! them. `fleet/src/gpubox` reads them.

use super::{ENDPOINTS, EPMAP, HETER, MODE, TRAINER_ID, TRAINERS};
use crate::ops::prelude::*;

/// A table whose rows of a pass are variables of the trainer: `W` and `States` in the order of a
/// record, the index of their keys, and the feeds that name keys; `Powers` are variables that count
/// its steps, powers of `betas`. `Entry` has the marks and counters of a table with an entry; `Record`
/// the whole records of one with an accessor, whose `W` is what pulls of them give. With several
/// trainers, `Room` is a variable with as many elements as rows fit that one asks of another.
pub(super) const TABLE: OpDef = OpDef::new("pass_table", refuse)
    .inputs(&[
        Slot::one("W"),
        Slot::any("States"),
        Slot::one("Index"),
        Slot::any("Ids"),
        Slot::any("Powers"),
        Slot::maybe("Entry"),
        Slot::maybe("Record"),
        Slot::any("Room"),
    ])
    .attrs(&[
        TRAINER_ID,
        TRAINERS,
        HETER,
        MODE,
        ENDPOINTS,
        attr::long("shard_num", 1000),
        attr::long("padding_idx", -1),
        attr::floats("betas", &[]),
        attr::strings("fingerprint", &[]),
    ]);

/// Parameters and state that the trainer updates itself, and which server is told of each.
pub(super) const DENSE: OpDef =
    OpDef::new("pass_dense", refuse).inputs(&[Slot::any("X")]).attrs(&[
        TRAINER_ID,
        TRAINERS,
        HETER,
        MODE,
        ENDPOINTS,
        EPMAP,
        attr::strings("fingerprint", &[]),
    ]);

fn refuse(_: &OpView<'_>) -> Result<Kernel> {
    Err(Error::kernel("describes a trainer of GPUBox, and cannot run by itself"))
}
