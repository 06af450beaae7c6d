//! Pooling: windows of all kinds, both layouts, and gradients.

use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::beside_host::{Values, check, check_gradient, input};
use crate::draws::reals;

fn pool(kind: &str, window: [i32; 2]) -> Op {
    let op = Op::new("pool2d").input("X", ["x"]).output("Out", ["out"]);
    op.attr("pooling_type", kind).attr("ksize", window.to_vec())
}

#[test]
fn windows_of_all_kinds() {
    for kind in ["max", "avg"] {
        for op in [
            pool(kind, [2, 2]).attr("strides", vec![2, 2]),
            pool(kind, [3, 2]).attr("strides", vec![2, 3]).attr("paddings", vec![1, 0]),
            pool(kind, [3, 3]).attr("paddings", vec![1, 2, 0, 1]).attr("exclusive", false),
            pool(kind, [3, 3]).attr("strides", vec![2, 2]).attr("ceil_mode", true),
            pool(kind, [4, 3]).attr("padding_algorithm", "SAME").attr("strides", vec![2, 2]),
            pool(kind, [5, 4]).attr("adaptive", true),
            pool(kind, [1, 1]).attr("global_pooling", true),
        ] {
            for (format, dims) in [("NCHW", [3usize, 5, 13, 17]), ("NHWC", [2, 13, 17, 6])] {
                let op = op.clone().attr("data_format", format);
                check_gradient(&op, &mut Values::from([input("x", reals(&dims))]), &["x"]);
            }
        }
    }
}

#[test]
fn the_first_of_equal_maxima_takes_the_gradient() {
    let mut x = Tensor::zeros(DType::F64, [2, 2, 9, 9]);
    for (i, x) in x.as_mut_slice::<f64>().unwrap().iter_mut().enumerate() {
        *x = (i * 7 % 4) as f64;
    }
    let op = pool("max", [3, 3]).attr("strides", vec![2, 2]);
    check_gradient(&op, &mut Values::from([input("x", x.clone())]), &["x"]);
    let op = Op::new("max_pool2d_with_index").input("X", ["x"]).output("Out", ["out"]);
    let op = op.output("Mask", ["mask"]).attr("ksize", vec![3, 3]).attr("strides", vec![2, 2]);
    check_gradient(&op, &mut Values::from([input("x", x)]), &["x"]);
}

#[test]
fn what_is_not_a_number_is_pooled_as_on_the_host() {
    let mut x = reals(&[2, 3, 12, 12]);
    for i in [0, 17, 100, 101, 400] {
        x.as_mut_slice::<f32>().unwrap()[i] = f32::NAN;
    }
    for kind in ["max", "avg"] {
        let op = pool(kind, [3, 3]).attr("strides", vec![2, 2]).attr("paddings", vec![1, 1]);
        check(&op, &Values::from([input("x", x.clone())]));
    }
}
