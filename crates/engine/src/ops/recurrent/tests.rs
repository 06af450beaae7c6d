//! What golden cases of `rnn` cannot show: dropout, missing by-products, bad input.

use bireme_ir::grad_name;

use crate::ops::testing::*;

/// Numbers that look random, in (-1, 1).
fn tensor(dims: &[usize], seed: usize) -> Value {
    let count: usize = dims.iter().product();
    let number = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f64 / 1001.5 - 1.0;
    Tensor::from_slice(dims.to_vec(), &(0..count).map(number).collect::<Vec<_>>()).unwrap().into()
}

fn outputs(op: Op) -> Op {
    op.output("Out", ["out"])
        .output("State", ["state"])
        .output("Reserve", ["reserve"])
        .output("DropoutState", ["masks"])
}

/// A GRU of two layers on 3 steps of 2 sequences.
fn network(drop: f32) -> (Op, HashMap<String, Value>) {
    let mut values = HashMap::new();
    values.insert("x".to_owned(), tensor(&[3, 2, 4], 1));
    values.insert("h".to_owned(), tensor(&[2, 2, 5], 2));
    let shapes: [&[usize]; 8] =
        [&[15, 4], &[15, 5], &[15, 5], &[15, 5], &[15], &[15], &[15], &[15]];
    for (i, dims) in shapes.iter().enumerate() {
        values.insert(format!("w{i}"), tensor(dims, 3 + i));
    }
    let op = Op::new("rnn")
        .input("Input", ["x"])
        .input("PreState", ["h"])
        .input("WeightList", (0..8).map(|i| format!("w{i}")));
    let op = outputs(op)
        .attr("mode", "GRU")
        .attr("input_size", 4)
        .attr("hidden_size", 5)
        .attr("num_layers", 2)
        .attr("dropout_prob", drop)
        .attr("seed", 3);
    (op, values)
}

fn floats(values: &HashMap<String, Value>, name: &str) -> Vec<f64> {
    values[name].tensor().unwrap().to_f64_vec()
}

/// Compares the gradients of `names` with finite differences of the sum of `out`.
fn check_gradients(op: &Op, inputs: &HashMap<String, Value>, names: &[&str]) {
    let mut values = inputs.clone();
    run_once(op, &mut values).unwrap();
    let out = values["out"].tensor().unwrap();
    let ones = Tensor::from_slice(out.dims(), &vec![1.0f64; out.numel()]).unwrap();
    values.insert(grad_name("out"), ones.into());
    let view = OpView::new(op).unwrap();
    for mut grad in view.def.grad.ops(&view).unwrap() {
        grad.inputs.remove("State@GRAD");
        run_once(&grad, &mut values).unwrap();
    }
    for name in names {
        for (i, slope) in floats(&values, &grad_name(name)).into_iter().enumerate() {
            let at = |step: f64| {
                let mut values = inputs.clone();
                let input = values.get_mut(*name).unwrap().tensor_mut().unwrap();
                input.as_mut_slice::<f64>().unwrap()[i] += step;
                run_once(op, &mut values).unwrap();
                floats(&values, "out").iter().sum::<f64>()
            };
            let difference = (at(1e-6) - at(-1e-6)) / 2e-6;
            assert!((slope - difference).abs() < 1e-7, "`{name}` {i}: {slope} {difference}");
        }
    }
}

#[test]
fn the_gradient_goes_through_the_dropout_masks() {
    let (op, inputs) = network(0.4);
    let mut values = inputs.clone();
    run_once(&op, &mut values).unwrap();
    let masks = values["masks"].tensor().unwrap();
    assert_eq!(masks.dims()[..], [1, 3, 2, 5]);
    let kept = masks.to_f64_vec().iter().sum::<f64>();
    assert!(kept > 0.0 && kept < 30.0);
    check_gradients(&op, &inputs, &["x", "w0", "w3", "w6", "h"]);
}

