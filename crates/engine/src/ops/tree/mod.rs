//! Trees of items, as tree-based retrieval (TDM) searches and samples them.

use crate::op::OpDef;

mod tdm_child;
mod tdm_sampler;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[tdm_child::DEF, tdm_sampler::DEF];

/// Row `id` of a table of `rows` rows; `what` says what the id names.
fn row_of(id: i64, rows: usize, what: &str) -> crate::Result<usize> {
    let row = usize::try_from(id).ok().filter(|row| *row < rows);
    row.ok_or_else(|| {
        crate::Error::kernel(format!("{what} {id} lies outside the tree, which has {rows} of them"))
    })
}
