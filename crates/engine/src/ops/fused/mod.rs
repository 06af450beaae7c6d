//! Ops that stand for several: the plan puts them in when it finds the pattern (`plan/fuse`).
//! They are never part of a program that a user sees, so they have no gradient rules.

use crate::op::OpDef;

mod embedding_concat;
mod fc;
mod logit;
mod pack_weights;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    fc::DEF,
    fc::GRAD,
    fc::WEIGHT_GRAD,
    logit::DEF,
    logit::GRAD,
    pack_weights::DEF,
    embedding_concat::DEF,
    embedding_concat::GRAD,
];

pub(crate) use pack_weights::is_for as packs_weight;