/// Here Paddle's gradients are wrong: it takes the padding for the state before the first step.
#[test]
fn sequences_that_end_early_have_gradients_from_both_ends() {
    for (mode, gates) in [("LSTM", 4), ("GRU", 3), ("RNN_TANH", 1), ("RNN_RELU", 1)] {
        let rows = gates * 3;
        let mut values = HashMap::from([
            ("x".to_owned(), tensor(&[4, 3, 2], 1)),
            ("h".to_owned(), tensor(&[2, 3, 3], 2)),
            ("c".to_owned(), tensor(&[2, 3, 3], 12)),
            ("lengths".to_owned(), Tensor::from_slice([3], &[1i64, 4, 0]).unwrap().into()),
        ]);
        for i in 0..8 {
            let columns = if i % 2 == 0 { 2 } else { 3 };
            let dims = if i < 4 { vec![rows, columns] } else { vec![rows] };
            values.insert(format!("w{i}"), tensor(&dims, 3 + i));
        }
        let states: &[&str] = if mode == "LSTM" { &["h", "c"] } else { &["h"] };
        let op = Op::new("rnn")
            .input("Input", ["x"])
            .input("PreState", states.iter().copied())
            .input("WeightList", (0..8).map(|i| format!("w{i}")))
            .input("SequenceLength", ["lengths"]);
        let op = outputs(op)
            .output("State", states.iter().map(|state| format!("{state}.last")))
            .attr("mode", mode)
            .attr("input_size", 2)
            .attr("hidden_size", 3)
            .attr("is_bidirec", true);
        let names = ["x", "h", "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"];
        check_gradients(&op, &values, &names);
        check_gradients(&op, &values, states);
    }
}

#[test]
fn inference_needs_no_by_products_and_drops_nothing() {
    let (op, mut values) = network(0.0);
    run_once(&op, &mut values).unwrap();
    let expected = floats(&values, "out");
    let (mut op, mut values) = network(0.4);
    op = op.attr("is_test", true);
    op.outputs.retain(|slot, _| slot == "Out" || slot == "State");
    run_once(&op, &mut values).unwrap();
    assert_eq!(floats(&values, "out"), expected);
}

#[test]
fn a_batch_without_steps_keeps_its_states() {
    let (op, mut values) = network(0.0);
    values.insert("x".to_owned(), Tensor::zeros(bireme_ir::DType::F64, [0, 2, 4]).into());
    run_once(&op, &mut values).unwrap();
    assert_eq!(floats(&values, "state"), floats(&values, "h"));
}

#[test]
fn bad_input_is_named() {
    let problem = |change: &dyn Fn(Op, &mut HashMap<String, Value>) -> Op| {
        let (op, mut values) = network(0.0);
        let op = change(op, &mut values);
        let text = run_once(&op, &mut values).unwrap_err().to_string();
        text.split_once(": ").unwrap().1.to_owned()
    };
    assert_eq!(
        problem(&|op, _| op.attr("mode", "LTSM")),
        "attribute `mode` must be LSTM, GRU, RNN_TANH or RNN_RELU, not `LTSM`"
    );
    assert_eq!(
        problem(&|op, _| op.attr("mode", "LSTM")),
        "`PreState` must hold 2 variables, not 1"
    );
    assert_eq!(
        problem(&|op, _| op.attr("is_bidirec", true)),
        "`PreState` 0 must have shape [4, 2, 5] (-1: any), not [2, 2, 5]"
    );
    assert_eq!(
        problem(&|op, _| op.attr("input_size", 3)),
        "`Input` 0 must have shape [3, 2, 3] (-1: any), not [3, 2, 4]"
    );
    let lengths = |op: Op, values: &mut HashMap<String, Value>, lengths: &[i64]| {
        let tensor = Tensor::from_slice([lengths.len()], lengths).unwrap();
        values.insert("lengths".to_owned(), tensor.into());
        op.input("SequenceLength", ["lengths"])
    };
    assert_eq!(
        problem(&|op, values| lengths(op, values, &[3, 4])),
        "`SequenceLength` 1 is 4, which is not in 0 to 3 (the steps of `Input`)"
    );
    assert_eq!(
        problem(&|op, values| lengths(op, values, &[3])),
        "`SequenceLength` 0 must have shape [2] (-1: any), not [1]"
    );
}
