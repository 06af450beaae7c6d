//! Replaces patterns of ops by single ops that do the same work in fewer passes over memory.
//!
//! A pass works on the needed ops of a step, forward and backward together: a pattern is taken only
//! when nothing outside it looks at what it no longer computes.

mod embedding;
mod fc;
mod logit;
mod loss;
mod pattern;
mod slope;

use bireme_ir::OpRole;

use self::pattern::{Edits, Uses};
use crate::device::Device;
use crate::plan::select::{SelectedOp, Selection};

/// Finds one kind of pattern.
type Pass<'a> = &'a dyn Fn(&Uses<'_>, &mut Edits);

/// Replaces every known pattern, of a step that runs on `device` if there is one.
pub(crate) fn fuse(selection: &mut Selection, device: Option<&dyn Device>) {
    // A fused op has no guard, so it must not take guarded ones in; those of an optimizer have no
    // pattern.
    let in_condition = |op: &SelectedOp| op.guarded && op.op.op_role().base() != OpRole::OPTIMIZE;
    if selection.ops.iter().any(in_condition) {
        return;
    }
    let rows = device.map_or(0, Device::rows_through_relu);
    let slopes = |uses: &Uses<'_>, edits: &mut Edits| slope::fuse(uses, edits, rows);
    let logits = |uses: &Uses<'_>, edits: &mut Edits| logit::fuse(uses, edits, rows);
    let losses = |uses: &Uses<'_>, edits: &mut Edits| {
        if device.is_some() {
            loss::fuse(uses, edits);
        }
    };
    let passes: [Pass<'_>; 5] = [&embedding::fuse, &fc::fuse, &slopes, &logits, &losses];
    for pass in passes {
        let mut edits = Edits::default();
        pass(&Uses::new(selection), &mut edits);
        selection.ops = edits.apply(std::mem::take(&mut selection.ops));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amp::{Amp, MixedPrecision};
    use crate::autodiff::append_backward;
    use crate::graph::Graph;
    use crate::layers::{self, Act};
    use crate::optimizer::{Optimizer, Sgd};
    use bireme_ir::DType;

    /// Two lookups, a dense part and two layers, with their gradients.
    fn click_model() -> Graph {
        let graph = click_model_before_gradients();
        append_backward(&graph.variable("mean_0.tmp_0").unwrap(), None, &[]).unwrap();
        graph
    }

    fn click_model_before_gradients() -> Graph {
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
        layers::mean(&layers::linear(&hidden, 1).unwrap()).unwrap();
        graph
    }

    fn kinds(graph: &Graph, fetches: &[&str]) -> Vec<String> {
        let mut selection = Selection::new(&graph.main(), &[], fetches).unwrap();
        fuse(&mut selection, None);
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
    fn casts_of_mixed_precision_are_taken_in() {
        let graph = click_model_before_gradients();
        let loss = graph.variable("mean_0.tmp_0").unwrap();
        let amp = Amp::new(DType::BF16).unwrap();
        MixedPrecision::new(Sgd::new(0.1), amp).minimize(&loss).unwrap();
        // Casts of the two weights and biases stay.
        let expected = [
            "fused_embedding_concat",
            "cast",
            "cast",
            "fused_fc",
            "cast",
            "cast",
            "fused_fc",
            "mean",
            "fill_constant",
            "mean_grad",
            "fused_fc_grad",
            "fused_fc_grad",
            "fused_embedding_concat_grad",
            "sgd",
            "sgd",
            "sgd",
            "sgd",
            "sgd",
        ];
        assert_eq!(kinds(&graph, &[]), expected);
    }

    #[test]
    fn a_single_column_takes_its_gradient_through_the_relu_below() {
        let mut selection = Selection::new(&click_model().main(), &[], &[]).unwrap();
        fuse(&mut selection, None);
        let grads = selection.ops.iter().filter(|op| op.op.kind == "fused_fc_grad");
        let acts = grads.map(|op| {
            let act = |name: &str| op.view().string(name).unwrap();
            (act("act"), act("x_act"), op.inputs_of("Out").len())
        });
        let acts: Vec<_> = acts.collect();
        assert_eq!(acts, [(String::new(), "relu".into(), 0), (String::new(), String::new(), 0)]);
    }

    #[test]
    fn wider_layers_do_so_up_to_as_many_rows_as_a_card_says() {
        let graph = Graph::new();
        let x = layers::data(&graph, "x", [8], DType::F32);
        let narrow = layers::fc(&layers::fc(&x, 16, Act::Relu).unwrap(), 12, Act::Relu).unwrap();
        let top = layers::fc(&layers::fc(&narrow, 24, Act::Relu).unwrap(), 8, Act::Relu).unwrap();
        let loss = layers::mean(&layers::linear(&top, 1).unwrap()).unwrap();
        let amp = Amp::new(DType::BF16).unwrap();
        MixedPrecision::new(Sgd::new(0.1), amp).minimize(&loss).unwrap();
        let mut selection = Selection::new(&graph.main(), &[], &[]).unwrap();
        fuse(&mut selection, None);
        let mut edits = Edits::default();
        slope::fuse(&Uses::new(&selection), &mut edits, 100);
        selection.ops = edits.apply(std::mem::take(&mut selection.ops));
        let grads = selection.ops.iter().filter(|op| op.op.kind == "fused_fc_grad").map(|op| {
            let (act, rows) =
                (op.view().string("act").unwrap(), |name| op.view().i64(name).unwrap());
            (act, op.view().string("x_act").unwrap(), rows("x_act_rows"), rows("taken_rows"))
        });
        // From the logit down: a layer of 12 columns does not fill the rows that tensor cores take.
        let expected = [("", "relu", 0, 0), ("", "relu", 100, 0), ("relu", "", 0, 100)];
        let expected = expected.into_iter().chain([("relu", "", 0, 0), ("relu", "", 0, 0)]);
        let owned = expected
            .map(|(act, x_act, limit, taken)| (act.to_owned(), x_act.to_owned(), limit, taken));
        assert_eq!(grads.collect::<Vec<_>>(), owned.collect::<Vec<_>>());
        let mut edits = Edits::default();
        logit::fuse(&Uses::new(&selection), &mut edits, 100);
        let kinds: Vec<_> = edits.apply(selection.ops).into_iter().map(|op| op.op.kind).collect();
        let count = |kind: &str| kinds.iter().filter(|own| *own == kind).count();
        let fused = ["fused_logit", "fused_logit_grad", "fused_fc", "fused_fc_grad"].map(count);
        assert_eq!(fused, [1, 1, 3, 3], "{kinds:?}");
    }

    #[test]
    fn a_loss_whose_mean_is_minimized_takes_its_gradient_in() {
        let graph = Graph::new();
        let x = layers::data(&graph, "x", [8], DType::F32);
        let label = layers::data(&graph, "y", [1], DType::I64);
        let logits = layers::linear(&x, 3).unwrap();
        let hard = layers::Label::Hard;
        let (losses, _) = layers::softmax_with_cross_entropy(&logits, &label, hard).unwrap();
        let loss = layers::mean(&losses).unwrap();
        append_backward(&loss, None, &[]).unwrap();
        let kinds = |fetches: &[&str]| {
            let mut selection = Selection::new(&graph.main(), &[], fetches).unwrap();
            fuse(&mut selection, None);
            let mut edits = Edits::default();
            loss::fuse(&Uses::new(&selection), &mut edits);
            let ops = edits.apply(selection.ops).into_iter();
            ops.map(|op| op.op.kind).collect::<Vec<_>>()
        };
        let expected = ["fused_fc", "fused_softmax_loss", "mean", "fused_fc_grad"];
        assert_eq!(kinds(&[loss.name()]), expected);
        // Who wants to see the gradient of each loss gets it.
        let grad = bireme_ir::grad_name(losses.name());
        assert!(kinds(&[&grad]).contains(&"mean_grad".to_owned()));
    }

    #[test]
    fn what_is_fetched_is_not_fused_away() {
        let graph = click_model();
        // The sum before the first layer's relu.
        let kinds = kinds(&graph, &["fc_0.tmp_1"]);
        assert!(kinds.contains(&"relu".to_owned()), "{kinds:?}");
    }
}
