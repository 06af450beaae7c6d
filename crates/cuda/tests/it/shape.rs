//! Moving elements: sizes that golden cases do not have.

use bireme_ir::{DType, EMPTY_VAR, Op};

use crate::beside_host::{Values, check, check_gradient, declined, input};
use crate::draws::{raw, reals, wholes};

fn x_to_out(kind: &str) -> Op {
    Op::new(kind).input("X", ["x"]).output("Out", ["out"])
}

#[test]
fn transposes_of_all_orders_and_sizes() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for dims in [[37usize, 70, 3], [2, 64, 33], [1, 130, 257], [5, 4, 16], [0, 3, 5]] {
        for order in orders {
            let op = x_to_out("transpose2").output("XShape", ["xshape"]);
            let op = op.attr("axis", order.to_vec());
            for dtype in [DType::F32, DType::Bool, DType::I64, DType::BF16] {
                let values = Values::from([input("x", raw(dtype, &dims))]);
                check(&op, &values);
            }
            let mut values = Values::from([input("x", reals(&dims))]);
            check_gradient(&op, &mut values, &["x"]);
        }
    }
}

#[test]
fn axes_are_turned() {
    for axes in [vec![0], vec![1, 2], vec![-1], vec![0, 1, 2]] {
        let op = x_to_out("flip").attr("axis", axes);
        let mut values = Values::from([input("x", reals(&[7, 33, 4]))]);
        check_gradient(&op, &mut values, &["x"]);
    }
}

#[test]
fn slices_of_words_and_of_elements() {
    let slice = |axes: Vec<i32>, starts: Vec<i32>, ends: Vec<i32>| {
        let op = Op::new("slice").input("Input", ["x"]).output("Out", ["out"]);
        op.attr("axes", axes).attr("starts", starts).attr("ends", ends)
    };
    for op in [
        slice(vec![1], vec![3], vec![9]),
        slice(vec![0, 2], vec![1, 1], vec![60, 14]),
        slice(vec![0, 1, 2], vec![0, -3, 4], vec![100, 100, 12]),
        slice(vec![1], vec![5], vec![5]),
        slice(vec![1], vec![7], vec![8]).attr("decrease_axis", vec![1]),
    ] {
        let mut values = Values::from([input("x", reals(&[64, 26, 16]))]);
        check_gradient(&op, &mut values, &["x"]);
        check(&op, &Values::from([input("x", raw(DType::U8, &[64, 26, 16]))]));
    }
    let strided = Op::new("strided_slice").input("Input", ["x"]).output("Out", ["out"]);
    for (starts, ends, strides) in [(1, 60, 7), (-1, -60, -3), (60, -1, -1), (0, 64, 64)] {
        let op = strided.clone().attr("axes", vec![0, 2]).attr("starts", vec![starts, 15]);
        let op = op.attr("ends", vec![ends, -17]).attr("strides", vec![strides, -2]);
        let mut values = Values::from([input("x", reals(&[64, 26, 16]))]);
        check_gradient(&op, &mut values, &["x"]);
    }
}

#[test]
fn many_parts_are_joined_and_cut() {
    for (axis, widths) in [(1, [13usize, 16, 1]), (1, [16, 4, 8]), (0, [3, 5, 1]), (2, [2, 0, 4])] {
        let count = 200;
        let mut values = Values::new();
        let names: Vec<String> = (0..count).map(|i| format!("x{i}")).collect();
        for (i, name) in names.iter().enumerate() {
            let mut dims = [9usize, 5, 3];
            dims[axis] = widths[i % 3];
            values.extend([input(name, reals(&dims))]);
        }
        let op = Op::new("concat").input("X", names.clone()).output("Out", ["out"]);
        let op = op.attr("axis", axis as i32);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        check_gradient(&op, &mut values, &names);
        let sections: Vec<i32> = (0..count).map(|i| widths[i % 3] as i32).collect();
        let parts: Vec<String> = (0..count).map(|i| format!("y{i}")).collect();
        let split = Op::new("split").input("X", ["out"]).output("Out", parts);
        check(&split.attr("axis", axis as i32).attr("sections", sections), &values);
    }
}

#[test]
fn parts_that_nobody_wants_are_left_out() {
    let mut values = Values::new();
    for name in ["a", "b", "c"] {
        values.extend([input(name, reals(&[33, 8]))]);
    }
    values.extend([input("out@GRAD", reals(&[33, 24]))]);
    let grad = Op::new("concat_grad").input("X", ["a", "b", "c"]).input("Out@GRAD", ["out@GRAD"]);
    let grad = grad.output("X@GRAD", [EMPTY_VAR, "b@GRAD", EMPTY_VAR]).attr("axis", 1);
    check(&grad, &values);
}

