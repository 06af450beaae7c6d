//! Prepares a step for many threads: shares of few rows, which threads take one after the other as they come free.
//!
//! A share of few rows must not pack weights for itself: they are packed once, before the batch is split. Gradients of
//! weights are ops of their own: of large weights, of which no share should have a sum, they are products of the whole
//! batch, which all threads compute by areas.

use std::collections::HashSet;

use crate::op::{OpView, ROUND_FACTORS};
use crate::ops::fused::packs_weight;
use crate::plan::select::{SelectedOp, Selection, VarId};
use bireme_ir::{DType, Op};

/// Threads from which on that pays; with fewer, none waits long for the others.
pub(super) const LEAST: usize = 3;

/// Takes layers apart.
pub(super) fn for_many(selection: &mut Selection) {
    let mut packed = Packed::default();
    let mut written = HashSet::new();
    let (mut ops, mut first) = (Vec::with_capacity(selection.ops.len()), None);
    for op in std::mem::take(&mut selection.ops) {
        written.extend(op.outputs.iter().copied());
        let is_layer = matches!(op.op.kind.as_str(), "fused_fc" | "fused_fc_grad");
        if !is_layer || op.guarded || !is_single_precision(selection, &op) {
            ops.push(op);
            continue;
        }
        first.get_or_insert(ops.len());
        match op.op.kind.as_str() {
            "fused_fc" => {
                let weight = packed.of(selection, &op, false, &written);
                ops.push(changed(selection, &op, &[("Packed", &weight[..])], &[]));
            }
            _ => backward(selection, &mut packed, &written, op, &mut ops),
        }
    }
    if let Some(first) = first.filter(|_| !packed.made.is_empty()) {
        let pack = packed.op(selection, &ops[first]);
        ops.insert(first, pack);
    }
    selection.ops = ops;
}

/// Whether nothing of it has 16 bits: such values are read as copies, and what is packed is not copied.
fn is_single_precision(selection: &Selection, op: &SelectedOp) -> bool {
    let dtype = |var: &VarId| selection.vars[*var].declared.as_ref().map(|var| var.dtype);
    let vars = op.inputs.iter().chain(&op.outputs);
    vars.filter_map(dtype).all(|dtype| dtype == DType::F32)
}

fn backward(
    selection: &mut Selection,
    packed: &mut Packed,
    written: &HashSet<VarId>,
    op: SelectedOp,
    ops: &mut Vec<SelectedOp>,
) {
    let weight = match op.output("X@GRAD") {
        Some(_) => packed.of(selection, &op, true, written),
        None => Vec::new(),
    };
    let (Some(dw), Some(dout)) = (op.output("W@GRAD"), op.input("Out@GRAD")) else {
        return ops.push(changed(selection, &op, &[("Packed", &weight[..])], &[]));
    };
    let passes = op.view().string("act").is_ok_and(|act| act.is_empty());
    let dz = if passes { dout } else { selection.another(dout) };
    let made: &[VarId] = if passes { &[] } else { &[dz] };
    let outputs = [("W@GRAD", &[][..]), ("Z@GRAD", made)];
    ops.push(changed(selection, &op, &[("Packed", &weight[..])], &outputs));
    let grad = like(&op, "fused_fc_weight_grad", &["x_num_col_dims", "param_grad_dtype"]);
    let read = [("X", op.inputs_of("X")), ("W", op.inputs_of("W")), ("Z@GRAD", &[dz][..])];
    ops.push(selection.op(grad, &op, &read, &[("W@GRAD", &[dw][..])]));
}

/// The weights that are packed, all by one op.
#[derive(Default)]
struct Packed {
    /// The weight, whether it is transposed, and what it is packed into.
    made: Vec<(VarId, bool, VarId)>,
    /// Whether products round their factors: the same for all.
    rounds: bool,
}

impl Packed {
    /// What the weight of a layer is packed into, if that is worth it, and may be done before all layers.
    fn of(
        &mut self,
        selection: &mut Selection,
        layer: &SelectedOp,
        transposed: bool,
        written: &HashSet<VarId>,
    ) -> Vec<VarId> {
        let rounds = layer.view().rounds_factors();
        let weight = layer.input("W").filter(|w| !written.contains(w));
        let Some(w) = weight.filter(|_| self.made.is_empty() || rounds == self.rounds) else {
            return Vec::new();
        };
        let known = self.made.iter().find(|(of, turned, _)| (*of, *turned) == (w, transposed));
        if let Some((_, _, packed)) = known {
            return vec![*packed];
        }
        let dims = selection.vars[w].shape().iter().filter_map(|dim| usize::try_from(*dim).ok());
        let Ok(mut dims) = <[usize; 2]>::try_from(dims.collect::<Vec<_>>()) else {
            return Vec::new();
        };
        if transposed {
            dims.reverse();
        }
        if !packs_weight(dims, rounds) {
            return Vec::new();
        }
        let packed = selection.another(w);
        self.rounds = rounds;
        self.made.push((w, transposed, packed));
        vec![packed]
    }

