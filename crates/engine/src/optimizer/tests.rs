//! Laws that hold for every optimizer: sparse gradients mean what they stand for, updates may be
//! shared out, and `minimize` builds what Paddle's does.

use std::collections::HashMap;

use half::bf16;

use bireme_ir::{Attr, DType, Op, Param, Regularizer, Var};
use proptest::prelude::*;

use super::*;
use crate::clip::GradClip;
use crate::op::run_once;
use crate::ops;
use crate::tensor::{SelectedRows, Tensor};
use crate::value::Value;

const WIDTH: usize = 9;

type Values = HashMap<String, Value>;

/// The state of one update of a parameter of `len` elements, made from `seed`.
fn values(kind: &str, seed: u64, rows: usize) -> Values {
    let random = crate::random::Philox::new(seed, kind);
    let dims = [rows, WIDTH];
    let mut count = 0;
    let mut tensor = |low: f32| {
        let numbers: Vec<f32> = (0..rows * WIDTH)
            .map(|_| {
                count += 1;
                low + 0.9 * random.uniform(count)
            })
            .collect();
        Value::from(Tensor::from_slice(dims, &numbers).unwrap())
    };
    let mut values = Values::new();
    for slot in
        ops::find(kind).unwrap().signature.inputs.iter().filter(|slot| !is_master(slot.name))
    {
        let value = match slot.name {
            "LearningRate" => Tensor::scalar(0.1f32).into(),
            "Beta1Pow" => Tensor::scalar(0.81f32).into(),
            "Beta2Pow" => Tensor::scalar(0.99f32).into(),
            // Means of gradients are less than the root of the means of squares.
            "MeanGrad" => tensor(-0.45),
            "Param" | "Grad" => tensor(-0.5),
            _ => tensor(1.0),
        };
        values.insert(slot.name.to_owned(), value);
    }
    values
}

/// Whether a slot is about master copies, which only parameters of 16 bits have.
fn is_master(slot: &str) -> bool {
    slot.starts_with("MasterParam")
}

/// The slots of the parameter and its accumulators: `(input, output)`.
fn updated(kind: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    ops::find(kind).unwrap().inplace.iter().filter(|(input, _)| !is_master(input))
}

/// The op on variables named like its slots, in place.
fn op(kind: &str) -> Op {
    let def = ops::find(kind).unwrap();
    let mut op = Op::new(kind).attr("lazy_mode", true).attr("centered", true);
    op = op.attr("with_decay", true).attr("regularization_method", "l2_decay");
    op = op.attr("regularization_coeff", 0.1f32).attr("l1", 0.1f32).attr("mu", 0.9f32);
    op.attrs.retain(|name, _| def.signature.attrs.iter().any(|attr| attr.name == name));
    for slot in def.signature.inputs.iter().filter(|slot| !is_master(slot.name)) {
        op = op.input(slot.name, [slot.name]);
    }
    for (input, output) in updated(kind) {
        op = op.output(output, [*input]);
    }
    op
}

/// The same for dense and sparse gradients alike: with powers that change, sparse Adam is one step
/// ahead of the dense one; see its file.
fn alike(kind: &str) -> Op {
    if kind == "adam" { op(kind).attr("use_global_beta_pow", true) } else { op(kind) }
}

const KINDS: [&str; 12] = [
    "sgd",
    "momentum",
    "adagrad",
    "decayed_adagrad",
    "adadelta",
    "adam",
    "adamw",
    "adamax",
    "rmsprop",
    "ftrl",
    "lamb",
    "lars_momentum",
];

