//! Programs with blocks: their values, their gradients beside finite differences, and as text.

use std::collections::HashMap;

use bireme_ir::{DType, Program, grad_name};

use crate::autodiff::{append_backward_to, gradients_in};
use crate::tensor::Tensor;
use crate::{Executor, Place, Result};

/// A program whose global block declares these and has these ops, and the blocks after it.
fn program(global: &str, blocks: &[&str]) -> Program {
    let header = |at: usize| match at {
        0 => "{ // block 0".to_owned(),
        at => format!("{{ // block {at}, parent {}", at - 1),
    };
    let all = std::iter::once(&global).chain(blocks).enumerate();
    let text: Vec<String> =
        all.map(|(at, lines)| format!("{}\n{lines}\n}}\n", header(at))).collect();
    let program = Program::parse(&text.concat()).unwrap();
    assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
    assert_eq!(Program::from_bytes(&program.to_bytes()).unwrap(), program);
    program
}

/// Numbers that repeat seldom.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| (((at + seed) * 37 % 17) as f32 - 8.0) / 10.0).collect()
}

fn run(program: &Program, feeds: &[(&str, &Tensor)], fetches: &[&str]) -> Result<Vec<Tensor>> {
    Executor::new(Place::Cpu)?.run(program, feeds, fetches)
}

/// Compares the gradients of `loss` by each of `inputs` with finite differences; all other feeds stay as they are.
fn check_gradients(mut program: Program, feeds: &[(&str, Tensor)], loss: &str, inputs: &[&str]) {
    let plain = program.clone();
    let grads = gradients_in(&mut program, &[loss], inputs, None, &[]).unwrap();
    crate::catalog::check(&program, &feeds.iter().map(|(name, _)| *name).collect::<Vec<_>>())
        .unwrap();
    assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
    let grads: Vec<String> =
        grads.into_iter().map(|grad| grad.expect("it has a gradient")).collect();
    let names: Vec<&str> = grads.iter().map(String::as_str).collect();
    let given: Vec<(&str, &Tensor)> = feeds.iter().map(|(name, value)| (*name, value)).collect();
    let computed = run(&program, &given, &names).unwrap();
    for (input, computed) in inputs.iter().zip(computed) {
        let computed = computed.to_f64_vec();
        let at = feeds.iter().position(|(name, _)| name == input).unwrap();
        for (element, slope) in computed.iter().enumerate() {
            let moved = |by: f32| {
                let mut feeds = feeds.to_vec();
                feeds[at].1.as_mut_slice::<f32>().unwrap()[element] += by;
                let feeds: Vec<(&str, &Tensor)> =
                    feeds.iter().map(|(name, value)| (*name, value)).collect();
                run(&plain, &feeds, &[loss]).unwrap()[0].to_f64_vec()[0]
            };
            let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!(
                (slope - expected).abs() < 2e-3 + 2e-2 * expected.abs(),
                "gradient of `{input}` at {element}: {slope}, by differences {expected}"
            );
        }
    }
}

fn matrix(rows: usize, columns: usize, seed: usize) -> Tensor {
    Tensor::from_slice([rows, columns], &values(rows * columns, seed)).unwrap()
}

const FEEDS: &str = "
    var x : LOD_TENSOR.shape(2, 3).dtype(float32).need_check_feed(True)
    var w : LOD_TENSOR.shape(3, 3).dtype(float32).need_check_feed(True)
    var n : LOD_TENSOR.shape(1).dtype(int64).stop_gradient(True).need_check_feed(True)
    var i : LOD_TENSOR.shape(1).dtype(int64).stop_gradient(True)
    var go : LOD_TENSOR.shape(1).dtype(bool).stop_gradient(True)
    var y : LOD_TENSOR.shape(2, 3).dtype(float32)
    var scopes : STEP_SCOPES
    var loss : LOD_TENSOR.shape(1).dtype(float32)
";

const START: &str = "
    {Out=['i']} = fill_constant(inputs={}, shape = [1], dtype = 3, value = 0.0)
    {Out=['go']} = less_than(inputs={X=['i'], Y=['n']})
";

const COUNT: &str = "
    {Out=['i']} = increment(inputs={X=['i']}, step = 1.0)
    {Out=['go']} = less_than(inputs={X=['i'], Y=['n']})
";

