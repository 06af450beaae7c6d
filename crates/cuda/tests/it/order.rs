//! Elements in order: lanes of all lengths, equal elements, and what is not a number.

use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::beside_host::{Values, check, check_gradient, input};
use crate::draws::{raw, reals, wholes};

/// Few values, so that many are equal; zeros of both signs, infinities, and what is not a number.
fn awkward(dims: &[usize]) -> Tensor {
    let mut x = Tensor::zeros(DType::F32, dims);
    let pick = wholes(dims, 11);
    let few =
        [0.0, -0.0, 1.5, -1.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3.0, 1e-40, -7.0, 2.0];
    for (x, pick) in
        x.as_mut_slice::<f32>().unwrap().iter_mut().zip(pick.as_slice::<i64>().unwrap())
    {
        *x = few[*pick as usize];
    }
    x
}

#[test]
fn lanes_of_all_lengths_are_sorted() {
    let op = Op::new("argsort").input("X", ["x"]).output("Out", ["out"]).output("Indices", ["i"]);
    for descending in [false, true] {
        let op = op.clone().attr("descending", descending);
        for len in [1usize, 2, 3, 31, 33, 1000, 2048, 2049, 5000] {
            check(&op, &Values::from([input("x", awkward(&[3, len]))]));
        }
        for dims in [vec![70usize, 9, 5], vec![2, 3000, 3], vec![0, 4], vec![]] {
            for axis in 0..dims.len().max(1) {
                let op = op.clone().attr("axis", axis as i32);
                check(&op, &Values::from([input("x", awkward(&dims))]));
            }
        }
        for dtype in [DType::F64, DType::I32, DType::I64, DType::U8] {
            check(&op, &Values::from([input("x", raw(dtype, &[5, 2500]))]));
        }
    }
    let mut values = Values::from([input("x", reals(&[4, 2100]))]);
    check_gradient(&op, &mut values, &["x"]);
}

#[test]
fn the_first_of_an_order() {
    let op = Op::new("top_k_v2").input("X", ["x"]).output("Out", ["out"]).output("Indices", ["i"]);
    for (dims, axis, k) in [
        (vec![500usize, 10], 1, 3),
        (vec![3, 4100], 1, 2050),
        (vec![40, 6, 7], 1, 1),
        (vec![40, 6, 7], 0, 40),
    ] {
        for largest in [true, false] {
            let op = op.clone().attr("k", k).attr("axis", axis).attr("largest", largest);
            check(&op, &Values::from([input("x", awkward(&dims))]));
            let x = reals(&dims);
            check_gradient(&op, &mut Values::from([input("x", x)]), &["x"]);
        }
    }
}

#[test]
fn extremes_are_the_first_of_equals() {
    for kind in ["arg_max", "arg_min"] {
        let op = Op::new(kind).input("X", ["x"]).output("Out", ["out"]);
        for (dims, axis) in [
            (vec![300usize, 5], 1i64),
            (vec![5, 20_000], 1),
            (vec![700, 40], 0),
            (vec![2, 3, 70, 2], -2),
            (vec![1, 1], 0),
        ] {
            for flatten in [false, true] {
                let op = op.clone().attr("axis", axis).attr("flatten", flatten);
                check(&op, &Values::from([input("x", awkward(&dims))]));
                let op = op.attr("dtype", DType::I32.code());
                check(&op, &Values::from([input("x", raw(DType::I64, &dims))]));
            }
        }
    }
}
