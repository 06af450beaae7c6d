//! Replaces patterns of ops by single ops that do the same work in fewer passes over memory.
//!
//! A pass works on the needed ops of a step, forward and backward together: a pattern is taken only
//! when nothing outside it looks at what it no longer computes.

mod embedding;
mod fc;
mod pattern;

use std::collections::HashSet;

use bireme_ir::{Op, OpRole, Program};

use crate::plan::inline::guard;

/// The ops with every known pattern replaced.
pub(crate) fn fuse(mut ops: Vec<Op>, program: &Program, fetches: &[&str]) -> Vec<Op> {
    // A fused op has no guard, so it must not take guarded ones in; those of an optimizer have no
    // pattern.
    let in_condition = |op: &Op| guard(op).is_some() && op.op_role().base() != OpRole::OPTIMIZE;
    if ops.iter().any(in_condition) {
        return ops;
    }
    let kept: HashSet<&str> = fetches.iter().copied().collect();
    ops = embedding::fuse(ops, program, &kept);
    fc::fuse(ops, program, &kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autodiff::append_backward;
    use crate::graph::Graph;
    use crate::layers::{self, Act};
    use bireme_ir::DType;

    /// Two lookups, a dense part and two layers, with their gradients.
    fn click_model() -> Graph {
        let graph = Graph::new();
        let table = layers::Embedding::new([10, 3]).sparse(true).param_attr("table");
        let mut parts = Vec::new();
        for slot in ["a", "b"] {
            let ids = layers::data(&graph, slot, [1], DType::I64);
            parts.push(layers::reshape(&table.apply(&ids).unwrap(), &[-1, 3]).unwrap());
        }
        parts.push(layers::data(&graph, "dense", [2], DType::F32));
        let joined = layers::concat(&parts.iter().collect::<Vec<_>>(), 1).unwrap();
        let hidden = layers::fc(&joined, 4, Act::Relu).unwrap();
        let loss = layers::mean(&layers::linear(&hidden, 1).unwrap()).unwrap();
        append_backward(&loss, None, &[]).unwrap();
        graph
    }

    fn kinds(graph: &Graph, fetches: &[&str]) -> Vec<String> {
        let main = graph.main();
        let fused = fuse(main.global().ops.clone(), &main, fetches);
        fused.into_iter().map(|op| op.kind).collect()
    }

    #[test]
    fn a_click_model_becomes_a_few_ops() {
        let graph = click_model();
        let expected = [
            "fused_embedding_concat",
            "fused_fc",
            "fused_fc",
            "mean",
            "fill_constant",
            "mean_grad",
            "fused_fc_grad",
            "fused_fc_grad",
            "fused_embedding_concat_grad",
        ];
        assert_eq!(kinds(&graph, &[]), expected);
    }

    #[test]
    fn what_is_fetched_is_not_fused_away() {
        let graph = click_model();
        // The sum before the first layer's relu.
        let kinds = kinds(&graph, &["fc_0.tmp_1"]);
        assert!(kinds.contains(&"relu".to_owned()), "{kinds:?}");
    }
}
