//! Steps beside others begin ahead of them: the copies of weights that a step works on are moved to
//! where momentum will have taken the weights by the time that its gradients arrive, one update
//! for each step that runs beside it. See [`LookAhead`] for the rule and the reason.
//!
//! Only copies move. Updates read and write the variables themselves, and so does who looks at them.

#![expect(unsafe_code, reason = "reads memory that training threads share")]

use std::ptr::NonNull;

use crate::optimizer::LookAhead;
use crate::plan::select::{SelectedOp, VarId};
use crate::tensor::Tensor;
use crate::value::Value;

/// Elements of which momentum is copied at a time.
const BLOCK: usize = 1024;

/// The momentum of one variable.
pub(crate) struct Ahead(LookAhead<NonNull<Value>>);

/// The variable that an op updates, with what it keeps of momentum; `None` for other ops. One that
/// does not run in every step says nothing about how many updates will come.
pub(super) fn of(op: &SelectedOp) -> Option<(VarId, LookAhead<VarId>)> {
    let param = op.input("Param").filter(|param| op.output("ParamOut") == Some(*param))?;
    let ahead = LookAhead::of(&op.op, |slot| op.input(slot)).filter(|_| !op.guarded)?;
    Some((param, ahead))
}

impl Ahead {
    /// With the values at these addresses.
    pub(super) fn new(values: LookAhead<NonNull<Value>>) -> Ahead {
        Ahead(values)
    }

    /// Moves a copy of the variable to where it will be after `updates` more.
    ///
    /// # Safety
    /// The addresses are valid, and nobody else uses the copy.
    pub(crate) unsafe fn apply(&self, copy: NonNull<Value>, updates: u32) {
        // SAFETY: the caller's promise; others may write the elements, which are loaded as such.
        let tensor = |value: &NonNull<Value>| unsafe { value.as_ref() }.tensor().ok();
        let number = |value: &NonNull<Value>| {
            let mut number = [0.0];
            tensor(value)?.load(0, &mut number).ok().map(|()| number[0])
        };
        let Some(reach) = self.0.reach(updates, number) else { return };
        let Some(momentum) = tensor(&self.0.momentum) else { return };
        let squares = self.0.squares.as_ref().and_then(tensor);
        // SAFETY: the caller's promise; the copy is none of the values above.
        let Value::Tensor(copy) = (unsafe { &mut *copy.as_ptr() }) else { return };
        let Ok(values) = copy.as_mut_slice::<f32>() else { return };
        let (mut of_momentum, mut of_squares) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (at, values) in values.chunks_mut(BLOCK).enumerate() {
            let load = |from: &Tensor, to: &mut [f32]| from.load(at * BLOCK, to).is_ok();
            let (momenta, roots) =
                (&mut of_momentum[..values.len()], &mut of_squares[..values.len()]);
            if !load(momentum, momenta) || squares.is_some_and(|squares| !load(squares, roots)) {
                return;
            }
            reach.apply(values, momenta, squares.map(|_| &*roots));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::Graph;
    use crate::layers::{self, Act};
    use crate::optimizer::{Adam, Momentum, Optimizer, Sgd};
    use crate::tensor::Tensor;
    use crate::{DType, Executor, Place, Scope};

    /// What a step computes while `others` steps run beside it, after three steps alone; and the
    /// variables as they were before it.
    fn output(optimizer: &dyn Optimizer, others: usize) -> (f64, Scope) {
        let graph = Graph::new();
        graph.set_random_seed(5);
        let x = layers::data(&graph, "x", [3], DType::F32);
        let out = layers::mean(&layers::fc(&x, 1, Act::None).unwrap()).unwrap();
        optimizer.minimize(&layers::square(&out).unwrap()).unwrap();
        let mut executor = Executor::new(Place::Cpu).unwrap().hogwild(true);
        executor.run(&graph.startup(), &[], &[]).unwrap();
        let scope = executor.scope().clone();
        let mut step = executor.prepare(&graph.main(), &["x"], &[out.name()]).unwrap();
        let x = Tensor::from_slice([1, 3], &[1.0f32, -2.0, 3.0]).unwrap();
        for _ in 0..3 {
            step.run(&[&x]).unwrap();
        }
        let before = Scope::new();
        for name in scope.names() {
            before.set(&name, &scope.get(&name).unwrap());
        }
        let beside: Vec<_> = (0..others).map(|_| scope.beside(&|| false).unwrap()).collect();
        step.run(&[&x]).unwrap();
        drop(beside);
        (step.fetched(0).to_f64_vec()[0], before)
    }

    fn number(scope: &Scope, name: &str) -> f64 {
        scope.get(name).unwrap().to_f64_vec()[0]
    }

    /// The output for the weights that `moved` gives for a scope and an element.
    fn expected(scope: &Scope, moved: impl Fn(&str, usize) -> f64) -> f64 {
        let part =
            |name: &str, at: usize| scope.get(name).unwrap().to_f64_vec()[at] - moved(name, at);
        let weights = (0..3).map(|at| [1.0, -2.0, 3.0][at] * part("fc_0.w_0", at));
        weights.sum::<f64>() + part("fc_0.b_0", 0)
    }

    #[test]
    fn a_step_begins_where_momentum_leads() {
        let of_velocity = |scope: &Scope, name: &str, at: usize| {
            scope.get(&format!("{name}_velocity_0")).unwrap().to_f64_vec()[at]
        };
        for (others, left) in [(0, 0.0), (1, 0.5), (2, 0.75)] {
            let (output, before) = output(&Momentum::new(0.01, 0.5), others);
            let moved = |name: &str, at| 0.01 * left * of_velocity(&before, name, at);
            let wanted = expected(&before, moved);
            assert!((output - wanted).abs() < 1e-5, "{others}: {output} instead of {wanted}");
        }
    }

    #[test]
    fn adams_steps_are_foreseen_too() {
        let (output, before) = output(&Adam::new(0.01), 3);
        let state = |name: &str, of: &str, at: usize| {
            before.get(&format!("{name}_{of}_0")).unwrap().to_f64_vec()[at]
        };
        let left = 0.9 + 0.81 + 0.729;
        let moved = |name: &str, at| {
            let power = |of| number(&before, &format!("{name}_{of}_pow_acc_0"));
            let root = (1.0 - power("beta2")).sqrt();
            let rate = 0.01 * root / (1.0 - power("beta1")) * left;
            rate * state(name, "moment1", at) / (state(name, "moment2", at).sqrt() + 1e-8 * root)
        };
        let wanted = expected(&before, moved);
        assert!((output - wanted).abs() < 1e-4, "{output} instead of {wanted}");
        assert!((expected(&before, |_, _| 0.0) - wanted).abs() > 1e-2, "it makes a difference");
    }

    #[test]
    fn without_momentum_a_step_begins_where_the_weights_are() {
        let (output, before) = output(&Sgd::new(0.01), 2);
        assert!((output - expected(&before, |_, _| 0.0)).abs() < 1e-5);
    }
}
