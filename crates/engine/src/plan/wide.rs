//! `bfloat16` on the host, where nothing but products gains by it: what lies between products stays in 32 bits.
//!
//! Casts between the two types go, their readers read what was cast, and products that read 16 bits are marked: they round
//! their factors while they pack them. Parameters, feeds and fetches of 16 bits are the user's; a step that has some is
//! left as it is, and computes op by op as a card does.

use std::collections::HashMap;

use bireme_ir::{Attr, DType, VarKind};

use crate::op::ROUND_FACTORS;
use crate::plan::select::{SelectedOp, Selection, VarId};

/// Ops that round their factors when they are asked to; their gradients do so, too.
const PRODUCTS: &[&str] = &["bmm", "matmul", "matmul_v2", "mul"];

/// Attributes that name a type.
const TYPES: &[&str] = &["dtype", "in_dtype", "out_dtype"];

/// Keeps what is of 16 bits in 32.
pub(super) fn keep_wide(selection: &mut Selection) {
    let narrow: Vec<bool> =
        (0..selection.vars.len()).map(|var| is_narrow(selection, var)).collect();
    if !narrow.contains(&true) || !is_inner(selection, &narrow) {
        return;
    }
    let last_read = last_reads(selection);
    let mut writes: HashMap<VarId, Vec<usize>> = HashMap::new();
    for (at, op) in selection.ops.iter().enumerate() {
        op.outputs.iter().for_each(|var| writes.entry(*var).or_default().push(at));
    }
    let mut same: HashMap<VarId, VarId> = HashMap::new();
    let mut kept = Vec::with_capacity(selection.ops.len());
    for (at, mut op) in std::mem::take(&mut selection.ops).into_iter().enumerate() {
        let reads_narrow = op.inputs.iter().any(|var| narrow[*var]);
        for var in &mut op.inputs {
            *var = same.get(var).copied().unwrap_or(*var);
        }
        if let Some((from, to)) = cast(selection, &op, &narrow) {
            // Who reads the cast later must not find something newer.
            let until = last_read.get(&to).copied().unwrap_or(at);
            let changes = |writes: &Vec<usize>| writes.iter().any(|w| at < *w && *w < until);
            if !writes.get(&from).is_some_and(changes) {
                same.insert(to, from);
                continue;
            }
        }
        if !op.guarded {
            retype(&mut op, reads_narrow);
        }
        kept.push(op);
    }
    selection.ops = kept;
    for (var, _) in selection.vars.iter_mut().zip(narrow).filter(|(_, narrow)| *narrow) {
        if let Some(declared) = &mut var.declared {
            declared.dtype = DType::F32;
        }
    }
}

fn is_narrow(selection: &Selection, var: VarId) -> bool {
    let declared = selection.vars[var].declared.as_ref();
    declared.is_some_and(|var| var.dtype == DType::BF16)
}

/// Whether everything of 16 bits is a temporary that ops outside conditions use.
fn is_inner(selection: &Selection, narrow: &[bool]) -> bool {
    let seen = selection.feeds.iter().chain(&selection.fetches).any(|var| narrow[*var]);
    let uses = |op: &SelectedOp| op.inputs.iter().chain(&op.outputs).any(|var| narrow[*var]);
    let conditional = selection.ops.iter().any(|op| op.guarded && uses(op));
    let is_temporary = |var: VarId| {
        let var = &selection.vars[var];
        let is_dense = var.declared.as_ref().is_some_and(|var| var.kind == VarKind::LodTensor);
        !var.persists() && is_dense
    };
    let used = selection.ops.iter().flat_map(|op| op.inputs.iter().chain(&op.outputs));
    let temporary = used.filter(|var| narrow[**var]).all(|var| is_temporary(*var));
    !seen && !conditional && temporary
}

/// The last op that reads a value, itself or what it is cast to.
fn last_reads(selection: &Selection) -> HashMap<VarId, usize> {
    let mut last: HashMap<VarId, usize> = HashMap::new();
    for (at, op) in selection.ops.iter().enumerate().rev() {
        let further = match op.op.kind.as_str() {
            "cast" => op.outputs.iter().filter_map(|out| last.get(out)).max().copied(),
            _ => None,
        };
        for var in &op.inputs {
            let entry = last.entry(*var).or_insert(at);
            *entry = (*entry).max(further.unwrap_or(at));
        }
    }
    last
}

