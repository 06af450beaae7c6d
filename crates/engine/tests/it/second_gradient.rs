//! Gradients of gradients are those of the gradients: in double precision, against central
//! differences of `sum(weight * gradient)`. Goes through every golden case with a gradient.

use std::collections::BTreeSet;

use bireme_engine::op::run_once;
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Result, Value, autodiff, graph};
use bireme_ir::{Op, Program, Var};

use crate::case::{self, Case, Values, input_name, named};
use crate::compare::{Tolerance, numbers};
use crate::finite_difference::{double, double_op, doubled};

const STEP: f64 = 1e-6;
/// Attributes of formulas are of single precision.
const TOLERANCE: Tolerance = Tolerance { rtol: 2e-5, atol: 2e-6 };

/// Ops whose gradient has no gradient yet. Whoever asks for it gets an error with the name of the op.
const WITHOUT: &[&str] = &[
    "ceil",
    "cross_entropy",
    "cross_entropy2",
    "diag_v2",
    "einsum",
    "floor",
    "graph_send_recv",
    "gru",
    "gru_unit",
    "hard_swish",
    "hierarchical_sigmoid",
    "huber_loss",
    "kldiv_loss",
    "label_smooth",
    "lod_reset",
    "log_loss",
    "lstm",
    "max_pool2d_with_index",
    "meshgrid",
    "mish",
    "nce",
    "pad",
    "pad3d",
    "partial_concat",
    "partial_sum",
    "prelu",
    "reduce_prod",
    "rnn",
    "roll",
    "round",
    "scatter",
    "selu",
    "sequence_concat",
    "sequence_conv",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_pad",
    "sequence_pool",
    "sequence_reshape",
    "sequence_reverse",
    "sequence_scatter",
    "sequence_slice",
    "sequence_softmax",
    "sequence_unpad",
    "set_value",
    "shuffle_batch",
    "unstack",
];

