//! What programs look like with mixed precision, and that they train.

use bireme_ir::DType;

use super::*;
use crate::graph::{Graph, Variable};
use crate::layers::{self, Act};
use crate::optimizer::{Adagrad, Adam, Momentum, Optimizer, Sgd};
use crate::random::Philox;
use crate::tensor::Tensor;
use crate::{Executor, Place};

/// Two slots of one table beside dense features, two layers, and a loss.
fn click_model() -> (Graph, Variable) {
    let graph = Graph::new();
    graph.set_random_seed(3);
    let table = layers::Embedding::new([30, 4]).sparse(true).param_attr("table");
    let mut parts = Vec::new();
    for slot in ["a", "b"] {
        let ids = layers::data(&graph, slot, [1], DType::I64);
        parts.push(layers::reshape(&table.apply(&ids).unwrap(), &[-1, 4]).unwrap());
    }
    parts.push(layers::data(&graph, "dense", [3], DType::F32));
    let label = layers::data(&graph, "label", [1], DType::F32);
    let joined = layers::concat(&parts.iter().collect::<Vec<_>>(), 1).unwrap();
    let hidden = layers::fc(&joined, 8, Act::Relu).unwrap();
    let logit = layers::fc(&hidden, 1, Act::None).unwrap();
    let cost = layers::sigmoid_cross_entropy_with_logits(&logit, &label).unwrap();
    let loss = layers::mean(&cost).unwrap();
    (graph, loss)
}

fn batch(step: u64) -> Vec<(&'static str, Tensor)> {
    let random = Philox::new(step, "batch");
    let ids = |stream: u64| -> Tensor {
        let ids: Vec<i64> = (0..32).map(|i| (random.u64(stream * 100 + i) % 30) as i64).collect();
        Tensor::from_slice([32, 1], &ids).unwrap()
    };
    let (a, b) = (ids(0), ids(1));
    let mut dense = vec![0.0; 96];
    random.fill_uniform(1 << 20, -1.0, 1.0, &mut dense);
    let clicked = |i: usize| {
        let odd = a.as_slice::<i64>().unwrap()[i] % 2;
        f32::from(dense[3 * i] + odd as f32 > 0.6)
    };
    let label: Vec<f32> = (0..32).map(clicked).collect();
    let dense = Tensor::from_slice([32, 3], &dense).unwrap();
    let label = Tensor::from_slice([32, 1], &label).unwrap();
    vec![("a", a), ("b", b), ("dense", dense), ("label", label)]
}

/// Losses of a training.
fn train(optimizer: &dyn Optimizer) -> (Executor, Graph, Vec<f64>) {
    let (graph, loss) = click_model();
    optimizer.minimize(&loss).unwrap();
    let mut executor = Executor::new(Place::Cpu).unwrap();
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let mut losses = Vec::new();
    for step in 0..40 {
        let batch = batch(step);
        let feeds: Vec<_> = batch.iter().map(|(name, tensor)| (*name, tensor)).collect();
        let fetched = executor.run(&graph.main(), &feeds, &[loss.name()]).unwrap();
        losses.push(fetched[0].to_f64_vec()[0]);
    }
    (executor, graph, losses)
}

fn kinds(program: &bireme_ir::Program) -> Vec<&str> {
    program.global().ops.iter().map(|op| op.kind.as_str()).collect()
}

#[test]
fn casts_stand_between_the_kinds_of_ops() {
    let (graph, loss) = click_model();
    let amp = Amp::new(DType::BF16).unwrap();
    let rewritten =
        graph.edit_main(|main| graph.edit_startup(|startup| rewrite(main, startup, &amp))).unwrap();
    let main = graph.main();
    let expected = [
        "lookup_table",
        "reshape2",
        "lookup_table",
        "reshape2",
        "concat",
        "cast",
        "cast",
        "mul",
        "cast",
        "elementwise_add",
        "relu",
        "cast",
        "mul",
        "cast",
        "elementwise_add",
        "cast",
        "sigmoid_cross_entropy_with_logits",
        "mean",
    ];
    let seen: Vec<&str> =
        kinds(&main).into_iter().map(|kind| kind.trim_end_matches("_v2")).collect();
    assert_eq!(seen, expected);
    assert_eq!((rewritten.halves, rewritten.casts), (5, 6));
    let dtype = |name: &str| main.global().var(name).unwrap().dtype;
    assert_eq!(dtype("fc_0.tmp_2"), DType::BF16);
    assert_eq!(dtype("fc_0.w_0"), DType::F32);
    assert_eq!(dtype("fc_0.w_0.cast_bf16"), DType::BF16);
    assert_eq!(dtype(loss.name()), DType::F32);
    let again =
        graph.edit_main(|main| graph.edit_startup(|startup| rewrite(main, startup, &amp))).unwrap();
    assert_eq!(again.casts, 0, "a second pass finds nothing to do");
}

