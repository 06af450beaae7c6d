//! The gradient of a layer taken through the relu of the layer below, in products of 16 bits, and the last two layers of a
//! click model at once.

use bireme_engine::amp::{Amp, MixedPrecision};
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::layers::{self, Act};
use bireme_engine::optimizer::{Optimizer, Sgd};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place};
use bireme_ir::{DType, Op};

use crate::beside_host::{check_within, named};
use crate::card::{alone, device};
use crate::draws::Draws;

/// The gradient of a layer of `[m, k, n]` whose input a relu made, with parameters of 32 bits as mixed precision has them.
fn check(dtype: DType, [m, k, n]: [usize; 3], attrs: &[(&str, i32)]) {
    let mut draws = Draws(3);
    let mut real = |dims: &[usize]| draws.tensor(dtype, dims, -0.2, 0.2);
    let given = named(&[
        ("x", real(&[m, k])),
        ("w", real(&[k, n])),
        ("b", real(&[n])),
        ("out", real(&[m, n])),
        ("d", real(&[m, n])),
    ]);
    let mut op = Op::new("fused_fc_grad").attr("act", "relu").attr("x_act", "relu");
    for (slot, name) in [("X", "x"), ("W", "w"), ("Bias", "b"), ("Out", "out"), ("Out@GRAD", "d")] {
        op = op.input(slot, [name]);
    }
    for (slot, name) in [("X@GRAD", "dx"), ("W@GRAD", "dw"), ("Bias@GRAD", "db")] {
        op = op.output(slot, [name]);
    }
    for (name, value) in attrs {
        op = op.attr(name, *value);
    }
    check_within(&op.attr("param_grad_dtype", DType::F32.code()), &given, 1.6e-2);
}

#[test]
fn products_of_any_size_take_gradients_through_relu() {
    for dtype in [DType::BF16, DType::F16] {
        // One tile and parts of tiles, fewer terms than a part of a factor has and more than are at hand at once.
        for sizes in [[64, 64, 64], [1, 8, 8], [70, 72, 40], [65, 136, 264], [129, 64, 200]] {
            check(dtype, sizes, &[]);
        }
    }
}

#[test]
fn other_sizes_and_types_go_the_long_way() {
    for (dtype, sizes) in [
        (DType::BF16, [30, 12, 20]),
        (DType::F16, [30, 16, 20]),
        (DType::F32, [30, 16, 8]),
        (DType::F32, [300, 130, 64]),
        (DType::BF16, [0, 8, 8]),
    ] {
        check(dtype, sizes, &[]);
    }
}

#[test]
fn limits_say_who_takes_a_gradient_through_relu() {
    for rows in [39, 40, 41] {
        check(DType::BF16, [40, 16, 24], &[("x_act_rows", rows)]);
        check(DType::BF16, [40, 16, 24], &[("taken_rows", rows)]);
        check(DType::F32, [40, 16, 24], &[("x_act_rows", rows), ("taken_rows", rows)]);
    }
}

/// Both directions of `fused_logit` of `[m, k, n]`.
fn check_logit(dtype: DType, [m, k, n]: [usize; 3], attrs: &[(&str, i32)]) {
    let mut draws = Draws(5);
    let mut real = |dtype, dims: &[usize]| draws.tensor(dtype, dims, -0.3, 0.3);
    let given = named(&[
        ("x", real(dtype, &[m, k])),
        ("w", real(dtype, &[k, n])),
        ("b", real(dtype, &[n])),
        ("head", real(dtype, &[n, 1])),
        ("head_b", real(dtype, &[1])),
        ("hidden", real(dtype, &[m, n])),
        ("d", real(DType::F32, &[m, 1])),
    ]);
    let slots = [("X", "x"), ("W", "w"), ("Bias", "b"), ("HeadW", "head"), ("HeadBias", "head_b")];
    let op = |kind: &str| {
        let op = slots.iter().fold(Op::new(kind), |op, (slot, name)| op.input(slot, [*name]));
        attrs.iter().fold(op, |op, (name, value)| op.attr(name, *value))
    };
    let forward = op("fused_logit").output("Hidden", ["hidden"]).output("Out", ["out"]);
    check_within(&forward.attr("out_dtype", DType::F32.code()), &given, 1.6e-2);
    for x_act in ["", "relu"] {
        let grad = op("fused_logit_grad").input("Hidden", ["hidden"]).input("Out@GRAD", ["d"]);
        let mut grad = grad.attr("x_act", x_act).attr("param_grad_dtype", DType::F32.code());
        for (slot, _) in slots {
            let slot = format!("{slot}@GRAD");
            grad = grad.output(&slot, [slot.as_str()]);
        }
        check_within(&grad, &given, 1.6e-2);
    }
}