/// `y` is `x`, multiplied by `w` and squashed `n` times.
fn squashed() -> Program {
    let global = format!(
        "{FEEDS}{START}
        {{Out=['y']}} = assign(inputs={{X=['x']}})
        {{Out=['y', 'i', 'go'], StepScopes=['scopes']}} = while(inputs={{Condition=['go'], X=['y', 'w', 'i', 'n']}}, sub_block = block[1])
        {{Out=['loss']}} = mean(inputs={{X=['y']}})"
    );
    let body = format!(
        "var p : LOD_TENSOR.shape(2, 3).dtype(float32)
        var t : LOD_TENSOR.shape(2, 3).dtype(float32)
        {{Out=['p']}} = matmul_v2(inputs={{X=['y'], Y=['w']}})
        {{Out=['t']}} = tanh(inputs={{X=['p']}})
        {{Out=['y']}} = assign(inputs={{X=['t']}}){COUNT}"
    );
    program(&global, &[&body])
}

fn number(value: i64) -> Tensor {
    Tensor::scalar(value)
}

#[test]
fn a_loop_runs_as_long_as_its_condition_holds() {
    for (n, count) in [(0, 0.0), (3, 3.0), (-2, 0.0)] {
        let (x, w, n) = (matrix(2, 3, 0), matrix(3, 3, 5), number(n));
        let mut expected: Vec<f64> = x.to_f64_vec();
        let weights = w.to_f64_vec();
        for _ in 0..count as usize {
            let at = |r: usize, c: usize| {
                (0..3).map(|k| expected[r * 3 + k] * weights[k * 3 + c]).sum::<f64>()
            };
            expected = (0..6).map(|e| at(e / 3, e % 3).tanh()).collect();
        }
        let out = run(&squashed(), &[("x", &x), ("w", &w), ("n", &n)], &["y", "i"]).unwrap();
        for (found, expected) in out[0].to_f64_vec().iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5);
        }
        assert_eq!(out[1].to_f64_vec(), [count]);
    }
}

#[test]
fn gradients_go_through_every_run_of_a_loop() {
    for n in [0, 1, 3] {
        let feeds = [("x", matrix(2, 3, 0)), ("w", matrix(3, 3, 5)), ("n", number(n))];
        check_gradients(squashed(), &feeds, "loss", &["x", "w"]);
    }
}

#[test]
fn a_parameter_is_trained_through_a_loop() {
    let mut program = squashed();
    let var = program.global_mut().vars.get_mut("w").unwrap();
    (var.persistable, var.need_check_feed) = (true, false);
    var.param = Some(bireme_ir::Param::default());
    let pairs = append_backward_to(&mut program, "loss", None, &[]).unwrap();
    assert_eq!(pairs, [("w".to_owned(), grad_name("w"))]);
    let text = program.to_string();
    assert!(text.contains("while_grad") && text.contains("parent 0, forward 1"), "{text}");
}

#[test]
fn a_value_that_a_loop_writes_over_is_copied_for_the_gradient() {
    // `y` is squared before the loop changes it.
    let mut all = squashed();
    let global = all.global_mut();
    global.add_var(bireme_ir::Var::tensor("s", DType::F32, [2, 3]));
    global.add_var(bireme_ir::Var::tensor("q", DType::F32, [2, 3]));
    let op =
        |kind: &str, x: &str, y: &str| bireme_ir::Op::new(kind).input("X", [x]).output("Out", [y]);
    global.ops.insert(3, op("square", "y", "s"));
    let add = bireme_ir::Op::new("elementwise_add").input("X", ["y"]).input("Y", ["s"]);
    let last = global.ops.len() - 1;
    global.ops.insert(last, add.output("Out", ["q"]));
    global.ops[last + 1] = op("mean", "q", "loss");
    let feeds = [("x", matrix(2, 3, 0)), ("w", matrix(3, 3, 5)), ("n", number(2))];
    check_gradients(all.clone(), &feeds, "loss", &["x", "w"]);
    gradients_in(&mut all, &["loss"], &["x"], None, &[]).unwrap();
    assert_eq!(all.global().ops[4].output_vars().next().unwrap(), "y@COPY@0");
}

