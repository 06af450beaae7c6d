//! What an optimizer needs to write the update op of one parameter.

use bireme_ir::{DType, Op, OpRole, Regularizer, Var};

use super::Settings;
use crate::graph::{Graph, Variable};
use crate::op::is_half;
use crate::regularizer;

/// The slots of a master copy, which is updated instead of a parameter of 16 bits and rounded to it.
pub(super) const MASTER: (&str, &str) = ("MasterParam", "MasterParamOut");

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
    /// Whether a parameter of 16 bits gets a master copy of 32.
    pub masters: bool,
}

/// State that an optimizer keeps beside a parameter.
#[derive(Clone, Debug)]
pub struct Accumulator(Variable);

impl Step<'_> {
    /// An op of type `kind` with parameter, gradient, learning rate, role, and no attributes yet.
    pub fn op(&self, kind: &str) -> Op {
        let op = self.tagged(
            Op::new(kind)
                .input("Param", [self.param.name()])
                .input("Grad", [self.grad.name()])
                .input("LearningRate", [self.learning_rate.name()])
                .output("ParamOut", [self.param.name()]),
        );
        if !self.masters || !is_half(self.param.dtype()) {
            return op;
        }
        let master = self.master();
        let op = op.input(MASTER.0, [master.name()]).output(MASTER.1, [master.name()]);
        let attrs = crate::ops::find(kind).map_or(&[][..], |def| def.signature.attrs);
        match attrs.iter().any(|attr| attr.name == "multi_precision") {
            true => op.attr("multi_precision", true),
            // Ops that have masters here and none in Paddle.
            false => op,
        }
    }

    /// A copy of the parameter in 32 bits, which starts from its first value: `fc_0.w_0_fp32_master_0`.
    fn master(&self) -> Variable {
        let name = self.graph.unique_name(&format!("{}_fp32_master", self.param.name()));
        let mut var = Var::tensor(name, DType::F32, self.param.shape());
        (var.persistable, var.stop_gradient) = (true, true);
        let copy = Op::new("cast")
            .input("X", [self.param.name()])
            .output("Out", [var.name.as_str()])
            .attr("in_dtype", self.param.dtype().code())
            .attr("out_dtype", DType::F32.code());
        self.graph.persistable(var, copy)
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
        // The state of an optimizer needs more digits than 16 bits have.
        let dtype = self.param.dtype();
        let dtype = if is_half(dtype) { DType::F32 } else { dtype };
        let var = Var::tensor(name, dtype, shape);
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
