//! A plan must mean what its program says: whatever is fused, reordered, packed or split over
//! workers, the values are those of running the ops one by one.

use std::collections::HashMap;

use bireme_engine::autodiff::append_backward;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::layers::{self, Act};
use bireme_engine::op::run_once;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Value};
use bireme_ir::DType;

const BATCH: usize = 12;
const SLOTS: i64 = 3;
const ROWS: i64 = 50;

/// A click model in small, with its gradients.
struct Model {
    graph: Graph,
    /// Loss, AUC, and the gradients of the dense parameters.
    fetches: Vec<String>,
}

fn click_model(one_feed_a_slot: bool) -> Model {
    let graph = Graph::new();
    let label = layers::data(&graph, "label", [1], DType::I64);
    let dense = layers::data(&graph, "dense", [4], DType::F32);
    let table = layers::Embedding::new([ROWS, 5]).sparse(true).param_attr("table");
    let mut parts = Vec::new();
    if one_feed_a_slot {
        for slot in 0..SLOTS {
            let ids = layers::data(&graph, &format!("slot_{slot}"), [1], DType::I64);
            parts.push(layers::reshape(&table.apply(&ids).unwrap(), &[-1, 5]).unwrap());
        }
    } else {
        let ids = layers::data(&graph, "ids", [SLOTS], DType::I64);
        parts.push(layers::reshape(&table.apply(&ids).unwrap(), &[-1, 5 * SLOTS as i32]).unwrap());
    }
    parts.push(dense);
    let mut hidden = layers::concat(&parts.iter().collect::<Vec<_>>(), 1).unwrap();
    for (size, act) in [(8, Act::Relu), (6, Act::Tanh), (4, Act::Sigmoid)] {
        hidden = layers::fc(&hidden, size, act).unwrap();
    }
    let logits = layers::linear(&hidden, 2).unwrap();
    let probability = layers::softmax(&logits).unwrap();
    let auc = layers::auc(&probability, &label, &layers::Auc::default()).unwrap();
    let (cost, _) =
        layers::softmax_with_cross_entropy(&logits, &label, layers::Label::Hard).unwrap();
    let loss = layers::mean(&cost).unwrap();
    let pairs = append_backward(&loss, None, &[]).unwrap();
    let mut fetches = vec![loss.name().to_owned(), auc.auc.name().to_owned()];
    let dense = |(param, grad): &(Variable, Variable)| {
        (param.name() != "table").then(|| grad.name().to_owned())
    };
    fetches.extend(pairs.iter().filter_map(dense));
    Model { graph, fetches }
}

fn feeds(one_feed_a_slot: bool) -> Vec<(String, Tensor)> {
    let ids: Vec<i64> = (0..BATCH as i64 * SLOTS).map(|i| (i * i + 3 * i) % ROWS).collect();
    let dense: Vec<f32> = (0..BATCH * 4).map(|i| ((i * 7) % 11) as f32 / 11.0 - 0.4).collect();
    let label: Vec<i64> = (0..BATCH as i64).map(|i| i * i % 3 % 2).collect();
    let mut feeds = vec![
        ("label".to_owned(), Tensor::from_slice([BATCH, 1], &label).unwrap()),
        ("dense".to_owned(), Tensor::from_slice([BATCH, 4], &dense).unwrap()),
    ];
    if one_feed_a_slot {
        for slot in 0..SLOTS as usize {
            let column: Vec<i64> = ids.iter().skip(slot).step_by(SLOTS as usize).copied().collect();
            let tensor = Tensor::from_slice([BATCH, 1], &column).unwrap();
            feeds.push((format!("slot_{slot}"), tensor));
        }
    } else {
        let tensor = Tensor::from_slice([BATCH, SLOTS as usize], &ids).unwrap();
        feeds.push(("ids".to_owned(), tensor));
    }
    feeds
}