#[test]
fn gradients_of_gradients_agree_with_finite_differences() {
    let (mut failures, mut with, mut without) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (family, case) in case::all() {
        if case.grads.is_empty() || !case.fd {
            continue;
        }
        match check(&case) {
            Ok(found) => {
                with.insert(case.op.clone());
                failures
                    .extend(found.iter().map(|what| format!("{family}: {}: {what}", case.title())));
            }
            Err(error) if error.to_string().contains("no gradient of a gradient") => {
                without.insert(case.op.clone());
            }
            Err(error) => failures.push(format!("{family}: {}: {error}", case.title())),
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    let without: Vec<&str> = without.difference(&with).map(String::as_str).collect();
    assert_eq!(without, WITHOUT, "of {} ops that have a gradient", without.len() + with.len());
}

/// A program with the gradients of an op, and with theirs.
struct Twice {
    program: Program,
    /// Ops up to the first gradients.
    first: usize,
    /// First gradients, and the variables that they are weighed with.
    gradients: Vec<(String, String)>,
    /// What they depend on, and the second gradients.
    inputs: Vec<(String, Option<String>)>,
}

fn check(case: &Case) -> Result<Vec<String>> {
    let mut values = doubled(case.input_values());
    for (slot, i, target) in named(&case.targets) {
        values.insert(weight_of(&case.output_name(slot, i)), double(target.value()));
    }
    if values.values().any(|value| value.rows().is_some()) {
        return Ok(Vec::new());
    }
    let Some(twice) = twice(case, &mut values)? else { return Ok(Vec::new()) };
    let mut all = values.clone();
    run(&twice.program.global().ops, &mut all)?;
    let mut found = Vec::new();
    for (input, gradient) in &twice.inputs {
        let slopes = differences(&twice, &values, input)?;
        let count = slopes.len();
        let analytic = match gradient {
            Some(gradient) => all[gradient].tensor()?.to_f64_vec(),
            None => vec![0.0; count],
        };
        if slopes.iter().all(|slope| slope.is_finite()) {
            let what = numbers(&slopes, &analytic, TOLERANCE);
            found.extend(what.map(|what| format!("second gradient of `{input}` {what}")));
        }
    }
    Ok(found)
}

/// Nothing where a gradient is selected rows, which have none.
fn twice(case: &Case, values: &mut Values) -> Result<Option<Twice>> {
    let mut program = Program::default();
    for (name, value) in values.iter() {
        let tensor = value.tensor()?;
        let dims: Vec<i64> = tensor.dims().iter().map(|dim| *dim as i64).collect();
        let mut var = Var::tensor(name.clone(), tensor.dtype(), dims);
        var.lod_level = u32::try_from(tensor.lod().len()).expect("few levels");
        program.global_mut().add_var(var);
    }
    let op = double_op(case.op());
    // What an op changes in place is state, as running means are.
    for state in op.output_vars().filter(|out| op.input_vars().any(|input| input == *out)) {
        if let Some(var) = program.global_mut().vars.get_mut(state) {
            var.stop_gradient = true;
        }
    }
    graph::infer_into(program.global_mut(), &op)?;
    program.global_mut().ops.push(op);
    let outputs: Vec<String> =
        named(&case.targets).map(|(slot, i, _)| case.output_name(slot, i)).collect();
    let weights: Vec<String> = outputs.iter().map(|name| weight_of(name)).collect();
    let mut inputs: Vec<String> =
        named(&case.grads).map(|(slot, i, _)| input_name(slot, i)).collect();
    let found = gradients(&mut program, &outputs, &inputs, &weights)?;
    let first = program.global().ops.len();
    let found: BTreeSet<String> = found.into_iter().flatten().collect();
    let found: Vec<String> = found.into_iter().collect();
    // The first gradients, to know their shapes.
    let mut run_first = values.clone();
    run(&program.global().ops, &mut run_first)?;
    if found.iter().any(|gradient| run_first[gradient].rows().is_some()) {
        return Ok(None);
    }
    let mut second_weights = Vec::new();
    for gradient in &found {
        let dims = run_first[gradient].tensor()?.dims();
        let numbers: Vec<f64> = (0..dims.numel()).map(|i| 0.5 + (i as f64 * 1.7).sin()).collect();
        let name = weight_of(gradient);
        let sizes: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
        program.global_mut().add_var(Var::tensor(name.clone(), DType::F64, sizes));
        values.insert(name.clone(), Value::Tensor(Tensor::from_slice(dims, &numbers)?));
        second_weights.push(name);
    }
    inputs.extend(weights);
    let second = gradients(&mut program, &found, &inputs, &second_weights)?;
    let gradients = found.into_iter().zip(second_weights).collect();
    let inputs = inputs.into_iter().zip(second).collect();
    Ok(Some(Twice { program, first, gradients, inputs }))
}

fn gradients(
    program: &mut Program,
    targets: &[String],
    inputs: &[String],
    weights: &[String],
) -> Result<Vec<Option<String>>> {
    let texts = |names: &[String]| names.to_vec();
    let (targets, inputs, weights) = (texts(targets), texts(inputs), texts(weights));
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let weights: Vec<Option<&str>> = weights.iter().map(|name| Some(name.as_str())).collect();
    autodiff::gradients_in(program, &targets, &inputs, Some(&weights), &[])
}

/// The derivative of the weighed first gradients by each element of an input.
fn differences(twice: &Twice, values: &Values, name: &str) -> Result<Vec<f64>> {
    let ops = &twice.program.global().ops[..twice.first];
    let count = values[name].tensor()?.numel();
    let mut slopes = Vec::with_capacity(count);
    for i in 0..count {
        let at = |step: f64| -> Result<f64> {
            let mut moved = values.clone();
            let input = moved.get_mut(name).expect("an input of the case");
            input.tensor_mut()?.as_mut_slice::<f64>()?[i] += step;
            run(ops, &mut moved)?;
            let mut sum = 0.0;
            for (gradient, weight) in &twice.gradients {
                let gradient = moved[gradient].tensor()?.to_f64_vec();
                let weight = values[weight].tensor()?.to_f64_vec();
                sum += gradient.iter().zip(weight).map(|(g, w)| g * w).sum::<f64>();
            }
            Ok(sum)
        };
        slopes.push((at(STEP)? - at(-STEP)?) / (2.0 * STEP));
    }
    Ok(slopes)
}

fn run(ops: &[Op], values: &mut Values) -> Result<()> {
    ops.iter().try_for_each(|op| run_once(op, values))
}

fn weight_of(name: &str) -> String {
    format!("weight.{name}")
}