/// What a cast between 16 and 32 bits reads and writes, if nobody but ops sees the latter.
fn cast(selection: &Selection, op: &SelectedOp, narrow: &[bool]) -> Option<(VarId, VarId)> {
    let (from, to) = (op.input("X")?, op.output("Out")?);
    let is_wide = |var: VarId| {
        let declared = selection.vars[var].declared.as_ref();
        narrow[var] || declared.is_some_and(|var| var.dtype == DType::F32)
    };
    let is_seen = selection.vars[to].persists() || selection.fetches.contains(&to);
    let fits = op.op.kind == "cast" && !op.guarded && is_wide(from) && is_wide(to) && !is_seen;
    fits.then_some((from, to))
}

/// Has an op compute with 32 bits; a product of what was narrow rounds its factors.
fn retype(op: &mut SelectedOp, reads_narrow: bool) {
    for name in TYPES {
        if op.op.attrs.get(*name) == Some(&Attr::Int(DType::BF16.code())) {
            op.op.attrs.insert((*name).to_owned(), Attr::Int(DType::F32.code()));
        }
    }
    let kind = op.op.kind.strip_suffix("_grad").unwrap_or(&op.op.kind);
    if reads_narrow && PRODUCTS.contains(&kind) {
        op.op.attrs.insert(ROUND_FACTORS.to_owned(), Attr::Bool(true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amp::{Amp, Level, MixedPrecision};
    use crate::graph::Graph;
    use crate::layers::{self, Act};
    use crate::optimizer::{Adam, Optimizer, Sgd};
    use crate::plan::fuse::fuse;
    use crate::tensor::Tensor;
    use crate::{Executor, Place};

    /// Two layers on fed numbers, trained with or without 16 bits.
    fn model(amp: Option<Amp>) -> (Graph, String) {
        let graph = Graph::new();
        graph.set_random_seed(3);
        let x = layers::data(&graph, "x", [6], DType::F32);
        let y = layers::data(&graph, "y", [1], DType::F32);
        let hidden = layers::fc(&x, 5, Act::Relu).unwrap();
        let out = layers::linear(&hidden, 1).unwrap();
        let loss = layers::mean(&layers::square_error_cost(&out, &y).unwrap()).unwrap();
        match amp {
            Some(amp) => MixedPrecision::new(Adam::new(0.05), amp).minimize(&loss).unwrap(),
            None => Adam::new(0.05).minimize(&loss).unwrap(),
        };
        let name = loss.name().to_owned();
        (graph, name)
    }

    fn selected(graph: &Graph, fetches: &[&str]) -> Selection {
        let mut selection = Selection::new(&graph.main(), &["x", "y"], fetches).unwrap();
        crate::plan::versions::separate(&mut selection);
        keep_wide(&mut selection);
        selection
    }

    fn has_narrow(selection: &Selection) -> bool {
        let used = selection.ops.iter().flat_map(|op| op.inputs.iter().chain(&op.outputs));
        used.into_iter().any(|var| is_narrow(selection, *var))
    }

    #[test]
    fn only_products_know_of_16_bits() {
        let (graph, loss) = model(Some(Amp::new(DType::BF16).unwrap()));
        let mut selection = selected(&graph, &[&loss]);
        assert!(!has_narrow(&selection));
        assert!(selection.ops.iter().all(|op| op.op.kind != "cast"));
        fuse(&mut selection, None);
        for op in &selection.ops {
            let is_layer = op.op.kind.starts_with("fused_fc");
            assert_eq!(op.op.attrs.contains_key(ROUND_FACTORS), is_layer, "{}", op.op.kind);
        }
        assert_eq!(selection.ops.iter().filter(|op| op.op.kind == "fused_fc").count(), 2);
    }

    #[test]
    fn what_the_user_holds_in_16_bits_stays() {
        let level = Amp::new(DType::BF16).unwrap().level(Level::O2);
        let (graph, loss) = model(Some(level));
        assert!(has_narrow(&selected(&graph, &[&loss])), "parameters of 16 bits");
        let (graph, _) = model(Some(Amp::new(DType::BF16).unwrap()));
        let is_product = |op: &&bireme_ir::Op| op.kind == "mul";
        let main = graph.main();
        let product = main.global().ops.iter().find(is_product).unwrap().output_vars().next();
        assert!(has_narrow(&selected(&graph, &[product.unwrap()])), "a fetch of 16 bits");
        let (graph, loss) = model(Some(Amp::new(DType::F16).unwrap()));
        let selection = selected(&graph, &[&loss]);
        assert!(selection.ops.iter().any(|op| op.op.kind == "cast"), "the other type");
    }

    #[test]
    fn a_cast_of_what_changes_before_it_is_read_stays() {
        let graph = Graph::new();
        let x = layers::data(&graph, "x", [2], DType::F32);
        let y = layers::data(&graph, "y", [2], DType::F32);
        let loss = layers::mean(&layers::fc(&x, 2, Act::None).unwrap()).unwrap();
        Sgd::new(0.1).minimize(&loss).unwrap();
        let cast = |from: &str, to: &str, dtype: [DType; 2]| {
            let mut var = bireme_ir::Var::tensor(to, dtype[1], [2, 2]);
            var.stop_gradient = true;
            graph.declare(var);
            bireme_ir::Op::new("cast")
                .input("X", [from])
                .output("Out", [to])
                .attr("in_dtype", dtype[0].code())
                .attr("out_dtype", dtype[1].code())
        };
        let narrow = cast("fc_0.w_0", "narrow", [DType::F32, DType::BF16]);
        let wide = cast("narrow", "wide", [DType::BF16, DType::F32]);
        let _ = y;
        graph.edit_main(|main| main.global_mut().ops.insert(0, narrow));
        graph.append_op(wide).unwrap();
        let selection = selected(&graph, &["wide"]);
        assert!(selection.ops.iter().filter(|op| op.op.kind == "cast").count() >= 1);
        let mut executor = Executor::new(Place::Cpu).unwrap();
        executor.run(&graph.startup(), &[], &[]).unwrap();
        let before = executor.scope().get("fc_0.w_0").unwrap().to_f64_vec();
        let input = Tensor::from_slice([1, 2], &[1.0f32, 2.0]).unwrap();
        let feeds = [("x", &input), ("y", &input)];
        let wide = &executor.run(&graph.main(), &feeds, &["wide"]).unwrap()[0];
        assert_eq!(wide.to_f64_vec(), before, "the weights before the update, not rounded");
    }

    #[test]
    fn training_is_near_that_of_32_bits() {
        let input: Vec<f32> = (0..48).map(|i| ((i * 7 % 13) as f32 - 6.0) * 0.1).collect();
        let target: Vec<f32> = (0..8).map(|i| input[i * 6] - input[i * 6 + 1]).collect();
        let x = Tensor::from_slice([8, 6], &input).unwrap();
        let y = Tensor::from_slice([8, 1], &target).unwrap();
        let losses = |amp: Option<Amp>| -> Vec<f64> {
            let (graph, loss) = model(amp);
            let mut executor = Executor::new(Place::Cpu).unwrap();
            executor.run(&graph.startup(), &[], &[]).unwrap();
            let mut step = || {
                let feeds = [("x", &x), ("y", &y)];
                executor.run(&graph.main(), &feeds, &[&loss]).unwrap()[0].to_f64_vec()[0]
            };
            (0..20).map(|_| step()).collect()
        };
        let (wide, half) = (losses(None), losses(Some(Amp::new(DType::BF16).unwrap())));
        for (wide, half) in wide.iter().zip(&half) {
            assert!((wide - half).abs() < 0.05 * wide + 2e-3, "{wide} and {half}");
        }
        if crate::gemm::half_kernel().is_some() {
            assert_ne!(wide, half, "factors are rounded");
        }
    }
}
