//! Blocks: updates, merging, lending, delay compensation.

use std::collections::BTreeMap;

use bireme_engine::DType;
use bireme_engine::tensor::{SelectedRows, Tensor};
use bireme_ir::{Op, Program, Var};

use super::*;
use crate::checkpoint::Part;
use crate::message::Array;

fn tensor(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len(), 1], values).unwrap()
}

/// `w` of three rows; two trainers; the optimizer `op`.
fn block(optimizer: Op) -> (Block, Shared) {
    let ops = [
        Op::new("sum").input("X", ["g.trainer_0", "g.trainer_1"]).output("Out", ["g"]),
        Op::new("scale").input("X", ["g"]).output("Out", ["g"]).attr("scale", 0.5f32),
        optimizer
            .input("Param", ["w"])
            .input("Grad", ["g"])
            .input("LearningRate", ["rate"])
            .output("ParamOut", ["w"]),
    ];
    let var = Var::tensor("g", DType::F32, vec![3, 1]);
    let received = [("g.trainer_0".to_owned(), &var), ("g.trainer_1".to_owned(), &var)];
    let initial = BTreeMap::from([
        ("w".to_owned(), tensor(&[1.0, 2.0, 3.0])),
        ("m".to_owned(), tensor(&[0.0, 0.0, 0.0])),
    ]);
    let spec = BlockSpec {
        ops: &ops,
        received: received.into(),
        initial,
        shared: vec!["rate".to_owned()],
        seed: 0,
    };
    let shared = Shared::new();
    shared.set("rate", &Tensor::scalar(0.5f32));
    (Block::new(spec).unwrap(), shared)
}

fn value(block: &Block) -> Vec<f32> {
    block.read("w", |w| w.as_slice::<f32>().unwrap().to_vec()).unwrap()
}

#[test]
fn the_mean_over_those_that_sent_is_applied() {
    let (block, shared) = block(Op::new("sgd"));
    assert_eq!(block.param(), Some("w"));
    assert!(!block.update(&shared, 0).unwrap());
    block.store("g.trainer_1", &Array::of_tensor(&tensor(&[2.0, 0.0, 0.0]))).unwrap();
    block.store("g.trainer_0", &Array::of_tensor(&tensor(&[0.0, 4.0, 0.0]))).unwrap();
    assert!(block.update(&shared, 0).unwrap());
    assert_eq!(value(&block), [0.5, 1.0, 3.0]);
    block.store("g.trainer_1", &Array::of_tensor(&tensor(&[1.0, 0.0, 2.0]))).unwrap();
    assert!(block.update(&shared, 1).unwrap());
    assert_eq!(value(&block), [0.0, 1.0, 2.0]);
    assert!(!block.update(&shared, 2).unwrap());
}

/// Nobody who trains waits for whoever looks at the parts.
#[test]
fn parts_are_of_one_instant_whatever_happens_between_them() {
    let momentum = Op::new("momentum")
        .input("Velocity", ["m"])
        .output("VelocityOut", ["m"])
        .attr("mu", 0.5f32);
    let (block, shared) = block(momentum);
    let gradient = tensor(&[2.0, 4.0, 6.0]);
    let update = |step| {
        let array = Array::of_tensor(&gradient);
        block.apply("g.trainer_0", &array, &shared, step).unwrap();
    };
    update(0);
    let before = block.read_all(&["w", "m"], |values| [values[0].clone(), values[1].clone()]);
    let mut seen = [Vec::new(), Vec::new()];
    let look = &mut |part: &Part<'_>| {
        assert_eq!(part.start, seen[part.value].len());
        seen[part.value].extend_from_slice(part.bytes);
        update(1);
        block.read_in_parts(&["w"], &mut |_| Ok(())).unwrap_err();
        Ok(())
    };
    block.read_in_parts(&["w", "m"], look).unwrap();
    for (before, seen) in before.unwrap().iter().zip(&seen) {
        assert_eq!(before.as_bytes(), seen.as_slice());
    }
    // The next time it is the state of then, and an error ends the reading.
    let error = block.read_in_parts(&["w"], &mut |part| {
        block.read("w", |w| assert_eq!(w.as_bytes(), part.bytes)).unwrap();
        Err(crate::Error::Interrupted)
    });
    assert!(matches!(error, Err(crate::Error::Interrupted)));
    block.read_in_parts(&["m"], &mut |_| Ok(())).unwrap();
}

#[test]
fn the_order_of_arrival_does_not_matter() {
    let grads = [tensor(&[0.1, 1e8, 3.0]), tensor(&[0.7, 1.0, -3.3])];
    let run = |order: [usize; 2]| {
        let (block, shared) = block(Op::new("sgd"));
        for trainer in order {
            let name = format!("g.trainer_{trainer}");
            block.store(&name, &Array::of_tensor(&grads[trainer])).unwrap();
        }
        block.update(&shared, 0).unwrap();
        value(&block)
    };
    assert_eq!(run([0, 1]), run([1, 0]));
}

