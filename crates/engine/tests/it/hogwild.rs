//! Steps of several threads on one scope: they take turns, or share its parameters without locks.
//! `cargo xtask miri` runs these tests where every race and every dangling pointer is found.

use std::sync::atomic::{AtomicBool, Ordering};

use bireme_engine::graph::Graph;
use bireme_engine::layers::{self, Act};
use bireme_engine::optimizer::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, DecayedAdagrad, Ftrl, Lamb, Lars, Momentum, Optimizer,
    RmsProp, Sgd,
};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Scope, Step};
use bireme_ir::{DType, Op, Program, Var};

const ROWS: i64 = 12;
const WIDTH: i64 = 3;

/// A click model with a table, two layers, and a normalisation that keeps statistics; for Miri, to
/// which every op costs seconds, with a layer less and no normalisation.
fn click_model(optimizer: &dyn Optimizer, sparse: bool) -> (Graph, String) {
    let graph = Graph::new();
    let label = layers::data(&graph, "label", [1], DType::F32);
    let ids = layers::data(&graph, "ids", [2], DType::I64);
    let rows = layers::Embedding::new([ROWS, WIDTH]).sparse(sparse).apply(&ids).unwrap();
    let rows = layers::reshape(&rows, &[-1, 2 * WIDTH as i32]).unwrap();
    let hidden = if cfg!(miri) {
        rows
    } else {
        layers::batch_norm(&layers::fc(&rows, 5, Act::Tanh).unwrap()).unwrap()
    };
    let out = layers::fc(&hidden, 1, Act::None).unwrap();
    let loss = layers::mean(&layers::square_error_cost(&out, &label).unwrap()).unwrap();
    optimizer.minimize(&loss).unwrap();
    (graph, loss.name().to_owned())
}

fn batch(at: usize, rows: usize) -> [Tensor; 2] {
    let ids: Vec<i64> = (0..2 * rows).map(|i| ((i * i + 5 * at + i) as i64) % ROWS).collect();
    let label: Vec<f32> = ids.chunks(2).map(|ids| (ids[0] % 3) as f32 - 0.5).collect();
    [Tensor::from_slice([rows, 1], &label).unwrap(), Tensor::from_slice([rows, 2], &ids).unwrap()]
}

/// A scope after the startup program.
fn started(graph: &Graph) -> Scope {
    let mut executor = Executor::new(Place::Cpu).unwrap();
    executor.run(&graph.startup(), &[], &[]).unwrap();
    executor.scope().clone()
}

fn prepare(program: &Program, scope: &Scope, hogwild: bool, fetches: &[&str]) -> Step {
    let executor = Executor::new(Place::Cpu).unwrap().with_scope(scope.clone()).hogwild(hogwild);
    executor.prepare(program, &["label", "ids"], fetches).unwrap()
}

fn optimizers() -> Vec<Box<dyn Optimizer>> {
    let adam = || Adam::new(0.01);
    if cfg!(miri) {
        return vec![Box::new(adam().lazy_mode(true))];
    }
    vec![
        Box::new(Sgd::new(0.1)),
        Box::new(Momentum::new(0.1, 0.9)),
        Box::new(adam()),
        Box::new(adam().lazy_mode(true)),
        Box::new(AdamW::new(0.01)),
        Box::new(Adamax::new(0.01)),
        Box::new(Adagrad::new(0.1)),
        Box::new(DecayedAdagrad::new(0.1)),
        Box::new(Adadelta::new(0.1)),
        Box::new(RmsProp::new(0.01)),
        Box::new(RmsProp::new(0.01).centered(true)),
        Box::new(Ftrl::new(0.1)),
        Box::new(Lamb::new(0.01)),
        Box::new(Lars::new(0.1, 0.9)),
    ]
}

#[test]
fn a_step_beside_others_computes_what_one_alone_does() {
    for (at, optimizer) in optimizers().iter().enumerate() {
        for sparse in if cfg!(miri) { &[true][..] } else { &[true, false] } {
            let sparse = *sparse;
            let (graph, loss) = click_model(&**optimizer, sparse);
            let weight = "fc_0.w_0";
            let (alone, beside) = (started(&graph), started(&graph));
            let main = graph.main();
            let fetches = [loss.as_str(), weight];
            let mut steps = [(&alone, false), (&beside, true)]
                .map(|(scope, hogwild)| prepare(&main, scope, hogwild, &fetches));
            for number in 0..if cfg!(miri) { 2 } else { 5 } {
                // Two shapes of batches, so two layouts.
                let [label, ids] = batch(number, 4 + number % 2);
                steps.iter_mut().for_each(|step| step.run(&[&label, &ids]).unwrap());
                for fetch in 0..2 {
                    assert_eq!(steps[0].fetched(fetch), steps[1].fetched(fetch), "{at} {sparse}");
                }
                assert_eq!(steps[1].fetched(1), &beside.get(weight).unwrap());
            }
            assert_eq!(alone.names(), beside.names());
            for name in alone.names() {
                let (one, other) = (alone.get(&name).unwrap(), beside.get(&name).unwrap());
                assert!(one == other, "optimizer {at}, sparse {sparse}: `{name}`");
            }
        }
    }
}

