//! Reductions on the card: any axes, results that several blocks make, the same bits in any order of blocks.

use bireme_engine::device::run_once_on;
use bireme_engine::op::run_once;
use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::beside_host::*;
use crate::card::alone;
use crate::draws::{as_type, numbers};

fn reduce(kind: &str, dims: &[i32], keep: bool) -> Op {
    let names = if kind == "logsumexp" { ["axis", "keepdim"] } else { ["dim", "keep_dim"] };
    let op = unary(kind).attr(names[0], dims.to_vec()).attr(names[1], keep);
    if dims.is_empty() { op.attr("reduce_all", true) } else { op }
}

/// Shapes, and axes that are reduced; none means all.
const REDUCED: &[(&[usize], &[i32])] = &[
    (&[1], &[]),
    (&[20_001], &[]),
    (&[700, 13], &[1]),
    (&[700, 13], &[0]),
    (&[4, 3000], &[-1]),
    (&[3000, 4], &[0]),
    (&[5, 61, 7], &[1]),
    (&[5, 61, 7], &[0, 2]),
    (&[3, 4, 5, 6], &[0, 2]),
    (&[3, 4, 5, 6], &[1, 3]),
    (&[0, 3], &[0]),
    (&[0, 3], &[1]),
];

#[test]
fn any_axes_are_reduced() {
    for (shape, dims) in REDUCED {
        // Close to one, so that products neither vanish nor explode.
        let x = numbers(shape, 9);
        let near_one: Vec<f32> =
            x.as_slice::<f32>().unwrap().iter().map(|x| 1.0 + x * 1e-3).collect();
        let values = named(&[("x", Tensor::from_slice(*shape, &near_one).unwrap())]);
        let is_empty = x.numel() == 0;
        for kind in
            ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "logsumexp"]
        {
            if is_empty && ["reduce_max", "reduce_min"].contains(&kind) {
                continue;
            }
            let op = reduce(kind, dims, dims.len() == 1);
            check(&op, &values);
            let mut values = values.clone();
            run_once(&op, &mut values).unwrap();
            let out = values["out"].tensor().unwrap().dims();
            values.insert("d".to_owned(), numbers(&out, 10).into());
            let mut grad = op.clone();
            grad.kind = format!("{kind}_grad");
            grad.outputs.clear();
            let grad = grad.input("Out@GRAD", ["d"]).output("X@GRAD", ["dx"]);
            let grad = if ["reduce_sum", "reduce_mean"].contains(&kind) {
                grad
            } else {
                grad.input("Out", ["out"])
            };
            check(&grad, &values);
        }
        let truth = named(&[("x", as_type(&x, DType::Bool))]);
        check(&reduce("reduce_any", dims, false), &truth);
        check(&reduce("reduce_all", dims, true), &truth);
        check(&reduce("reduce_sum", dims, true).attr("out_dtype", DType::I64.code()), &truth);
    }
}

#[test]
fn zeros_infinities_and_nan_are_reduced_as_on_the_host() {
    let x = [1f32, 2.0, 0.0, 3.0, 0.0, 0.0, 2.0, 3.0, 1.0, 2.0, 4.0, 0.5];
    let mut values =
        named(&[("x", Tensor::from_slice([3, 4], &x).unwrap()), ("d", numbers(&[3], 11))]);
    run_once(&reduce("reduce_prod", &[1], false), &mut values).unwrap();
    let grad = Op::new("reduce_prod_grad")
        .input("X", ["x"])
        .input("Out", ["out"])
        .input("Out@GRAD", ["d"]);
    check(&grad.output("X@GRAD", ["dx"]).attr("dim", vec![1]), &values);
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let odd = [-inf, -inf, 1.0, inf, nan, 2.0, -3.0, -inf, nan, nan, 0.0, 5.0];
    let values = named(&[("x", Tensor::from_slice([6, 2], &odd).unwrap())]);
    for kind in ["reduce_max", "reduce_min", "logsumexp", "reduce_sum"] {
        check(&reduce(kind, &[1], false), &values);
    }
    for kind in
        ["isnan_v2", "isinf_v2", "isfinite_v2", "relu", "relu6", "brelu", "hard_swish", "sign"]
    {
        check(&unary(kind), &values);
    }
}

