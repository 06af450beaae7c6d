//! Gradient clipping: ops that keep gradients small, by value, by norm, or all by one norm.

use bireme_ir::{Op, VarKind};

use crate::Result;
use crate::graph::{Graph, Variable};
use crate::optimizer::tagged;

/// How gradients are clipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GradClip {
    /// Each element to a range.
    Value {
        /// The least value.
        min: f32,
        /// The greatest value.
        max: f32,
    },
    /// Each gradient to a norm of at most this.
    Norm(f32),
    /// All gradients, by one factor, to a common norm of at most this.
    GlobalNorm(f32),
}

impl GradClip {
    /// Each element to `-max..=max`.
    pub fn value(max: f32) -> GradClip {
        GradClip::Value { min: -max, max }
    }
}

type Pairs = Vec<(Variable, Variable)>;

/// Appends the clipping of all gradients whose parameters ask for it; returns the clipped ones.
pub(crate) fn append(clip: GradClip, graph: &Graph, params_grads: Pairs) -> Result<Pairs> {
    let mut scale = None;
    let mut clipped = Vec::with_capacity(params_grads.len());
    if let GradClip::GlobalNorm(max) = clip {
        let included: Vec<_> = params_grads.iter().filter(|(param, _)| wanted(param)).collect();
        if included.is_empty() {
            return Ok(params_grads);
        }
        scale = Some(global_scale(graph, &included, max)?);
    }
    for (param, grad) in params_grads {
        if !wanted(&param) {
            clipped.push((param, grad));
            continue;
        }
        let op = match (clip, &scale) {
            (GradClip::Value { min, max }, _) => Op::new("clip").attr("min", min).attr("max", max),
            (GradClip::Norm(max), _) => Op::new("clip_by_norm").attr("max_norm", max),
            (GradClip::GlobalNorm(_), scale) => {
                let scale = scale.iter().map(Variable::name);
                Op::new("elementwise_mul").input("Y", scale).attr("axis", -1)
            }
        };
        let out = append_unary(graph, op, &grad, (&param, &grad))?;
        clipped.push((param, out));
    }
    Ok(clipped)
}

fn wanted(param: &Variable) -> bool {
    param.var().param.is_none_or(|param| param.need_clip)
}

/// `max / greater(norm of all gradients, max)`: a factor of at most 1.
fn global_scale(graph: &Graph, pairs: &[&(Variable, Variable)], max: f32) -> Result<Variable> {
    let mut squares = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let tag = (&pair.0, &pair.1);
        let mut grad = pair.1.clone();
        if grad.var().kind == VarKind::SelectedRows {
            // A row that is named twice counts by its sum.
            grad = append_unary(graph, Op::new("merge_selected_rows"), &grad, tag)?;
            grad = append_unary(graph, Op::new("get_tensor_from_selected_rows"), &grad, tag)?;
        }
        squares.push(append_unary(graph, Op::new("squared_l2_norm"), &grad, tag)?);
    }
    let (last, dtype) = (pairs[pairs.len() - 1], pairs[0].1.dtype());
    let append = |op: Op| {
        let out = graph.temporary(&graph.unique_name(&op.kind));
        graph.append_op(tagged(op.output("Out", [out.name()]), &last.0, &last.1))?;
        Ok::<_, crate::Error>(out)
    };
    let sum = append(Op::new("sum").input("X", squares.iter().map(Variable::name)))?;
    let norm = append(Op::new("sqrt").input("X", [sum.name()]))?;
    let max = append(
        Op::new("fill_constant")
            .attr("shape", vec![1i64])
            .attr("dtype", dtype.code())
            .attr("value", max),
    )?;
    let binary = |kind: &str, x: &Variable, y: &Variable| {
        append(Op::new(kind).input("X", [x.name()]).input("Y", [y.name()]).attr("axis", -1))
    };
    let greater = binary("elementwise_max", &max, &norm)?;
    binary("elementwise_div", &max, &greater)
}

/// Appends `op` from `x` to a new variable.
fn append_unary(
    graph: &Graph,
    op: Op,
    x: &Variable,
    (param, grad): (&Variable, &Variable),
) -> Result<Variable> {
    let out = graph.temporary(&graph.unique_name(&op.kind));
    let op = op.input("X", [x.name()]).output("Out", [out.name()]);
    graph.append_op(tagged(op, param, grad))?;
    Ok(out)
}