    /// The op that packs them; `layer` is one of those that read them.
    fn op(&self, selection: &Selection, layer: &SelectedOp) -> SelectedOp {
        let some = |turned: bool| self.made.iter().filter(move |made| made.1 == turned);
        let weights = |turned: bool| some(turned).map(|made| made.0).collect::<Vec<_>>();
        let outs: Vec<VarId> = some(false).chain(some(true)).map(|made| made.2).collect();
        let mut op = Op::new("fused_pack_weights").role(layer.op.op_role());
        if self.rounds {
            op = op.attr(ROUND_FACTORS, true);
        }
        let (plain, turned) = (weights(false), weights(true));
        let read = [("W", &plain[..]), ("Transposed", &turned[..])];
        let read: Vec<_> = read.into_iter().filter(|(_, vars)| !vars.is_empty()).collect();
        selection.op(op, layer, &read, &[("Out", &outs[..])])
    }
}

/// An op of another kind with the role of `op`, and those of its attributes.
fn like(op: &SelectedOp, kind: &str, attrs: &[&str]) -> Op {
    let mut made = Op::new(kind).role(op.op.op_role());
    for name in attrs.iter().chain([&ROUND_FACTORS]) {
        made.attrs.extend(op.op.attrs.get(*name).map(|value| ((*name).to_owned(), value.clone())));
    }
    made
}

