//! Layers append Paddle's ops under Paddle's names, and programs that verify.

use bireme_ir::{Attr, DType, Op, Program, verify};

use super::*;
use crate::autodiff::append_backward;
use crate::catalog::Ops;
use crate::graph::{Graph, Variable};

/// Op types with their output variables.
fn ops(program: &Program) -> Vec<String> {
    let outputs = |op: &Op| op.output_vars().cloned().collect::<Vec<_>>().join(" ");
    program.global().ops.iter().map(|op| format!("{} {}", op.kind, outputs(op))).collect()
}

fn shape(program: &Program, name: &str) -> Vec<i64> {
    program.global().var(name).unwrap().shape.clone()
}

#[test]
fn fc_is_paddles() {
    let graph = Graph::new();
    let x = data(&graph, "x", [2, 3], DType::F32);
    let hidden = fc(&x, 5, Act::Relu).unwrap();
    Fc::new(2).no_bias().num_flatten_dims(1).param_attr("w").apply(&hidden).unwrap();
    let (main, startup) = (graph.main(), graph.startup());
    assert_eq!(
        ops(&main),
        ["mul fc_0.tmp_0", "elementwise_add fc_0.tmp_1", "relu fc_0.tmp_2", "mul fc_1.tmp_0"]
    );
    assert_eq!(
        ops(&startup),
        ["uniform_random fc_0.w_0", "fill_constant fc_0.b_0", "uniform_random w"]
    );
    assert_eq!(main.global().ops[1].attrs["axis"], Attr::Int(1));
    assert_eq!((shape(&main, "x"), shape(&main, "fc_0.w_0")), (vec![-1, 2, 3], vec![6, 5]));
    let declared = main.global().var("x").unwrap();
    assert!(declared.stop_gradient && declared.need_check_feed);
    let site = main.global().ops[3].site.clone().unwrap();
    assert!(site.contains("layers/tests.rs"), "{site}");
    let site = startup.global().ops[0].site.clone().unwrap();
    assert!(site.contains("layers/tests.rs"), "{site}");
}

#[test]
fn parameters_are_shared_by_name_and_shape() {
    let graph = Graph::new();
    let x = data(&graph, "x", [4], DType::F32);
    let layer = Fc::new(4).param_attr(ParamAttr::named("w").frozen()).no_bias();
    layer.apply(&layer.apply(&x).unwrap()).unwrap();
    assert_eq!(graph.startup().global().ops.len(), 1);
    let frozen = graph.variable("w").unwrap().var();
    assert!(frozen.stop_gradient && !frozen.param.unwrap().trainable);
    let error = Fc::new(3).param_attr("w").apply(&x).unwrap_err().to_string();
    assert!(error.contains("`w` is declared as float32 [4, 4]"), "{error}");
    let open = input(&graph, "open", [-1, -1], DType::F32);
    let error = fc(&open, 3, Act::None).unwrap_err().to_string();
    assert!(error.contains("the number of features of `open` is not known"), "{error}");
}

#[test]
fn auc_keeps_its_counts() {
    let graph = Graph::new();
    let prediction = data(&graph, "prediction", [2], DType::F32);
    let label = data(&graph, "label", [1], DType::I64);
    let options = Auc { slide_steps: 20, ..Auc::default() };
    let result = auc(&prediction, &label, &options).unwrap();
    let main = graph.main();
    assert_eq!((result.auc.name(), result.batch_auc.name()), ("auc_0.tmp_0", "auc_0.tmp_1"));
    let shapes: Vec<_> = result.stats.iter().map(Variable::shape).collect();
    assert_eq!(shapes, [vec![86017], vec![86017], vec![1, 4096], vec![1, 4096]]);
    assert_eq!(main.global().ops[0].outputs_of("AUC"), ["auc_0.tmp_1"]);
    assert_eq!(graph.startup().global().ops.len(), 4);
}

/// Every layer once, and the gradient of their sum; what they append must verify.
#[test]
fn every_layer_verifies() {
    let graph = Graph::new();
    let x = fc(&data(&graph, "x", [4], DType::F32), 4, Act::None).unwrap();
    let ids = data(&graph, "ids", [1], DType::I64);
    let label = data(&graph, "label", [1], DType::F32);
    every_layer(&x, &ids, &label).unwrap();
    let mut means = Vec::new();
    for op in graph.main().global().ops.iter() {
        let results = ["Out", "Y", "Loss"].into_iter().flat_map(|slot| op.outputs_of(slot));
        for result in results.map(|name| graph.variable(name).unwrap()) {
            if result.dtype() == DType::F32 {
                means.push(mean(&result).unwrap());
            }
        }
    }
    let loss = sum(&means.iter().collect::<Vec<_>>()).unwrap();
    let pairs = append_backward(&loss, None, &[]).unwrap();
    // Every parameter but the frozen statistics of `batch_norm`.
    assert_eq!(pairs.len(), graph.main().global().parameters().count() - 2);
    for program in [graph.main(), graph.startup()] {
        verify(&program, &Ops).unwrap();
    }
}