/// `y` is `x @ w` if the sum of `x` is positive, and otherwise `3 x`.
fn chosen() -> Program {
    let global = format!(
        "{FEEDS}
        var sum : LOD_TENSOR.shape(1).dtype(float32)
        var zero : LOD_TENSOR.shape(1).dtype(float32).stop_gradient(True)
        var no : LOD_TENSOR.shape(1).dtype(bool).stop_gradient(True)
        var mask : LOD_TENSOR.shape(1).dtype(int32).stop_gradient(True)
        var a : LOD_TENSOR.shape(2, 3).dtype(float32)
        var b : LOD_TENSOR.shape(2, 3).dtype(float32)
        var others : STEP_SCOPES
        {{Out=['sum']}} = reduce_sum(inputs={{X=['x']}}, reduce_all = True)
        {{Out=['zero']}} = fill_constant(inputs={{}}, shape = [1], dtype = 5, value = 0.0)
        {{Out=['go']}} = greater_than(inputs={{X=['sum'], Y=['zero']}})
        {{Out=['a'], Scope=['scopes']}} = conditional_block(inputs={{Cond=['go'], Input=['x', 'w']}}, sub_block = block[1], is_scalar_condition = True)
        {{Out=['no']}} = logical_not(inputs={{X=['go']}})
        {{Out=['b'], Scope=['others']}} = conditional_block(inputs={{Cond=['no'], Input=['x']}}, sub_block = block[2], is_scalar_condition = True)
        {{Out=['mask']}} = cast(inputs={{X=['go']}}, in_dtype = 0, out_dtype = 2)
        {{Out=['y']}} = select_input(inputs={{X=['b', 'a'], Mask=['mask']}})
        {{Out=['loss']}} = mean(inputs={{X=['y']}})"
    );
    let first = "var p : LOD_TENSOR.shape(2, 3).dtype(float32)
        {Out=['p']} = matmul_v2(inputs={X=['x'], Y=['w']})
        {Out=['a']} = assign(inputs={X=['p']})";
    let second = "var q : LOD_TENSOR.shape(2, 3).dtype(float32)
        {Out=['q']} = scale(inputs={X=['x']}, scale = 3.0)
        {Out=['b']} = assign(inputs={X=['q']})";
    let mut program = program(&global, &[first, second]);
    program.blocks[2].parent = Some(0);
    program
}

#[test]
fn only_the_chosen_block_runs_and_gets_a_gradient() {
    let (x, w) = (matrix(2, 3, 0), matrix(3, 3, 5));
    let mut turned = x.clone();
    turned.as_mut_slice::<f32>().unwrap().iter_mut().for_each(|x| *x = -*x);
    for x in [x, turned] {
        let positive = x.to_f64_vec().iter().sum::<f64>() > 0.0;
        let out = run(&chosen(), &[("x", &x), ("w", &w)], &["y"]).unwrap();
        let tripled: Vec<f64> = x.to_f64_vec().iter().map(|x| f64::from(*x as f32 * 3.0)).collect();
        assert_eq!(out[0].to_f64_vec() == tripled, !positive);
        let feeds = [("x", x), ("w", w.clone())];
        check_gradients(chosen(), &feeds, "loss", &["x", "w"]);
    }
}

/// A loop in a loop, under a condition that holds in every second run.
fn nested() -> Program {
    let mut all = squashed();
    let global = all.global_mut();
    global.add_var(bireme_ir::Var::tensor("two", DType::I64, [1])).stop_gradient = true;
    let two = bireme_ir::Op::new("fill_constant").output("Out", ["two"]);
    global.ops.insert(0, two.attr("shape", vec![1i64]).attr("dtype", 3).attr("value", 2.0f32));
    let inner = Program::parse(
        "{ // block 0
        var half : LOD_TENSOR.shape(1).dtype(int64).stop_gradient(True)
        var twice : LOD_TENSOR.shape(1).dtype(int64).stop_gradient(True)
        var even : LOD_TENSOR.shape(1).dtype(bool).stop_gradient(True)
        var more : LOD_TENSOR.shape(1).dtype(bool).stop_gradient(True)
        var j : LOD_TENSOR.shape(1).dtype(int64).stop_gradient(True)
        var kept : STEP_SCOPES
        {Out=['half']} = elementwise_floordiv(inputs={X=['i'], Y=['two']})
        {Out=['twice']} = elementwise_mul(inputs={X=['half'], Y=['two']})
        {Out=['even']} = equal(inputs={X=['twice'], Y=['i']})
        {Out=['y'], Scope=['kept']} = conditional_block(inputs={Cond=['even'], Input=['y', 'w']}, sub_block = block[2], is_scalar_condition = True)
    }
    { // block 1, parent 0
        var k : LOD_TENSOR.shape(1).dtype(int64).stop_gradient(True)
        var on : LOD_TENSOR.shape(1).dtype(bool).stop_gradient(True)
        var runs : STEP_SCOPES
        {Out=['k']} = fill_constant(inputs={}, shape = [1], dtype = 3, value = 0.0)
        {Out=['on']} = less_than(inputs={X=['k'], Y=['two']})
        {Out=['y', 'k', 'on'], StepScopes=['runs']} = while(inputs={Condition=['on'], X=['y', 'w', 'k', 'two']}, sub_block = block[3])
    }
    { // block 2, parent 1
        var s : LOD_TENSOR.shape(2, 3).dtype(float32)
        var m : LOD_TENSOR.shape(2, 3).dtype(float32)
        {Out=['s']} = sigmoid(inputs={X=['y']})
        {Out=['m']} = matmul_v2(inputs={X=['s'], Y=['w']})
        {Out=['y']} = elementwise_add(inputs={X=['y'], Y=['m']})
        {Out=['k']} = increment(inputs={X=['k']}, step = 1.0)
        {Out=['on']} = less_than(inputs={X=['k'], Y=['two']})
    }",
    )
    .unwrap();
    let body = &mut all.blocks[1];
    body.vars.extend(inner.blocks[0].vars.clone());
    let rest = body.ops.split_off(3);
    body.ops.extend(inner.blocks[0].ops.clone());
    body.ops.extend(rest);
    for (at, parent) in [(1, 1), (2, 2)] {
        all.append_block(parent).clone_from(&bireme_ir::Block {
            idx: at + 1,
            parent: Some(parent),
            ..inner.blocks[at].clone()
        });
    }
    all
}