/// The meaning of the program: its ops, one after the other.
fn interpret(model: &Model, feeds: &[(String, Tensor)]) -> Vec<Vec<f64>> {
    let mut values: HashMap<String, Value> = HashMap::new();
    for (name, tensor) in feeds {
        values.insert(name.clone(), tensor.clone().into());
    }
    let (startup, main) = (model.graph.startup(), model.graph.main());
    for op in startup.global().ops.iter().chain(&main.global().ops) {
        run_once(op, &mut values).unwrap();
    }
    let fetched = model.fetches.iter().map(|name| values[name].tensor().unwrap().to_f64_vec());
    fetched.collect()
}

fn execute(model: &Model, feeds: &[(String, Tensor)], threads: usize) -> Vec<Tensor> {
    let mut executor = Executor::new(Place::Cpu).unwrap().threads(threads);
    executor.run(&model.graph.startup(), &[], &[]).unwrap();
    let feeds: Vec<(&str, &Tensor)> = feeds.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let fetches: Vec<&str> = model.fetches.iter().map(String::as_str).collect();
    executor.run(&model.graph.main(), &feeds, &fetches).unwrap()
}

#[test]
fn a_plan_means_what_its_program_says() {
    for one_feed_a_slot in [false, true] {
        let (model, feeds) = (click_model(one_feed_a_slot), feeds(one_feed_a_slot));
        let expected = interpret(&model, &feeds);
        for threads in [1, 2, 3, 5] {
            let got = execute(&model, &feeds, threads);
            for ((name, expected), got) in model.fetches.iter().zip(&expected).zip(&got) {
                for (i, (a, b)) in expected.iter().zip(got.to_f64_vec()).enumerate() {
                    let close = (a - b).abs() <= 1e-6 + 1e-5 * a.abs();
                    assert!(close, "{threads} threads, `{name}`[{i}]: {a} expected, {b} given");
                }
            }
        }
    }
}

#[test]
fn the_same_threads_give_the_same_bits() {
    let (model, feeds) = (click_model(false), feeds(false));
    for threads in [1, 2, 3] {
        let first = execute(&model, &feeds, threads);
        assert!((0..3).all(|_| execute(&model, &feeds, threads) == first));
    }
}

/// Runs `ops` on fed `x` (rows of 8) with 1, 2 and 3 threads; all must give what the ops one by one
/// give.
fn check_ops(ops: Vec<bireme_ir::Op>, rows: usize, fetch: &str) {
    let graph = Graph::new();
    layers::data(&graph, "x", [8], DType::F32);
    ops.iter().for_each(|op| graph.append_op(op.clone()).unwrap());
    let values: Vec<f32> = (0..rows * 8).map(|i| ((i * 5) % 13) as f32 - 6.0).collect();
    let x = Tensor::from_slice([rows, 8], &values).unwrap();
    let mut one_by_one: HashMap<String, Value> = HashMap::from([("x".into(), x.clone().into())]);
    ops.iter().for_each(|op| run_once(op, &mut one_by_one).unwrap());
    for threads in [1, 2, 3] {
        let mut executor = Executor::new(Place::Cpu).unwrap().threads(threads);
        let got = executor.run(&graph.main(), &[("x", &x)], &[fetch]).unwrap();
        assert_eq!(got[0], *one_by_one[fetch].tensor().unwrap(), "{threads} threads");
        assert_eq!(x.as_slice::<f32>().unwrap(), values, "a feed is the caller's");
    }
}

fn unary(kind: &str, input: &str, output: &str) -> bireme_ir::Op {
    bireme_ir::Op::new(kind).input("X", [input]).output("Out", [output])
}

#[test]
fn a_variable_may_be_written_twice() {
    let double = |from: &str, to: &str| unary("scale", from, to).attr("scale", 2.0f32);
    check_ops(vec![unary("relu", "x", "h"), double("h", "h"), unary("square", "h", "y")], 4, "y");
    check_ops(vec![unary("relu", "x", "h"), double("h", "h")], 4, "h");
}

