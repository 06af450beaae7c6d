//! Bad input: each gets an error that says what, where and what to do, and nothing panics.

use bireme_engine::graph::Graph;
use bireme_engine::layers::{self, Act};
use bireme_engine::optimizer::{Optimizer, Sgd};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Error, Executor, Place};
use bireme_ir::{DType, Op};

/// A table of ten rows, a layer and a loss.
fn model() -> (Graph, String) {
    let graph = Graph::new();
    let ids = layers::data(&graph, "ids", [2], DType::I64);
    let label = layers::data(&graph, "label", [1], DType::F32);
    let rows = layers::Embedding::new([10, 3]).sparse(true).apply(&ids).unwrap();
    let rows = layers::reshape(&rows, &[-1, 6]).unwrap();
    let predicted = layers::fc(&rows, 1, Act::None).unwrap();
    let loss = layers::mean(&layers::square_error_cost(&predicted, &label).unwrap()).unwrap();
    Sgd::new(0.1).minimize(&loss).unwrap();
    (graph, loss.name().to_owned())
}

fn started(graph: &Graph) -> Executor {
    let mut executor = Executor::new(Place::Cpu).unwrap();
    executor.run(&graph.startup(), &[], &[]).unwrap();
    executor
}

fn ids(values: &[i64]) -> Tensor {
    Tensor::from_slice([values.len() / 2, 2], values).unwrap()
}

fn labels(rows: usize, value: f32) -> Tensor {
    Tensor::from_slice([rows, 1], &vec![value; rows]).unwrap()
}

fn failure(executor: &mut Executor, graph: &Graph, feeds: &[(&str, &Tensor)]) -> String {
    executor.run(&graph.main(), feeds, &[]).unwrap_err().to_string()
}

#[test]
fn a_feed_of_another_shape_names_variable_expected_and_given() {
    let (graph, _) = model();
    let wide = Tensor::from_slice([1, 3], &[1i64, 2, 3]).unwrap();
    assert_eq!(
        failure(&mut started(&graph), &graph, &[("ids", &wide), ("label", &labels(1, 0.0))]),
        "feed `ids`: expected int64 of shape [-1, 2] (-1: any), given int64 of shape [1, 3]"
    );
    let real = Tensor::from_slice([1, 2], &[1.0f32, 2.0]).unwrap();
    assert_eq!(
        failure(&mut started(&graph), &graph, &[("ids", &real), ("label", &labels(1, 0.0))]),
        "feed `ids`: expected int64 of shape [-1, 2] (-1: any), given float32 of shape [1, 2]"
    );
}

#[test]
fn a_missing_or_unknown_feed_is_named() {
    let (graph, _) = model();
    let mut executor = started(&graph);
    let missing = failure(&mut executor, &graph, &[("ids", &ids(&[1, 2]))]);
    assert!(missing.contains("`label`") && missing.contains("feed"), "{missing}");
    let tensor = labels(1, 0.0);
    let unknown = failure(&mut executor, &graph, &[("idz", &tensor)]);
    assert!(unknown.contains("`idz`"), "{unknown}");
    let fetched = executor.run(&graph.main(), &[], &["nowhere"]).unwrap_err().to_string();
    assert!(fetched.contains("`nowhere`"), "{fetched}");
}

#[test]
fn batches_of_different_lengths_do_not_mix() {
    let (graph, _) = model();
    let (ids, label) = (ids(&[1, 2, 3, 4]), labels(3, 0.0));
    let message = failure(&mut started(&graph), &graph, &[("ids", &ids), ("label", &label)]);
    assert!(message.contains("elementwise_sub") && message.contains("bad_input.rs"), "{message}");
}

#[test]
fn an_id_outside_the_table_is_named() {
    let (graph, _) = model();
    for (bad, threads) in [(10, 1), (-1, 1), (i64::MAX, 2), (i64::MIN, 2)] {
        let mut executor = started(&graph).threads(threads);
        let (ids, label) = (ids(&[1, 2, 3, bad]), labels(2, 0.0));
        let message = failure(&mut executor, &graph, &[("ids", &ids), ("label", &label)]);
        assert!(message.contains(&bad.to_string()) && message.contains("10 rows"), "{message}");
    }
}

#[test]
fn running_before_the_startup_program_says_so() {
    let (graph, _) = model();
    let mut executor = Executor::new(Place::Cpu).unwrap();
    let (ids, label) = (ids(&[1, 2]), labels(1, 0.0));
    let message = failure(&mut executor, &graph, &[("ids", &ids), ("label", &label)]);
    assert!(message.contains("run the startup program first"), "{message}");
}

#[test]
fn a_loss_that_is_no_number_stops_with_step_and_op() {
    let (graph, _) = model();
    let mut executor = started(&graph).check_finite(true);
    let ids = ids(&[1, 2]);
    executor.run(&graph.main(), &[("ids", &ids), ("label", &labels(1, 1.0))], &[]).unwrap();
    let error = executor.run(&graph.main(), &[("ids", &ids), ("label", &labels(1, f32::NAN))], &[]);
    let Err(Error::NotFinite { step, op, what, .. }) = error else { panic!("{error:?}") };
    assert_eq!((step, op.as_str(), what), (2, "elementwise_sub", "NaN"));
    // Without the check, training goes on as the user asked.
    let mut executor = started(&graph);
    executor.run(&graph.main(), &[("ids", &ids), ("label", &labels(1, f32::NAN))], &[]).unwrap();
}

#[test]
fn a_broken_program_is_refused_before_anything_runs() {
    let (graph, _) = model();
    let mut executor = started(&graph);
    let mut refused = |op: Op| {
        let mut program = graph.main();
        program.global_mut().ops.insert(0, op);
        let (ids, label) = (ids(&[1, 2]), labels(1, 0.0));
        let before = executor.scope().get("fc_0.w_0").unwrap();
        let error = executor.run(&program, &[("ids", &ids), ("label", &label)], &["out"]);
        assert!(executor.scope().get("fc_0.w_0").unwrap() == before, "nothing was trained");
        error.unwrap_err().to_string()
    };
    let unknown = refused(Op::new("reluu").input("X", ["label"]).output("Out", ["out"]));
    assert!(unknown.contains("reluu") && unknown.contains("`relu`"), "{unknown}");
    let attr = Op::new("relu").input("X", ["label"]).output("Out", ["out"]).attr("alfa", 1.0f32);
    let attr = refused(attr);
    assert!(attr.contains("alfa"), "{attr}");
    let missing = refused(Op::new("relu").input("X", ["nothing"]).output("Out", ["out"]));
    assert!(missing.contains("`nothing`"), "{missing}");
}
