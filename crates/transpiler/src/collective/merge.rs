//! Gradient merge: gradients are added up over several steps, and the last of these reduces and
//! applies them. The program then has the work of a larger batch in the memory of a small one.

use std::collections::HashMap;

use bireme_ir::{Attr, DType, Op, OpRole, Program, Var, VarKind};

use super::buckets::Buckets;
use super::strategy::all_gather;
use super::{CollectiveStrategy, GradientMerge, gradients, in_place};
use crate::analysis::is_optimizer;

/// The step, from 1.
pub(super) const STEP: &str = "gradient_merge_step";

impl GradientMerge {
    /// Rewrites a program whose loss is scaled for its ranks.
    pub(super) fn rewrite(
        self,
        program: &mut Program,
        ranks: usize,
        strategy: &CollectiveStrategy,
    ) {
        let merged = Merged::of(program);
        let ops = std::mem::take(&mut program.global_mut().ops);
        let first = ops.iter().position(is_optimizer).unwrap_or(ops.len());
        let (applied, mut kept): (Vec<Op>, Vec<Op>) = split_at(ops, first);
        add_counter(program, STEP);
        kept.push(in_place("increment", STEP).attr("step", 1.0f32).role(OpRole::OPTIMIZE));
        for (grad, sum) in &merged.grads {
            let op = Op::new("gradient_merge").input("X", [grad.as_str()]).input("Step", [STEP]);
            let op = op.output("Out", [sum.name.as_str()]).attr("k_steps", self.k_steps);
            kept.push(op.role(OpRole::OPTIMIZE));
        }
        let scale = if self.average { 1.0 / self.k_steps as f32 } else { 1.0 };
        let mut inner = merged.reduce(ranks, strategy, scale);
        inner.extend(applied.into_iter().map(|op| merged.read_by(op)));
        let global = program.global_mut();
        for (_, sum) in merged.grads {
            global.add_var(sum);
        }
        let condition = every(program, &mut kept, STEP, self.k_steps, "gradient_merge");
        program.global_mut().ops = kept;
        run_if(program, &condition, inner);
    }
}

/// The sums of gradients.
struct Merged {
    /// Each gradient and the variable that it is added to, in the order of the backward pass.
    grads: Vec<(String, Var)>,
    names: HashMap<String, String>,
}

impl Merged {
    fn of(program: &Program) -> Merged {
        let global = program.global();
        let backward = global.ops.iter().filter(|op| op.op_role().base() == OpRole::BACKWARD);
        let mut merged = Merged { grads: Vec::new(), names: HashMap::new() };
        for (param, grad) in backward.flat_map(gradients) {
            let name = format!("{grad}@GradientMerge");
            let (Some(param), false) = (global.var(param), merged.names.contains_key(grad)) else {
                continue;
            };
            let mut sum = Var::tensor(name.clone(), param.dtype, param.shape.clone());
            sum.kind = global.var(grad).map_or(VarKind::LodTensor, |var| var.kind);
            (sum.persistable, sum.stop_gradient) = (true, true);
            merged.grads.push((grad.clone(), sum));
            merged.names.insert(grad.clone(), name);
        }
        merged
    }

    /// What makes the sums those of all ranks.
    fn reduce(&self, ranks: usize, strategy: &CollectiveStrategy, scale: f32) -> Vec<Op> {
        let is_sparse = |sum: &Var| sum.kind == VarKind::SelectedRows;
        let times = |sum: &str| in_place("scale", sum).attr("scale", scale).role(OpRole::OPTIMIZE);
        let sums = || self.grads.iter().map(|(_, sum)| sum);
        if ranks == 1 {
            let scaled = |_: &&Var| scale != 1.0;
            return sums().filter(scaled).map(|sum| times(&sum.name)).collect();
        }
        let all = sums().map(|sum| (sum.name.clone(), sum, is_sparse(sum)));
        let buckets = Buckets::of_vars(all, strategy);
        let mut ops: Vec<Op> = buckets.dense.iter().map(|bucket| bucket.wait(scale)).collect();
        for sum in &buckets.sparse {
            ops.push(all_gather(sum, OpRole::OPTIMIZE));
            if scale != 1.0 {
                ops.push(times(sum));
            }
        }
        ops
    }

    /// An op of the optimizer, with the sums for gradients.
    fn read_by(&self, mut op: Op) -> Op {
        let slots = op.inputs.values_mut().chain(op.outputs.values_mut());
        for var in slots.flatten() {
            if let Some(sum) = self.names.get(var) {
                var.clone_from(sum);
            }
        }
        op
    }
}

/// Ops of the optimizer from `first` on, and all others.
fn split_at(ops: Vec<Op>, first: usize) -> (Vec<Op>, Vec<Op>) {
    let (mut applied, mut kept) = (Vec::new(), Vec::new());
    for (index, op) in ops.into_iter().enumerate() {
        if index >= first && is_optimizer(&op) { applied.push(op) } else { kept.push(op) }
    }
    (applied, kept)
}

/// Declares a counter of steps.
pub(super) fn add_counter(program: &mut Program, name: &str) {
    let counter = program.global_mut().add_var(Var::tensor(name, DType::I64, [1]));
    (counter.persistable, counter.stop_gradient) = (true, true);
}

/// Lets a counter start at 0.
pub(super) fn count_from_zero(startup: &mut Program, name: &str) {
    add_counter(startup, name);
    startup.global_mut().ops.push(constant(name, 0));
}

/// A whole number.
pub(super) fn constant(name: &str, value: i32) -> Op {
    Op::new("fill_constant")
        .output("Out", [name])
        .attr("shape", vec![1i64])
        .attr("dtype", DType::I64.code())
        .attr("value", value as f32)
        .role(OpRole::OPTIMIZE)
}

/// Adds what says whether the counter `of` is a multiple of `steps`; returns its name.
pub(super) fn every(
    program: &mut Program,
    ops: &mut Vec<Op>,
    of: &str,
    steps: i32,
    prefix: &str,
) -> String {
    let name = |part: &str| format!("{prefix}_{part}");
    let (k, zero, rest, now) = (name("k"), name("zero"), name("rest"), name("cond"));
    let global = program.global_mut();
    for var in [&k, &zero, &rest] {
        global.add_var(Var::tensor(var.as_str(), DType::I64, [1]));
    }
    global.add_var(Var::tensor(now.as_str(), DType::Bool, [1]));
    ops.push(constant(&k, steps));
    ops.push(constant(&zero, 0));
    ops.push(binary("elementwise_mod", of, &k, &rest));
    ops.push(binary("equal", &rest, &zero, &now));
    now
}

pub(super) fn binary(kind: &str, x: &str, y: &str, out: &str) -> Op {
    let op = Op::new(kind).input("X", [x]).input("Y", [y]).output("Out", [out]);
    op.attr("axis", -1).role(OpRole::OPTIMIZE)
}

/// Adds ops that run when a condition holds.
pub(super) fn run_if(program: &mut Program, condition: &str, ops: Vec<Op>) {
    let block = program.append_block(0);
    block.ops = ops;
    let number = i32::try_from(block.idx).unwrap_or(i32::MAX);
    let op = Op::new("conditional_block").input("Cond", [condition]);
    let op = op.attr("sub_block", Attr::Block(number)).attr("is_scalar_condition", true);
    program.global_mut().ops.push(op.role(OpRole::OPTIMIZE));
}
