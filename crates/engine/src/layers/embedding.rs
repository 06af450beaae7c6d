//! Embedding tables: a row of a weight for each id.

use bireme_ir::DType;

use super::{ParamAttr, create_parameter, op};
use crate::graph::Variable;
use crate::initializer::Initializer;
use crate::{Error, Result};

/// An embedding table; applied to several inputs, it is shared when it has a name.
#[derive(Clone, Debug)]
pub struct Embedding {
    size: [i64; 2],
    sparse: bool,
    distributed: bool,
    padding_idx: Option<i64>,
    weight: ParamAttr,
    dtype: DType,
    legacy: bool,
}

/// The rows of a table of `[rows, width]` that `ids` name; the gradient is dense.
///
/// # Errors
/// When `ids` are no integers.
#[track_caller]
pub fn embedding(ids: &Variable, size: [i64; 2]) -> Result<Variable> {
    Embedding::new(size).apply(ids)
}

impl Embedding {
    /// A table of `[rows, width]` with Paddle's defaults.
    pub fn new(size: [i64; 2]) -> Embedding {
        Embedding {
            size,
            sparse: false,
            distributed: false,
            padding_idx: None,
            weight: ParamAttr::default(),
            dtype: DType::F32,
            legacy: false,
        }
    }

    /// Whether the gradient names only the rows that were looked up.
    pub fn sparse(mut self, sparse: bool) -> Embedding {
        self.sparse = sparse;
        self
    }

    /// Whether the table lives on parameter servers when there are any.
    pub fn distributed(mut self, distributed: bool) -> Embedding {
        self.distributed = distributed;
        self
    }

    /// The id that gives zeros and gets no gradient; counted from the end when negative.
    pub fn padding_idx(mut self, id: i64) -> Embedding {
        self.padding_idx = Some(id);
        self
    }

    /// Says more about the table.
    pub fn param_attr(mut self, attr: impl Into<ParamAttr>) -> Embedding {
        self.weight = attr.into();
        self
    }

    /// Sets the element type; float32 by default.
    pub fn dtype(mut self, dtype: DType) -> Embedding {
        self.dtype = dtype;
        self
    }

    /// Builds Paddle 1.x's `lookup_table`: ids of shape `[…, 1]`, whose 1 gives way to the row.
    pub fn legacy(mut self) -> Embedding {
        self.legacy = true;
        self
    }

    /// Appends the lookup.
    ///
    /// # Errors
    /// When `ids` are no integers, a shared table has another shape, or the padding id is no row.
    #[track_caller]
    pub fn apply(&self, ids: &Variable) -> Result<Variable> {
        let graph = ids.graph();
        let layer = graph.unique_name("embedding");
        let default = Initializer::default_weight();
        let prefix = format!("{layer}.w");
        let table =
            create_parameter(graph, &self.weight, &prefix, self.size, self.dtype, &default)?;
        let rows = self.size[0];
        let padding = match self.padding_idx {
            None => -1,
            Some(id) if !(-rows..rows).contains(&id) => {
                return Err(Error::kernel(format!(
                    "`padding_idx` {id} lies outside a table of {rows} rows"
                )));
            }
            Some(id) if id < 0 => id + rows,
            Some(id) => id,
        };
        op(graph, if self.legacy { "lookup_table" } else { "lookup_table_v2" })
            .input("Ids", ids)
            .input("W", &table)
            .attr("is_sparse", self.sparse)
            .attr("is_distributed", self.distributed)
            .attr("remote_prefetch", false)
            .attr("padding_idx", padding)
            .of_layer(&layer)
            .output("Out")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::layers::data;

    #[test]
    fn padding_must_be_a_row() {
        let graph = Graph::new();
        let ids = data(&graph, "ids", [1], DType::I64);
        for (padding, fits) in [(9, true), (-10, true), (10, false), (-11, false)] {
            let table = Embedding::new([10, 4]).padding_idx(padding);
            assert_eq!(table.apply(&ids).is_ok(), fits, "{padding}");
        }
    }
}
