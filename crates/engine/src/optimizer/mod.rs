//! Optimizers: ops that update parameters, the rules they follow, and `minimize`, which appends
//! them to a program.
//!
//! One file an optimizer: its builder, its op and its rule, declared by `declare.rs`. `minimize` does what Paddle's does:
//! gradients, clipping, regularisation, accumulators (persistable, named after their parameter,
//! filled by the startup program), one update op a parameter.
//!
//! A parameter of 16 bits may have a master copy of 32 (`MasterParam`), which is updated in its place and rounded to it.
//! The attribute `multi_precision`, which programs of Paddle carry, says the same as that slot, so no op reads it.

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod adamw;
mod ahead;
mod apply;
mod decayed_adagrad;
mod declare;
mod ftrl;
mod lamb;
mod lars;
mod merge_rows;
mod momentum;
mod norm;
mod prelude;
mod rmsprop;
mod row_ranges;
mod rule;
mod selected_rows;
mod settings;
mod sgd;
mod shared;
mod step;

#[cfg(test)]
mod tests;

use bireme_ir::{Op, OpRole, Regularizer};

use crate::graph::{Graph, Variable};
use crate::op::OpDef;
use crate::{Error, Result, autodiff, clip, regularizer};

pub use crate::number::Real;
pub use adadelta::{Adadelta, AdadeltaRule};
pub use adagrad::{Adagrad, AdagradRule};
pub use adam::{Adam, AdamConfig, AdamRule};
pub use adamax::{Adamax, AdamaxRule};
pub use adamw::{AdamW, AdamWRule};
pub use ahead::{LookAhead, Reach};
pub use apply::Absent;
pub use decayed_adagrad::{DecayedAdagrad, DecayedAdagradRule};
pub use ftrl::{Ftrl, FtrlConfig, FtrlRule};
pub use lamb::{Lamb, LambRule};
pub use lars::{Lars, LarsRule};
pub use merge_rows::{Merged, RowMerger, RowMergers};
pub use momentum::{Momentum, MomentumConfig, MomentumRule};
pub use rmsprop::{RmsProp, RmsPropConfig, RmsPropRule};
pub use rule::{Loops, Rule, update, update_all_rows, update_rows};
pub use settings::Settings;
pub use sgd::{Sgd, SgdRule};
pub use step::{Accumulator, Step};
pub(crate) use step::{persistable, tagged};

/// The definitions of this family.
pub(crate) const DEFS: &[OpDef] = &[
    adadelta::DEF,
    adagrad::DEF,
    adam::DEF,
    adamax::DEF,
    adamw::DEF,
    decayed_adagrad::DEF,
    ftrl::DEF,
    lamb::DEF,
    lars::DEF,
    momentum::DEF,
    rmsprop::DEF,
    selected_rows::GET_TENSOR,
    selected_rows::MERGE,
    sgd::DEF,
];

/// What [`Optimizer::minimize`] appended.
#[derive(Clone, Debug)]
pub struct Minimized {
    /// The update ops, one or two a parameter.
    pub optimize_ops: Vec<Op>,
    /// Each trained parameter with the gradient that its update reads.
    pub params_grads: Vec<(Variable, Variable)>,
    /// The learning rate: set its value in the scope to change a constant one from outside.
    pub learning_rate: Variable,
}

/// Something that has the settings of an optimizer.
pub trait Configured {
    /// Learning rate, regulariser, clipping, parameters.
    fn settings(&self) -> &Settings;
}

