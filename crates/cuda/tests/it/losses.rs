//! Losses and softmax: short, long and strided rows, labels of both kinds, what is wrong with them.

use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::beside_host::{check, named};
use crate::draws::Draws;
use crate::nets::net;

/// Shapes and the axis of their classes.
const SHAPES: [(&[usize], i32); 8] = [
    (&[5, 7], -1),
    (&[3, 40], 1),
    (&[2, 3000], -1),
    (&[4, 5, 6], 1),
    (&[40, 5], 0),
    (&[7], 0),
    (&[0, 4], 1),
    (&[700, 2], -1),
];

#[test]
fn softmax_along_any_axis() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for (dims, axis) in SHAPES {
            for kind in ["softmax", "log_softmax"] {
                let net = net(kind).of(dtype).real("X", dims, -3.0, 3.0).attr("axis", axis);
                net.out(["Out"]).check();
            }
        }
    }
}

#[test]
fn cross_entropy_of_softmax() {
    for dtype in [DType::F32, DType::F64] {
        for (dims, axis) in SHAPES {
            let at = if axis < 0 { dims.len() - 1 } else { axis as usize };
            let mut labels = dims.to_vec();
            labels[at] = 1;
            for use_softmax in [true, false] {
                let low = if use_softmax { -3.0 } else { 0.05 };
                let with = || {
                    let net = net("softmax_with_cross_entropy").of(dtype).attr("axis", axis);
                    let net = net.attr("use_softmax", use_softmax).real("Logits", dims, low, 3.0);
                    net.out(["Softmax", "Loss"])
                };
                with().attr("ignore_index", 1i32).whole("Label", &labels, dims[at]).check();
                with().attr("soft_label", true).real("Label", dims, 0.0, 1.0).check();
            }
        }
    }
}

#[test]
fn a_loss_and_its_gradient_at_once() {
    for dtype in [DType::F32, DType::F64] {
        // The last has a thread for each sample.
        for (dims, axis) in SHAPES.into_iter().chain([(&[17_000, 3][..], -1)]) {
            let at = if axis < 0 { dims.len() - 1 } else { axis as usize };
            let mut labels = dims.to_vec();
            labels[at] = 1;
            let mut draws = Draws(4);
            let logits = draws.tensor(dtype, dims, -3.0, 3.0);
            let given = named(&[("x", logits), ("label", draws.whole(&labels, dims[at]))]);
            let op = Op::new("fused_softmax_loss").input("Logits", ["x"]).input("Label", ["label"]);
            let op = op.output("Softmax", ["y"]).output("Loss", ["loss"]);
            let op = op.output("Logits@GRAD", ["dx"]).attr("axis", axis).attr("mean_grad", 3.0f32);
            check(&op.attr("ignore_index", 1i32), &given);
        }
    }
}

#[test]
fn cross_entropy_of_probabilities() {
    for [rows, classes] in [[5, 3], [300, 40], [4, 2000]] {
        let with = |kind: &str| net(kind).real("X", &[rows, classes], 0.1, 1.0);
        let hard = with("cross_entropy").whole("Label", &[rows, 1], classes).out(["Y"]);
        hard.attr("ignore_index", 2i32).check();
        let soft = with("cross_entropy").real("Label", &[rows, classes], 0.1, 1.0).out(["Y"]);
        soft.attr("soft_label", true).check();
        let kept = with("cross_entropy2").whole("Label", &[rows, 1], classes);
        kept.out(["Y", "XShape", "MatchX"]).check();
    }
}

#[test]
fn what_is_no_label_is_refused() {
    let labels = || Tensor::from_slice([3usize, 1], &[0i64, 7, 2]).unwrap();
    let net_of = |kind: &str, slot: &str| net(kind).real(slot, &[3, 4], 0.1, 1.0);
    let text = "label 7 of sample 1 lies outside the 4 classes";
    net_of("cross_entropy", "X").input("Label", labels()).out(["Y"]).refused(text);
    let softmax = net_of("softmax_with_cross_entropy", "Logits").input("Label", labels());
    softmax.out(["Softmax", "Loss"]).refused(text);
}

#[test]
fn what_is_no_probability_is_refused() {
    let refused = |x: f32, text: &str| {
        let x = Tensor::from_slice([2usize, 1], &[0.5, x]).unwrap();
        let net = net("bce_loss").input("X", x).real("Label", &[2, 1], 0.0, 1.0).out(["Out"]);
        net.refused(text);
    };
    refused(1.5, "2 at position 1 lies outside 0..1");
    refused(-0.5, "-1 at position 1 lies outside 0..1");
    refused(f32::NAN, "element 1 is NaN");
}

#[test]
fn losses_of_pairs() {
    for dtype in [DType::F32, DType::F64] {
        for dims in [&[5, 1][..], &[700, 3], &[0, 1]] {
            let pair = |kind: &str, [x, y]: [&str; 2], low: f64, high: f64| {
                net(kind).of(dtype).real(x, dims, low, high).real(y, dims, 0.01, 0.99)
            };
            let log_loss = pair("log_loss", ["Predicted", "Labels"], 0.01, 0.99).out(["Loss"]);
            log_loss.attr("epsilon", 1e-4f32).check();
            pair("bce_loss", ["X", "Label"], 0.01, 0.99).out(["Out"]).check();
            for reduction in ["none", "sum", "mean", "batchmean"] {
                let net = pair("kldiv_loss", ["X", "Target"], -3.0, 3.0).out(["Loss"]);
                net.attr("reduction", reduction).check();
            }
            let huber = pair("huber_loss", ["X", "Y"], -3.0, 3.0).out(["Out", "Residual"]);
            huber.attr("delta", 0.5f32).check();
            let smooth = || pair("smooth_l1_loss", ["X", "Y"], -3.0, 3.0).out(["Diff", "Out"]);
            smooth().check();
            let weighed = smooth().real("InsideWeight", dims, 0.5, 2.0).attr("sigma", 1.5f32);
            weighed.real("OutsideWeight", dims, 0.5, 2.0).check();
        }
    }
}

#[test]
fn sigmoid_cross_entropy_counts_labels() {
    for dims in [&[5, 1][..], &[700, 3], &[0, 1]] {
        for normalize in [true, false] {
            let with = || {
                let net = net("sigmoid_cross_entropy_with_logits").attr("normalize", normalize);
                net.real("X", dims, -3.0, 3.0).out(["Out"])
            };
            with().real("Label", dims, 0.0, 2.0).attr("ignore_index", 0i32).check();
            with().real("Label", dims, 0.0, 1.0).real("pos_weight", dims, 0.5, 2.0).check();
        }
    }
}
