//! Random numbers are the host's.

use bireme_engine::random::Philox;
use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::beside_host::{
    Values, at_step, check, check_gradient, checked_on_card, declined, input, refused,
};
use crate::draws::reals;

#[test]
fn numbers_are_those_of_the_host() {
    for kind in ["uniform_random", "gaussian_random", "truncated_gaussian_random"] {
        let op = Op::new(kind).output("Out", ["w"]).attr("seed", 3);
        for shape in [vec![1i64], vec![3, 5], vec![70, 1000], vec![0, 4]] {
            check(&op.clone().attr("shape", shape), &Values::new());
        }
        for dtype in [DType::F64, DType::BF16, DType::F16] {
            let op = op.clone().attr("dtype", dtype.code()).attr("shape", vec![33i64, 7]);
            check(&op, &Values::new());
        }
        for offset in [1i64, 10, 1 << 40] {
            let op = op.clone().attr("shape", vec![2i64, 5]).attr("init_name", "whole");
            check(&op.attr("init_offset", offset), &Values::new());
        }
    }
    let op = Op::new("uniform_random").output("Out", ["w"]).attr("shape", vec![30i64, 30]);
    let op = op.attr("min", 0.25f32).attr("max", 7.5f32);
    let card = checked_on_card(&op, &Values::new());
    let host = Philox::new(0, "w");
    for (i, got) in card["w"].tensor().unwrap().as_slice::<f32>().unwrap().iter().enumerate() {
        assert_eq!(got.to_bits(), (0.25f32 + 7.25 * host.uniform(i as u64)).to_bits());
    }
    let op = op.attr("diag_num", 40).attr("diag_step", 30).attr("diag_val", 3.0f32);
    check(&op, &Values::new());
}

#[test]
fn each_step_draws_its_own() {
    let op = Op::new("uniform_random").output("Out", ["w"]).attr("shape", vec![9i64]);
    for step in [0i64, 1, 5_000_000_000] {
        let op = op.clone().attr("min", 0.0f32);
        let Some(fresh) = at_step(&op, step) else { return };
        let Some(fixed) = at_step(&op.attr("seed", 8), step) else { return };
        for i in 0..9u64 {
            let expected = Philox::new(0, "w").stream(step as u64).uniform(i);
            assert_eq!(fresh[i as usize], expected);
            assert_eq!(fixed[i as usize], Philox::new(8, "w").uniform(i));
        }
    }
}

#[test]
fn integers_and_permutations() {
    let op = Op::new("randint").output("Out", ["out"]).attr("low", -3).attr("high", 1000);
    for dtype in [DType::I64, DType::I32, DType::F32] {
        check(
            &op.clone().attr("shape", vec![70i64, 33]).attr("dtype", dtype.code()),
            &Values::new(),
        );
    }
    let op = Op::new("randperm").output("Out", ["out"]);
    for n in [0, 1, 2, 1000, 11_264] {
        check(&op.clone().attr("n", n), &Values::new());
    }
    declined(&op.attr("n", 11_265), &Values::new());
}

#[test]
fn coins_fall_as_on_the_host() {
    let op = Op::new("bernoulli").input("X", ["x"]).output("Out", ["out"]);
    let mut x = reals(&[33, 21]);
    x.as_mut_slice::<f32>().unwrap().iter_mut().for_each(|x| *x = x.abs().min(1.0));
    check(&op, &Values::from([input("x", x.clone())]));
    for wrong in [1.5f32, -0.5, f32::NAN] {
        x.as_mut_slice::<f32>().unwrap()[40] = wrong;
        refused(&op, &Values::from([input("x", x.clone())]), "40");
    }
}

#[test]
fn dropout_drops_the_same() {
    for implementation in ["upscale_in_train", "downgrade_in_infer"] {
        for (probability, test) in [(0.3f32, false), (0.0, false), (1.0, false), (0.4, true)] {
            let op = Op::new("dropout").input("X", ["x"]).output("Out", ["out"]);
            let op = op.output("Mask", ["mask"]).attr("dropout_prob", probability);
            let op = op.attr("dropout_implementation", implementation).attr("is_test", test);
            let mut values = Values::from([input("x", reals(&[41, 33]))]);
            check_gradient(&op, &mut values, &["x"]);
            let seed = Tensor::from_slice([1], &[9i32]).unwrap();
            values.extend([input("seed", seed)]);
            check(&op.clone().input("Seed", ["seed"]), &values);
            check(&op.attr("seed", 5).attr("fix_seed", true), &values);
        }
    }
}

#[test]
fn rows_are_shuffled() {
    let op = Op::new("shuffle_batch").input("X", ["x"]).output("Out", ["out"]);
    let op = op.output("ShuffleIdx", ["index"]).output("SeedOut", ["next"]);
    for dims in [vec![8usize, 4, 2], vec![3000, 3], vec![1, 5], vec![4]] {
        let mut values = Values::from([input("x", reals(&dims))]);
        check_gradient(&op, &mut values, &["x"]);
        values.extend([input("seed", Tensor::from_slice([1], &[7i64]).unwrap())]);
        check(&op.clone().input("Seed", ["seed"]), &values);
    }
}
