//! Ops that talk to the other ranks of a collective job, through the executor's
//! [`Collective`](crate::collective::Collective).
//!
//! All are *ordered*: a plan keeps their order, so that every rank asks the same in the same turn.
//! Names and attributes are Paddle's, but for `c_bucket_*` and `gradient_merge`. Streams of a device are not there: an op that Paddle would put on a stream runs
//! to its end, except that the plan lets all-reduces run beside what follows them
//! (`plan/overlap.rs`).

use bireme_ir::VarKind;

use crate::collective::Reduction;
use crate::ops::prelude::*;

mod all_gather;
mod all_reduce;
mod all_to_all;
mod barrier;
mod broadcast;
mod bucket;
mod concat;
mod connect;
mod gradient_merge;
mod identity;
mod reduce;
mod reduce_scatter;
pub(crate) mod rows;
mod scatter;
mod send_recv;
#[cfg(test)]
mod tests;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    all_gather::DEF,
    all_reduce::SUM,
    all_reduce::PROD,
    all_reduce::MIN,
    all_reduce::MAX,
    all_to_all::DEF,
    barrier::DEF,
    broadcast::DEF,
    bucket::GATHER,
    bucket::SPREAD,
    bucket::START,
    bucket::WAIT,
    concat::CONCAT,
    concat::SPLIT,
    connect::GEN_NCCL_ID,
    connect::C_GEN_NCCL_ID,
    connect::COMM_INIT,
    connect::COMM_INIT_ALL,
    gradient_merge::DEF,
    identity::IDENTITY,
    identity::SYNC_CALC,
    identity::SYNC_COMM,
    identity::WAIT_COMM,
    identity::WAIT_COMPUTE,
    reduce::SUM,
    reduce::PROD,
    reduce::MIN,
    reduce::MAX,
    reduce_scatter::DEF,
    scatter::DEF,
    send_recv::SEND,
    send_recv::RECV,
];

/// The group of ranks.
const RING: AttrSpec = attr::int("ring_id", 0);
/// Whether the op is done when it returns; the plan asks, kernels always are.
const CALC: AttrSpec = attr::bool("use_calc_stream", false);
const MODEL_PARALLEL: AttrSpec = attr::bool("use_model_parallel", false);
const RANKS: AttrSpec = attr::int("nranks", 1);

pub(crate) fn ring(op: &OpView<'_>) -> Result<i32> {
    let ring = op.i64("ring_id")?;
    i32::try_from(ring).map_err(|_| Error::kernel(format!("`ring_id` is {ring}, no ring")))
}

/// A rank that an attribute names.
pub(crate) fn rank(op: &OpView<'_>, name: &str) -> Result<usize> {
    let rank = op.i64(name)?;
    usize::try_from(rank).map_err(|_| Error::kernel(format!("`{name}` is {rank}, no rank")))
}

/// The number of ranks that the program was made for.
fn ranks(op: &OpView<'_>) -> Result<i64> {
    match op.i64("nranks")? {
        ranks if ranks > 0 => Ok(ranks),
        ranks => Err(Error::kernel(format!("`nranks` is {ranks}, but must be at least 1"))),
    }
}

/// That the ring has as many ranks as the program was made for.
fn check_ranks(op: &OpView<'_>, ring: i32) -> Result<()> {
    let (wanted, size) = (ranks(op)?, op.link()?.peers().size(ring)?);
    if wanted == size as i64 {
        return Ok(());
    }
    Err(Error::kernel(format!("`nranks` is {wanted}, but ring {ring} has {size} ranks")))
}

/// The reduction of a name: `sum`, `prod`, `min`, `max`.
pub(crate) fn reduction(name: &str) -> Result<Reduction> {
    match name {
        "sum" => Ok(Reduction::Sum),
        "prod" => Ok(Reduction::Prod),
        "min" => Ok(Reduction::Min),
        "max" => Ok(Reduction::Max),
        other => Err(Error::kernel(format!("there is no reduction `{other}`"))),
    }
}

/// Gives slot `slot` the meta of a value that only its op understands.
fn raw(cx: &mut Infer<'_>, slot: &str) {
    let meta = Meta { kind: VarKind::Raw, ..Meta::new(DType::F32, []) };
    cx.set(slot, meta);
}

/// Rows of `X` times `times`, for as many as `divide` says.
fn scaled_rows(cx: &mut Infer<'_>, times: i64, divide: i64) -> Result<()> {
    let mut out = cx.input("X")?.clone();
    let Some(rows) = out.dims.first_mut() else {
        return Err(Error::kernel("`X` has no dimension to divide among ranks"));
    };
    if *rows >= 0 {
        if *rows % divide != 0 {
            return Err(Error::kernel(format!(
                "`X` has {rows} rows, which {divide} ranks cannot share evenly"
            )));
        }
        *rows = *rows / divide * times;
    }
    out.lod_level = 0;
    cx.set("Out", out);
    Ok(())
}