#[test]
fn a_feed_that_is_written_stays_the_callers() {
    let double = unary("scale", "x", "x").attr("scale", 2.0f32);
    let ops = [double, unary("relu", "x", "y")];
    let graph = Graph::new();
    layers::data(&graph, "x", [2], DType::F32);
    ops.iter().for_each(|op| graph.append_op(op.clone()).unwrap());
    let x = Tensor::from_slice([1, 2], &[1.0f32, -1.0]).unwrap();
    let mut executor = Executor::new(Place::Cpu).unwrap();
    let got = executor.run(&graph.main(), &[("x", &x)], &["y"]).unwrap();
    assert_eq!(got[0].as_slice::<f32>().unwrap(), [2.0, 0.0]);
    assert_eq!(x.as_slice::<f32>().unwrap(), [1.0, -1.0]);
}

#[test]
fn ops_that_see_the_whole_batch_run_in_order() {
    let along_rows = |from: &str, to: &str| unary("cumsum", from, to).attr("axis", 0);
    let constant = bireme_ir::Op::new("fill_constant")
        .output("Out", ["c"])
        .attr("shape", vec![4i64, 8])
        .attr("value", 1.0f32)
        .attr("dtype", DType::F32.code());
    let sum = bireme_ir::Op::new("elementwise_add")
        .input("X", ["t1"])
        .input("Y", ["c"])
        .output("Out", ["y"]);
    check_ops(vec![along_rows("x", "t0"), along_rows("t0", "t1"), constant, sum], 4, "y");
}

/// A layer beside the lookups: its gradient is read before the lookups' gradients are complete.
#[test]
fn a_trained_part_beside_the_lookups_gets_its_gradient() {
    let graph = Graph::new();
    let label = layers::data(&graph, "label", [1], DType::I64);
    let ids = layers::data(&graph, "ids", [SLOTS], DType::I64);
    let dense = layers::data(&graph, "dense", [4], DType::F32);
    let rows = layers::Embedding::new([ROWS, 5]).sparse(true).param_attr("table");
    let rows = layers::reshape(&rows.apply(&ids).unwrap(), &[-1, 5 * SLOTS as i32]).unwrap();
    let beside = layers::fc(&dense, 8, Act::Relu).unwrap();
    let joined = layers::concat(&[&rows, &beside], 1).unwrap();
    let logits = layers::fc(&joined, 2, Act::None).unwrap();
    let (cost, _) =
        layers::softmax_with_cross_entropy(&logits, &label, layers::Label::Hard).unwrap();
    let loss = layers::mean(&cost).unwrap();
    let pairs = append_backward(&loss, None, &[]).unwrap();
    let dense = pairs.iter().filter(|(param, _)| param.name() != "table");
    let fetches = dense.map(|(_, grad)| grad.name().to_owned()).collect();
    let (model, feeds) = (Model { graph, fetches }, feeds(false));
    let expected = interpret(&model, &feeds);
    for threads in [1, 2, 3] {
        for (expected, got) in expected.iter().zip(execute(&model, &feeds, threads)) {
            for (a, b) in expected.iter().zip(got.to_f64_vec()) {
                assert!((a - b).abs() <= 1e-6 + 1e-5 * a.abs(), "{a} expected, {b} given");
            }
        }
    }
}

#[test]
fn a_fused_lookup_names_ids_and_table() {
    let (model, mut feeds) = (click_model(true), feeds(true));
    feeds[3].1.as_mut_slice::<i64>().unwrap()[4] = ROWS;
    let mut executor = Executor::new(Place::Cpu).unwrap();
    executor.run(&model.graph.startup(), &[], &[]).unwrap();
    let feeds: Vec<(&str, &Tensor)> = feeds.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let message = executor.run(&model.graph.main(), &feeds, &[]).unwrap_err().to_string();
    let expected = "id 50 at position 4 of `slot_1` lies outside the table `table` of 50 rows";
    assert!(message.contains(expected), "{message}");
}