#[test]
fn two_layers_at_once_are_as_one_after_the_other() {
    for dtype in [DType::BF16, DType::F16] {
        for sizes in [[64, 64, 32], [1, 8, 8], [70, 72, 40], [65, 264, 64], [130, 200, 24]] {
            check_logit(dtype, sizes, &[("at_once_rows", 1000)]);
        }
        check_logit(dtype, [70, 72, 40], &[("at_once_rows", 69), ("x_act_rows", 69)]);
        check_logit(dtype, [70, 12, 40], &[("at_once_rows", 1000)]);
        check_logit(dtype, [0, 8, 8], &[("at_once_rows", 1000)]);
    }
    check_logit(DType::F32, [30, 12, 7], &[("at_once_rows", 1000)]);
}

/// A net of three layers and a logit that learns in mixed precision.
fn net() -> (Graph, Variable) {
    let graph = Graph::new();
    graph.set_random_seed(3);
    let x = layers::data(&graph, "x", [24], DType::F32);
    let label = layers::data(&graph, "y", [1], DType::F32);
    let widths = [72, 40, 16];
    let top = widths.iter().fold(x, |below, width| layers::fc(&below, *width, Act::Relu).unwrap());
    let logit = layers::linear(&top, 1).unwrap();
    let losses = layers::sigmoid_cross_entropy_with_logits(&logit, &label).unwrap();
    let loss = layers::mean(&losses).unwrap();
    MixedPrecision::new(Sgd::new(0.5), Amp::new(DType::BF16).unwrap()).minimize(&loss).unwrap();
    (graph, loss)
}

fn losses(executor: &mut Executor, (graph, loss): &(Graph, Variable)) -> Vec<f64> {
    let mut draws = Draws(9);
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let step = |_| {
        let x = draws.tensor(DType::F32, &[70, 24], -1.0, 1.0);
        let firsts = x.to_f64_vec().into_iter().step_by(24);
        let labels: Vec<f32> = firsts.map(|first| if first > 0.0 { 1.0 } else { 0.0 }).collect();
        let y = Tensor::from_slice([70, 1], &labels).unwrap();
        let feeds = [("x", &x), ("y", &y)];
        executor.run(&graph.main(), &feeds, &[loss.name()]).unwrap()[0].to_f64_vec()[0]
    };
    (0..6).map(step).collect()
}

#[test]
fn a_net_learns_as_on_the_host() {
    let Some((_machine, device)) = device() else { return };
    let net = net();
    let expected = losses(&mut Executor::new(Place::Cpu).unwrap(), &net);
    let got = losses(&mut Executor::on(device), &net);
    for (a, b) in got.iter().zip(&expected) {
        assert!((a - b).abs() < 1e-2, "{got:?} and {expected:?}");
    }
    assert!(got[5] < got[0] - 0.01, "{got:?}");
}

#[test]
fn bits_do_not_depend_on_the_order_of_blocks() {
    let Some(machine) = alone() else { return };
    let net = net();
    let runs = [0, 1, 2].map(|seed| {
        machine.control.seed(seed);
        losses(&mut Executor::on(bireme_cuda::open(0).unwrap()), &net)
    });
    assert!(runs[0] == runs[1] && runs[0] == runs[2], "{runs:?}");
}
