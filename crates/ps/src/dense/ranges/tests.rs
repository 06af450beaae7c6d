//! Ranges against one run over all rows, and under several threads.

use std::collections::BTreeMap;

use bireme_engine::Value;
use bireme_engine::eager::Routine;
use bireme_engine::tensor::{SelectedRows, Tensor};
use bireme_ir::{DType, Op, Var, VarKind};

use crate::dense::{Block, BlockSpec, Shared};
use crate::message::Array;

const HEIGHT: usize = 5000;
const WIDTH: usize = 3;
const TRAINERS: [&str; 3] = ["g.trainer_0", "g.trainer_1", "g.trainer_2"];

/// Numbers that depend on nothing but `seed`.
fn draw(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

fn tensor(rows: usize, seed: u64) -> Tensor {
    let mut next = draw(seed);
    let values: Vec<f32> = (0..rows * WIDTH).map(|_| next() as f32 / 1e9 - 1.0).collect();
    Tensor::from_slice([rows, WIDTH], &values).unwrap()
}

/// A gradient of `count` rows, some of them more than once.
fn grad(count: usize, seed: u64) -> SelectedRows {
    let mut next = draw(seed);
    let row = |at: usize| (if at.is_multiple_of(5) { 77 } else { next() % HEIGHT as u64 }) as i64;
    let rows = (0..count).map(row).collect();
    SelectedRows { rows, height: HEIGHT, value: tensor(count, seed + 1) }
}

/// An optimizer's op with accumulators `tall` of the parameter's shape and numbers `raised`.
fn optimizer(kind: &str, tall: &[&str], raised: &[&str]) -> Op {
    let op = Op::new(kind).input("Param", ["w"]).input("Grad", ["g"]).output("ParamOut", ["w"]);
    let op = op.input("LearningRate", ["rate"]);
    let slots = tall.iter().chain(raised).copied();
    slots.fold(op, |op, slot| op.input(slot, [slot]).output(&format!("{slot}Out"), [slot]))
}

/// The head of a block in sync mode, and the optimizer.
fn with_head(optimizer: &Op) -> Vec<Op> {
    let sum = Op::new("sum").input("X", TRAINERS).output("Out", ["g"]);
    let scale = Op::new("scale").input("X", ["g"]).output("Out", ["g"]);
    vec![sum, scale.attr("scale", 1.0f32 / 3.0), optimizer.clone()]
}

fn initial(op: &Op) -> BTreeMap<String, Tensor> {
    let value = |name: &String| match name.as_str() {
        "w" => tensor(HEIGHT, 1),
        "Beta1Pow" => Tensor::scalar(0.9f32),
        "Beta2Pow" => Tensor::scalar(0.999f32),
        _ => Tensor::zeros(DType::F32, [HEIGHT, WIDTH]),
    };
    op.output_vars().map(|name| (name.clone(), value(name))).collect()
}

fn block(ops: &[Op], received: &[&str]) -> (Block, Shared) {
    let mut var = Var::tensor("g", DType::F32, vec![HEIGHT as i64, WIDTH as i64]);
    var.kind = VarKind::SelectedRows;
    let shared = Shared::new();
    shared.set("rate", &Tensor::scalar(0.05f32));
    let spec = BlockSpec {
        ops,
        received: received.iter().map(|name| ((*name).to_owned(), &var)).collect(),
        initial: initial(ops.last().unwrap()),
        shared: vec!["rate".to_owned()],
        seed: 0,
    };
    (Block::new(spec).unwrap(), shared)
}

/// The same ops over all rows at once.
struct Whole {
    routine: Routine,
    values: Vec<Value>,
}

impl Whole {
    fn new(ops: &[Op]) -> Whole {
        let routine = Routine::new(ops, 0).unwrap();
        let mut values = vec![Value::Tensor(Tensor::empty(DType::F32)); routine.len()];
        let numbers = [("rate".to_owned(), Tensor::scalar(0.05f32))];
        for (name, value) in initial(ops.last().unwrap()).into_iter().chain(numbers) {
            values[routine.find(&name).unwrap()] = Value::Tensor(value);
        }
        Whole { routine, values }
    }

    fn run(&mut self, grads: &[(&str, SelectedRows)], step: u64) {
        for (name, grad) in grads {
            self.values[self.routine.find(name).unwrap()] = Value::Rows(grad.clone());
        }
        self.routine.run_on(&mut self.values, step).unwrap();
    }

    fn assert_is(&self, block: &Block) {
        for name in block.kept() {
            let expected = self.values[self.routine.find(name).unwrap()].tensor().unwrap();
            block.read(name, |value| assert!(value == expected, "`{name}` differs")).unwrap();
        }
    }
}

fn optimizers() -> Vec<Op> {
    let moments = ["Moment1", "Moment2"];
    let powers = ["Beta1Pow", "Beta2Pow"];
    let adam = || optimizer("adam", &moments, &powers);
    vec![
        optimizer("sgd", &[], &[]),
        adam().attr("lazy_mode", true),
        adam(),
        optimizer("adagrad", &["Moment"], &[]),
        optimizer("momentum", &["Velocity"], &[]).attr("mu", 0.9f32),
        optimizer("adamw", &moments, &powers).attr("lazy_mode", true).attr("with_decay", true),
    ]
}

#[test]
fn a_barriers_update_has_the_bits_of_one_over_all_rows() {
    for op in optimizers() {
        let ops = with_head(&op);
        let (block, shared) = block(&ops, &TRAINERS);
        assert!(block.ranges.is_some(), "{}", op.kind);
        let mut whole = Whole::new(&ops);
        for step in 0..4u64 {
            let grads = TRAINERS.map(|name| (name, grad(300, step * 10 + name.len() as u64)));
            // In any order; the ops add up in that of the trainers.
            for (name, grad) in grads.iter().rev() {
                block.store(name, &Array::of_rows(grad)).unwrap();
            }
            assert!(block.update(&shared, step).unwrap());
            whole.run(&grads, step);
            whole.assert_is(&block);
        }
        assert!(!block.update(&shared, 9).unwrap(), "nothing is left");
    }
}

#[test]
fn those_that_sent_are_averaged() {
    let op = optimizer("sgd", &[], &[]);
    let (block, shared) = block(&with_head(&op), &TRAINERS);
    let (one, three) = (grad(50, 3), grad(70, 4));
    block.store(TRAINERS[2], &Array::of_rows(&three)).unwrap();
    block.store(TRAINERS[0], &Array::of_rows(&one)).unwrap();
    block.update(&shared, 0).unwrap();
    let mut ops = with_head(&op);
    ops[0].inputs.insert("X".to_owned(), vec![TRAINERS[0].to_owned(), TRAINERS[2].to_owned()]);
    ops[1] = ops[1].clone().attr("scale", 0.5f32);
    let mut whole = Whole::new(&ops);
    whole.run(&[(TRAINERS[0], one), (TRAINERS[2], three)], 0);
    whole.assert_is(&block);
}

#[test]
fn pushes_that_are_applied_at_once_have_the_bits_of_one_over_all_rows() {
    for op in optimizers() {
        let ops = [op];
        let (block, shared) = block(&ops, &["g"]);
        let mut whole = Whole::new(&ops);
        for step in 0..4u64 {
            let grad = grad(200, step);
            block.apply("g", &Array::of_rows(&grad), &shared, step).unwrap();
            whole.run(&[("g", grad)], step);
        }
        whole.assert_is(&block);
    }
}

#[test]
fn rows_are_pulled_and_checked() {
    let (block, shared) = block(&with_head(&optimizer("sgd", &[], &[])), &TRAINERS);
    let wanted: Vec<u64> = vec![4999, 0, 1023, 1024, 0, 77];
    let mut out = vec![9.0; 100];
    block.copy_rows("w", &wanted, &mut out).unwrap();
    let first = tensor(HEIGHT, 1);
    let all = first.as_slice::<f32>().unwrap();
    let rows = wanted.iter().flat_map(|row| &all[*row as usize * WIDTH..][..WIDTH]);
    assert!(out.iter().eq(rows));
    assert_eq!(block.row_width("w").unwrap(), WIDTH);
    let error = block.copy_rows("w", &[3, 5000], &mut out).unwrap_err().to_string();
    assert!(error.contains("row 5000 lies outside a table of 5000 rows"), "{error}");

    let outside = SelectedRows { rows: vec![-1], height: HEIGHT, value: tensor(1, 2) };
    let error = block.store(TRAINERS[0], &Array::of_rows(&outside)).unwrap_err().to_string();
    assert!(error.contains("row -1 lies outside"), "{error}");
    let dense = tensor(HEIGHT, 2);
    let error = block.store(TRAINERS[0], &Array::of_tensor(&dense)).unwrap_err().to_string();
    assert!(error.contains("is selected rows"), "{error}");
    assert!(!block.update(&shared, 0).unwrap());
}

#[test]
fn other_blocks_have_no_ranges() {
    // Norms of the whole parameter, a gradient that something else changes, few rows.
    let lamb = optimizer("lamb", &["Moment1", "Moment2"], &["Beta1Pow", "Beta2Pow"]);
    assert!(block(&[lamb], &["g"]).0.ranges.is_none());
    let clip = Op::new("scale").input("X", ["h"]).output("Out", ["g"]).attr("scale", 0.5f32);
    assert!(block(&[clip, optimizer("sgd", &[], &[])], &["h"]).0.ranges.is_none());
}

#[test]
fn many_threads_push_and_pull() {
    let (block, shared) = block(&[optimizer("sgd", &[], &[])], &["g"]);
    shared.set("rate", &Tensor::scalar(1.0f32));
    block.set("w", &Array::of_tensor(&Tensor::zeros(DType::F32, [HEIGHT, WIDTH]))).unwrap();
    let (threads, pushes) = (4u64, 25u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (block, shared) = (&block, &shared);
            scope.spawn(move || {
                let (mut out, all) = (Vec::new(), (0..HEIGHT as u64).collect::<Vec<_>>());
                for push in 0..pushes {
                    let value = Tensor::from_slice([1, WIDTH], &[-1.0f32; WIDTH]).unwrap();
                    let hot = SelectedRows { rows: vec![4000], height: HEIGHT, value };
                    block.apply("g", &Array::of_rows(&hot), shared, push).unwrap();
                    let mut cold = grad(40, thread * 100 + push);
                    cold.value.as_mut_slice::<f32>().unwrap().fill(-1.0);
                    block.apply("g", &Array::of_rows(&cold), shared, push).unwrap();
                    block.copy_rows("w", &all, &mut out).unwrap();
                    // A row is read whole.
                    assert!(out.chunks(WIDTH).all(|row| row.iter().all(|one| *one == row[0])));
                    block.read("w", |w| assert_eq!(w.rows(), HEIGHT)).unwrap();
                }
            });
        }
    });
    let sum: f32 = block.read("w", |w| w.as_slice::<f32>().unwrap().iter().sum()).unwrap();
    assert_eq!(sum, (threads * pushes * 41 * WIDTH as u64) as f32);
}
