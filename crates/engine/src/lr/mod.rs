//! Learning rates: constant, scheduled by ops in the program, computed by it, or set from outside.
//!
//! A schedule is a function of the step, counted by the persistable `@LR_DECAY_COUNTER@`; its ops
//! write the same variable `learning_rate_0` that a constant rate is kept in.

mod ops;
mod plateau;
mod schedule;

#[cfg(test)]
mod tests;

use bireme_ir::{DType, Var};

use crate::Result;
use crate::graph::{Graph, Variable};
use crate::optimizer::persistable;

pub use plateau::{Mode, ReduceOnPlateau, Threshold};
pub use schedule::Schedule;

/// A learning rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Lr {
    /// Always the same, unless its variable is set from outside.
    Constant(f32),
    /// A function of the step.
    Schedule(Schedule),
    /// A variable of the main program, which has one element and is computed elsewhere.
    Variable(String),
}

impl Lr {
    /// Declares the learning rate of `graph`, and appends the ops that compute it.
    ///
    /// # Errors
    /// When a schedule is impossible, or there is no such variable.
    pub fn build(&self, graph: &Graph) -> Result<Variable> {
        let first = match self {
            Lr::Constant(rate) => *rate,
            Lr::Schedule(schedule) => schedule.at(schedule.first_step()) as f32,
            Lr::Variable(name) => return graph.variable(name),
        };
        let var = Var::tensor(graph.unique_name("learning_rate"), DType::F32, [1]);
        let rate = persistable(graph, var, first);
        if let Lr::Schedule(schedule) = self {
            ops::append(schedule, graph, &rate)?;
        }
        Ok(rate)
    }
}

impl From<f32> for Lr {
    fn from(rate: f32) -> Lr {
        Lr::Constant(rate)
    }
}

impl From<f64> for Lr {
    fn from(rate: f64) -> Lr {
        Lr::Constant(rate as f32)
    }
}

impl From<Schedule> for Lr {
    fn from(schedule: Schedule) -> Lr {
        Lr::Schedule(schedule)
    }
}
