//! Tables in lines with the state of their optimizers: nobody who reads or writes a variable can tell.

use std::sync::{Arc, Mutex};

use bireme_engine::device::{Device, MemoryPlan};
use bireme_engine::graph::Graph;
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, ParamAttr};
use bireme_engine::optimizer::{Adagrad, Adam, Ftrl, Optimizer};
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Executor, Place};

use crate::card::{alone, device};
use crate::programs::{batch, click_model};

const TABLE: &str = "embedding_0.w_0";
const NAMES: [&str; 3] = ["label", "ids", "dense"];

/// An executor that notes what each of its layouts has in lines.
struct Noted {
    executor: Executor,
    plans: Arc<Mutex<Vec<MemoryPlan>>>,
}

impl Noted {
    fn on(device: &Arc<dyn Device>) -> Noted {
        let plans = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&plans);
        let tell = move |plan: &MemoryPlan| heard.lock().unwrap().push(plan.clone());
        let executor = Executor::on(Arc::clone(device)).on_memory(Arc::new(tell));
        Noted { executor, plans }
    }

    /// Of the last layout that was made.
    fn in_lines(&self) -> Vec<String> {
        self.plans.lock().unwrap().last().unwrap().in_lines.clone()
    }
}

fn step(executor: &mut Executor, (graph, loss): &(Graph, String), at: u64) -> f64 {
    let [label, ids, dense] = batch(at, 64);
    let feeds = [("label", &label), ("ids", &ids), ("dense", &dense)];
    executor.run(&graph.main(), &feeds, &[loss.as_str()]).unwrap()[0].to_f64_vec()[0]
}

fn start(executor: &mut Executor, (graph, _): &(Graph, String)) {
    executor.run(&graph.startup(), &[], &[]).unwrap();
}

fn assert_close(mine: &Tensor, theirs: &Tensor, what: &str) {
    assert_eq!(mine.dims(), theirs.dims(), "{what}");
    for (a, b) in mine.to_f64_vec().into_iter().zip(theirs.to_f64_vec()) {
        assert!((a - b).abs() <= 1e-2 * b.abs().max(0.1), "{what}: {a} and {b}");
    }
}

fn assert_same_variables(mine: &Executor, theirs: &Executor, what: &str) {
    for name in theirs.scope().names() {
        let [mine, theirs] = [mine, theirs].map(|executor| executor.scope().get(&name).unwrap());
        assert_close(&mine, &theirs, &format!("{what}: `{name}`"));
    }
}

/// The click model without an optimizer: the table is looked up, and nothing else.
fn reading() -> (Graph, String) {
    let graph = Graph::new();
    let ids = layers::data(&graph, "ids", [5], DType::I64);
    let rows = layers::Embedding::new([300, 8]).sparse(true).apply(&ids).unwrap();
    let out = layers::scale(&rows, 2.0, 0.0).unwrap();
    (graph, out.name().to_owned())
}

/// A program that reads the table as a whole.
fn adding_up() -> (Graph, String) {
    let graph = Graph::new();
    let zeros = Initializer::Constant(0.0);
    let table = ParamAttr::named(TABLE);
    let table =
        layers::create_parameter(&graph, &table, "table", [300, 8], DType::F32, &zeros).unwrap();
    let sum = layers::mean(&table).unwrap();
    (graph, sum.name().to_owned())
}

#[test]
fn optimizers_of_rows_train_in_lines_as_on_the_host() {
    let Some((_machine, device)) = device() else { return };
    let cases: Vec<(&str, usize, Box<dyn Optimizer>)> = vec![
        ("adagrad", 2, Box::new(Adagrad::new(0.05))),
        ("lazy adam", 3, Box::new(Adam::new(0.01).lazy_mode(true))),
        ("ftrl", 3, Box::new(Ftrl::new(0.05))),
        // It changes all rows in every step.
        ("adam", 0, Box::new(Adam::new(0.01))),
    ];
    for (name, lined, optimizer) in cases {
        let model = click_model(optimizer.as_ref());
        let mut host = Executor::new(Place::Cpu).unwrap();
        let mut card = Noted::on(&device);
        start(&mut host, &model);
        start(&mut card.executor, &model);
        for at in 0..4 {
            let (mine, theirs) =
                (step(&mut card.executor, &model, at), step(&mut host, &model, at));
            assert!((mine - theirs).abs() < 1e-3, "{name}: {mine} and {theirs}");
        }
        let in_lines = card.in_lines();
        assert_eq!(in_lines.len(), lined, "{name}: {in_lines:?}");
        assert!(lined == 0 || in_lines.iter().any(|var| var == TABLE), "{name}: {in_lines:?}");
        assert_same_variables(&card.executor, &host, name);
    }
}

#[test]
fn what_was_saved_goes_on_with_the_same_bits() {
    let Some((_machine, device)) = device() else { return };
    let model = click_model(&Adagrad::new(0.05));
    let mut whole = Noted::on(&device);
    start(&mut whole.executor, &model);
    (0..3).for_each(|at| _ = step(&mut whole.executor, &model, at));
    assert_eq!(whole.in_lines().len(), 2);
    let saved: Vec<(String, Tensor)> = {
        let scope = whole.executor.scope();
        scope.names().into_iter().map(|name| (name.clone(), scope.get(&name).unwrap())).collect()
    };
    let mut other = Noted::on(&device);
    // Loaded before a step has run, and once more over what lies in lines.
    for _ in 0..2 {
        saved.iter().for_each(|(name, value)| other.executor.scope().set(name, value));
        for at in 3..5 {
            step(&mut other.executor, &model, at);
        }
        assert_eq!(other.in_lines().len(), 2);
    }
    (3..5).for_each(|at| _ = step(&mut whole.executor, &model, at));
    for (name, _) in &saved {
        let [a, b] = [&whole, &other].map(|noted| noted.executor.scope().get(name).unwrap());
        assert!(a == b, "`{name}` differs");
    }
}

