//! An optimizer around another one, which trains with mixed precision.

use std::sync::{Mutex, PoisonError};

use bireme_ir::{Attr, DType, Op, OpRole, Regularizer, Var, VarKind};

use super::{Amp, Dynamic, rewrite};
use crate::Result;
use crate::graph::{Graph, Variable};
use crate::op::is_half;
use crate::optimizer::{Configured, Minimized, Optimizer, Settings, Step, persistable, tagged};

/// Trains with mixed precision: rewrites the program before it is differentiated, scales the loss, and skips the
/// gradients of steps that were scaled too far.
#[derive(Debug)]
pub struct MixedPrecision<O> {
    optimizer: O,
    amp: Amp,
    /// Of the program that was last differentiated.
    scaled: Mutex<Option<Scaled>>,
}

/// The variables of a program whose loss is scaled.
#[derive(Clone, Debug)]
struct Scaled {
    loss: Variable,
    factor: Variable,
}

impl<O: Optimizer> MixedPrecision<O> {
    /// `optimizer` with mixed precision.
    pub fn new(optimizer: O, amp: Amp) -> MixedPrecision<O> {
        MixedPrecision { optimizer, amp, scaled: Mutex::new(None) }
    }

    /// Goes on after [`Optimizer::backward`] of another one: with the loss that it differentiated, and its factor.
    #[must_use]
    pub fn scaled_by(self, loss: Variable, factor: Variable) -> MixedPrecision<O> {
        *self.scaled.lock().unwrap_or_else(PoisonError::into_inner) = Some(Scaled { loss, factor });
        self
    }

    /// What is asked for.
    pub fn amp(&self) -> &Amp {
        &self.amp
    }

    /// The loss that gradients are computed of, once there are any: the user's times the factor.
    pub fn scaled_loss(&self) -> Option<Variable> {
        self.last().map(|scaled| scaled.loss)
    }

    /// The variable that holds the factor of the loss, where it has one.
    pub fn loss_scaling(&self) -> Option<Variable> {
        self.last().map(|scaled| scaled.factor)
    }

    fn last(&self) -> Option<Scaled> {
        self.scaled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The loss in 32 bits, times the factor.
    fn scale(&self, loss: &Variable) -> Result<Variable> {
        let graph = loss.graph();
        let mut loss = loss.clone();
        if is_half(loss.dtype()) {
            let wide = graph.temporary(loss.name());
            let op = Op::new("cast").input("X", [loss.name()]).output("Out", [wide.name()]);
            let op = op.attr("in_dtype", loss.dtype().code()).attr("out_dtype", DType::F32.code());
            graph.append_op(op.role(OpRole::FORWARD))?;
            loss = wide;
        }
        let scaling = self.amp.scaling;
        let mut scaled = None;
        if !scaling.is_none() {
            let name = graph.unique_name("loss_scaling");
            let var = Var::tensor(name, DType::F32, [1]);
            let factor = persistable(graph, var, scaling.initial);
            let out = graph.temporary("scaled_loss");
            let op =
                Op::new("scale").input("X", [loss.name()]).input("ScaleTensor", [factor.name()]);
            graph.append_op(op.output("Out", [out.name()]).role(OpRole::FORWARD))?;
            scaled = Some(Scaled { loss: out.clone(), factor });
            loss = out;
        }
        *self.scaled.lock().unwrap_or_else(PoisonError::into_inner) = scaled;
        Ok(loss)
    }
}

impl<O: Optimizer> Configured for MixedPrecision<O> {
    fn settings(&self) -> &Settings {
        self.optimizer.settings()
    }
}

impl<O: Optimizer> Optimizer for MixedPrecision<O> {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        self.optimizer.update(step)
    }

    fn finish(&self, step: &Step<'_>, update: &Op) -> Option<Op> {
        self.optimizer.finish(step, update)
    }

    fn decays_in_op(&self, regularizer: Regularizer) -> bool {
        self.optimizer.decays_in_op(regularizer)
    }

    fn keeps_masters(&self) -> bool {
        self.amp.master_weight || self.optimizer.keeps_masters()
    }

