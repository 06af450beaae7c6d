//! Schedules as ops: each formula of [`Schedule`], written with ops on one-element tensors.

use bireme_ir::{DType, Op, OpRole, Var};

use super::{Lr, Schedule};
use crate::graph::{Graph, Variable};
use crate::optimizer::persistable;
use crate::{Error, Result};

/// Counts the steps; the name is Paddle's.
pub(super) const COUNTER: &str = "@LR_DECAY_COUNTER@";

/// Appends the ops that write the rate of this step to `rate`.
pub(super) fn append(schedule: &Schedule, graph: &Graph, rate: &Variable) -> Result<()> {
    check(schedule)?;
    graph.with_role(OpRole::LR_SCHED, || {
        let build = Build { graph };
        let step = build.step(schedule.first_step())?;
        let value = build.schedule(schedule, &step)?;
        let op = Op::new("assign").input("X", [value.name()]).output("Out", [rate.name()]);
        graph.append_op(op)
    })
}

/// What no formula can do anything with.
fn check(schedule: &Schedule) -> Result<()> {
    let positive = |name: &str, value: f32| {
        let problem = || Error::kernel(format!("`{name}` must be positive, not {value}"));
        (value > 0.0).then_some(()).ok_or_else(problem)
    };
    match schedule {
        Schedule::Noam { d_model, warmup_steps, .. } => {
            positive("d_model", *d_model)?;
            positive("warmup_steps", *warmup_steps)
        }
        Schedule::Exponential { decay_steps, .. }
        | Schedule::NaturalExp { decay_steps, .. }
        | Schedule::InverseTime { decay_steps, .. }
        | Schedule::Polynomial { decay_steps, .. } => positive("decay_steps", *decay_steps),
        Schedule::Piecewise { boundaries, values } => {
            if values.len() != boundaries.len() + 1 {
                return Err(Error::kernel(format!(
                    "{} boundaries separate {} values, but {} are given",
                    boundaries.len(),
                    boundaries.len() + 1,
                    values.len()
                )));
            }
            if boundaries.windows(2).any(|pair| pair[0] > pair[1]) {
                return Err(Error::kernel(format!("the boundaries {boundaries:?} must rise")));
            }
            Ok(())
        }
        Schedule::Cosine { step_each_epoch, epochs, .. } => {
            positive("step_each_epoch", *step_each_epoch)?;
            positive("epochs", *epochs)
        }
        Schedule::LinearWarmup { warmup_steps, then, .. } => {
            positive("warmup_steps", *warmup_steps)?;
            match &**then {
                Lr::Constant(_) | Lr::Variable(_) => Ok(()),
                Lr::Schedule(schedule) => check(schedule),
            }
        }
    }
}

/// Appends ops, one formula after the other.
struct Build<'a> {
    graph: &'a Graph,
}

