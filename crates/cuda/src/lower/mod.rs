//! How an op becomes work for a card: one file a family, as in the engine's `ops/`.
//!
//! To give an op a place on the card: write a function in the file of its family that reads attributes and
//! shapes and adds work, and name it in that file's table. What it does not do (a type, an attribute, a shape) it
//! declines, and the host runs the op: [`host`].

mod amp;
mod axes;
mod broadcast;
mod constant;
mod conv;
mod create;
mod divider;
mod elementwise;
mod embedding_concat;
mod index;
mod lookup;
mod loss;
mod lowering;
mod math;
mod metric;
mod moves;
mod norm;
mod optimizer;
mod order;
mod pool;
mod products;
mod random;
mod records;
mod recurrent;
mod reduce;
mod segments;
mod selected_rows;
mod shape;
mod softmax;
mod sort;
mod spread;
mod unary;
mod walk;
mod widen;

use std::collections::HashMap;
use std::sync::OnceLock;

use bireme_engine::Error;
use bireme_engine::device::DeviceMeta;
use bireme_engine::op::OpView;

pub(crate) use divider::divider;
pub(crate) use lowering::{Lowered, Lowering, Var};
pub(crate) use segments::Rows;
pub(crate) use sort::{Unsorted, sort};

/// Adds the work of an op, or declines it.
pub(crate) type Lower = fn(&mut Lowering<'_>) -> Outcome;

/// Whether an op can run on the card.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// Why an op cannot.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The host runs it.
    Host,
    /// Nobody can.
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// Declines: the host runs the op.
pub(crate) fn host<T>() -> Outcome<T> {
    Err(Stop::Host)
}

/// The ops of each family.
const FAMILIES: &[&[(&str, Lower)]] = &[
    amp::OPS,
    conv::OPS,
    create::OPS,
    elementwise::OPS,
    embedding_concat::OPS,
    index::OPS,
    lookup::OPS,
    loss::OPS,
    math::OPS,
    metric::OPS,
    norm::OPS,
    optimizer::OPS,
    order::OPS,
    pool::OPS,
    products::OPS,
    random::OPS,
    records::OPS,
    recurrent::OPS,
    reduce::OPS,
    selected_rows::OPS,
    shape::OPS,
    softmax::OPS,
    spread::OPS,
    unary::OPS,
];

/// Op types that the card runs.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().copied().flatten().map(|(name, _)| *name)
}

/// How the card runs op type `kind`, if it does.
pub(crate) fn find(kind: &str) -> Option<Lower> {
    static BY_NAME: OnceLock<HashMap<&'static str, Lower>> = OnceLock::new();
    let table = BY_NAME.get_or_init(|| FAMILIES.iter().copied().flatten().copied().collect());
    table.get(kind).copied()
}

/// The work of an op on variables of these shapes; says in `outputs` how many rows it selects. `None` when the host
/// must run it.
///
/// # Errors
/// When the op refuses its attributes or inputs.
pub(crate) fn lowered(
    op: &OpView<'_>,
    inputs: &[DeviceMeta],
    outputs: &mut [DeviceMeta],
) -> Result<Option<Lowered>, Error> {
    let Some(lower) = find(op.def.name) else { return Ok(None) };
    let asked = outputs.to_vec();
    let mut lowering = Lowering::new(op, inputs, outputs);
    let lowered = match lower(&mut lowering) {
        Ok(()) => Ok(lowering.finish()),
        Err(Stop::Host) => {
            // What it said of its outputs before it declined counts for nothing.
            outputs.clone_from_slice(&asked);
            widen::lower(lower, op, inputs, outputs)
        }
        Err(error) => Err(error),
    };
    match lowered {
        Ok(lowered) => Ok(Some(lowered)),
        Err(Stop::Host) => {
            outputs.clone_from_slice(&asked);
            Ok(None)
        }
        Err(Stop::Error(error)) => Err(error),
    }
}

/// Slots of an op type in which a matrix may have gaps between its rows ([`Var::pitch`]).
pub(crate) fn takes_gaps(kind: &str) -> &'static [&'static str] {
    match kind {
        "fused_embedding_concat" => &["Out"],
        "fused_embedding_concat_grad" => &["Out@GRAD"],
        "fused_fc" => &["X"],
        "fused_fc_grad" => &["X", "X@GRAD"],
        _ => &[],
    }
}

/// Inputs of an op type whose rows are updated together ([`bireme_engine::device::Device::lines`]).
pub(crate) fn lines(kind: &str) -> &'static [&'static str] {
    match kind {
        "adagrad" => &["Param", "Moment"],
        "adam" | "adamw" => &["Param", "Moment1", "Moment2"],
        "ftrl" => &["Param", "SquaredAccumulator", "LinearAccumulator"],
        _ => &[],
    }
}

/// Slots of an op type in which a matrix may lie in lines with others; [`Var::pitch`] is then that of the lines.
pub(crate) fn takes_lines(kind: &str) -> &'static [&'static str] {
    match kind {
        "fused_embedding_concat"
        | "fused_embedding_concat_grad"
        | "lookup_table"
        | "lookup_table_grad"
        | "lookup_table_v2"
        | "lookup_table_v2_grad"
        | "spread_rows" => &["W"],
        "adagrad" => &["Param", "ParamOut", "Moment", "MomentOut"],
        "adam" | "adamw" => {
            &["Param", "ParamOut", "Moment1", "Moment1Out", "Moment2", "Moment2Out"]
        }
        "ftrl" => &[
            "Param",
            "ParamOut",
            "SquaredAccumulator",
            "SquaredAccumOut",
            "LinearAccumulator",
            "LinearAccumOut",
        ],
        "sgd" | "put_rows" => &["Param", "ParamOut"],
        _ => &[],
    }
}

/// Slots of an op type in which selected rows may be views ([`Selected::view`]).
pub(crate) fn takes_views(kind: &str) -> &'static [&'static str] {
    match kind {
        "fused_embedding_concat_grad" => &["W@GRAD"],
        "merge_selected_rows" | "clip_by_norm" | "squared_l2_norm" => &["X"],
        "update_records" => &["Grad"],
        _ if optimizer::OPS.iter().any(|(name, _)| *name == kind) => &["Grad"],
        _ => &[],
    }
}
