//! Ops and their gradients give Paddle's values.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bireme_engine::op::{OpView, run_once};
use bireme_engine::ops;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Result, Value};
use bireme_ir::{Op, grad_name};

use crate::case::{self, Case, Values, input_name, named};
use crate::compare::{Tolerance, difference, lod_difference};

/// Paddle's kernels sum in another order than ours.
const TOLERANCE: Tolerance = Tolerance { rtol: 1e-5, atol: 1e-6 };

#[test]
fn golden_values_and_gradients_are_those_of_paddle() {
    report(check);
}

/// Runs `check` on every case, and fails with everything that it found.
pub(crate) fn report(check: fn(&Case) -> Result<Vec<String>>) {
    let (mut failures, mut count) = (Vec::new(), 0);
    for (family, case) in case::all() {
        count += 1;
        let found = catch_unwind(AssertUnwindSafe(|| check(&case))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            Ok(vec![format!("panicked: {}", text.unwrap_or_default())])
        });
        let found = found.unwrap_or_else(|error| vec![error.to_string()]);
        failures.extend(found.iter().map(|what| format!("{family}: {}: {what}", case.title())));
    }
    assert!(
        failures.is_empty(),
        "{} failures in {count} golden cases\n{}",
        failures.len(),
        failures.join("\n")
    );
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

/// The gradient ops of `op`; `values` gets the target gradients that are missing. Only the input
/// gradients that the case compares are asked for.
pub(crate) fn gradient_ops(case: &Case, op: &Op, values: &mut Values) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    if case.grads.is_empty() {
        return Ok(ops);
    }
    let view = OpView::new(op)?;
    let unwanted: HashSet<String> = case
        .inputs
        .iter()
        .filter(|(slot, _)| !case.grads.contains_key(*slot))
        .flat_map(|(slot, items)| (0..items.len()).map(|i| grad_name(&input_name(slot, i))))
        .collect();
    for mut grad in view.def.grad.ops(&view)? {
        grad.outputs.retain(|_, vars| !vars.iter().any(|var| unwanted.contains(var)));
        if !grad.outputs.is_empty() {
            fill_missing_targets(op, &mut grad, values)?;
            ops.push(grad);
        }
    }
    Ok(ops)
}

/// An output with no target gradient counts nothing: its gradient is left out where the gradient
/// op allows it, and is zero otherwise.
fn fill_missing_targets(op: &Op, grad: &mut Op, values: &mut Values) -> Result<()> {
    let signature = ops::find(&grad.kind)?.signature;
    for out in op.output_vars() {
        let name = grad_name(out);
        if values.contains_key(&name) {
            continue;
        }
        grad.inputs.retain(|slot, vars| {
            let required = signature.inputs.iter().any(|s| s.name == slot && s.required);
            required || vars.len() > 1 || !vars.contains(&name)
        });
        if grad.input_vars().any(|var| *var == name)
            && let Ok(tensor) = values[out].tensor()
        {
            let zeros = Tensor::zeros(tensor.dtype(), tensor.dims());
            values.insert(name, Value::Tensor(zeros));
        }
    }
    Ok(())
}
