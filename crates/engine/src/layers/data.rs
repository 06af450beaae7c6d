//! Inputs of a program: variables that a feed or a reader fills.

use bireme_ir::{DType, Var};

use crate::graph::{Graph, Variable};

/// An input whose first dimension is the batch: `data(&graph, "x", [13], DType::F32)` is a batch of
/// rows of 13. A shape that already has an unknown dimension is taken as it is.
pub fn data(graph: &Graph, name: &str, shape: impl Into<Vec<i64>>, dtype: DType) -> Variable {
    let mut shape = shape.into();
    if shape.iter().all(|dim| *dim >= 0) {
        shape.insert(0, -1);
    }
    input(graph, name, shape, dtype)
}

/// An input of exactly this shape; -1 where only data will tell.
pub fn input(graph: &Graph, name: &str, shape: impl Into<Vec<i64>>, dtype: DType) -> Variable {
    sequence_input(graph, name, shape, dtype, 0)
}

/// An input whose rows are grouped into sequences, `lod_level` levels deep.
pub fn sequence_input(
    graph: &Graph,
    name: &str,
    shape: impl Into<Vec<i64>>,
    dtype: DType,
    lod_level: u32,
) -> Variable {
    let mut var = Var::tensor(name, dtype, shape);
    var.lod_level = lod_level;
    var.stop_gradient = true;
    var.need_check_feed = true;
    graph.declare(var)
}
