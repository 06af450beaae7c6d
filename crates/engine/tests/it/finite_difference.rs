//! Gradients are those of the function that the op computes: in double precision, against central
//! differences of `sum(target * output)`.

use bireme_engine::op::run_once;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Result, Value};
use bireme_ir::{Attr, DType, Op, grad_name};

use crate::case::{Case, Values, input_name, named};
use crate::compare::{Tolerance, dense, numbers};
use crate::golden::{report, run_gradient};

/// The step: rounding (1e-16 / STEP) and curvature (STEP²) both stay far below the tolerance.
const STEP: f64 = 1e-6;
const TOLERANCE: Tolerance = Tolerance { rtol: 1e-5, atol: 1e-7 };

#[test]
fn golden_gradients_agree_with_finite_differences() {
    report(check);
}

fn check(case: &Case) -> Result<Vec<String>> {
    if case.grads.is_empty() || !case.fd {
        return Ok(Vec::new());
    }
    let (op, inputs, mut found) = (double_op(case.op()), doubled(case.input_values()), Vec::new());
    let mut values = inputs.clone();
    run_once(&op, &mut values)?;
    for (slot, i, target) in named(&case.targets) {
        values.insert(grad_name(&case.output_name(slot, i)), double(target.value()));
    }
    run_gradient(case, &op, &mut values)?;
    for (slot, i, _) in named(&case.grads) {
        let name = input_name(slot, i);
        let Some(analytic) = values.get(&grad_name(&name)) else {
            found.push(format!("gradient of `{slot}`.{i} is not computed"));
            continue;
        };
        let slopes = differences(case, &op, &inputs, &name)?;
        let what = match elements(analytic) {
            // Two NaNs would agree, and prove nothing.
            Ok(_) if !slopes.iter().all(|slope| slope.is_finite()) => {
                Some("has no finite differences: choose other inputs, or say `fd=False`".to_owned())
            }
            Ok(analytic) => numbers(&slopes, &analytic, TOLERANCE),
            Err(problem) => Some(problem),
        };
        found.extend(what.map(|what| format!("f64 gradient of `{slot}`.{i} {what}")));
    }
    Ok(found)
}

/// The derivative of the loss by each element of input `name`.
fn differences(case: &Case, op: &Op, inputs: &Values, name: &str) -> Result<Vec<f64>> {
    let count = inputs[name].tensor()?.numel();
    let mut slopes = Vec::with_capacity(count);
    for i in 0..count {
        let loss_at = |step: f64| -> Result<f64> {
            let mut values = inputs.clone();
            let input = values.get_mut(name).expect("an input of the case");
            input.tensor_mut()?.as_mut_slice::<f64>()?[i] += step;
            run_once(op, &mut values)?;
            loss(case, &values)
        };
        slopes.push((loss_at(STEP)? - loss_at(-STEP)?) / (2.0 * STEP));
    }
    Ok(slopes)
}

/// `sum(target * output)` over all outputs that have a target.
fn loss(case: &Case, values: &Values) -> Result<f64> {
    let mut sum = 0.0;
    for (slot, i, target) in named(&case.targets) {
        let output = values[&case.output_name(slot, i)].tensor()?.to_f64_vec();
        let target = target.value().tensor()?.to_f64_vec();
        sum += output.iter().zip(target).map(|(out, target)| out * target).sum::<f64>();
    }
    Ok(sum)
}

fn elements(value: &Value) -> std::result::Result<Vec<f64>, String> {
    match value {
        Value::Tensor(tensor) => Ok(tensor.to_f64_vec()),
        Value::Rows(rows) => dense(rows),
    }
}

/// An op told to make single-precision numbers makes double-precision ones.
pub(crate) fn double_op(mut op: Op) -> Op {
    for (name, attr) in &mut op.attrs {
        if name.ends_with("dtype") && *attr == Attr::Int(DType::F32.code()) {
            *attr = Attr::Int(DType::F64.code());
        }
    }
    op
}

pub(crate) fn doubled(values: Values) -> Values {
    values.into_iter().map(|(name, value)| (name, double(value))).collect()
}

pub(crate) fn double(value: Value) -> Value {
    match value {
        Value::Tensor(tensor) => Value::Tensor(double_tensor(tensor)),
        Value::Rows(mut rows) => {
            rows.value = double_tensor(rows.value);
            Value::Rows(rows)
        }
    }
}

fn double_tensor(tensor: Tensor) -> Tensor {
    if tensor.dtype() != DType::F32 {
        return tensor;
    }
    let double = Tensor::from_slice(tensor.dims(), &tensor.to_f64_vec()).expect("the same shape");
    double.with_lod(tensor.lod()).expect("the same rows")
}