/// Something that makes a loss smaller.
pub trait Optimizer: Configured {
    /// The op that updates one parameter, with the accumulators it needs declared.
    ///
    /// # Errors
    /// When they cannot be.
    fn update(&self, step: &Step<'_>) -> Result<Op>;

    /// An op that runs after all updates, given the one that [`Optimizer::update`] made.
    fn finish(&self, _step: &Step<'_>, _update: &Op) -> Option<Op> {
        None
    }

    /// Whether the update op applies this regulariser itself.
    fn decays_in_op(&self, _regularizer: Regularizer) -> bool {
        false
    }

    /// Whether parameters of 16 bits get master copies of 32.
    fn keeps_masters(&self) -> bool {
        self.settings().multi_precision
    }

    /// Appends everything that one step of training needs after the loss.
    ///
    /// # Errors
    /// When the loss is no single number, a listed parameter does not exist, or an op has no
    /// gradient.
    fn minimize(&self, loss: &Variable) -> Result<Minimized> {
        let params_grads = self.backward(loss)?;
        self.apply_gradients(params_grads)
    }

    /// Appends the gradient ops, and returns each parameter with its gradient.
    ///
    /// # Errors
    /// As [`Optimizer::minimize`].
    fn backward(&self, loss: &Variable) -> Result<Vec<(Variable, Variable)>> {
        let settings = self.settings();
        let graph = loss.graph();
        let handles = |names: &[String]| -> Result<Vec<Variable>> {
            names.iter().map(|name| graph.variable(name)).collect()
        };
        let listed = settings.parameter_list.as_deref().map(handles).transpose()?;
        let listed: Option<Vec<&Variable>> = listed.as_ref().map(|vars| vars.iter().collect());
        let no_grad = handles(&settings.no_grad)?;
        let no_grad: Vec<&Variable> = no_grad.iter().collect();
        autodiff::append_backward(loss, listed.as_deref(), &no_grad)
    }

    /// Appends clipping, regularisation and updates for given gradients.
    ///
    /// # Errors
    /// When there are none, or an op refuses them.
    fn apply_gradients(&self, params_grads: Vec<(Variable, Variable)>) -> Result<Minimized> {
        apply(self, params_grads)
    }
}

impl<O: Configured + ?Sized> Configured for Box<O> {
    fn settings(&self) -> &Settings {
        (**self).settings()
    }
}

impl<O: Optimizer + ?Sized> Optimizer for Box<O> {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        (**self).update(step)
    }

    fn finish(&self, step: &Step<'_>, update: &Op) -> Option<Op> {
        (**self).finish(step, update)
    }

    fn decays_in_op(&self, regularizer: Regularizer) -> bool {
        (**self).decays_in_op(regularizer)
    }

    fn keeps_masters(&self) -> bool {
        (**self).keeps_masters()
    }

    fn backward(&self, loss: &Variable) -> Result<Vec<(Variable, Variable)>> {
        (**self).backward(loss)
    }

    fn apply_gradients(&self, params_grads: Vec<(Variable, Variable)>) -> Result<Minimized> {
        (**self).apply_gradients(params_grads)
    }
}

/// What [`Optimizer::apply_gradients`] does for every optimizer.
pub(crate) fn apply<O: Optimizer + ?Sized>(
    optimizer: &O,
    mut params_grads: Vec<(Variable, Variable)>,
) -> Result<Minimized> {
    let settings = optimizer.settings();
    // Paddle's order, which its programs and ours then share.
    params_grads.sort_by(|a, b| a.0.name().cmp(b.0.name()));
    let Some((first, _)) = params_grads.first() else {
        return Err(Error::kernel("the loss depends on no trainable parameter"));
    };
    let graph = first.graph().clone();
    if let Some(clip) = settings.grad_clip {
        params_grads = clip::append(clip, &graph, params_grads)?;
    }
    let params_grads = regularizer::append(&graph, params_grads, |param| {
        regularizer::of(param, settings.regularization)
            .filter(|regularizer| !optimizer.decays_in_op(*regularizer))
    })?;
    let learning_rate = settings.learning_rate.build(&graph)?;
    let optimize_ops = append_updates(optimizer, &graph, &params_grads, &learning_rate)?;
    Ok(Minimized { optimize_ops, params_grads, learning_rate })
}

/// Appends the updates of all parameters, then what follows them.
fn append_updates<O: Optimizer + ?Sized>(
    optimizer: &O,
    graph: &Graph,
    params_grads: &[(Variable, Variable)],
    learning_rate: &Variable,
) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    let mut last = Vec::new();
    for (param, grad) in params_grads {
        let learning_rate = scaled_rate(graph, param, learning_rate)?;
        let step = Step {
            graph,
            param,
            grad,
            learning_rate: &learning_rate,
            masters: optimizer.keeps_masters(),
        };
        let op = optimizer.update(&step)?;
        last.extend(optimizer.finish(&step, &op));
        graph.append_op(op.clone())?;
        ops.push(op);
    }
    for op in last {
        graph.append_op(op.clone())?;
        ops.push(op);
    }
    Ok(ops)
}

/// The learning rate of a parameter that has a factor of its own.
fn scaled_rate(graph: &Graph, param: &Variable, rate: &Variable) -> Result<Variable> {
    let factor = param.var().param.map_or(1.0, |param| param.learning_rate);
    if factor == 1.0 {
        return Ok(rate.clone());
    }
    let scaled = graph.temporary(rate.name());
    let role = OpRole(OpRole::OPTIMIZE.0 | OpRole::LR_SCHED.0);
    let op = Op::new("scale").input("X", [rate.name()]).output("Out", [scaled.name()]);
    graph.append_op(op.attr("scale", factor).role(role))?;
    Ok(scaled)
}
