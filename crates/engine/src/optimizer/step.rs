//! What an optimizer needs to write the update op of one parameter.

use bireme_ir::{Op, OpRole, Regularizer, Var};

use super::Settings;
use crate::graph::{Graph, Variable};
use crate::regularizer;

/// One parameter about to be updated.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The program.
    pub graph: &'a Graph,
    /// The parameter.
    pub param: &'a Variable,
    /// Its gradient.
    pub grad: &'a Variable,
    /// Its learning rate.
    pub learning_rate: &'a Variable,
}

/// State that an optimizer keeps beside a parameter.
#[derive(Clone, Debug)]
pub struct Accumulator(Variable);

impl Step<'_> {
    /// An op of type `kind` with parameter, gradient, learning rate, role, and no attributes yet.
    pub fn op(&self, kind: &str) -> Op {
        self.tagged(
            Op::new(kind)
                .input("Param", [self.param.name()])
                .input("Grad", [self.grad.name()])
                .input("LearningRate", [self.learning_rate.name()])
                .output("ParamOut", [self.param.name()]),
        )
    }

    /// Marks `op` as part of this parameter's update.
    pub fn tagged(&self, op: Op) -> Op {
        tagged(op, self.param, self.grad)
    }

    /// A new accumulator of the parameter's shape, filled with `value`: `velocity` gives
    /// `fc_0.w_0_velocity_0`.
    pub fn accumulator(&self, name: &str, value: f32) -> Accumulator {
        self.declare(name, self.param.shape(), value)
    }

    /// A new accumulator that is a single number.
    pub fn number(&self, name: &str, value: f32) -> Accumulator {
        self.declare(name, vec![1], value)
    }

    /// The regulariser of this parameter: its own, or the optimizer's.
    pub fn regularizer(&self, settings: &Settings) -> Option<Regularizer> {
        regularizer::of(self.param, settings.regularization)
    }

    fn declare(&self, name: &str, shape: Vec<i64>, value: f32) -> Accumulator {
        let name = self.graph.unique_name(&format!("{}_{name}", self.param.name()));
        let var = Var::tensor(name, self.param.dtype(), shape);
        Accumulator(persistable(self.graph, var, value))
    }
}

impl Accumulator {
    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Puts it into `op`'s slots `slot` and `slot` with `Out` after it.
    pub fn join(&self, op: Op, slot: &str) -> Op {
        op.input(slot, [self.name()]).output(&format!("{slot}Out"), [self.name()])
    }
}

/// Marks `op` as one that makes a step with `grad` on `param`.
pub(crate) fn tagged(op: Op, param: &Variable, grad: &Variable) -> Op {
    let pair = vec![param.name().to_owned(), grad.name().to_owned()];
    op.role(OpRole::OPTIMIZE).attr("op_role_var", pair)
}

/// Declares `var`, which the startup program fills with `value`.
pub(crate) fn persistable(graph: &Graph, mut var: Var, value: f32) -> Variable {
    var.persistable = true;
    var.stop_gradient = true;
    let fill = Op::new("fill_constant")
        .output("Out", [var.name.as_str()])
        .attr("shape", var.shape.clone())
        .attr("dtype", var.dtype.code())
        .attr("value", value);
    graph.persistable(var, fill)
}
