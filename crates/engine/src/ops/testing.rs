//! What tests of ops share.

pub(in crate::ops) use std::collections::HashMap;

pub(in crate::ops) use bireme_ir::{DType, Op};

pub(in crate::ops) use crate::op::{OpView, run_once};
pub(in crate::ops) use crate::tensor::{SelectedRows, Tensor};
pub(in crate::ops) use crate::value::Value;

/// Runs the gradient ops of `op`.
pub(in crate::ops) fn run_gradient(op: &Op, values: &mut HashMap<String, Value>) {
    let view = OpView::new(op).unwrap();
    for grad in view.def.grad.ops(&view).unwrap() {
        run_once(&grad, values).unwrap();
    }
}

/// Checks the gradients of `op` by the variables `names` against central differences, where `values`
/// holds its inputs, in double precision, and the gradient of its one output that counts, `out`.
pub(in crate::ops) fn gradients_agree_with_differences(
    op: &Op,
    values: &HashMap<String, Value>,
    names: &[&str],
) {
    const STEP: f64 = 1e-6;
    let weights = values["out@GRAD"].tensor().unwrap().to_f64_vec();
    let loss = |values: &mut HashMap<String, Value>| {
        run_once(op, values).unwrap();
        let out = values["out"].tensor().unwrap().to_f64_vec();
        assert_eq!(out.len(), weights.len());
        out.iter().zip(&weights).map(|(out, weight)| out * weight).sum::<f64>()
    };
    let mut analytic = values.clone();
    run_once(op, &mut analytic).unwrap();
    run_gradient(op, &mut analytic);
    for name in names {
        let slopes = analytic[&format!("{name}@GRAD")].tensor().unwrap().to_f64_vec();
        for (i, slope) in slopes.iter().enumerate() {
            let at = |step: f64| {
                let mut values = values.clone();
                let input = values.get_mut(*name).unwrap().tensor_mut().unwrap();
                input.as_mut_slice::<f64>().unwrap()[i] += step;
                loss(&mut values)
            };
            let difference = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let near = (slope - difference).abs() < 1e-6 * (1.0 + slope.abs());
            assert!(near, "`{name}` {i}: gradient {slope}, difference {difference}");
        }
    }
}
