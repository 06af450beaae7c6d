//! Regularisers: ops that add the slope of a penalty on parameters to their gradients.
//!
//! The penalty itself is [`bireme_ir::Regularizer`], which parameters may carry; L2 decay adds
//! `coeff * param`, L1 decay `coeff * sign(param)`.

use bireme_ir::Op;

use crate::Result;
use crate::graph::{Graph, Variable};
use crate::optimizer::tagged;

pub use bireme_ir::Regularizer;

/// The regulariser of `param`: its own, or `default`.
pub(crate) fn of(param: &Variable, default: Option<Regularizer>) -> Option<Regularizer> {
    param.var().param.and_then(|param| param.regularizer).or(default)
}

/// Appends the penalties that `choose` gives; returns the gradients with them in.
pub(crate) fn append(
    graph: &Graph,
    params_grads: Vec<(Variable, Variable)>,
    choose: impl Fn(&Variable) -> Option<Regularizer>,
) -> Result<Vec<(Variable, Variable)>> {
    let mut regularized = Vec::with_capacity(params_grads.len());
    for (param, grad) in params_grads {
        let grad = match choose(&param) {
            None => grad,
            Some(Regularizer::L2(coeff)) => penalize(graph, &param, &param, grad, coeff)?,
            Some(Regularizer::L1(coeff)) => {
                let sign = graph.temporary("regularizer");
                let op = Op::new("sign").input("X", [param.name()]).output("Out", [sign.name()]);
                graph.append_op(tagged(op, &param, &grad))?;
                penalize(graph, &param, &sign, grad, coeff)?
            }
        };
        regularized.push((param, grad));
    }
    Ok(regularized)
}

/// `grad + coeff * slope`.
fn penalize(
    graph: &Graph,
    param: &Variable,
    slope: &Variable,
    grad: Variable,
    coeff: f32,
) -> Result<Variable> {
    let decay = graph.temporary("regularizer");
    let op = Op::new("scale").input("X", [slope.name()]).output("Out", [decay.name()]);
    graph.append_op(tagged(op.attr("scale", coeff), param, &grad))?;
    // The decay is dense, so a sparse gradient becomes dense: always another variable.
    let sum = graph.temporary(grad.name());
    let op = Op::new("sum").input("X", [grad.name(), decay.name()]).output("Out", [sum.name()]);
    graph.append_op(tagged(op, param, &grad))?;
    Ok(sum)
}