#[test]
fn programs_take_turns_on_a_table_in_lines() {
    let Some((_machine, device)) = device() else { return };
    let (model, reading, adding_up) = (click_model(&Adagrad::new(0.05)), reading(), adding_up());
    let mut host = Executor::new(Place::Cpu).unwrap();
    let mut card = Noted::on(&device);
    start(&mut host, &model);
    start(&mut card.executor, &model);
    let [_, ids, _] = batch(9, 16);
    let look = |host: &mut Executor, card: &mut Executor, what: &str| {
        let [mine, theirs] = [card, host].map(|executor| {
            executor
                .run(&reading.0.main(), &[("ids", &ids)], &[reading.1.as_str()])
                .unwrap()
                .remove(0)
        });
        assert_close(&mine, &theirs, what);
    };
    for at in 0..3 {
        step(&mut host, &model, at);
        step(&mut card.executor, &model, at);
        if at == 0 {
            assert_eq!(card.in_lines(), [TABLE.to_owned(), in_line_with_table(&card)]);
        }
        look(&mut host, &mut card.executor, "a program that looks up");
        assert_eq!(
            card.in_lines().first().map(String::as_str),
            Some(TABLE),
            "it stays in its line"
        );
    }
    let made = card.plans.lock().unwrap().len();
    step(&mut host, &model, 3);
    step(&mut card.executor, &model, 3);
    assert_eq!(card.plans.lock().unwrap().len(), made, "nothing is laid out anew");
    // A program that reads the table as a whole takes it out of its line, for good.
    for at in 4..8 {
        let [mine, theirs] = [&mut card.executor, &mut host].map(|executor| {
            executor.run(&adding_up.0.main(), &[], &[adding_up.1.as_str()]).unwrap().remove(0)
        });
        assert_close(&mine, &theirs, "a program that reads it all");
        assert!(at > 4 || card.in_lines().is_empty());
        step(&mut host, &model, at);
        step(&mut card.executor, &model, at);
        assert!(card.in_lines().is_empty(), "{:?}", card.in_lines());
        look(&mut host, &mut card.executor, "after it was taken out");
    }
    assert_same_variables(&card.executor, &host, "after all");
}

fn in_line_with_table(card: &Noted) -> String {
    let scope = card.executor.scope();
    let is_moment = |name: &String| name.starts_with(TABLE) && name != TABLE;
    scope.names().into_iter().find(is_moment).expect("the table has a moment")
}

#[test]
fn variables_that_have_no_room_to_move_stay_where_they_are() {
    let Some(machine) = alone() else { return };
    const WIDE: i64 = 4000;
    let graph = Graph::new();
    graph.set_random_seed(5);
    let ids = layers::data(&graph, "ids", [4], DType::I64);
    let rows = layers::Embedding::new([WIDE, 8]).sparse(true).apply(&ids).unwrap();
    let loss = layers::mean(&rows).unwrap();
    Adagrad::new(0.05).minimize(&loss).unwrap();
    let feed = Tensor::from_slice([2, 4], &[1i64, 5, 5, 9, 3999, 0, 1, 1]).unwrap();
    let table = WIDE as usize * 8 * 4;
    // Table and moment fit once, but not twice.
    machine.control.set_memory(table as u64 * 3);
    let mut host = Executor::new(Place::Cpu).unwrap();
    let mut card = Noted::on(&bireme_cuda::open(0).unwrap());
    for executor in [&mut host, &mut card.executor] {
        executor.run(&graph.startup(), &[], &[]).unwrap();
        for _ in 0..3 {
            executor.run(&graph.main(), &[("ids", &feed)], &[loss.name()]).unwrap();
        }
    }
    assert!(card.in_lines().is_empty());
    assert!(card.plans.lock().unwrap().iter().all(|plan| plan.at_home.is_empty()));
    assert_same_variables(&card.executor, &host, "in little memory");
}

#[test]
fn a_search_for_nan_sees_variables_in_lines() {
    let Some((_machine, device)) = device() else { return };
    let model = click_model(&Adagrad::new(0.05));
    let mut card = Noted::on(&device);
    start(&mut card.executor, &model);
    step(&mut card.executor, &model, 0);
    let mut table = card.executor.scope().get(TABLE).unwrap();
    table.as_mut_slice::<f32>().unwrap().fill(f32::NAN);
    card.executor.scope().set(TABLE, &table);
    card.executor.set_check_finite(true);
    let mut step = card.executor.prepare(&model.0.main(), &NAMES, &[]).unwrap();
    let [label, ids, dense] = batch(1, 64);
    let error = step.run(&[&label, &ids, &dense]).unwrap_err().to_string();
    assert!(error.contains("`lookup_table_v2`") && error.contains("NaN"), "{error}");
}
