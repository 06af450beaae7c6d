//! Ops and their gradients give Paddle's values.

use bireme_engine::Result;
use bireme_engine::op::run_once;
use bireme_ir::{Op, grad_name};

use crate::case::{Case, Values, input_name, named};
use crate::compare::{Tolerance, difference, lod_difference};
pub(crate) use crate::runs::{gradient_ops, report};

/// Paddle's kernels sum in another order than ours.
const TOLERANCE: Tolerance = Tolerance { rtol: 1e-5, atol: 1e-6 };

#[test]
fn golden_values_and_gradients_are_those_of_paddle() {
    report(check);
}

fn check(case: &Case) -> Result<Vec<String>> {
    let within = Tolerance {
        rtol: case.rtol.unwrap_or(TOLERANCE.rtol),
        atol: case.atol.unwrap_or(TOLERANCE.atol),
    };
    let (op, mut values, mut found) = (case.op(), case.input_values(), Vec::new());
    run_once(&op, &mut values)?;
    for (slot, i, expected) in named(&case.outputs) {
        let (expected, got) = (expected.value(), &values[&case.output_name(slot, i)]);
        let what = difference(&expected, got, within).or_else(|| lod_difference(&expected, got));
        found.extend(what.map(|what| format!("output `{slot}`.{i} {what}")));
    }
    for (slot, i, target) in named(&case.targets) {
        values.insert(grad_name(&case.output_name(slot, i)), target.value());
    }
    run_gradient(case, &op, &mut values)?;
    for (slot, i, expected) in named(&case.grads) {
        let what = match values.get(&grad_name(&input_name(slot, i))) {
            Some(got) => difference(&expected.value(), got, within),
            None => Some("is not computed".to_owned()),
        };
        found.extend(what.map(|what| format!("gradient of `{slot}`.{i} {what}")));
    }
    Ok(found)
}

/// Runs the gradient ops of `op` on `values`, which hold its inputs, outputs and target gradients.
pub(crate) fn run_gradient(case: &Case, op: &Op, values: &mut Values) -> Result<()> {
    gradient_ops(case, op, values)?.iter().try_for_each(|grad| run_once(grad, values))
}
