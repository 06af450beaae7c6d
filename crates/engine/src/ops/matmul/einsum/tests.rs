//! What golden cases of `einsum` cannot show: implied outputs, sums that Paddle refuses, the slots
//! of its own gradients, and splits of a batch.

use bireme_ir::{Program, Var, grad_name};

use crate::ops::testing::*;
use crate::{Executor, Place};

/// Small integers, exact in any order of sums.
fn tensor(dims: &[usize]) -> Tensor {
    let count: usize = dims.iter().product();
    let numbers: Vec<f64> = (0..count).map(|i| ((i * 7 + 3) % 11) as f64 - 5.0).collect();
    Tensor::from_slice(dims.to_vec(), &numbers).unwrap()
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}{i}")).collect()
}

fn run(equation: &str, operands: &[&[usize]]) -> (Op, HashMap<String, Value>) {
    let inputs = names("x", operands.len());
    let op = Op::new("einsum").input("Operands", &inputs).output("Out", ["out"]);
    let op = op.attr("equation", equation);
    let mut values: HashMap<String, Value> =
        inputs.into_iter().zip(operands).map(|(name, dims)| (name, tensor(dims).into())).collect();
    run_once(&op, &mut values).unwrap();
    (op, values)
}

fn output(equation: &str, operands: &[&[usize]]) -> (Vec<usize>, Vec<f64>) {
    let (_, values) = run(equation, operands);
    let out = values["out"].tensor().unwrap();
    (out.dims().to_vec(), out.to_f64_vec())
}

#[test]
fn implied_outputs_are_those_written_out() {
    for (implied, given, operands) in [
        ("ij,jk", "ij,jk->ik", &[&[2, 3][..], &[3, 4]][..]),
        ("ba", "ba->ab", &[&[2, 3]]),
        ("ii", "ii->", &[&[3, 3]]),
        ("k...i,ij", "k...i,ij->...jk", &[&[2, 4, 3], &[3, 5]]),
    ] {
        assert_eq!(output(implied, operands), output(given, operands), "{implied}");
    }
}

#[test]
fn unusual_sums_have_their_meaning() {
    // A diagonal before another axis, and unnamed axes that the output leaves out.
    let (dims, values) = output("iij->j", &[&[2, 2, 3]]);
    let x = tensor(&[2, 2, 3]).to_f64_vec();
    assert_eq!((dims, values), (vec![3], (0..3).map(|j| x[j] + x[9 + j]).collect()));
    let (dims, values) = output("...i->i", &[&[2, 3]]);
    let x = tensor(&[2, 3]).to_f64_vec();
    assert_eq!((dims, values), (vec![3], (0..3).map(|j| x[j] + x[3 + j]).collect()));
    // Nothing to sum gives zeros.
    assert_eq!(output("ij,jk->ik", &[&[2, 0], &[0, 1]]), (vec![2, 1], vec![0.0, 0.0]));
    assert_eq!(output("ij->i", &[&[2, 0]]), (vec![2], vec![0.0, 0.0]));
    assert_eq!(output("...i,...i->...i", &[&[0, 2], &[1, 2]]), (vec![0, 2], vec![]));
}

#[test]
fn three_operands_are_refused() {
    let op = Op::new("einsum").input("Operands", names("x", 3)).output("Out", ["out"]);
    let mut values: HashMap<String, Value> =
        names("x", 3).into_iter().map(|name| (name, tensor(&[2, 2]).into())).collect();
    let error = run_once(&op.attr("equation", "ij,jk,kl->il"), &mut values).unwrap_err();
    assert_eq!(error.to_string(), "op `einsum` (`out`): takes one or two operands, not 3");
}

#[test]
fn gradients_in_programs_of_paddle_read_what_was_kept() {
    for (equation, operands) in [
        ("ibj,jk->kib", &[&[2, 3, 4][..], &[4, 5]][..]),
        ("ij,iik->k", &[&[2, 3], &[2, 2, 4]]),
        ("ijk->ki", &[&[2, 3, 4]]),
    ] {
        let (op, mut values) = run(equation, operands);
        let dout = values["out"].clone();
        values.insert(grad_name("out"), dout);
        let count = operands.len();
        let grad = |prefix: &str| {
            let grad = Op::new("einsum_grad").input("Out@GRAD", [grad_name("out")]);
            grad.attr("equation", equation).output("Operands@GRAD", names(prefix, count))
        };
        let ours = grad("ours").input("Operands", names("x", count));
        run_once(&ours, &mut values).unwrap();
        let op = op.output("InnerCache", names("cache", count));
        run_once(&op.output("XShape", names("shape", count)), &mut values).unwrap();
        let paddles = grad("theirs").input("InnerCache", names("cache", count));
        run_once(&paddles.input("x_shape", names("shape", count)), &mut values).unwrap();
        for (ours, theirs) in names("ours", count).iter().zip(names("theirs", count)) {
            assert_eq!(values[ours], values[&theirs], "{equation}");
        }
    }
}

#[test]
fn a_split_batch_gives_the_same_values() {
    for (equation, left, right, rows, rank) in [
        ("bi,ij->bj", [6, 3], vec![3, 4], false, 2),
        ("bi,bj->bij", [6, 3], vec![6, 2], true, 3),
        ("b...,ij->b...j", [6, 3], vec![2, 2], false, 3),
        ("bi,ij->jb", [6, 3], vec![3, 4], false, 2),
    ] {
        let mut program = Program::new();
        let mut feeds = vec![("x0", tensor(&left))];
        let block = program.global_mut();
        block.add_var(Var::tensor("x0", DType::F64, [-1, left[1] as i64]));
        let mut shape: Vec<i64> = right.iter().map(|dim| *dim as i64).collect();
        let mut var = Var::tensor("x1", DType::F64, shape.clone());
        if rows {
            shape[0] = -1;
            var = Var::tensor("x1", DType::F64, shape);
            feeds.push(("x1", tensor(&right)));
        }
        var.persistable = !rows;
        block.add_var(var);
        for (name, rank) in [("out", rank), ("d0", 2), ("d1", 2)] {
            block.add_var(Var::tensor(name, DType::F64, vec![-1; rank]));
        }
        let op = Op::new("einsum").input("Operands", ["x0", "x1"]).output("Out", ["out"]);
        let grad = Op::new("einsum_grad").input("Operands", ["x0", "x1"]);
        let grad = grad.input("Out@GRAD", ["out"]).output("Operands@GRAD", ["d0", "d1"]);
        block.ops.extend([op, grad].map(|op| op.attr("equation", equation)));
        let results: Vec<Vec<Tensor>> = [1, 3]
            .into_iter()
            .map(|threads| {
                let mut executor = Executor::new(Place::Cpu).unwrap().threads(threads);
                executor.scope().set("x1", &tensor(&right));
                let feeds: Vec<(&str, &Tensor)> = feeds.iter().map(|(n, t)| (*n, t)).collect();
                executor.run(&program, &feeds, &["out", "d0", "d1"]).unwrap()
            })
            .collect();
        assert_eq!(results[0], results[1], "{equation}");
    }
}