#[test]
fn rows_add_up_and_dense_values_come_once() {
    let (block, shared) = block(Op::new("sgd"));
    let rows = |rows: &[i64], values: &[f32]| SelectedRows {
        rows: rows.to_vec(),
        height: 3,
        value: tensor(values),
    };
    block.store("g.trainer_0", &Array::of_rows(&rows(&[2], &[4.0]))).unwrap();
    block.store("g.trainer_0", &Array::of_rows(&rows(&[0, 2], &[2.0, 4.0]))).unwrap();
    block.store("g.trainer_1", &Array::of_rows(&rows(&[], &[]))).unwrap();
    block.update(&shared, 0).unwrap();
    assert_eq!(value(&block), [0.5, 2.0, 1.0]);
    let dense = tensor(&[1.0, 1.0, 1.0]);
    block.store("g.trainer_0", &Array::of_tensor(&dense)).unwrap();
    let error = block.store("g.trainer_0", &Array::of_tensor(&dense)).unwrap_err();
    assert!(error.to_string().contains("came twice"), "{error}");
}

#[test]
fn values_of_other_shapes_and_names_are_refused() {
    let (block, _) = block(Op::new("sgd"));
    let error = block.store("g.trainer_0", &Array::of_tensor(&tensor(&[1.0]))).unwrap_err();
    assert!(error.to_string().contains("[3, 1]"), "{error}");
    assert!(error.to_string().contains("[1, 1]"), "{error}");
    let good = tensor(&[1.0, 1.0, 1.0]);
    block.store("h", &Array::of_tensor(&good)).unwrap_err();
    block.set("w", &Array::of_tensor(&tensor(&[1.0]))).unwrap_err();
    block.read("g", |_| ()).unwrap_err();
}

#[test]
fn a_gradient_is_applied_at_once_with_the_newest_rate() {
    let (block, shared) = block(Op::new("sgd"));
    block.apply("g.trainer_1", &Array::of_tensor(&tensor(&[2.0, 0.0, 0.0])), &shared, 0).unwrap();
    assert_eq!(value(&block), [0.0, 2.0, 3.0]);
    shared.set("rate", &Tensor::scalar(1.0f32));
    let rows = SelectedRows { rows: vec![2], height: 3, value: tensor(&[1.0]) };
    block.apply("g.trainer_0", &Array::of_rows(&rows), &shared, 1).unwrap();
    assert_eq!(value(&block), [0.0, 2.0, 2.0]);
}

#[test]
fn delayed_gradients_are_compensated() {
    let (block, shared) = block(Op::new("sgd"));
    block.read_for(1, "w", |_| ()).unwrap();
    let grad = tensor(&[2.0, 0.0, 0.0]);
    block.apply("g.trainer_0", &Array::of_tensor(&grad), &shared, 0).unwrap();
    // w is 0 where trainer 1 has 1: g = 2 + 0.25 * 2 * 2 * (0 - 1) = 1.
    let array = Array::of_tensor(&grad);
    block.apply_delayed("g.trainer_1", &array, &shared, 1, (1, 0.25)).unwrap();
    assert_eq!(value(&block), [-0.5, 2.0, 3.0]);
    // Nobody knows what trainer 0 has.
    block.apply_delayed("g.trainer_0", &array, &shared, 2, (0, 0.25)).unwrap();
    assert_eq!(value(&block), [-1.5, 2.0, 3.0]);
}

#[test]
fn differences_are_added_to_all_or_to_rows() {
    let (block, _) = block(Op::new("sgd"));
    block.add("w", &Array::of_tensor(&tensor(&[1.0, 1.0, 1.0]))).unwrap();
    let rows = SelectedRows { rows: vec![2, 0], height: 3, value: tensor(&[0.5, 0.25]) };
    block.add("w", &Array::of_rows(&rows)).unwrap();
    assert_eq!(value(&block), [2.25, 3.0, 4.5]);
    block.set("w", &Array::of_rows(&rows)).unwrap();
    let mut out = Vec::new();
    block.copy_rows("w", &[2, 0, 2], &mut out).unwrap();
    assert_eq!(out, [0.5, 0.25, 0.5]);
    let error = block.copy_rows("w", &[3], &mut out).unwrap_err();
    assert!(error.to_string().contains("row 3"), "{error}");
}

#[test]
fn pieces_become_whole() {
    let assembly = Assembly::new();
    let whole = tensor(&[1.0, 2.0, 3.0]);
    assert!(assembly.take(0, "g", &Array::of_range(&whole, 1, 3)).unwrap().is_none());
    assert!(assembly.take(1, "g", &Array::of_range(&whole, 0, 1)).unwrap().is_none());
    assert_eq!(assembly.take(0, "g", &Array::of_range(&whole, 0, 1)).unwrap(), Some(whole.clone()));
    assembly.forget(1);
    assert!(assembly.take(1, "g", &Array::of_range(&whole, 1, 3)).unwrap().is_none());
}

