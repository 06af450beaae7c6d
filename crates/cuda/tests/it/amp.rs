//! Mixed precision on the card: as on the host, and close to 32 bits.

use std::sync::Arc;

use bireme_engine::amp::{Amp, Level, MixedPrecision};
use bireme_engine::graph::Graph;
use bireme_engine::layers::{self, Act, Label};
use bireme_engine::optimizer::{Adagrad, Adam, Momentum, Optimizer, Sgd};
use bireme_engine::random::Philox;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Value};
use bireme_ir::{DType, Op};

use crate::beside_host::{check, check_within, input, on_card, values};
use crate::card::{alone, device};
use crate::draws::{Draws, raw};
use crate::nets::net;
use crate::programs::{BATCHES, click_model, train};

const HALVES: [DType; 2] = [DType::BF16, DType::F16];

fn mixed(optimizer: impl Optimizer, dtype: DType, level: Level) -> MixedPrecision<impl Optimizer> {
    MixedPrecision::new(optimizer, Amp::new(dtype).unwrap().level(level))
}

#[test]
fn a_click_model_trains_with_16_bits_as_on_the_host() {
    let Some((_machine, device)) = device() else { return };
    let host = || Executor::new(Place::Cpu).unwrap();
    // The first steps of Adagrad go as far whatever the size of a gradient, so that a rounded one may lead elsewhere:
    // with small steps both stay together.
    let optimizer = || Adagrad::new(0.01);
    let (wide, _) = train(&mut host(), &click_model(&optimizer()), &BATCHES);
    for dtype in HALVES {
        for level in [Level::O1, Level::O2] {
            let model = click_model(&mixed(optimizer(), dtype, level));
            let (expected, _) = train(&mut host(), &model, &BATCHES);
            let (got, _) = train(&mut Executor::on(Arc::clone(&device)), &model, &BATCHES);
            let what = format!("{dtype} {level:?}: {got:?}, host {expected:?}, 32 bits {wide:?}");
            for (step, got) in got.iter().enumerate() {
                assert!((got - expected[step]).abs() < 5e-3, "{what}");
                assert!((got - wide[step]).abs() < 2e-2, "{what}");
            }
        }
    }
}

#[test]
fn masters_of_every_optimizer_are_as_on_the_host() {
    let Some((_machine, device)) = device() else { return };
    let optimizers: [(&str, Box<dyn Optimizer>); 3] = [
        ("sgd", Box::new(Sgd::new(0.1))),
        ("momentum", Box::new(Momentum::new(0.05, 0.9))),
        ("adam", Box::new(Adam::new(0.01))),
    ];
    for (name, optimizer) in optimizers {
        let model = click_model(&mixed(optimizer, DType::BF16, Level::O2));
        let (_, host) = train(&mut Executor::new(Place::Cpu).unwrap(), &model, &BATCHES[..2]);
        let (_, card) = train(&mut Executor::on(Arc::clone(&device)), &model, &BATCHES[..2]);
        let masters = host.iter().zip(&card).filter(|((name, _), _)| name.contains("_master_"));
        let mut count = 0;
        for ((var, host), (_, card)) in masters {
            count += 1;
            assert_eq!(card.dtype(), DType::F32);
            for (a, b) in card.to_f64_vec().into_iter().zip(host.to_f64_vec()) {
                assert!((a - b).abs() < 2e-2, "{name}: `{var}`: {a} and {b}");
            }
        }
        assert_eq!(count, 6, "{name}: three layers have masters of weight and bias");
    }
}

#[test]
fn every_op_of_a_step_has_a_kernel() {
    let (graph, _) = click_model(&mixed(Adagrad::new(0.05), DType::F16, Level::O1));
    let known: Vec<&str> = bireme_cuda::ops().collect();
    for op in &graph.main().global().ops {
        assert!(known.contains(&op.kind.as_str()), "`{}` is left to the host", op.kind);
    }
}

#[test]
fn bits_repeat_whatever_the_order_of_blocks() {
    let Some(machine) = alone() else { return };
    let model = click_model(&mixed(Adagrad::new(0.05), DType::F16, Level::O1));
    let mut first = None;
    for seed in [0, 1] {
        machine.control.seed(seed);
        let device = bireme_cuda::open(0).unwrap();
        let got = train(&mut Executor::on(device), &model, &BATCHES[..3]);
        let first = first.get_or_insert_with(|| got.clone());
        assert!(got == *first, "seed {seed}");
    }
}