#[test]
fn a_variable_that_a_user_names_stays_wide() {
    let (graph, _) = click_model();
    let lists = Lists::custom(&[], &[], &["fc_1.w_0"]).unwrap();
    let amp = Amp::new(DType::F16).unwrap().lists(lists);
    let rewritten =
        graph.edit_main(|main| graph.edit_startup(|startup| rewrite(main, startup, &amp))).unwrap();
    assert_eq!(rewritten.halves, 3);
    assert_eq!(graph.main().global().var("fc_1.tmp_0").unwrap().dtype, DType::F32);
}

#[test]
fn gradients_come_back_in_full() {
    let (graph, loss) = click_model();
    let optimizer = MixedPrecision::new(Sgd::new(0.1), Amp::new(DType::BF16).unwrap());
    let minimized = optimizer.minimize(&loss).unwrap();
    for (param, grad) in &minimized.params_grads {
        assert_eq!(grad.dtype(), DType::F32, "{}", param.name());
    }
    assert!(optimizer.loss_scaling().is_none());
    let error = optimizer.minimize(&loss).unwrap_err().to_string();
    assert!(error.contains("has `"), "{error}");
    assert!(!kinds(&graph.main()).contains(&"update_loss_scaling"));
}

#[test]
fn training_follows_that_of_32_bits() {
    let (_, _, wide) = train(&Adagrad::new(0.1));
    for dtype in [DType::BF16, DType::F16] {
        for level in [Level::O1, Level::O2] {
            let amp = Amp::new(dtype).unwrap().level(level);
            let (_, _, losses) = train(&MixedPrecision::new(Adagrad::new(0.1), amp));
            for (step, (a, b)) in losses.iter().zip(&wide).enumerate() {
                assert!((a - b).abs() < 0.02, "{dtype} {level:?}, step {step}: {a}, not {b}");
            }
            assert!(losses[39] < losses[0] - 0.05, "{dtype} {level:?}: {losses:?}");
        }
    }
}

#[test]
fn parameters_of_16_bits_have_masters() {
    let amp = Amp::new(DType::BF16).unwrap().level(Level::O2);
    let (executor, graph, _) = train(&MixedPrecision::new(Adam::new(0.01), amp));
    let main = graph.main();
    let dtype = |name: &str| main.global().var(name).unwrap().dtype;
    assert_eq!((dtype("fc_0.w_0"), dtype("table")), (DType::BF16, DType::F32));
    assert_eq!(dtype("fc_0.w_0_moment1_0"), DType::F32);
    let scope = executor.scope();
    let value = |name: &str| scope.get(name).unwrap().to_f64_vec();
    let (param, master) = (value("fc_0.w_0"), value("fc_0.w_0_fp32_master_0"));
    for (param, master) in param.iter().zip(&master) {
        assert_eq!(*param, half::bf16::from_f64(*master).to_f64());
    }
    assert!(param.iter().zip(&master).any(|(param, master)| param != master));
}

#[test]
fn a_factor_that_is_too_large_falls_until_it_fits() {
    let dynamic = Dynamic { decr_every_n_nan_or_inf: 1, decr_ratio: 0.5, ..Dynamic::default() };
    let scaling = LossScaling { initial: 1e30, dynamic: Some(dynamic) };
    let amp = Amp::new(DType::F16).unwrap().scaling(scaling);
    let optimizer = MixedPrecision::new(Momentum::new(0.1, 0.9), amp);
    let (graph, loss) = click_model();
    optimizer.minimize(&loss).unwrap();
    let mut executor = Executor::new(Place::Cpu).unwrap();
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let weight = |executor: &Executor| executor.scope().get("fc_0.w_0").unwrap().to_f64_vec();
    let before = weight(&executor);
    let step = |executor: &mut Executor| {
        let batch = batch(0);
        let feeds: Vec<_> = batch.iter().map(|(name, tensor)| (*name, tensor)).collect();
        executor.run(&graph.main(), &feeds, &[]).unwrap();
    };
    step(&mut executor);
    assert_eq!(weight(&executor), before, "a step that overflows changes nothing");
    let factor = optimizer.loss_scaling().unwrap();
    let scale = |executor: &Executor| executor.scope().get(factor.name()).unwrap().to_f64_vec()[0];
    assert!((scale(&executor) / 5e29 - 1.0).abs() < 1e-6, "{}", scale(&executor));
    (0..120).for_each(|_| step(&mut executor));
    assert!(scale(&executor) < 1e9, "{}", scale(&executor));
    assert_ne!(weight(&executor), before);
}
