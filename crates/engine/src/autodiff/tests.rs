//! Backward passes as text, compared with what Paddle 2.6.2 appends to the same program, and their
//! values, compared with finite differences.

use std::collections::HashMap;

use bireme_ir::{DType, Op, OpRole, VarKind, verify};
use expect_test::{Expect, expect};

use super::*;
use crate::catalog::Ops;
use crate::graph::Graph;
use crate::layers::{self, Act, Embedding, Fc};
use crate::op::run_once;
use crate::tensor::Tensor;
use crate::value::Value;

/// The ops that a backward pass appended, one a line, without attributes other than
/// `op_role_var`.
fn appended(graph: &Graph) -> String {
    let main = graph.main();
    verify(&main, &Ops).unwrap();
    let backward = |op: &&Op| op.op_role().0 & OpRole::BACKWARD.0 != 0;
    let list = |slots: &bireme_ir::Slots| {
        let slot = |(slot, vars): (&String, &Vec<String>)| format!("{slot}={}", vars.join("+"));
        slots.iter().map(slot).collect::<Vec<_>>().join(" ")
    };
    let line = |op: &Op| {
        let pairs = match op.attrs.get("op_role_var") {
            Some(Attr::Strings(vars)) => format!("  [{}]", vars.join(" ")),
            _ => String::new(),
        };
        format!("{} = {}({}){pairs}\n", list(&op.outputs), op.kind, list(&op.inputs))
    };
    main.global().ops.iter().filter(backward).map(line).collect()
}

fn check(build: impl FnOnce(&Graph) -> Result<Variable>, expected: Expect) -> Graph {
    let graph = Graph::new();
    let loss = build(&graph).unwrap();
    append_backward(&loss, None, &[]).unwrap();
    expected.assert_eq(&appended(&graph));
    graph
}

fn fit_a_line(graph: &Graph) -> Result<Variable> {
    let x = layers::data(graph, "x", [13], DType::F32);
    let y = layers::data(graph, "y", [1], DType::F32);
    let predicted = layers::fc(&x, 1, Act::None)?;
    layers::mean(&layers::square_error_cost(&predicted, &y)?)
}

/// A weight and two activations, each used twice.
fn shared(graph: &Graph) -> Result<Variable> {
    let x = layers::data(graph, "x", [4], DType::F32);
    let hidden = layers::fc(&x, 4, Act::Relu)?;
    let a = Fc::new(4).act(Act::Tanh).param_attr("w").apply(&hidden)?;
    let b = Fc::new(4).param_attr("w").no_bias().apply(&a)?;
    let z = layers::elementwise_add(&layers::elementwise_add(&a, &b)?, &hidden)?;
    layers::mean(&layers::scale(&z, 2.0, 1.0)?)
}