fn numbers(values: &Values, name: &str) -> Vec<f32> {
    values[name].tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn assert_same(kind: &str, a: &Values, b: &Values) {
    for (name, _) in updated(kind) {
        assert_eq!(numbers(a, name), numbers(b, name), "`{name}` of `{kind}`");
    }
}

/// The gradient in `values` as selected rows in the order `order`, some rows in two parts.
fn sparse(values: &Values, order: &[usize], split: bool) -> Value {
    let grad = numbers(values, "Grad");
    let (mut rows, mut parts) = (Vec::new(), Vec::new());
    for row in order {
        let whole = &grad[row * WIDTH..(row + 1) * WIDTH];
        rows.push(*row as i64);
        if split && row % 2 == 0 {
            // Halves add up exactly.
            rows.push(*row as i64);
            parts.extend(whole.iter().chain(whole).map(|x| x / 2.0));
        } else {
            parts.extend(whole);
        }
    }
    let value = Tensor::from_slice([rows.len(), WIDTH], &parts).unwrap();
    Value::Rows(SelectedRows { rows, height: grad.len() / WIDTH, value })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_sparse_gradient_of_all_rows_is_the_dense_one(
        seed: u64,
        order in Just((0..23).collect::<Vec<usize>>()).prop_shuffle(),
        split: bool,
    ) {
        for kind in KINDS {
            let mut dense = values(kind, seed, order.len());
            let mut rows = dense.clone();
            rows.insert("Grad".to_owned(), sparse(&dense, &order, split));
            run_once(&alike(kind), &mut dense).unwrap();
            run_once(&alike(kind), &mut rows).unwrap();
            assert_same(kind, &dense, &rows);
        }
    }

    #[test]
    fn rows_without_a_gradient_are_kept_or_decay(
        seed: u64,
        order in proptest::sample::subsequence((0..23).collect::<Vec<usize>>(), 0..23).prop_shuffle(),
    ) {
        for kind in KINDS {
            for lazy in [true, false] {
                let mut dense = values(kind, seed, 23);
                let before = dense.clone();
                let mut op = alike(kind);
                let rows_only = match op.attrs.get_mut("lazy_mode") {
                    Some(attr) => { *attr = Attr::Bool(lazy); lazy }
                    None => matches!(kind, "sgd" | "adagrad" | "ftrl"),
                };
                let mut rows = dense.clone();
                rows.insert("Grad".to_owned(), sparse(&dense, &order, false));
                let named: Vec<bool> = (0..23).map(|row| order.contains(&row)).collect();
                let mut grad = numbers(&dense, "Grad");
                for (x, i) in grad.iter_mut().zip(0..) {
                    *x *= f32::from(u8::from(named[i / WIDTH]));
                }
                dense.insert("Grad".to_owned(), Tensor::from_slice([23, WIDTH], &grad).unwrap().into());
                run_once(&op, &mut dense).unwrap();
                run_once(&op, &mut rows).unwrap();
                for (name, _) in updated(kind) {
                    let (after, dense) = (numbers(&rows, name), numbers(&dense, name));
                    for (i, (after, dense)) in after.iter().zip(&dense).enumerate() {
                        let kept = rows_only && !name.contains("Pow") && !named[i / WIDTH];
                        let expected = if kept { numbers(&before, name)[i] } else { *dense };
                        prop_assert_eq!(*after, expected, "`{}` of `{}`", name, kind);
                    }
                }
            }
        }
    }

    #[test]
    fn an_update_may_be_shared_out(seed: u64, cut in 0usize..=23 * WIDTH) {
        for kind in KINDS.iter().filter(|kind| !matches!(**kind, "lamb" | "lars_momentum")) {
            let mut whole = values(kind, seed, 23);
            let parts = [0..cut, cut..23 * WIDTH].map(|range| {
                let mut part = whole.clone();
                for value in part.values_mut() {
                    let all = value.tensor().unwrap().as_slice::<f32>().unwrap();
                    if all.len() > 1 {
                        *value = Tensor::from_slice([range.len()], &all[range.clone()]).unwrap().into();
                    }
                }
                let mut op = op(kind);
                if range.start > 0 {
                    // The first part raises the powers, so this one must not.
                    op.outputs.retain(|slot, _| !slot.contains("Pow"));
                }
                run_once(&op, &mut part).unwrap();
                part
            });
            run_once(&op(kind), &mut whole).unwrap();
            for (name, _) in updated(kind) {
                let expected = numbers(&whole, name);
                if name.contains("Pow") {
                    if cut > 0 {
                        prop_assert_eq!(&numbers(&parts[0], name), &expected);
                        prop_assert_ne!(&numbers(&parts[1], name), &expected);
                    }
                    continue;
                }
                let both = [numbers(&parts[0], name), numbers(&parts[1], name)].concat();
                prop_assert_eq!(both, expected, "`{}` of `{}`", name, kind);
            }
        }
    }
}

#[test]
fn bad_gradients_are_errors() {
    let mut all = values("adam", 1, 4);
    let good = all["Grad"].clone();
    let error = |grad: Value, all: &mut Values| {
        all.insert("Grad".to_owned(), grad);
        run_once(&op("adam"), all).unwrap_err().to_string()
    };
    let short = Tensor::from_slice([2], &[0.0f32; 2]).unwrap();
    let message = error(short.into(), &mut all);
    assert!(message.contains("`Grad` [2] has 2 elements, but `Param` has 36"), "{message}");
    let value = Tensor::from_slice([1, WIDTH], &[0.0f32; WIDTH]).unwrap();
    let outside = Value::Rows(SelectedRows { rows: vec![4], height: 4, value: value.clone() });
    let message = error(outside, &mut all);
    assert!(message.contains("row 4 lies outside a table of 4 rows"), "{message}");
    let tall = Value::Rows(SelectedRows { rows: vec![4], height: 5, value });
    let message = error(tall, &mut all);
    assert!(message.contains("5 rows of 9, but `Param` has 36"), "{message}");
    all.insert("Moment1".to_owned(), Tensor::scalar(0.0f32).into());
    let message = error(good, &mut all);
    assert!(message.contains("an accumulator has 1 elements"), "{message}");
}

#[test]
fn a_master_copy_is_updated_and_rounded() {
    for kind in KINDS {
        let (mut wide, mut narrow) = (values(kind, 1, 4), values(kind, 1, 4));
        // A parameter that says as much with 16 bits, so that both begin at the same numbers.
        let param = wide["Param"].tensor().unwrap().to_f64_vec();
        let halves: Vec<bf16> = param.iter().map(|x| bf16::from_f64(*x)).collect();
        let dims = wide["Param"].tensor().unwrap().dims();
        let full: Vec<f32> = halves.iter().map(|x| x.to_f32()).collect();
        wide.insert("Param".to_owned(), Tensor::from_slice(dims, &full).unwrap().into());
        narrow.insert("MasterParam".to_owned(), wide["Param"].clone());
        narrow.insert("Param".to_owned(), Tensor::from_slice(dims, &halves).unwrap().into());
        run_once(&op(kind), &mut wide).unwrap();
        let with_master = op(kind)
            .input("MasterParam", ["MasterParam"])
            .output("MasterParamOut", ["MasterParam"]);
        run_once(&with_master, &mut narrow).unwrap();
        assert_eq!(narrow["MasterParam"], wide["Param"], "{kind}");
        let rounded = wide["Param"].tensor().unwrap().to_f64_vec();
        let rounded: Vec<f64> = rounded.iter().map(|x| bf16::from_f64(*x).to_f64()).collect();
        let param = narrow["Param"].tensor().unwrap();
        assert_eq!((param.dtype(), param.to_f64_vec()), (DType::BF16, rounded), "{kind}");
    }
}

/// Two parameters with gradients, as a backward pass would leave them.
fn graph() -> (Graph, Vec<(Variable, Variable)>) {
    let graph = Graph::new();
    let pair = |name: &str, shape: Vec<i64>| {
        let param = graph.declare(Var::parameter(name, DType::F32, shape.clone()));
        (param, graph.declare(Var::tensor(bireme_ir::grad_name(name), DType::F32, shape)))
    };
    let pairs = vec![pair("fc_0.w_0", vec![3, 2]), pair("fc_0.b_0", vec![2])];
    (graph, pairs)
}

fn kinds(ops: &[Op]) -> Vec<&str> {
    ops.iter().map(|op| op.kind.as_str()).collect()
}

#[test]
fn accumulators_have_paddles_names() {
    let (graph, pairs) = graph();
    let made = Adam::new(0.1).lazy_mode(true).apply_gradients(pairs).unwrap();
    assert_eq!(kinds(&graph.main().global().ops), ["adam", "adam"]);
    let op = &made.optimize_ops[1];
    assert_eq!(op.outputs_of("Moment1Out"), ["fc_0.w_0_moment1_0"]);
    assert_eq!(op.inputs_of("Beta2Pow"), ["fc_0.w_0_beta2_pow_acc_0"]);
    assert_eq!(op.inputs_of("LearningRate"), ["learning_rate_0"]);
    assert_eq!(op.attrs["op_role_var"], vec!["fc_0.w_0".to_owned(), "fc_0.w_0@GRAD".into()].into());
    let startup = graph.startup();
    let filled: Vec<&String> =
        startup.global().ops.iter().flat_map(|op| op.outputs_of("Out")).collect();
    assert_eq!(filled.len(), 9);
    assert!(filled.contains(&&"fc_0.b_0_moment2_0".to_owned()));
    assert!(startup.global().var("fc_0.b_0_beta1_pow_acc_0").unwrap().persistable);
}

/// Every optimizer, with the number of its accumulators.
fn optimizers() -> Vec<(Box<dyn Optimizer>, usize)> {
    vec![
        (Box::new(Sgd::new(0.1)), 0),
        (Box::new(Momentum::new(0.1, 0.9).use_nesterov(true)), 1),
        (Box::new(Adagrad::new(0.1).initial_accumulator_value(0.1)), 1),
        (Box::new(DecayedAdagrad::new(0.1).decay(0.9)), 1),
        (Box::new(Adadelta::new(0.1).rho(0.9)), 2),
        (Box::new(Adam::new(0.1).beta1(0.8)), 4),
        (Box::new(AdamW::new(0.1).without_decay(["fc_0.b_0"])), 4),
        (Box::new(Adamax::new(0.1).beta2(0.9)), 3),
        (Box::new(RmsProp::new(0.1).centered(true).momentum(0.9)), 3),
        (Box::new(Ftrl::new(0.1).l1(0.1).l2(0.1)), 2),
        (Box::new(Lamb::new(0.1).always_adapt(true)), 4),
        (Box::new(Lars::new(0.1, 0.9).lars_coeff(0.1)), 1),
    ]
}

#[test]
fn every_builder_makes_an_op_that_its_definition_accepts() {
    for (optimizer, accumulators) in optimizers() {
        let (graph, pairs) = graph();
        let made = optimizer.apply_gradients(pairs).unwrap();
        for op in &made.optimize_ops {
            let def = ops::find(&op.kind).unwrap();
            for name in op.attrs.keys().filter(|name| !name.starts_with("op_role")) {
                let known = def.signature.attrs.iter().any(|attr| attr.name == name);
                assert!(known, "`{}` has no attribute `{name}`", op.kind);
            }
            let view = crate::op::OpView::new(op).unwrap();
            drop(view.kernel().unwrap());
        }
        // Two parameters' accumulators, and the learning rate.
        let kind = &made.optimize_ops[0].kind;
        assert_eq!(graph.startup().global().ops.len(), 2 * accumulators + 1, "{kind}");
    }
}

#[test]
fn a_parameter_may_have_its_own_rate_and_regularizer() {
    let (graph, pairs) = graph();
    graph.edit_main(|main| {
        let var = main.global_mut().vars.get_mut("fc_0.w_0").unwrap();
        let regularizer = Some(Regularizer::L2(0.5));
        var.param = Some(Param { learning_rate: 0.5, regularizer, ..Param::default() });
    });
    let made = Momentum::new(0.1, 0.9)
        .regularization(Regularizer::L2(0.1))
        .apply_gradients(pairs)
        .unwrap();
    let coeffs: Vec<_> =
        made.optimize_ops.iter().map(|op| op.attrs["regularization_coeff"].clone()).collect();
    assert_eq!(coeffs, [Attr::Float(0.1), Attr::Float(0.5)]);
    assert_eq!(kinds(&graph.main().global().ops), ["momentum", "scale", "momentum"]);
    let none = Sgd::new(0.1).apply_gradients(Vec::new()).unwrap_err().to_string();
    assert!(none.contains("no trainable parameter"), "{none}");
}

#[test]
fn gradients_are_clipped_then_regularized() {
    let (graph, pairs) = graph();
    let optimizer = Sgd::new(0.1).regularization(Regularizer::L1(0.1));
    let made = optimizer.grad_clip(GradClip::GlobalNorm(1.0)).apply_gradients(pairs).unwrap();
    let main = graph.main();
    let expected = "squared_l2_norm squared_l2_norm sum sqrt fill_constant elementwise_max \
                    elementwise_div elementwise_mul elementwise_mul sign scale sum sign scale sum \
                    sgd sgd";
    assert_eq!(kinds(&main.global().ops).join(" "), expected);
    // Step by step: |grad| = 5 is scaled to 1, then the penalty of 0.1 is added.
    let mut values = Values::new();
    let tensor = |dims: &[usize], x: &[f32]| Value::from(Tensor::from_slice(dims, x).unwrap());
    values.insert("fc_0.w_0".into(), tensor(&[3, 2], &[1.0; 6]));
    values.insert("fc_0.b_0".into(), tensor(&[2], &[-1.0, 1.0]));
    values.insert("fc_0.w_0@GRAD".into(), tensor(&[3, 2], &[3.0, 0.0, 0.0, 0.0, 0.0, 0.0]));
    values.insert("fc_0.b_0@GRAD".into(), tensor(&[2], &[0.0, 4.0]));
    for op in graph.startup().global().ops.iter().chain(&main.global().ops) {
        run_once(op, &mut values).unwrap();
    }
    let bias = numbers(&values, "fc_0.b_0");
    assert!((bias[0] - (-1.0 + 0.01)).abs() < 1e-6 && (bias[1] - 0.91).abs() < 1e-6, "{bias:?}");
    assert_eq!(made.params_grads[0].0.name(), "fc_0.b_0");
}

#[test]
fn every_optimizer_makes_a_loss_smaller() {
    for (optimizer, _) in optimizers() {
        let graph = Graph::new();
        graph.declare(Var::tensor("x", DType::F32, [2, 3]));
        let mut fill = Op::new("fill_constant").output("Out", ["fc_0.w_0"]).attr("value", 1.0f32);
        fill = fill.attr("shape", vec![3i64, 1]).attr("dtype", DType::F32.code());
        graph.persistable(Var::parameter("fc_0.w_0", DType::F32, [3, 1]), fill);
        let forward = [
            Op::new("mul").input("X", ["x"]).input("Y", ["fc_0.w_0"]).output("Out", ["y"]),
            Op::new("square").input("X", ["y"]).output("Out", ["error"]),
            Op::new("mean").input("X", ["error"]).output("Out", ["loss"]),
        ];
        for op in forward {
            graph.append_op(op).unwrap();
        }
        let made = optimizer.minimize(&graph.variable("loss").unwrap()).unwrap();
        let mut values = Values::new();
        let x = Tensor::from_slice([2, 3], &[0.5f32, -1.0, 0.25, 1.0, 2.0, -0.5]).unwrap();
        values.insert("x".into(), x.into());
        for op in &graph.startup().global().ops {
            run_once(op, &mut values).unwrap();
        }
        let mut losses = Vec::new();
        for _ in 0..20 {
            for op in &graph.main().global().ops {
                run_once(op, &mut values).unwrap();
            }
            losses.push(numbers(&values, "loss")[0]);
        }
        assert!(losses[19] < losses[0], "{}: {losses:?}", made.optimize_ops[0].kind);
    }
}

#[test]
fn a_sparse_gradient_is_clipped_by_the_norm_of_its_sum() {
    for (clip, decay) in [(GradClip::GlobalNorm(1.0), 0.0), (GradClip::Norm(1.0), 0.5)] {
        let graph = Graph::new();
        let param = graph.declare(Var::parameter("emb", DType::F32, [3, 2]));
        let mut grad = Var::tensor("emb@GRAD", DType::F32, [3, 2]);
        grad.kind = bireme_ir::VarKind::SelectedRows;
        let pairs = vec![(param, graph.declare(grad))];
        let mut optimizer = Sgd::new(1.0).grad_clip(clip);
        if decay > 0.0 {
            optimizer = optimizer.regularization(Regularizer::L2(decay));
        }
        optimizer.apply_gradients(pairs).unwrap();
        let mut values = Values::new();
        values.insert("emb".into(), Tensor::from_slice([3, 2], &[1.0f32; 6]).unwrap().into());
        // Row 2 is named twice: the sum is (3, 4), of norm 5.
        let value = Tensor::from_slice([2, 2], &[1.0f32, 4.0, 2.0, 0.0]).unwrap();
        let rows = SelectedRows { rows: vec![2, 2], height: 3, value };
        values.insert("emb@GRAD".into(), Value::Rows(rows));
        for op in graph.startup().global().ops.iter().chain(&graph.main().global().ops) {
            run_once(op, &mut values).unwrap();
        }
        let kept = 1.0 - decay;
        let expected = [kept, kept, kept, kept, kept - 0.6, kept - 0.8];
        for (given, expected) in numbers(&values, "emb").iter().zip(expected) {
            assert!((given - expected).abs() < 1e-6, "{clip:?}: {given}, not {expected}");
        }
    }
}
