//! Memory of a card: what is planned is what is taken, tables that do not fit stay on the host, and what does not fit at
//! all is an error that says what would.

use std::sync::{Arc, Mutex};

use bireme_engine::device::{Device, MemoryPlan};
use bireme_engine::graph::Graph;
use bireme_engine::layers;
use bireme_engine::optimizer::{Adagrad, Optimizer};
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Error, Executor, Place};
use bireme_ir::{Op, Program, Var};

use crate::card::{Alone, alone, device};

const ROWS: i64 = 2000;
const WIDTH: i64 = 8;
const TABLE: usize = ROWS as usize * WIDTH as usize * 4;
const FEEDS: [&str; 2] = ["ids", "label"];

/// A table whose rows learn to be a label. It has no product, whose workspace alone would not fit a small card.
fn model() -> (Graph, String) {
    let graph = Graph::new();
    graph.set_random_seed(5);
    let ids = layers::data(&graph, "ids", [4], DType::I64);
    let label = layers::data(&graph, "label", [4 * WIDTH], DType::F32);
    let rows = layers::Embedding::new([ROWS, WIDTH]).sparse(true).apply(&ids).unwrap();
    let rows = layers::reshape(&rows, &[-1, 4 * WIDTH as i32]).unwrap();
    let loss = layers::mean(&layers::square_error_cost(&rows, &label).unwrap()).unwrap();
    Adagrad::new(0.05).minimize(&loss).unwrap();
    (graph, loss.name().to_owned())
}

fn batch(rows: usize) -> [Tensor; 2] {
    let ids: Vec<i64> = (0..rows as i64 * 4).map(|i| i * i * 7 % ROWS).collect();
    let width = 4 * WIDTH as usize;
    let labels: Vec<f32> = (0..rows * width).map(|at| (at % 2) as f32).collect();
    [
        Tensor::from_slice([rows, 4], &ids).unwrap(),
        Tensor::from_slice([rows, width], &labels).unwrap(),
    ]
}

/// Trains a few steps; returns losses and variables.
fn train(executor: &mut Executor, steps: usize) -> bireme_engine::Result<Vec<Vec<f64>>> {
    let (graph, loss) = model();
    executor.run(&graph.startup(), &[], &[])?;
    let [ids, label] = batch(32);
    let mut values = Vec::new();
    for _ in 0..steps {
        let feeds = [("ids", &ids), ("label", &label)];
        values.push(executor.run(&graph.main(), &feeds, &[loss.as_str()])?[0].to_f64_vec());
    }
    let scope = executor.scope();
    values.extend(scope.names().iter().map(|name| scope.get(name).unwrap().to_f64_vec()));
    Ok(values)
}

