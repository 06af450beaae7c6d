//! Replaces patterns of ops by single ops that do the same work in fewer passes over memory.
//!
//! A pass works on the needed ops of a step, forward and backward together: a pattern is taken only
//! when nothing outside it looks at what it no longer computes.

mod embedding;
mod fc;
mod pattern;

use bireme_ir::OpRole;

use self::pattern::{Edits, Uses};
use crate::plan::select::{SelectedOp, Selection, VarId};

/// Replaces every known pattern.
pub(crate) fn fuse(selection: &mut Selection) {
    // A fused op has no guard, so it must not take guarded ones in; those of an optimizer have no
    // pattern.
    let in_condition = |op: &SelectedOp| op.guarded && op.op.op_role().base() != OpRole::OPTIMIZE;
    if selection.ops.iter().any(in_condition) {
        return;
    }
    weights_first(selection);
    for pass in [embedding::fuse, fc::fuse] {
        let mut edits = Edits::default();
        pass(&Uses::new(selection), &mut edits);
        selection.ops = edits.apply(std::mem::take(&mut selection.ops));
    }
}

/// Lets a step begin with the casts of its weights to other types: between the ops of a pattern they would break it.
fn weights_first(selection: &mut Selection) {
    let uses = Uses::new(selection);
    let is_of_weight = |(at, op): (usize, &SelectedOp)| {
        let is_read = |var: VarId| uses.var(var).persists() && uses.is_first_written_from(var, at);
        op.op.kind == "cast"
            && op.input("X").is_some_and(is_read)
            && op.output("Out").is_some_and(|out| uses.writer(out) == Some(at))
    };
    let first: Vec<bool> = selection.ops.iter().enumerate().map(is_of_weight).collect();
    let ops = std::mem::take(&mut selection.ops);
    let (casts, others): (Vec<_>, Vec<_>) = ops.into_iter().zip(first).partition(|(_, is)| *is);
    selection.ops = casts.into_iter().chain(others).map(|(op, _)| op).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autodiff::append_backward;
    use crate::graph::Graph;
    use crate::amp::{Amp, MixedPrecision};
    use crate::layers::{self, Act};
    use crate::optimizer::{Optimizer, Sgd};
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
        let mut selection = Selection::new(&graph.main(), &[], fetches).unwrap();
        fuse(&mut selection);
        selection.ops.into_iter().map(|op| op.op.kind).collect()
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
    fn a_click_model_of_16_bits_becomes_as_few() {
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
        let amp = Amp::new(DType::BF16).unwrap();
        MixedPrecision::new(Sgd::new(0.1), amp).minimize(&loss).unwrap();
        let kinds = kinds(&graph, &[]);
        let expected = [
            "cast",
            "cast",
            "cast",
            "cast",
            "fused_embedding_concat",
            "fused_fc",
            "fused_fc",
            "cast",
            "mean",
            "fill_constant",
            "mean_grad",
            "cast",
            "fused_fc_grad",
            "fused_fc_grad",
            "fused_embedding_concat_grad",
            "sgd",
            "sgd",
            "sgd",
            "sgd",
            "sgd",
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn what_is_fetched_is_not_fused_away() {
        let graph = click_model();
        // The sum before the first layer's relu.
        let kinds = kinds(&graph, &["fc_0.tmp_1"]);
        assert!(kinds.contains(&"relu".to_owned()), "{kinds:?}");
    }
}