#[test]
fn stacks_go_both_ways() {
    for axis in [0, 1, -1] {
        let mut values = Values::new();
        for name in ["a", "b", "c"] {
            values.extend([input(name, reals(&[33, 7]))]);
        }
        let op = Op::new("stack").input("X", ["a", "b", "c"]).output("Y", ["out"]);
        let mut after = values.clone();
        check_gradient(&op.attr("axis", axis), &mut after, &["a", "b", "c"]);
        let op = Op::new("unbind").input("X", ["out"]).output("Out", ["p", "q", "r"]);
        check(&op.attr("axis", axis), &after);
    }
}

#[test]
fn sums_over_what_was_repeated() {
    for (x, shape) in [
        (vec![1usize, 16], vec![3000, 16]),
        (vec![500, 1], vec![500, 300]),
        (vec![1], vec![200_000]),
        (vec![3, 1, 5], vec![7, 3, 11, 5]),
        (vec![4, 1, 1], vec![4, 130, 70]),
        (vec![2, 3], vec![2, 3]),
        (vec![1, 3], vec![0, 3]),
    ] {
        let op = x_to_out("expand_v2").attr("shape", shape);
        let mut values = Values::from([input("x", reals(&x))]);
        check_gradient(&op, &mut values, &["x"]);
    }
    for times in [vec![1, 40], vec![30, 1], vec![2, 3, 50], vec![7]] {
        let op = x_to_out("tile").attr("repeat_times", times);
        let mut values = Values::from([input("x", reals(&[33, 12]))]);
        check_gradient(&op, &mut values, &["x"]);
        check(&op, &Values::from([input("x", raw(DType::F16, &[33, 12]))]));
    }
}

#[test]
fn paddings_of_all_modes() {
    for mode in ["constant", "reflect", "replicate", "circular"] {
        for format in ["NCDHW", "NDHWC"] {
            let op = x_to_out("pad3d").attr("paddings", vec![4, 1, 0, 5, 2, 2]);
            let op = op.attr("mode", mode).attr("value", 1.5f32).attr("data_format", format);
            let mut values = Values::from([input("x", reals(&[2, 6, 7, 8, 5]))]);
            if format == "NDHWC" {
                values = Values::from([input("x", reals(&[2, 5, 6, 8, 16]))]);
            }
            check_gradient(&op, &mut values, &["x"]);
        }
    }
    for paddings in [vec![0, 0, 4, 8], vec![1, 2, 3, 4], vec![0, 0, 0, 0], vec![5, 0, 0, 0]] {
        let op = x_to_out("pad").attr("paddings", paddings).attr("pad_value", -2.0f32);
        let mut values = Values::from([input("x", reals(&[40, 36]))]);
        check_gradient(&op, &mut values, &["x"]);
        check(&op, &Values::from([input("x", wholes(&[40, 36], 1000))]));
    }
}

#[test]
fn what_leaves_at_one_end_comes_back_at_the_other() {
    for (shifts, axes) in
        [(vec![5i64], vec![0i64]), (vec![-3, 70], vec![1, 2]), (vec![1234], vec![])]
    {
        let op = x_to_out("roll").attr("shifts", shifts).attr("axis", axes);
        let mut values = Values::from([input("x", reals(&[9, 17, 8]))]);
        check_gradient(&op, &mut values, &["x"]);
    }
}

#[test]
fn a_part_is_replaced() {
    let op = Op::new("set_value").input("Input", ["x"]).input("ValueTensor", ["v"]);
    let op = op.output("Out", ["out"]).attr("axes", vec![0i64, 1]);
    let op = op.attr("starts", vec![2i64, 30]).attr("ends", vec![40i64, -100]);
    let op = op.attr("steps", vec![3i64, -2]);
    for value in [vec![13usize, 16, 6], vec![16, 1], vec![1], vec![1, 1, 6]] {
        let mut values = Values::from([input("x", reals(&[41, 31, 6])), input("v", reals(&value))]);
        check_gradient(&op, &mut values, &["x", "v"]);
    }
}

#[test]
fn shapes_that_only_data_knows_are_the_hosts() {
    let op = x_to_out("reshape2").input("Shape", ["s"]).output("XShape", ["xs"]);
    let shape = bireme_engine::tensor::Tensor::from_slice([2], &[2i64, 6]).unwrap();
    declined(&op, &Values::from([input("x", reals(&[3, 4])), input("s", shape)]));
    let op = x_to_out("concat").input("X", ["x", "x"]).input("AxisTensor", ["a"]);
    let axis = bireme_engine::tensor::Tensor::scalar(1i64);
    declined(&op, &Values::from([input("x", reals(&[3, 4])), input("a", axis)]));
}