/// Trains on two threads while a third reads; the mean loss of each over the last third.
fn train_beside(hogwild: bool) -> Vec<f64> {
    let (graph, loss) = click_model(&Adam::new(0.02).lazy_mode(true), true);
    let (scope, main) = (started(&graph), graph.main());
    let count = if cfg!(miri) { 3 } else { 240 };
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let train = |thread: usize| {
            let (scope, main, loss) = (&scope, &main, loss.as_str());
            move || {
                let mut step = prepare(main, scope, hogwild, &[loss]);
                let mut losses = Vec::new();
                for at in 0..count {
                    // Other shapes, and so new layouts, on both threads all the time.
                    let [label, ids] = batch(2 * at + thread, 8 + (at + thread) % 3);
                    step.run(&[&label, &ids]).unwrap();
                    losses.push(step.fetched(0).to_f64_vec()[0]);
                }
                let last = &losses[2 * count / 3..];
                last.iter().sum::<f64>() / last.len() as f64
            }
        };
        let trained = [threads.spawn(train(0)), threads.spawn(train(1))];
        let reader = threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for name in scope.names() {
                    let values = scope.get(&name).unwrap().to_f64_vec();
                    assert!(values.iter().all(|value| value.is_finite()), "{name}: {values:?}");
                    std::thread::yield_now();
                }
            }
        });
        let losses = trained.into_iter().map(|thread| thread.join()).collect::<Vec<_>>();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        losses.into_iter().map(Result::unwrap).collect()
    })
}

#[test]
fn threads_share_parameters_while_others_read_them() {
    for hogwild in [true, false] {
        let losses = train_beside(hogwild);
        let most = if cfg!(miri) { 100.0 } else { 0.6 };
        assert!(losses.iter().any(|loss| *loss < most), "hogwild {hogwild}: losses {losses:?}");
    }
}

/// Keeps its batch in a persistable variable, so that every shape of batch resizes it.
fn keeping_program() -> Program {
    let mut program = Program::new();
    let global = program.global_mut();
    global.add_var(Var::tensor("x", DType::F32, [-1, 2]));
    for name in ["kept", "sum"] {
        global.add_var(Var::tensor(name, DType::F32, [-1, 2])).persistable = true;
    }
    global.add_var(Var::tensor("y", DType::F32, [-1, 2]));
    let double = Op::new("scale").input("X", ["x"]).output("Out", ["kept"]).attr("scale", 2f32);
    let add = Op::new("elementwise_add").input("X", ["kept"]).input("Y", ["x"]);
    let copy = Op::new("assign").input("X", ["sum"]).output("Out", ["y"]);
    global.ops.extend([double, add.output("Out", ["sum"]), copy]);
    program
}

#[test]
fn a_layout_resizes_nothing_under_a_step() {
    let program = keeping_program();
    let count = if cfg!(miri) { 6 } else { 500 };
    for hogwild in [true, false] {
        let scope = Scope::new();
        let run = |thread: usize| {
            let executor = Executor::new(Place::Cpu).unwrap().with_scope(scope.clone());
            let executor = executor.hogwild(hogwild);
            let mut step = executor.prepare(&program, &["x"], &["y"]).unwrap();
            for at in 0..count {
                // One thread's shapes rise, the other's fall: each undoes the other's layouts.
                let rows = if thread == 0 { 1 + at % 40 } else { 40 - at % 40 };
                let x = Tensor::from_slice([rows, 2], &vec![1f32; 2 * rows]).unwrap();
                step.run(&[&x]).unwrap();
                let y = step.fetched(0);
                assert_eq!(y.dims(), x.dims());
                assert!(y.to_f64_vec().iter().all(|value| *value == 3.0), "{y:?}");
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(|| run(0));
            threads.spawn(|| run(1));
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing here that other tests do not show to Miri")]
fn private_variables_stay_private() {
    let (graph, loss) = click_model(&Sgd::new(0.1), true);
    let scope = started(&graph);
    let names: Vec<String> =
        scope.names().into_iter().filter(|name| name.starts_with("batch_norm")).collect();
    let private: Vec<&str> = names.iter().map(String::as_str).collect();
    let before: Vec<Tensor> = names.iter().map(|name| scope.get(name).unwrap()).collect();
    let executor = Executor::new(Place::Cpu).unwrap().with_scope(scope.clone()).hogwild(true);
    let mut step =
        executor.prepare_private(&graph.main(), &["label", "ids"], &[&loss], &private).unwrap();
    let [label, ids] = batch(0, 6);
    step.run(&[&label, &ids]).unwrap();
    for (name, before) in names.iter().zip(before) {
        assert_eq!(scope.get(name).unwrap(), before, "{name}");
    }
    assert!(names.iter().all(|name| step.persistable(name) != scope.get(name).ok()), "{names:?}");
    assert_eq!(step.persistable("fc_0.w_0"), scope.get("fc_0.w_0").ok());
}
