//! Normalisation: layouts, statistics of the batch and running ones, rows of all lengths, slots that were not shown.

use bireme_engine::tensor::Tensor;
use bireme_ir::DType;

use crate::nets::net;

#[test]
fn batches_are_normalised_by_channels() {
    for dtype in [DType::F32, DType::F64] {
        for (dims, layout) in [
            (&[6, 5][..], "NCHW"),
            (&[1000, 40], "NCHW"),
            (&[3, 4, 5, 6], "NCHW"),
            (&[3, 4, 5, 6], "NHWC"),
            (&[1, 3], "NCHW"),
            (&[8, 2, 30, 30], "NCHW"),
            (&[70, 3, 9], "NHWC"),
            (&[1, 1, 1, 4], "NHWC"),
        ] {
            let is_last = layout == "NHWC" || dims.len() == 2;
            let channels = [if is_last { dims[dims.len() - 1] } else { dims[1] }];
            for (is_test, is_global) in [(false, false), (true, false), (false, true)] {
                let net = net("batch_norm").of(dtype).attr("is_test", is_test);
                let net = net.attr("use_global_stats", is_global).attr("momentum", 0.7f32);
                let net = net.attr("data_layout", layout).real("X", dims, 2.0, 5.0);
                let net = net.real("Scale", &channels, 0.5, 1.0).real("Bias", &channels, -1.0, 1.0);
                let net =
                    net.real("Mean", &channels, -1.0, 1.0).real("Variance", &channels, 0.5, 1.0);
                let outs = ["Y", "MeanOut", "VarianceOut", "SavedMean", "SavedVariance"];
                net.out(outs).check();
            }
        }
    }
}

#[test]
fn rows_are_normalised() {
    for dtype in [DType::F32, DType::F64] {
        for (dims, axis) in [
            (&[6, 5][..], 1),
            (&[300, 40], 1),
            (&[3, 4, 5], 1),
            (&[3, 4, 5], 2),
            (&[2, 3000], 1),
            (&[0, 4], 1),
        ] {
            let width: usize = dims[axis as usize..].iter().product();
            let with = || {
                let net = net("layer_norm").of(dtype).attr("begin_norm_axis", axis);
                net.real("X", dims, 2.0, 5.0).out(["Y", "Mean", "Variance"])
            };
            with().check();
            with().real("Scale", &[width], 0.5, 1.0).real("Bias", &[width], -1.0, 1.0).check();
        }
    }
}

#[test]
fn data_is_normalised_by_what_was_seen() {
    for ([rows, columns], slot) in [([5, 6], -1), ([300, 40], -1), ([70, 12], 4), ([0, 4], 2)] {
        // Every eighth element is 0, so that some slots were not shown.
        let x = |i: usize| if i.is_multiple_of(8) { 0.0 } else { (i as f32).sin() };
        let x: Vec<f32> = (0..rows * columns).map(x).collect();
        let with = || {
            let net = net("data_norm").attr("slot_dim", slot).out(["Y", "Means", "Scales"]);
            let net = net.input("X", Tensor::from_slice([rows, columns], &x).unwrap());
            let net = net.real("BatchSize", &[columns], 1.0, 4.0);
            net.real("BatchSum", &[columns], 1.0, 4.0).real("BatchSquareSum", &[columns], 1.0, 4.0)
        };
        with().check();
        let shifted = with().attr("enable_scale_and_shift", true);
        shifted.real("scale_w", &[columns], 0.5, 2.0).real("bias", &[columns], -1.0, 1.0).check();
    }
}