#[test]
fn digits_are_learnt_with_16_bits() {
    let Some((_machine, device)) = device() else { return };
    let build = |optimizer: &dyn Optimizer| {
        let graph = Graph::new();
        graph.set_random_seed(1);
        let image = layers::data(&graph, "x", [36], DType::F32);
        let label = layers::data(&graph, "y", [1], DType::I64);
        let hidden = layers::fc(&image, 20, Act::Tanh).unwrap();
        let logits = layers::fc(&hidden, 10, Act::None).unwrap();
        let (cost, _) = layers::softmax_with_cross_entropy(&logits, &label, Label::Hard).unwrap();
        let loss = layers::mean(&cost).unwrap();
        optimizer.minimize(&loss).unwrap();
        (graph, loss.name().to_owned())
    };
    let random = Philox::new(1, "images");
    let mut pixels = vec![0.0; 16 * 36];
    random.fill_uniform(0, 0.0, 1.0, &mut pixels);
    let labels: Vec<i64> = (0..16).map(|i| i % 10).collect();
    let x = Tensor::from_slice([16, 36], &pixels).unwrap();
    let y = Tensor::from_slice([16, 1], &labels).unwrap();
    let run = |mut executor: Executor, (graph, loss): (Graph, String)| -> Vec<f64> {
        executor.run(&graph.startup(), &[], &[]).unwrap();
        let step = |_| {
            let feeds = [("x", &x), ("y", &y)];
            executor.run(&graph.main(), &feeds, &[loss.as_str()]).unwrap()[0].to_f64_vec()[0]
        };
        (0..6).map(step).collect()
    };
    let wide = run(Executor::new(Place::Cpu).unwrap(), build(&Adam::new(0.01)));
    for dtype in HALVES {
        let got = run(
            Executor::on(Arc::clone(&device)),
            build(&mixed(Adam::new(0.01), dtype, Level::O1)),
        );
        for (a, b) in got.iter().zip(&wide) {
            assert!((a - b).abs() < 3e-2, "{dtype}: {got:?}, with 32 bits {wide:?}");
        }
    }
}

#[test]
fn gradients_are_unscaled_and_searched() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for bad in [false, true] {
            let mut second = raw(dtype, &[7]);
            if bad {
                let size = dtype.size();
                // All bits of the exponent: an infinity or NaN of any float type.
                second.as_mut_bytes()[3 * size..4 * size].fill(0xff);
            }
            let op = Op::new("check_finite_and_unscale").input("X", ["a", "b"]);
            let op = op.input("Scale", ["s"]).output("Out", ["c", "d"]);
            let op = op.output("FoundInfinite", ["found"]);
            let given = [
                input("a", raw(dtype, &[300])),
                input("b", second),
                input("s", Tensor::scalar(8.0f32)),
            ];
            let host = check(&op, &given.into_iter().collect());
            let found = host["found"].tensor().unwrap().as_slice::<u8>().unwrap().to_vec();
            assert_eq!(found, [u8::from(bad)], "{dtype}");
        }
    }
}

#[test]
fn the_factor_follows_on_the_card() {
    let found = |bad: bool| {
        let mut tensor = Tensor::zeros(DType::Bool, [1]);
        tensor.as_mut_bytes()[0] = u8::from(bad);
        tensor
    };
    for (bad, good, bads) in [(false, 0, 0), (false, 3, 1), (true, 2, 0), (true, 0, 1)] {
        let op = Op::new("update_loss_scaling").input("X", ["x"]).input("FoundInfinite", ["found"]);
        let op = op.input("PrevLossScaling", ["s"]).input("InGoodSteps", ["g"]);
        let op = op.input("InBadSteps", ["b"]).output("Out", ["y"]).output("LossScaling", ["t"]);
        let op = op.output("OutGoodSteps", ["h"]).output("OutBadSteps", ["c"]);
        let op = op.attr("incr_every_n_steps", 4).attr("decr_every_n_nan_or_inf", 2);
        let op = op.attr("incr_ratio", 2.0f32).attr("decr_ratio", 0.5f32);
        let given = [
            input("x", raw(DType::F16, &[33])),
            input("found", found(bad)),
            input("s", Tensor::scalar(16.0f32)),
            input("g", Tensor::scalar(good)),
            input("b", Tensor::scalar(bads)),
        ];
        check(&op, &given.into_iter().collect());
    }
}

#[test]
fn rows_are_unscaled_too() {
    let mut draws = Draws(9);
    let rows = draws.rows(DType::F32, vec![4, 1, 4], 6, 5);
    let given = values([("x", rows), ("s", Value::Tensor(Tensor::scalar(4.0f32)))]);
    let op = Op::new("check_finite_and_unscale").input("X", ["x"]).input("Scale", ["s"]);
    let op = op.output("Out", ["y"]).output("FoundInfinite", ["found"]);
    let mut host = given.clone();
    bireme_engine::op::run_once(&op, &mut host).unwrap();
    let Some(card) = on_card(&op, &given, 1) else { return };
    let card = card.unwrap();
    assert_eq!(host["y"], card["y"]);
    let sum = Op::new("scale").input("X", ["x"]).output("Out", ["z"]).attr("scale", 2.0f32);
    check_within(&sum, &given, 1e-6);
}

#[test]
fn ops_without_kernels_for_16_bits_run_on_copies() {
    for dtype in HALVES {
        net("layer_norm")
            .of(dtype)
            .real("X", &[4, 9], -2.0, 2.0)
            .real("Scale", &[9], 0.5, 1.5)
            .real("Bias", &[9], -1.0, 1.0)
            .out(["Y", "Mean", "Variance"])
            .attr("begin_norm_axis", 1)
            .check();
        net("log_loss")
            .of(dtype)
            .real("Predicted", &[12, 1], 0.1, 0.9)
            .real("Labels", &[12, 1], 0.0, 1.0)
            .out(["Loss"])
            .attr("epsilon", 1e-4f32)
            .check();
        net("erf").of(dtype).real("X", &[33], -2.0, 2.0).out(["Out"]).check();
    }
}