/// The same op with other values in some of its slots.
fn changed(
    selection: &Selection,
    op: &SelectedOp,
    read: &[(&'static str, &[VarId])],
    written: &[(&'static str, &[VarId])],
) -> SelectedOp {
    let OpView { def, .. } = op.view();
    let slots = |table: &'static [crate::op::Slot]| table.iter().map(|slot| slot.name);
    let new = |slots: &[(&'static str, &[VarId])], name: &str| {
        slots.iter().find(|(slot, _)| *slot == name).map(|(_, vars)| vars.to_vec())
    };
    let inputs: Vec<(&str, Vec<VarId>)> = slots(def.signature.inputs)
        .map(|name| (name, new(read, name).unwrap_or_else(|| op.inputs_of(name).to_vec())))
        .filter(|(_, vars)| !vars.is_empty())
        .collect();
    let outputs: Vec<(&str, Vec<VarId>)> = slots(def.signature.outputs)
        .map(|name| (name, new(written, name).unwrap_or_else(|| op.outputs_of(name).to_vec())))
        .filter(|(_, vars)| !vars.is_empty())
        .collect();
    let inputs: Vec<(&str, &[VarId])> =
        inputs.iter().map(|(name, vars)| (*name, &vars[..])).collect();
    let outputs: Vec<(&str, &[VarId])> =
        outputs.iter().map(|(name, vars)| (*name, &vars[..])).collect();
    selection.op(op.op.clone(), op, &inputs, &outputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::layers::{self, Act};
    use crate::op::{Meta, SplitView, Spread};
    use crate::optimizer::{Optimizer, Sgd};
    use crate::tensor::Tensor;
    use crate::{Executor, Place, gemm};
    use bireme_ir::VarKind;

    const COLUMNS: usize = 96;

    /// Two layers that are worth packing and one that is not, trained.
    fn model() -> (Graph, String) {
        let graph = Graph::new();
        graph.set_random_seed(5);
        let x = layers::data(&graph, "x", [COLUMNS as i64], DType::F32);
        let y = layers::data(&graph, "y", [1], DType::F32);
        let hidden = layers::fc(&layers::fc(&x, 80, Act::Relu).unwrap(), 72, Act::Tanh).unwrap();
        let out = layers::linear(&hidden, 1).unwrap();
        let loss = layers::mean(&layers::square_error_cost(&out, &y).unwrap()).unwrap();
        Sgd::new(0.05).minimize(&loss).unwrap();
        let name = loss.name().to_owned();
        (graph, name)
    }

    #[test]
    fn layers_are_packed_before_and_their_weights_get_gradients_after_the_shares() {
        if gemm::packed_len([COLUMNS, 80], false).is_none() {
            return;
        }
        let (graph, loss) = model();
        let mut selection = Selection::new(&graph.main(), &["x", "y"], &[&loss]).unwrap();
        crate::plan::versions::separate(&mut selection);
        crate::plan::fuse::fuse(&mut selection, None);
        for_many(&mut selection);
        let count = |kind: &str| selection.ops.iter().filter(|op| op.op.kind == kind).count();
        assert_eq!(count("fused_pack_weights"), 1);
        let pack = selection.ops.iter().find(|op| op.op.kind == "fused_pack_weights").unwrap();
        assert_eq!(pack.outputs.len(), 3, "two forward; the first layer's input has no gradient");
        assert_eq!((count("fused_fc_weight_grad"), count("fused_fc_grad")), (3, 3));
        let grads = selection.ops.iter().filter(|op| op.op.kind == "fused_fc_grad");
        assert!(grads.clone().all(|op| op.output("W@GRAD").is_none()));
        assert_eq!(grads.filter(|op| op.output("Z@GRAD").is_some()).count(), 2);
    }

    #[test]
    fn gradients_of_weights_are_summed_where_rows_are_many() {
        let (graph, loss) = model();
        let mut selection = Selection::new(&graph.main(), &["x", "y"], &[&loss]).unwrap();
        crate::plan::versions::separate(&mut selection);
        crate::plan::fuse::fuse(&mut selection, None);
        for_many(&mut selection);
        let grad = selection.ops.iter().find(|op| op.op.kind == "fused_fc_weight_grad").unwrap();
        let spread = |rows: i64, shares: usize| {
            let meta = |dims: [i64; 2]| {
                let (kind, dims) = (VarKind::LodTensor, dims.to_vec());
                Meta { kind, dtype: DType::F32, dims, lod_level: 0 }
            };
            let (x, w, dz) = (meta([rows, 96]), meta([96, 80]), meta([rows, 80]));
            let (inputs, outputs) = ([x, w.clone(), dz], [w]);
            let spreads = [Spread::Rows, Spread::Whole, Spread::Rows];
            let (op, batch) = (grad.view(), rows as usize);
            let (inputs, outputs) = (&inputs[..], &outputs[..]);
            let view = SplitView { op: &op, spreads: &spreads, inputs, outputs, batch, shares };
            op.def.split.apply(&view)
        };
        assert_eq!(spread(4096, 16), Some(vec![Spread::Partial]));
        assert_eq!(spread(32, 16), None);
    }

    #[test]
    fn many_threads_predict_what_one_predicts() {
        let graph = Graph::new();
        graph.set_random_seed(5);
        let x = layers::data(&graph, "x", [COLUMNS as i64], DType::F32);
        let out = layers::fc(&layers::fc(&x, 80, Act::Relu).unwrap(), 72, Act::Tanh).unwrap();
        let values: Vec<f32> = (0..333 * COLUMNS).map(|at| (at * 31 % 101) as f32 * 0.01).collect();
        let x = Tensor::from_slice([333, COLUMNS], &values).unwrap();
        let predict = |threads: usize| {
            let mut executor = Executor::new(Place::Cpu).unwrap().threads(threads);
            executor.run(&graph.startup(), &[], &[]).unwrap();
            executor.run(&graph.main(), &[("x", &x)], &[out.name()]).unwrap()[0].to_f64_vec()
        };
        assert_eq!(predict(1), predict(LEAST), "no weight is read transposed");
    }

    #[test]
    fn many_threads_learn_what_one_learns() {
        let batch = 333;
        let numbers = |count: usize| -> Vec<f32> {
            (0..count).map(|at| ((at * 31 % 101) as f32 - 50.0) * 0.01).collect()
        };
        let x = Tensor::from_slice([batch, COLUMNS], &numbers(batch * COLUMNS)).unwrap();
        let y = Tensor::from_slice([batch, 1], &numbers(batch)).unwrap();
        let learn = |threads: usize| {
            let (graph, loss) = model();
            let mut executor = Executor::new(Place::Cpu).unwrap().threads(threads);
            executor.run(&graph.startup(), &[], &[]).unwrap();
            for _ in 0..5 {
                executor.run(&graph.main(), &[("x", &x), ("y", &y)], &[&loss]).unwrap();
            }
            executor.scope().get("fc_0.w_0").unwrap().to_f64_vec()
        };
        let (one, four) = (learn(1), learn(4));
        assert!(one.iter().zip(&four).all(|(one, four)| (one - four).abs() < 1e-6));
        assert_eq!(four, learn(4), "the same shares give the same bits");
    }
}