#[test]
fn sums_in_16_bits() {
    let values = named(&[("x", numbers(&[40, 30], 12)), ("d", numbers(&[40], 13))]);
    check_halves(&reduce("reduce_mean", &[1], false), &values);
    check_halves(&reduce("reduce_sum", &[0], true).attr("dim", vec![1]), &values);
    check_halves(&unary("mean"), &values);
    let inputs: Values = (0..3).map(|i| (format!("x{i}"), numbers(&[77], i).into())).collect();
    check_halves(&Op::new("sum").input("X", ["x0", "x1", "x2"]).output("Out", ["out"]), &inputs);
}

#[test]
fn running_sums() {
    for (shape, axis) in
        [(&[3000][..], 0), (&[5, 100], 1), (&[100, 5], 0), (&[4, 20, 40], 1), (&[7, 3], -1)]
    {
        // In double precision: sums that come close to zero keep too few digits of single.
        let doubles = |seed| as_type(&numbers(shape, seed), DType::F64);
        let values = named(&[("x", doubles(14)), ("d", doubles(15))]);
        for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
            let op = unary("cumsum")
                .attr("axis", axis)
                .attr("exclusive", exclusive)
                .attr("reverse", reverse);
            check(&op, &values);
            let mut grad = op.input("Out@GRAD", ["d"]);
            grad.kind = "cumsum_grad".to_owned();
            grad.outputs.clear();
            check(&grad.output("X@GRAD", ["dx"]), &values);
        }
        check(&unary("cumsum").attr("flatten", true), &values);
        let wholes = as_type(&numbers(shape, 22), DType::I32);
        check(&unary("cumsum").attr("axis", axis), &named(&[("x", wholes)]));
    }
}

#[test]
fn norms() {
    for (shape, axis) in [(&[40, 24][..], 1), (&[40, 24], 0), (&[3, 500, 2], 1)] {
        let mut values = named(&[("x", numbers(shape, 19))]);
        for order in [0.0f32, 1.0, 2.0, 3.0, f32::INFINITY, f32::NEG_INFINITY] {
            check(&unary("p_norm").attr("axis", axis).attr("porder", order), &values);
        }
        let op = unary("norm").attr("axis", axis);
        check(&op, &values);
        run_once(&op.output("Norm", ["norm"]), &mut values).unwrap();
        values.insert("d".to_owned(), numbers(shape, 20).into());
        let grad = unary_grad("norm", "X").input("Norm", ["norm"]).attr("axis", axis);
        check(&grad, &values);
        check(&unary("clip_by_norm").attr("max_norm", 1.5f32), &values);
        check(&unary("squared_l2_norm"), &values);
    }
    check(&unary("squared_l2_norm"), &named(&[("x", numbers(&[30_000], 21))]));
}

#[test]
fn bits_do_not_depend_on_the_order_of_blocks() {
    let shape = [3001, 20];
    let values =
        named(&[("x", numbers(&shape, 6)), ("y", numbers(&[20], 7)), ("d", numbers(&shape, 8))]);
    let sum = unary("mean");
    let mut seen = None;
    for seed in 0..3 {
        let Some(machine) = alone() else { return };
        machine.control.seed(seed);
        let device = bireme_cuda::open(0).unwrap();
        let mut made = values.clone();
        assert!(run_once_on(&device, &binary_grad("elementwise_mul"), &mut made).unwrap());
        assert!(run_once_on(&device, &sum, &mut made).unwrap());
        let bits = ["dx", "dy", "out"].map(|name| made[name].tensor().unwrap().as_bytes().to_vec());
        assert_eq!(seen.get_or_insert_with(|| bits.clone()), &bits, "seed {seed}");
    }
}