#[test]
fn blocks_inside_of_blocks_have_gradients() {
    for n in [1, 2, 3] {
        let feeds = [("x", matrix(2, 3, 0)), ("w", matrix(3, 3, 5)), ("n", number(n))];
        check_gradients(nested(), &feeds, "loss", &["x", "w"]);
    }
}

/// Writes every state of a loop into an array, each made from the one before, which is read from there.
fn array_loop(stacks: bool) -> Program {
    let global = format!(
        "{FEEDS}{START}
        var all : LOD_TENSOR_ARRAY.shape(2, 3).dtype(float32)
        var one : LOD_TENSOR.shape(-1, 2, 3).dtype(float32)
        var sizes : LOD_TENSOR.shape(-1).dtype(int32)
        var length : LOD_TENSOR.shape(1).dtype(int64)
        var tail : LOD_TENSOR.shape(2, 3).dtype(float32)
        {{Out=['all']}} = write_to_array(inputs={{X=['x'], I=['i']}})
        {{Out=['all', 'i', 'go'], StepScopes=['scopes']}} = while(inputs={{Condition=['go'], X=['all', 'w', 'i', 'n']}}, sub_block = block[1])
        {{Out=['length']}} = lod_array_length(inputs={{X=['all']}})
        {}
        {{Out=['loss']}} = mean(inputs={{X=['y']}})",
        if stacks {
            "{Out=['one'], OutIndex=['sizes']} = tensor_array_to_tensor(inputs={X=['all']}, axis = 0, use_stack = True)
            {Out=['y']} = reduce_sum(inputs={X=['one']}, dim = [0])"
        } else {
            "{Out=['tail']} = read_from_array(inputs={X=['all'], I=['n']})
            {Out=['y']} = elementwise_mul(inputs={X=['tail'], Y=['tail']})"
        }
    );
    let body = format!(
        "var old : LOD_TENSOR.shape(2, 3).dtype(float32)
        var p : LOD_TENSOR.shape(2, 3).dtype(float32)
        var t : LOD_TENSOR.shape(2, 3).dtype(float32)
        {{Out=['old']}} = read_from_array(inputs={{X=['all'], I=['i']}})
        {{Out=['p']}} = matmul_v2(inputs={{X=['old'], Y=['w']}})
        {{Out=['t']}} = tanh(inputs={{X=['p']}}){COUNT}
        {{Out=['all']}} = write_to_array(inputs={{X=['t'], I=['i']}})"
    );
    program(&global, &[&body])
}

#[test]
fn arrays_are_written_and_read_in_loops() {
    for stacks in [false, true] {
        let feeds = [("x", matrix(2, 3, 0)), ("w", matrix(3, 3, 5)), ("n", number(3))];
        let given: Vec<(&str, &Tensor)> =
            feeds.iter().map(|(name, value)| (*name, value)).collect();
        let out = run(&array_loop(stacks), &given, &["length"]).unwrap();
        assert_eq!(out[0].to_f64_vec(), [4.0]);
        check_gradients(array_loop(stacks), &feeds, "loss", &["x", "w"]);
    }
}