#[test]
fn a_line_of_ops() {
    let graph = check(
        fit_a_line,
        expect![[r#"
            Out=mean_0.tmp_0@GRAD = fill_constant()
            X@GRAD=square_error_cost_0.tmp_1@GRAD = mean_grad(Out@GRAD=mean_0.tmp_0@GRAD X=square_error_cost_0.tmp_1)
            X@GRAD=square_error_cost_0.tmp_0@GRAD = square_grad(Out@GRAD=square_error_cost_0.tmp_1@GRAD X=square_error_cost_0.tmp_0)
            X@GRAD=fc_0.tmp_1@GRAD = elementwise_sub_grad(Out@GRAD=square_error_cost_0.tmp_0@GRAD X=fc_0.tmp_1 Y=y)
            X@GRAD=fc_0.tmp_0@GRAD Y@GRAD=fc_0.b_0@GRAD = elementwise_add_grad(Out@GRAD=fc_0.tmp_1@GRAD X=fc_0.tmp_0 Y=fc_0.b_0)  [fc_0.b_0 fc_0.b_0@GRAD]
            Y@GRAD=fc_0.w_0@GRAD = mul_grad(Out@GRAD=fc_0.tmp_0@GRAD X=x Y=fc_0.w_0)  [fc_0.w_0 fc_0.w_0@GRAD]
        "#]],
    );
    let main = graph.main();
    let loss = main.global().ops.iter().find(|op| op.kind == "mean").unwrap();
    assert_eq!(loss.op_role(), OpRole::LOSS);
    let fill = main.global().ops.iter().find(|op| op.kind == "fill_constant").unwrap();
    assert_eq!(fill.op_role(), OpRole(OpRole::LOSS.0 | OpRole::BACKWARD.0));
    assert_eq!(main.global().var("fc_0.w_0@GRAD").unwrap().shape, [13, 1]);
    assert!(fill.site.as_ref().unwrap().contains("autodiff/tests.rs"), "{:?}", fill.site);
}

#[test]
fn contributions_are_renamed_and_summed() {
    check(
        shared,
        expect![[r#"
        Out=mean_0.tmp_0@GRAD = fill_constant()
        X@GRAD=scale_0.tmp_0@GRAD = mean_grad(Out@GRAD=mean_0.tmp_0@GRAD X=scale_0.tmp_0)
        Out=elementwise_add_1.tmp_0@GRAD = scale(X=scale_0.tmp_0@GRAD)
        X@GRAD=elementwise_add_0.tmp_0@GRAD Y@GRAD=fc_0.tmp_2@GRAD@RENAME@block0@0 = elementwise_add_grad(Out@GRAD=elementwise_add_1.tmp_0@GRAD X=elementwise_add_0.tmp_0 Y=fc_0.tmp_2)
        X@GRAD=fc_1.tmp_2@GRAD@RENAME@block0@0 Y@GRAD=fc_2.tmp_0@GRAD = elementwise_add_grad(Out@GRAD=elementwise_add_0.tmp_0@GRAD X=fc_1.tmp_2 Y=fc_2.tmp_0)
        X@GRAD=fc_1.tmp_2@GRAD@RENAME@block0@1 Y@GRAD=w@GRAD@RENAME@block0@0 = mul_grad(Out@GRAD=fc_2.tmp_0@GRAD X=fc_1.tmp_2 Y=w)
        Out=fc_1.tmp_2@GRAD = sum(X=fc_1.tmp_2@GRAD@RENAME@block0@0+fc_1.tmp_2@GRAD@RENAME@block0@1)
        X@GRAD=fc_1.tmp_1@GRAD = tanh_grad(Out=fc_1.tmp_2 Out@GRAD=fc_1.tmp_2@GRAD)
        X@GRAD=fc_1.tmp_0@GRAD Y@GRAD=fc_1.b_0@GRAD = elementwise_add_grad(Out@GRAD=fc_1.tmp_1@GRAD X=fc_1.tmp_0 Y=fc_1.b_0)  [fc_1.b_0 fc_1.b_0@GRAD]
        X@GRAD=fc_0.tmp_2@GRAD@RENAME@block0@1 Y@GRAD=w@GRAD@RENAME@block0@1 = mul_grad(Out@GRAD=fc_1.tmp_0@GRAD X=fc_0.tmp_2 Y=w)
        Out=fc_0.tmp_2@GRAD = sum(X=fc_0.tmp_2@GRAD@RENAME@block0@0+fc_0.tmp_2@GRAD@RENAME@block0@1)
        X@GRAD=fc_0.tmp_1@GRAD = relu_grad(Out=fc_0.tmp_2 Out@GRAD=fc_0.tmp_2@GRAD)
        X@GRAD=fc_0.tmp_0@GRAD Y@GRAD=fc_0.b_0@GRAD = elementwise_add_grad(Out@GRAD=fc_0.tmp_1@GRAD X=fc_0.tmp_0 Y=fc_0.b_0)  [fc_0.b_0 fc_0.b_0@GRAD]
        Y@GRAD=fc_0.w_0@GRAD = mul_grad(Out@GRAD=fc_0.tmp_0@GRAD X=x Y=fc_0.w_0)  [fc_0.w_0 fc_0.w_0@GRAD]
        Out=w@GRAD = sum(X=w@GRAD@RENAME@block0@0+w@GRAD@RENAME@block0@1)  [w w@GRAD]
    "#]],
    );
}

#[test]
fn one_op_can_contribute_twice() {
    let square = |graph: &Graph| {
        let x = layers::fc(&layers::data(graph, "x", [2], DType::F32), 2, Act::None)?;
        layers::mean(&layers::elementwise_mul(&x, &x)?)
    };
    check(
        square,
        expect![[r#"
        Out=mean_0.tmp_0@GRAD = fill_constant()
        X@GRAD=elementwise_mul_0.tmp_0@GRAD = mean_grad(Out@GRAD=mean_0.tmp_0@GRAD X=elementwise_mul_0.tmp_0)
        X@GRAD=fc_0.tmp_1@GRAD@RENAME@block0@0 Y@GRAD=fc_0.tmp_1@GRAD@RENAME@block0@1 = elementwise_mul_grad(Out@GRAD=elementwise_mul_0.tmp_0@GRAD X=fc_0.tmp_1 Y=fc_0.tmp_1)
        Out=fc_0.tmp_1@GRAD = sum(X=fc_0.tmp_1@GRAD@RENAME@block0@0+fc_0.tmp_1@GRAD@RENAME@block0@1)
        X@GRAD=fc_0.tmp_0@GRAD Y@GRAD=fc_0.b_0@GRAD = elementwise_add_grad(Out@GRAD=fc_0.tmp_1@GRAD X=fc_0.tmp_0 Y=fc_0.b_0)  [fc_0.b_0 fc_0.b_0@GRAD]
        Y@GRAD=fc_0.w_0@GRAD = mul_grad(Out@GRAD=fc_0.tmp_0@GRAD X=x Y=fc_0.w_0)  [fc_0.w_0 fc_0.w_0@GRAD]
    "#]],
    );
}

#[test]
fn outputs_nobody_used_have_zero_gradients() {
    let half = |graph: &Graph| {
        let x = layers::data(graph, "x", [4], DType::F32);
        let parts = layers::split(&layers::fc(&x, 4, Act::None)?, 2, 1)?;
        layers::mean(&parts[0])
    };
    check(
        half,
        expect![[r#"
        Out=mean_0.tmp_0@GRAD = fill_constant()
        X@GRAD=split_0.tmp_0@GRAD = mean_grad(Out@GRAD=mean_0.tmp_0@GRAD X=split_0.tmp_0)
        Out=split_0.tmp_1@GRAD = fill_zeros_like(X=split_0.tmp_1)
        Out=fc_0.tmp_1@GRAD = concat(X=split_0.tmp_0@GRAD+split_0.tmp_1@GRAD)
        X@GRAD=fc_0.tmp_0@GRAD Y@GRAD=fc_0.b_0@GRAD = elementwise_add_grad(Out@GRAD=fc_0.tmp_1@GRAD X=fc_0.tmp_0 Y=fc_0.b_0)  [fc_0.b_0 fc_0.b_0@GRAD]
        Y@GRAD=fc_0.w_0@GRAD = mul_grad(Out@GRAD=fc_0.tmp_0@GRAD X=x Y=fc_0.w_0)  [fc_0.w_0 fc_0.w_0@GRAD]
    "#]],
    );
}

#[test]
fn sparse_tables_get_selected_rows() {
    let lookup = |graph: &Graph| {
        let a = layers::data(graph, "a", [1], DType::I64);
        let b = layers::data(graph, "b", [1], DType::I64);
        let dense = layers::data(graph, "dense", [3], DType::F32);
        let table = Embedding::new([10, 4]).sparse(true).param_attr("table");
        let a = layers::reshape(&table.apply(&a)?, &[-1, 4])?;
        let b = layers::reshape(&table.apply(&b)?, &[-1, 4])?;
        layers::mean(&layers::concat(&[&a, &dense, &b], 1)?)
    };
    let graph = check(
        lookup,
        expect![[r#"
        Out=mean_0.tmp_0@GRAD = fill_constant()
        X@GRAD=concat_0.tmp_0@GRAD = mean_grad(Out@GRAD=mean_0.tmp_0@GRAD X=concat_0.tmp_0)
        X@GRAD=reshape2_0.tmp_0@GRAD+dense@GRAD@UNUSED+reshape2_1.tmp_0@GRAD = concat_grad(Out@GRAD=concat_0.tmp_0@GRAD X=reshape2_0.tmp_0+dense+reshape2_1.tmp_0)
        X@GRAD=embedding_1.tmp_0@GRAD = reshape2_grad(Out@GRAD=reshape2_1.tmp_0@GRAD XShape=reshape2_1.tmp_1)
        W@GRAD=table@GRAD@RENAME@block0@0 = lookup_table_v2_grad(Ids=b Out@GRAD=embedding_1.tmp_0@GRAD W=table)
        X@GRAD=embedding_0.tmp_0@GRAD = reshape2_grad(Out@GRAD=reshape2_0.tmp_0@GRAD XShape=reshape2_0.tmp_1)
        W@GRAD=table@GRAD@RENAME@block0@1 = lookup_table_v2_grad(Ids=a Out@GRAD=embedding_0.tmp_0@GRAD W=table)
        Out=table@GRAD = sum(X=table@GRAD@RENAME@block0@0+table@GRAD@RENAME@block0@1)  [table table@GRAD]
    "#]],
    );
    let main = graph.main();
    for name in ["table@GRAD", "table@GRAD@RENAME@block0@1"] {
        let var = main.global().var(name).unwrap();
        assert_eq!((var.kind, var.shape.as_slice()), (VarKind::SelectedRows, &[10, 4][..]));
    }
}

#[test]
fn gradients_stop_where_they_are_told_to() {
    let graph = Graph::new();
    let x = layers::data(&graph, "x", [2], DType::F32);
    let first = layers::fc(&x, 2, Act::None).unwrap();
    let second = layers::fc(&first, 2, Act::None).unwrap();
    let loss = layers::mean(&second).unwrap();
    let bias = graph.variable("fc_1.b_0").unwrap();
    let pairs = append_backward(&loss, None, &[&first, &bias]).unwrap();
    let names: Vec<_> = pairs.iter().map(|(param, grad)| (param.name(), grad.name())).collect();
    assert_eq!(names, [("fc_1.w_0", "fc_1.w_0@GRAD")]);
    assert!(graph.main().global().var("fc_1.b_0@GRAD").is_none());
    assert!(graph.main().global().var("fc_0.tmp_1@GRAD").is_none());
}

#[test]
fn gradients_of_any_targets() {
    let graph = Graph::new();
    let x = layers::data(&graph, "x", [2], DType::F32);
    x.set_stop_gradient(false);
    let other = layers::data(&graph, "other", [2], DType::F32);
    let hidden = layers::relu(&x).unwrap();
    let out = layers::scale(&hidden, 3.0, 0.0).unwrap();
    let weight = layers::input(&graph, "weight", [-1, 2], DType::F32);
    let weights = [Some(weight), None];
    let grads = gradients(&[&out, &hidden], &[&x, &hidden, &other], Some(&weights), &[]).unwrap();
    let names: Vec<_> = grads.iter().map(|grad| grad.as_ref().map(Variable::name)).collect();
    assert_eq!(names, [Some("x@GRAD"), Some("relu_0.tmp_0@GRAD"), None]);
    expect![[r#"
        Out=relu_0.tmp_0@GRAD@RENAME@block0@0 = fill_any_like(X=relu_0.tmp_0)
        Out=relu_0.tmp_0@GRAD@RENAME@block0@1 = scale(X=weight)
        Out=relu_0.tmp_0@GRAD = sum(X=relu_0.tmp_0@GRAD@RENAME@block0@0+relu_0.tmp_0@GRAD@RENAME@block0@1)
        X@GRAD=x@GRAD = relu_grad(Out=relu_0.tmp_0 Out@GRAD=relu_0.tmp_0@GRAD)
    "#]].assert_eq(&appended(&graph));
    let again = gradients(&[&out], &[&x], None, &[]).unwrap();
    assert_eq!(again[0].as_ref().unwrap().name(), "x@GRAD_0");
}

#[test]
fn refusals_say_why() {
    let graph = Graph::new();
    let x = layers::data(&graph, "x", [2], DType::F32);
    let hidden = layers::fc(&x, 2, Act::None).unwrap();
    let error = |result: Result<Vec<(Variable, Variable)>>| result.unwrap_err().to_string();
    let wide = error(append_backward(&hidden, None, &[]));
    assert!(wide.contains("a loss is a single number"), "{wide}");
    let constant = layers::mean(&layers::relu(&x).unwrap()).unwrap();
    let before = graph.main();
    let lost = error(append_backward(&constant, None, &[]));
    assert!(lost.contains("depends on no trainable parameter"), "{lost}");
    let weight = graph.variable("fc_0.w_0").unwrap();
    let (flat, bent) = (layers::fc(&x, 1, Act::None).unwrap(), graph.temporary("mish_0"));
    let mish = Op::new("mish").input("X", [flat.name()]).output("Out", [bent.name()]);
    graph.append_op(mish).unwrap();
    let loss = layers::mean(&bent).unwrap();
    let unreached = error(append_backward(&loss, Some(&[&weight]), &[]));
    assert!(unreached.contains("`fc_0.w_0` has no gradient"), "{unreached}");
    assert!(before.global().ops.iter().all(|op| op.op_role() == OpRole::FORWARD));
    let pairs = append_backward(&loss, None, &[]).unwrap();
    let penalty = layers::mean(&layers::square(&pairs[0].1).unwrap()).unwrap();
    let second = error(append_backward(&penalty, None, &[]));
    assert!(second.contains("there is no gradient of a gradient for op `mish`"), "{second}");
    assert!(second.contains("autodiff/tests.rs"), "{second}");
}

/// Runs every op of the graph on `values`.
fn run(graph: &Graph, values: &mut HashMap<String, Value>) -> f64 {
    for op in &graph.main().global().ops {
        run_once(op, values).unwrap();
    }
    values["mean_0.tmp_0"].tensor().unwrap().to_f64_vec()[0]
}

#[test]
fn values_match_finite_differences() {
    let graph = Graph::new();
    let loss = shared(&graph).unwrap();
    let pairs = append_backward(&loss, None, &[]).unwrap();
    assert_eq!(pairs.len(), 4);
    let wave = |dims: &[usize], phase: f32| {
        let count: usize = dims.iter().product();
        let values: Vec<f32> = (0..count).map(|i| (i as f32 * 0.7 + phase).sin()).collect();
        Value::from(Tensor::from_slice(dims, &values).unwrap())
    };
    let mut start = HashMap::from([("x".to_owned(), wave(&[3, 4], 0.3))]);
    for (number, (param, _)) in pairs.iter().enumerate() {
        let dims: Vec<usize> = param.shape().iter().map(|dim| *dim as usize).collect();
        start.insert(param.name().to_owned(), wave(&dims, number as f32));
    }
    let mut values = start.clone();
    run(&graph, &mut values);
    for (param, grad) in &pairs {
        let computed = values[grad.name()].tensor().unwrap().to_f64_vec();
        for (index, computed) in computed.iter().enumerate() {
            let at = |delta: f32| {
                let mut moved = start.clone();
                let tensor = moved.get_mut(param.name()).unwrap().tensor_mut().unwrap();
                tensor.as_mut_slice::<f32>().unwrap()[index] += delta;
                run(&graph, &mut moved)
            };
            let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
            let name = param.name();
            assert!((slope - computed).abs() < 2e-3, "{name}[{index}]: {slope} vs {computed}");
        }
    }
}

#[test]
fn a_gradient_through_an_output_without_one_is_refused() {
    let build = |through: bool| {
        let graph = Graph::new();
        let x = layers::data(&graph, "x", [4], DType::F32);
        let hidden = layers::fc(&x, 3, Act::None).unwrap();
        let (out, norm) = (graph.temporary("norm_0"), graph.temporary("norm_0"));
        let op = Op::new("norm").input("X", [hidden.name()]).attr("axis", 1i32);
        graph.append_op(op.output("Out", [out.name()]).output("Norm", [norm.name()])).unwrap();
        let sum = layers::mean(&norm).unwrap();
        norm.set_stop_gradient(!through);
        let loss = layers::elementwise_add(&layers::mean(&out).unwrap(), &sum).unwrap();
        append_backward(&layers::mean(&loss).unwrap(), None, &[])
    };
    let error = build(true).unwrap_err().to_string();
    assert!(error.contains("output `Norm` (`norm_0.tmp_1`)"), "{error}");
    assert!(error.contains("of `norm` is not defined"), "{error}");
    assert!(error.contains("set `stop_gradient` on it"), "{error}");
    assert_eq!(build(false).unwrap().len(), 2);
}

#[test]
fn gradients_of_side_outputs_are_added_where_a_loss_depends_on_them() {
    let build = |of_loss: bool, of_softmax: bool| {
        let graph = Graph::new();
        let x = layers::data(&graph, "x", [4], DType::F32);
        let label = layers::data(&graph, "label", [1], DType::I64);
        let logits = layers::fc(&x, 3, Act::None).unwrap();
        let (losses, softmax) =
            layers::softmax_with_cross_entropy(&logits, &label, layers::Label::Hard).unwrap();
        let mut parts = Vec::new();
        for (part, counts) in [(&losses, of_loss), (&softmax, of_softmax)] {
            if counts {
                parts.push(layers::mean(part).unwrap());
            }
        }
        let loss = match parts.as_slice() {
            [only] => only.clone(),
            _ => layers::elementwise_add(&parts[0], &parts[1]).unwrap(),
        };
        append_backward(&layers::mean(&loss).unwrap(), None, &[]).unwrap();
        let text = appended(&graph);
        (text.contains("softmax_with_cross_entropy_grad("), text.contains("= softmax_grad("))
    };
    assert_eq!(build(true, false), (true, false));
    assert_eq!(build(true, true), (true, true));
    assert_eq!(build(false, true), (false, true));
}
