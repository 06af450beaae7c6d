//! Every op, by family: one folder a family, one file an op.
//!
//! To add an op: write its file, and name its definitions in the list of its family's `mod.rs`.

use std::collections::HashMap;
use std::sync::OnceLock;

use bireme_ir::{did_you_mean, nearest};

pub use self::conv::{Axis as ConvAxis, Sizes as ConvSizes};
pub use self::embedding::{PassIndex, global_row, owner};
pub(crate) use self::embedding::{too_many_rows, unknown_key};
pub use self::matmul::einsum;
pub use self::records::accessor_of;

use crate::op::{GradRule, OpDef};
use crate::{Error, Result};

mod activation;
mod amp;
mod array;
pub(crate) mod collective;
mod compare;
mod control;
mod conv;
mod create;
mod elementwise;
mod embedding;
pub(crate) mod fused;
mod index;
mod loss;
mod math;
mod matmul;
mod metric;
mod norm;
mod pool;
mod prelude;
mod random;
mod records;
mod recurrent;
mod reduce;
mod remote;
mod sequence;
mod shape;
mod sort;
#[cfg(test)]
mod testing;
mod tree;

pub(crate) use remote::table_of as remote_table;

/// The families.
const FAMILIES: &[&[OpDef]] = &[
    activation::DEFS,
    amp::DEFS,
    array::DEFS,
    collective::DEFS,
    compare::DEFS,
    control::DEFS,
    conv::DEFS,
    create::DEFS,
    elementwise::DEFS,
    embedding::DEFS,
    fused::DEFS,
    index::DEFS,
    loss::DEFS,
    math::DEFS,
    matmul::DEFS,
    metric::DEFS,
    norm::DEFS,
    crate::optimizer::DEFS,
    pool::DEFS,
    random::DEFS,
    records::DEFS,
    recurrent::DEFS,
    reduce::DEFS,
    remote::DEFS,
    sequence::DEFS,
    shape::DEFS,
    sort::DEFS,
    tree::DEFS,
];

/// Every definition, family by family; one that follows from another stands after it.
pub fn all() -> impl Iterator<Item = &'static OpDef> {
    // Built once from constants: a table, not state.
    static ALL: OnceLock<Vec<OpDef>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let mut all = Vec::new();
        for def in FAMILIES.iter().copied().flatten() {
            all.push(*def);
            if let GradRule::Follows(gradient) = def.grad {
                all.push(gradient.define(def));
            }
        }
        all
    });
    all.iter()
}

/// The definition of op type `kind`.
///
/// # Errors
/// When there is none.
pub fn find(kind: &str) -> Result<&'static OpDef> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static OpDef>> = OnceLock::new();
    let table = BY_NAME.get_or_init(|| all().map(|def| (def.name, def)).collect());
    table.get(kind).copied().ok_or_else(|| {
        let alike = did_you_mean(&nearest(kind, table.keys().copied()));
        Error::kernel(format!("there is no op `{kind}`{alike}"))
    })
}

/// Whether op type `kind` is one of those that plans put in, which no program may name.
pub fn is_planned(kind: &str) -> bool {
    fused::DEFS.iter().any(|def| def.name == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_gradients_exist() {
        let mut seen = std::collections::HashSet::new();
        for def in all() {
            assert!(seen.insert(def.name), "op `{}` is defined twice", def.name);
            if matches!(def.grad, GradRule::Op(_)) {
                assert!(find(&format!("{}_grad", def.name)).is_ok(), "`{}` has no grad", def.name);
            }
        }
    }
}