#[test]
fn shapes_may_change_from_run_to_run() {
    let global = format!(
        "{FEEDS}{START}
        {{Out=['y']}} = assign(inputs={{X=['x']}})
        {{Out=['y', 'i', 'go'], StepScopes=['scopes']}} = while(inputs={{Condition=['go'], X=['y', 'x', 'i', 'n']}}, sub_block = block[1])
        {{Out=['loss']}} = mean(inputs={{X=['y']}})"
    )
    .replace("var y : LOD_TENSOR.shape(2, 3)", "var y : LOD_TENSOR.shape(-1, 3)");
    let body = format!(
        "var c : LOD_TENSOR.shape(-1, 3).dtype(float32)
        var s : LOD_TENSOR.shape(-1, 3).dtype(float32)
        {{Out=['s']}} = square(inputs={{X=['y']}})
        {{Out=['c']}} = concat(inputs={{X=['s', 'x']}}, axis = 0)
        {{Out=['y']}} = assign(inputs={{X=['c']}}){COUNT}"
    );
    let grows = program(&global, &[&body]);
    let feeds = [("x", matrix(2, 3, 0)), ("n", number(3))];
    let given: Vec<(&str, &Tensor)> = feeds.iter().map(|(name, value)| (*name, value)).collect();
    let out = run(&grows, &given, &["y"]).unwrap();
    assert_eq!(*out[0].dims(), [8, 3]);
    check_gradients(grows, &feeds, "loss", &["x"]);
}

#[test]
fn an_array_that_nothing_was_written_to_is_empty() {
    let text = array_loop(true).to_string();
    let mut all = Program::parse(&text).unwrap();
    // The first item is written by the loop; before, what it read was the item.
    all.global_mut().ops.retain(|op| op.kind != "write_to_array");
    let body = &mut all.blocks[1].ops;
    body[0] = bireme_ir::Op::new("assign").input("X", ["x"]).output("Out", ["old"]);
    let write = body.pop().unwrap();
    body.insert(3, write);
    let feeds = [("x", matrix(2, 3, 0)), ("w", matrix(3, 3, 5)), ("n", number(3))];
    let given: Vec<(&str, &Tensor)> = feeds.iter().map(|(name, value)| (*name, value)).collect();
    assert_eq!(run(&all, &given, &["length"]).unwrap()[0].to_f64_vec(), [3.0]);
    check_gradients(all.clone(), &feeds, "loss", &["x", "w"]);
    let never = [("x", matrix(2, 3, 0)), ("w", matrix(3, 3, 5)), ("n", number(0))];
    let given: Vec<(&str, &Tensor)> = never.iter().map(|(name, value)| (*name, value)).collect();
    assert_eq!(run(&all, &given, &["length"]).unwrap()[0].to_f64_vec(), [0.0]);
}

#[test]
fn a_block_has_one_op_that_runs_it() {
    let mut twice = squashed();
    let again = twice.global().ops[3].clone();
    twice.global_mut().ops.insert(4, again);
    let error = gradients_in(&mut twice, &["loss"], &["x"], None, &[]).unwrap_err().to_string();
    assert!(error.contains("cannot run block 1: another op runs it too"), "{error}");
}

#[test]
fn what_cannot_run_is_refused_with_its_name() {
    let fails = |program: &Program| {
        let feeds =
            HashMap::from([("x", matrix(2, 3, 0)), ("w", matrix(3, 3, 5)), ("n", number(1))]);
        let given: Vec<(&str, &Tensor)> =
            feeds.iter().map(|(name, value)| (*name, value)).collect();
        run(program, &given, &["loss"]).unwrap_err().to_string()
    };
    let mut endless = squashed();
    endless.blocks[1].ops.pop();
    let error = fails(&endless);
    assert!(error.contains("does not write the condition `go`"), "{error}");
    let mut other = squashed();
    other.blocks[1].ops[1].kind = "shape".to_owned();
    let op = &mut other.blocks[1].ops[1];
    op.inputs = [("Input".to_owned(), vec!["p".to_owned()])].into();
    other.blocks[1].vars.get_mut("t").unwrap().dtype = DType::I32;
    other.blocks[1].vars.get_mut("t").unwrap().shape = vec![2];
    let error = fails(&other);
    assert!(error.contains("`y`") && error.contains("int32"), "{error}");
}