#[test]
fn a_sum_in_place_is_made_safe() {
    let program = Program::parse(
        "random_seed 0
{ // block 0
    {Out=['c']} = sum(inputs={X=['c', 'c.trainer_0']})
}",
    )
    .unwrap();
    let var = Var::tensor("c.trainer_0", DType::F32, vec![1]);
    let spec = BlockSpec {
        ops: &program.global().ops,
        received: [("c.trainer_0".to_owned(), &var)].into(),
        initial: [("c".to_owned(), Tensor::scalar(1.0f32))].into(),
        shared: Vec::new(),
        seed: 0,
    };
    let block = Block::new(spec).unwrap();
    let one = Tensor::scalar(1.0f32);
    block.apply("c.trainer_0", &Array::of_tensor(&one), &Shared::new(), 0).unwrap();
    assert_eq!(block.read("c", Tensor::to_f64_vec).unwrap(), [2.0]);
}

/// The parameter as it is handed out for `steps` updates ahead.
fn ahead(block: &Block, steps: u32) -> Vec<f32> {
    let look = |w: &Tensor, ahead: Option<Ahead<'_>>, _| {
        let mut values = w.as_slice::<f32>().unwrap().to_vec();
        if let Some(ahead) = ahead {
            ahead.apply(0, &mut values);
        }
        values
    };
    block.read_ahead("w", steps, look).unwrap()
}

#[test]
fn momentum_tells_where_the_parameter_goes() {
    let momentum = Op::new("momentum").input("Velocity", ["m"]).output("VelocityOut", ["m"]);
    let (block, shared) = block(momentum.attr("mu", 0.5f32));
    assert_eq!(ahead(&block, 3), [1.0, 2.0, 3.0], "nothing moves yet");
    block.apply("g.trainer_0", &Array::of_tensor(&tensor(&[4.0, 0.0, 0.0])), &shared, 0).unwrap();
    assert_eq!((value(&block), ahead(&block, 0)), (vec![-1.0, 2.0, 3.0], vec![-1.0, 2.0, 3.0]));
    // What two updates without a gradient really do.
    let expected = ahead(&block, 2);
    let none = tensor(&[0.0, 0.0, 0.0]);
    for step in 1..3 {
        block.apply("g.trainer_1", &Array::of_tensor(&none), &shared, step).unwrap();
    }
    assert_eq!(value(&block), expected);
    assert_eq!(expected, [-2.5, 2.0, 3.0]);
}

#[test]
fn adam_tells_where_the_parameter_goes() {
    let adam = Op::new("adam")
        .input("Moment1", ["m1"])
        .input("Moment2", ["m2"])
        .input("Beta1Pow", ["p1"])
        .input("Beta2Pow", ["p2"])
        .input("Param", ["w"])
        .input("Grad", ["g"])
        .input("LearningRate", ["rate"])
        .output("Moment1Out", ["m1"])
        .output("Moment2Out", ["m2"])
        .output("Beta1PowOut", ["p1"])
        .output("Beta2PowOut", ["p2"])
        .output("ParamOut", ["w"]);
    let var = Var::tensor("g", DType::F32, vec![3, 1]);
    let zeros = tensor(&[0.0, 0.0, 0.0]);
    let initial = BTreeMap::from([
        ("w".to_owned(), tensor(&[1.0, 2.0, 3.0])),
        ("m1".to_owned(), zeros.clone()),
        ("m2".to_owned(), zeros.clone()),
        ("p1".to_owned(), Tensor::scalar(0.9f32)),
        ("p2".to_owned(), Tensor::scalar(0.999f32)),
    ]);
    let received = [("g".to_owned(), &var)].into();
    let shared_names = vec!["rate".to_owned()];
    let spec = BlockSpec { ops: &[adam], received, initial, shared: shared_names, seed: 0 };
    let (block, shared) = (Block::new(spec).unwrap(), Shared::new());
    shared.set("rate", &Tensor::scalar(0.01f32));
    for step in 0..50 {
        let grad = tensor(&[1.0, -0.5, 0.0]);
        block.apply("g", &Array::of_tensor(&grad), &shared, step).unwrap();
    }
    let (before, expected) = (value(&block), ahead(&block, 1));
    block.apply("g", &Array::of_tensor(&zeros), &shared, 50).unwrap();
    for ((before, after), expected) in before.iter().zip(value(&block)).zip(expected) {
        let (moved, foreseen) = (after - before, expected - before);
        assert!((moved - foreseen).abs() <= moved.abs() * 0.002, "{moved} {foreseen}");
    }
}
