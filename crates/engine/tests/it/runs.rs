//! Goes through the golden cases, and makes the gradient ops that belong to them.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bireme_engine::op::OpView;
use bireme_engine::ops;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Result, Value};
use bireme_ir::{Op, grad_name};

use crate::case::{self, Case, Values, input_name};

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
