//! Ops that talk to parameter servers. Their kernels read attributes once and then only hand values
//! to the executor's [`Remote`](crate::remote::Remote).
//!
//! Ops without results (`send`, the barriers) may write a *dummy*: an empty variable whose only use
//! is that another op reads it, and so runs later.

use crate::ops::prelude::*;
use crate::remote::Piece;

mod barrier;
mod fake_init;
mod geo_exchange;
mod heter;
mod lookup;
mod pass;
mod push_sparse;
mod recv;
mod send;
mod serve;
mod split;
mod table;
#[cfg(test)]
mod tests;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    barrier::SEND_BARRIER,
    barrier::FETCH_BARRIER,
    fake_init::DEF,
    geo_exchange::DEF,
    heter::LISTEN,
    heter::SEND_AND_RECV,
    lookup::DEF,
    pass::TABLE,
    pass::DENSE,
    push_sparse::DEF,
    recv::DEF,
    send::DEF,
    serve::LISTEN_AND_SERV,
    serve::LOOKUP_SPARSE_TABLE,
    split::BY_REF,
    split::SELECTED_ROWS,
];

/// Who runs the program and how; the same on every op that talks to servers, so that a program says
/// by itself which job it belongs to.
const TRAINER_ID: AttrSpec = attr::int("trainer_id", 0);
const TRAINERS: AttrSpec = attr::int("trainers", 1);
/// Heter workers among the trainers, which are the last ones.
const HETER: AttrSpec = attr::int("heter_workers", 0);
const MODE: AttrSpec = attr::int("distributed_mode", 0);
const ENDPOINTS: AttrSpec = attr::strings("endpoints", &[]);
const EPMAP: AttrSpec = attr::strings("epmap", &[]);

/// Gives the dummies of slot `slot` their shape.
fn dummies(cx: &mut Infer<'_>, slot: &str) {
    cx.set(slot, Meta::new(DType::F32, [0]));
}

/// One piece for each of `count` variables, from two attributes.
fn pieces(op: &OpView<'_>, names: &str, count: usize) -> Result<Vec<Piece>> {
    let (named, endpoints) = (op.strings(names)?, op.strings("epmap")?);
    if named.len() != count || endpoints.len() != count {
        return Err(crate::Error::kernel(format!(
            "has {count} variables, but {} names in `{names}` and {} servers in `epmap`",
            named.len(),
            endpoints.len()
        )));
    }
    let pair = |(name, endpoint)| Piece { name, endpoint };
    Ok(named.into_iter().zip(endpoints).map(pair).collect())
}