fn every_layer(x: &Variable, ids: &Variable, label: &Variable) -> crate::Result<()> {
    let graph = x.graph();
    for act in [
        Act::Relu,
        Act::Relu6,
        Act::LeakyRelu,
        Act::Elu,
        Act::Gelu,
        Act::Sigmoid,
        Act::HardSigmoid,
        Act::Tanh,
        Act::Swish,
        Act::Softplus,
        Act::Softsign,
        Act::Softmax,
    ] {
        fc(x, 2, act)?;
    }
    let unary: [fn(&Variable) -> crate::Result<Variable>; 19] = [
        relu,
        sigmoid,
        tanh,
        softmax,
        log_softmax,
        gelu,
        swish,
        softplus,
        exp,
        log,
        sqrt,
        rsqrt,
        square,
        abs,
        sign,
        reciprocal,
        floor,
        ceil,
        round,
    ];
    for function in unary {
        function(x)?;
    }
    leaky_relu(x, 0.1)?;
    pow(x, 2.0)?;
    clip(x, 0.0, 1.0)?;
    let binary: [fn(&Variable, &Variable) -> crate::Result<Variable>; 9] = [
        elementwise_add,
        elementwise_sub,
        elementwise_mul,
        elementwise_div,
        elementwise_max,
        elementwise_min,
        elementwise_pow,
        elementwise_mod,
        elementwise_floordiv,
    ];
    for function in binary {
        function(x, x)?;
    }
    for function in [reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod] {
        function(x, &[1], true)?;
        function(x, &[], false)?;
    }
    cumsum(x, 1)?;
    matmul_transposed(x, x, false, true)?;
    matmul(&linear(x, 3)?, &fill_constant(graph, [3, 2], DType::F32, 0.5)?)?;
    sum(&[x, &scale(x, 2.0, 1.0)?])?;
    every_tensor_layer(x, ids)?;
    every_loss(x, ids, label)?;
    Ok(())
}

fn every_tensor_layer(x: &Variable, ids: &Variable) -> crate::Result<()> {
    let rows =
        reshape(&Embedding::new([10, 4]).sparse(true).padding_idx(-1).apply(ids)?, &[-1, 4])?;
    let old = Embedding::new([10, 4]).legacy().apply(ids)?;
    let joined = concat(&[x, &rows, &old], 1)?;
    split_sections(&joined, &[4, 8], 1)?;
    stack(&split(x, 2, 1)?.iter().collect::<Vec<_>>(), 0)?;
    transpose(&squeeze(&unsqueeze(x, &[1])?, &[1])?, &[1, 0])?;
    flatten(x, 0, 1)?;
    cast(x, DType::F64)?;
    slice(x, &[1], &[0], &[2])?;
    gather(x, ids)?;
    one_hot(ids, 5)?;
    top_k(x, 2)?;
    arg_max(x, 1)?;
    expand(x, &[2, -1, 4])?;
    tile(x, &[2, 1])?;
    assign(x)?;
    dropout(x, 0.5)?;
    batch_norm(x)?;
    layer_norm(x)?;
    data_norm(x)?;
    let ragged = sequence_input(x.graph(), "ragged", [-1, 4], DType::F32, 1);
    for pool in [Pool::Sum, Pool::Average, Pool::Sqrt, Pool::Max, Pool::First, Pool::Last] {
        sequence_pool(&ragged, pool)?;
    }
    sequence_expand(x, &ragged, -1)?;
    cvm(x, &slice(x, &[1], &[0], &[2])?, true)?;
    Ok(())
}

fn every_loss(x: &Variable, ids: &Variable, label: &Variable) -> crate::Result<()> {
    let probability = fc(x, 2, Act::Softmax)?;
    let one = fc(x, 1, Act::Sigmoid)?;
    cross_entropy(&probability, ids, Label::Hard)?;
    cross_entropy(&probability, &probability, Label::Soft)?;
    softmax_with_cross_entropy(x, ids, Label::Hard)?;
    sigmoid_cross_entropy_with_logits(&one, label)?;
    log_loss(&one, label, 1e-4)?;
    bce_loss(&one, label)?;
    huber_loss(&one, label, 1.0)?;
    kldiv_loss(&one, label, "mean")?;
    mse_loss(&one, label)?;
    accuracy(&probability, ids, 1)?;
    auc(&probability, ids, &Auc::default())?;
    Ok(())
}