fn assert_close(mine: &[Vec<f64>], theirs: &[Vec<f64>]) {
    assert_eq!(mine.len(), theirs.len());
    for (a, b) in mine.iter().flatten().zip(theirs.iter().flatten()) {
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
}

/// A card with so much memory.
fn small(machine: &Alone, bytes: usize) -> Arc<dyn Device> {
    machine.control.set_memory(bytes as u64);
    bireme_cuda::open(0).unwrap()
}

#[test]
fn a_table_that_does_not_fit_stays_on_the_host() {
    let Some(machine) = alone() else { return };
    let expected = train(&mut Executor::new(Place::Cpu).unwrap(), 4).unwrap();
    // Table and moment do not fit together, and then one of them does not fit beside the rest.
    for bytes in [TABLE * 5 / 4, TABLE / 2] {
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let tell = move |plan: &MemoryPlan| heard.lock().unwrap().push(plan.clone());
        let mut executor = Executor::on(small(&machine, bytes)).on_memory(Arc::new(tell));
        let got = train(&mut executor, 4).unwrap();
        assert_close(&got, &expected);
        let said = said.lock().unwrap();
        let plan = said.iter().find(|plan| plan.batch == 32).unwrap();
        let homes: Vec<&str> = plan.at_home.iter().map(|(name, _)| name.as_str()).collect();
        assert!(homes.contains(&"embedding_0.w_0"), "{homes:?}");
        assert_eq!(homes.len(), 2, "its moment stays, too: {homes:?}");
        assert!(plan.total() < bytes, "{plan}");
        let line = plan.says_at_home().unwrap();
        assert!(line.contains("the card has no memory for"), "{line}");
        // What was there after the startup program has been given back.
        let used = machine.control.allocated() as usize;
        assert!(used < TABLE / 2, "{used} bytes are in use");
        drop(executor);
    }
}

#[test]
fn a_batch_that_does_not_fit_is_an_error_that_says_what_would() {
    let Some(machine) = alone() else { return };
    let (graph, loss) = model();
    let mut executor = Executor::on(small(&machine, 512 << 10));
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let mut run = |rows: usize| {
        let [ids, label] = batch(rows);
        executor.run(&graph.main(), &[("ids", &ids), ("label", &label)], &[loss.as_str()])
    };
    run(16).unwrap();
    let error = run(4096).unwrap_err();
    assert!(matches!(error, Error::DeviceMemory { .. }), "{error:?}");
    let text = error.to_string();
    let start = "the card is out of memory: a step with a batch of 4096 takes ";
    assert!(text.starts_with(start) && text.contains("(parameters "), "{text}");
    let most = text.rsplit_once("a batch of at most ").unwrap().1;
    let most: usize = most.split_once(' ').unwrap().0.parse().unwrap();
    assert!((16..4096).contains(&most), "{text}");
    // It is so: that many run, and smaller ones still do.
    run(most).unwrap();
    run(16).unwrap();
}

#[test]
fn a_plan_on_paper_is_the_one_of_a_card() {
    let Some((_machine, device)) = device() else { return };
    let (graph, loss) = model();
    let plan = |device: Arc<dyn Device>| {
        Executor::on(device).memory_plan(&graph.main(), &FEEDS, &[loss.as_str()], 64).unwrap()
    };
    let (mut on_card, on_paper) = (plan(device), plan(bireme_cuda::on_paper()));
    assert!(on_card.memory.take().is_some());
    on_card.device.clone_from(&on_paper.device);
    assert_eq!(on_card, on_paper);
    assert_eq!((on_paper.batch, on_paper.there), (64, 0));
    assert_eq!(on_paper.parameters, TABLE);
    assert!(on_paper.state >= on_paper.parameters, "{on_paper}");
    assert_eq!(on_paper.feeds, 2 * 64 * (4 * 8 + 4 * WIDTH as usize * 4));
    assert!(on_paper.activations + on_paper.scratch <= on_paper.arena);
    assert_eq!(
        on_paper.segments.iter().map(|s| s.bytes).max(),
        Some(on_paper.activations + on_paper.scratch)
    );
}

#[test]
fn a_plan_on_paper_knows_copies_of_16_bit_floats() {
    let mut program = Program::new();
    for name in ["x", "out"] {
        let var = Var::tensor(name, DType::BF16, [-1, 64]);
        program.global_mut().add_var(var);
    }
    program.global_mut().ops = vec![Op::new("cumsum").input("X", ["x"]).output("Out", ["out"])];
    let plan = |device: Arc<dyn Device>| {
        Executor::on(device).memory_plan(&program, &["x"], &["out"], 32).unwrap()
    };
    let on_paper = plan(bireme_cuda::on_paper());
    assert!(on_paper.scratch >= 2 * 32 * 64 * 4, "{on_paper}");
    let Some((_machine, device)) = device() else { return };
    assert_eq!(plan(device).scratch, on_paper.scratch);
}

#[test]
fn what_is_planned_is_taken_and_given_back() {
    let Some(machine) = alone() else { return };
    let device = bireme_cuda::open(0).unwrap();
    let before = machine.control.allocated();
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let tell = move |plan: &MemoryPlan| heard.lock().unwrap().push(plan.clone());
    let mut executor = Executor::on(device).on_memory(Arc::new(tell));
    train(&mut executor, 1).unwrap();
    let figures = bireme_cuda::figures::memory(0).unwrap();
    let plan = said.lock().unwrap().last().unwrap().clone();
    assert!(figures.used >= plan.total(), "{} bytes are used by {plan}", figures.used);
    assert!(figures.used_peak >= figures.used);
    drop(executor);
    let after = bireme_cuda::figures::memory(0).unwrap();
    assert!(after.used < plan.total(), "{} bytes are still in use", after.used);
    assert!(machine.control.allocated() - before <= after.used as u64);
    bireme_cuda::figures::reset_peak(0, false).unwrap();
    assert_eq!(bireme_cuda::figures::memory(0).unwrap().used_peak, after.used);
}

#[test]
fn moments_are_in_order() {
    let Some((_machine, _device)) = device() else { return };
    let start = bireme_cuda::figures::Moment::now(0).unwrap();
    let end = bireme_cuda::figures::Moment::now(0).unwrap();
    assert!(end.milliseconds_since(&start).unwrap() >= 0.0);
    assert!(start.is_past().unwrap() && end.is_past().unwrap());
    assert!(bireme_cuda::figures::is_idle(0).unwrap());
}
