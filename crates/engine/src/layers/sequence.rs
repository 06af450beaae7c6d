//! Ragged tensors: rows grouped into sequences.

use super::op;
use crate::Result;
use crate::graph::Variable;

/// How a sequence becomes one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The sum of its rows.
    Sum,
    /// Their mean.
    Average,
    /// Their sum over the square root of their number.
    Sqrt,
    /// The greatest of each column.
    Max,
    /// The first row.
    First,
    /// The last row.
    Last,
}

impl Pool {
    /// Paddle's `pooltype`.
    pub fn name(self) -> &'static str {
        match self {
            Pool::Sum => "SUM",
            Pool::Average => "AVERAGE",
            Pool::Sqrt => "SQRT",
            Pool::Max => "MAX",
            Pool::First => "FIRST",
            Pool::Last => "LAST",
        }
    }
}

/// One row for each sequence of `x`; zeros for an empty one.
///
/// # Errors
/// When `x` holds no floats.
#[track_caller]
pub fn sequence_pool(x: &Variable, pool: Pool) -> Result<Variable> {
    let [out, _] = op(x.graph(), "sequence_pool")
        .input("X", x)
        .attr("pooltype", pool.name())
        .attr("pad_value", 0.0f32)
        .attr("is_test", false)
        .outputs(["Out", "MaxIndex"])?;
    Ok(out)
}

/// Repeats the sequences of `x` as often as `y` has entries for each, at level `ref_level` of `y`
/// (-1: the last).
///
/// # Errors
/// When `y` is not ragged.
#[track_caller]
pub fn sequence_expand(x: &Variable, y: &Variable, ref_level: i32) -> Result<Variable> {
    op(x.graph(), "sequence_expand")
        .input("X", x)
        .input("Y", y)
        .attr("ref_level", ref_level)
        .output("Out")
}

/// Replaces the first two columns (show, click) by their logarithms, or drops them.
///
/// # Errors
/// When `x` has fewer than two columns.
#[track_caller]
pub fn cvm(x: &Variable, show_click: &Variable, use_cvm: bool) -> Result<Variable> {
    op(x.graph(), "cvm").input("X", x).input("CVM", show_click).attr("use_cvm", use_cvm).output("Y")
}