impl Build<'_> {
    /// The number of this step as a float; the counter is raised before it is read.
    fn step(&self, first: u64) -> Result<Variable> {
        let counter = match self.graph.variable(COUNTER) {
            Ok(counter) => counter,
            Err(_) => {
                let var = Var::tensor(COUNTER, DType::I64, [1]);
                let counter = persistable(self.graph, var, first as f32 - 1.0);
                let op = Op::new("increment").input("X", [COUNTER]).output("Out", [COUNTER]);
                self.graph.append_op(op.attr("step", 1.0f32))?;
                counter
            }
        };
        let op = Op::new("cast")
            .input("X", [counter.name()])
            .attr("in_dtype", DType::I64.code())
            .attr("out_dtype", DType::F32.code());
        self.append(op)
    }

    fn schedule(&self, schedule: &Schedule, step: &Variable) -> Result<Variable> {
        match schedule {
            Schedule::Noam { d_model, warmup_steps, rate } => {
                let falling = self.pow(step, -0.5)?;
                let rising = self.scale(step, warmup_steps.powf(-1.5), 0.0)?;
                let least = self.binary("elementwise_min", &falling, &rising)?;
                self.scale(&least, rate * d_model.powf(-0.5), 0.0)
            }
            Schedule::Exponential { rate, decay_steps, decay_rate, staircase } => {
                let time = self.time(step, *decay_steps, *staircase)?;
                let base = self.constant(*decay_rate)?;
                self.scale(&self.binary("elementwise_pow", &base, &time)?, *rate, 0.0)
            }
            Schedule::NaturalExp { rate, decay_steps, decay_rate, staircase } => {
                let time = self.time(step, *decay_steps, *staircase)?;
                let decay = self.unary("exp", &self.scale(&time, -decay_rate, 0.0)?)?;
                self.scale(&decay, *rate, 0.0)
            }
            Schedule::InverseTime { rate, decay_steps, decay_rate, staircase } => {
                let time = self.time(step, *decay_steps, *staircase)?;
                let slower = self.scale(&time, *decay_rate, 1.0)?;
                self.binary("elementwise_div", &self.constant(*rate)?, &slower)
            }
            Schedule::Polynomial { rate, decay_steps, end, power, cycle } => {
                let done = self.part_done(step, *decay_steps, *cycle)?;
                let left = self.scale(&done, -1.0, 1.0)?;
                self.scale(&self.pow(&left, *power)?, rate - end, *end)
            }
            Schedule::Piecewise { boundaries, values } => self.pieces(step, boundaries, values),
            Schedule::Cosine { rate, step_each_epoch, epochs } => {
                let epoch = self.time(step, *step_each_epoch, true)?;
                let angle = self.scale(&epoch, std::f32::consts::PI / epochs, 0.0)?;
                self.scale(&self.unary("cos", &angle)?, rate / 2.0, rate / 2.0)
            }
            Schedule::LinearWarmup { warmup_steps, start, end, then } => {
                let line = self.scale(step, (end - start) / warmup_steps, *start)?;
                let then = match &**then {
                    Lr::Constant(rate) => self.constant(*rate)?,
                    Lr::Variable(name) => self.graph.variable(name)?,
                    Lr::Schedule(then) => {
                        let later = self.scale(step, 1.0, -warmup_steps)?;
                        // Never before its own start, even though nothing uses that rate.
                        let zero = self.constant(0.0)?;
                        self.schedule(then, &self.binary("elementwise_max", &later, &zero)?)?
                    }
                };
                self.choose(step, *warmup_steps, &line, &then)
            }
        }
    }

    /// The part of the fall that lies behind `step`.
    fn part_done(&self, step: &Variable, steps: f32, cycle: bool) -> Result<Variable> {
        if !cycle {
            let step = self.binary("elementwise_min", step, &self.constant(steps)?)?;
            return self.scale(&step, 1.0 / steps, 0.0);
        }
        let cycles = self.unary("ceil", &self.time(step, steps, false)?)?;
        let cycles = self.binary("elementwise_max", &cycles, &self.constant(1.0)?)?;
        self.binary("elementwise_div", step, &self.scale(&cycles, steps, 0.0)?)
    }

    /// The last value whose boundary is not reached, from the last boundary to the first.
    fn pieces(&self, step: &Variable, boundaries: &[i64], values: &[f32]) -> Result<Variable> {
        let mut rate = self.constant(values[boundaries.len()])?;
        for (boundary, value) in boundaries.iter().zip(values).rev() {
            rate = self.choose(step, *boundary as f32, &self.constant(*value)?, &rate)?;
        }
        Ok(rate)
    }

    /// `below` when `step < boundary`, else `above`.
    fn choose(
        &self,
        step: &Variable,
        boundary: f32,
        below: &Variable,
        above: &Variable,
    ) -> Result<Variable> {
        let before = self.binary("less_than", step, &self.constant(boundary)?)?;
        let op = Op::new("where").input("Condition", [before.name()]);
        self.append(op.input("X", [below.name()]).input("Y", [above.name()]))
    }

    fn time(&self, step: &Variable, steps: f32, staircase: bool) -> Result<Variable> {
        // Divided, not multiplied by an inverse: whole times must come out whole.
        let time = self.binary("elementwise_div", step, &self.constant(steps)?)?;
        if staircase { self.unary("floor", &time) } else { Ok(time) }
    }

    fn constant(&self, value: f32) -> Result<Variable> {
        let op = Op::new("fill_constant").attr("shape", vec![1i64]);
        self.append(op.attr("dtype", DType::F32.code()).attr("value", value))
    }

    fn scale(&self, x: &Variable, scale: f32, bias: f32) -> Result<Variable> {
        let op = Op::new("scale").input("X", [x.name()]);
        self.append(op.attr("scale", scale).attr("bias", bias))
    }

    fn pow(&self, x: &Variable, factor: f32) -> Result<Variable> {
        self.append(Op::new("pow").input("X", [x.name()]).attr("factor", factor))
    }

    fn unary(&self, kind: &str, x: &Variable) -> Result<Variable> {
        self.append(Op::new(kind).input("X", [x.name()]))
    }

    fn binary(&self, kind: &str, x: &Variable, y: &Variable) -> Result<Variable> {
        self.append(Op::new(kind).input("X", [x.name()]).input("Y", [y.name()]).attr("axis", -1))
    }

    fn append(&self, op: Op) -> Result<Variable> {
        let out = self.graph.temporary("learning_rate");
        self.graph.append_op(op.output("Out", [out.name()]))?;
        Ok(out)
    }
}