    fn backward(&self, loss: &Variable) -> Result<Vec<(Variable, Variable)>> {
        let graph = loss.graph();
        graph.edit_main(|main| graph.edit_startup(|startup| rewrite(main, startup, &self.amp)))?;
        let loss = self.scale(loss)?;
        self.optimizer.backward(&loss)?.into_iter().map(widen).collect()
    }

    fn apply_gradients(&self, params_grads: Vec<(Variable, Variable)>) -> Result<Minimized> {
        let params_grads = params_grads.into_iter().map(widen).collect::<Result<Vec<_>>>()?;
        if let (Some(scaled), Some((first, _))) = (self.last(), params_grads.first()) {
            unscale(first.graph(), &params_grads, &scaled.factor, self.amp.scaling.dynamic)?;
        }
        crate::optimizer::apply(self, params_grads)
    }
}

/// The gradient in 32 bits: norms, decay and updates need them, and ranks exchange it so.
fn widen((param, grad): (Variable, Variable)) -> Result<(Variable, Variable)> {
    let var = grad.var();
    if !is_half(var.dtype) || var.kind != VarKind::LodTensor {
        return Ok((param, grad));
    }
    let wide = grad.graph().temporary(grad.name());
    let op = Op::new("cast").input("X", [grad.name()]).output("Out", [wide.name()]);
    let op = op.attr("in_dtype", var.dtype.code()).attr("out_dtype", DType::F32.code());
    let pair = [param.name().to_owned(), grad.name().to_owned()];
    grad.graph().edit_main(|main| {
        for op in &mut main.global_mut().ops {
            forget_pair(op, &pair);
        }
    });
    grad.graph().append_op(tagged(op, &param, &wide).role(OpRole::BACKWARD))?;
    Ok((param, wide))
}

/// Takes a parameter and its gradient from those that `op` is marked as the last writer of.
fn forget_pair(op: &mut Op, pair: &[String; 2]) {
    if let Some(Attr::Strings(pairs)) = op.attrs.get_mut("op_role_var") {
        let kept = pairs.chunks(2).filter(|one| **one != pair[..]).flatten().cloned();
        *pairs = kept.collect();
        if pairs.is_empty() {
            op.attrs.remove("op_role_var");
        }
    }
}

/// Divides all gradients by the factor, makes those of a step that has a bad one zero, and changes the factor.
fn unscale(
    graph: &Graph,
    params_grads: &[(Variable, Variable)],
    factor: &Variable,
    dynamic: Option<Dynamic>,
) -> Result<()> {
    let mut names: Vec<&str> = params_grads.iter().map(|(_, grad)| grad.name()).collect();
    names.sort_unstable();
    names.dedup();
    let found =
        graph.declare(Var::tensor(graph.unique_name("find_infinite_scale.tmp"), DType::Bool, [1]));
    let check = Op::new("check_finite_and_unscale")
        .input("X", names.iter().copied())
        .input("Scale", [factor.name()])
        .output("Out", names.iter().copied())
        .output("FoundInfinite", [found.name()]);
    graph.append_op(check.role(OpRole::OPTIMIZE))?;
    let (dynamic, stops) = match dynamic {
        Some(dynamic) => (dynamic, false),
        None => (Dynamic::default(), true),
    };
    let counter =
        |name: &str| persistable(graph, Var::tensor(graph.unique_name(name), DType::I32, [1]), 0.0);
    let (good, bad) = (counter("num_good_steps"), counter("num_bad_steps"));
    let update = Op::new("update_loss_scaling")
        .input("X", names.iter().copied())
        .input("FoundInfinite", [found.name()])
        .input("PrevLossScaling", [factor.name()])
        .input("InGoodSteps", [good.name()])
        .input("InBadSteps", [bad.name()])
        .output("Out", names.iter().copied())
        .output("LossScaling", [factor.name()])
        .output("OutGoodSteps", [good.name()])
        .output("OutBadSteps", [bad.name()])
        .attr("incr_every_n_steps", dynamic.incr_every_n_steps)
        .attr("decr_every_n_nan_or_inf", dynamic.decr_every_n_nan_or_inf)
        .attr("incr_ratio", dynamic.incr_ratio)
        .attr("decr_ratio", dynamic.decr_ratio)
        .attr("stop_update", stops);
    graph.append_op(update.role(OpRole::OPTIMIZE))
}
