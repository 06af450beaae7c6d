//! Products: shapes that go to the library, shapes that have kernels of their own, stacks that repeat, `fc`.

use bireme_ir::{DType, Op};

use crate::beside_host::{check_within, named};
use crate::draws::Draws;
use crate::nets::{Net, net};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

fn matmul(x: &[usize], y: &[usize], transposes: [bool; 2]) -> Net {
    let net = net("matmul_v2").attr("trans_x", transposes[0]).attr("trans_y", transposes[1]);
    net.real("X", x, -1.0, 1.0).real("Y", y, -1.0, 1.0).out(["Out"])
}

#[test]
fn matrices_multiply_in_all_types() {
    for dtype in FLOATS {
        for (x, y, transposes) in [
            ([5, 7], [7, 3], [false, false]),
            ([7, 5], [7, 3], [true, false]),
            ([5, 7], [3, 7], [false, true]),
            ([7, 5], [3, 7], [true, true]),
        ] {
            let [x_turned, y_turned] = transposes;
            let net = net("matmul").attr("transpose_X", x_turned).attr("transpose_Y", y_turned);
            let net = net.attr("alpha", 0.5f32).of(dtype).out(["Out"]);
            net.real("X", &x, -1.0, 1.0).real("Y", &y, -1.0, 1.0).check();
        }
    }
}

#[test]
fn vectors_multiply_in_all_types() {
    for dtype in FLOATS {
        for (x, y, transposes) in [
            (&[300, 70][..], &[70, 1][..], [false, false]),
            (&[70, 300], &[70, 1], [true, false]),
            (&[1, 100], &[100, 200], [false, false]),
            (&[1, 100], &[200, 100], [false, true]),
            (&[40, 1], &[1, 50], [false, false]),
            (&[7], &[7], [false, false]),
            (&[7], &[7, 4], [false, false]),
            (&[4, 7], &[7], [false, false]),
            (&[6, 4, 5], &[6, 5, 1], [false, false]),
            (&[6, 1, 5], &[6, 7, 5], [false, true]),
        ] {
            let [x_turned, y_turned] = transposes;
            let net = net("matmul_v2").attr("trans_x", x_turned).attr("trans_y", y_turned);
            net.of(dtype).real("X", x, -1.0, 1.0).real("Y", y, -1.0, 1.0).out(["Out"]).check();
        }
    }
}

#[test]
fn stacks_repeat_and_their_gradients_are_summed() {
    for (x, y, transposes) in [
        (&[3, 4, 5][..], &[5, 2][..], [false, false]),
        (&[3, 5, 4], &[5, 2], [true, false]),
        (&[3, 4, 5], &[3, 5, 2], [false, false]),
        (&[4, 5], &[300, 5, 2], [false, false]),
        (&[2, 1, 4, 5], &[3, 5, 2], [false, false]),
        (&[2, 3, 4, 5], &[1, 3, 5, 2], [false, false]),
        (&[2, 3, 4, 5], &[2, 1, 5, 2], [false, false]),
        (&[2, 3, 5, 4], &[5], [true, false]),
        (&[5], &[2, 5, 3], [false, false]),
    ] {
        matmul(x, y, transposes).check();
    }
}

#[test]
fn nothing_multiplies_to_nothing_or_zeros() {
    matmul(&[0, 5], &[5, 3], [false, false]).check();
    matmul(&[4, 0], &[0, 3], [false, false]).check();
    matmul(&[0, 4, 5], &[5, 3], [false, false]).check();
}

#[test]
fn tensors_are_seen_as_matrices() {
    let net = net("mul").attr("x_num_col_dims", 2i32).out(["Out"]);
    net.real("X", &[3, 4, 5], -1.0, 1.0).real("Y", &[5, 2], -1.0, 1.0).check();
}

#[test]
fn rows_multiply() {
    for dims in [&[5, 7][..], &[7], &[300, 3], &[2, 3, 40]] {
        let net = net("dot").real("X", dims, -1.0, 1.0).real("Y", dims, -1.0, 1.0);
        net.out(["Out"]).check();
    }
    for (x, y) in [([5, 7], [5, 7]), ([300, 40], [1, 40]), ([1, 4], [1, 4])] {
        let net = net("cos_sim").real("X", &x, 0.1, 1.0).real("Y", &y, -1.0, 1.0);
        net.out(["Out", "XNorm", "YNorm"]).check();
    }
}

#[test]
fn equations_are_followed() {
    for (equation, operands) in [
        ("ij,jk->ik", &[&[3, 4][..], &[4, 5]][..]),
        ("bij,bkj->bik", &[&[6, 3, 4], &[6, 5, 4]]),
        ("ij,ik->kj", &[&[3, 4], &[3, 5]]),
        ("ijk->ki", &[&[3, 4, 5]]),
        ("ii->i", &[&[4, 4]]),
        ("...ij,...jk->...ik", &[&[7, 1, 2, 3], &[4, 3, 5]]),
        ("ijk,kl->il", &[&[3, 4, 5], &[5, 2]]),
        ("i,j->ij", &[&[30], &[40]]),
    ] {
        let mut net = net("einsum").attr("equation", equation).out(["Out"]);
        for dims in operands {
            net = net.real("Operands", dims, -1.0, 1.0);
        }
        net.check();
    }
}

#[test]
fn a_layer_and_its_gradient_agree() {
    let gradient = |op: &Op| {
        let mut grad = Op::new("fused_fc_grad");
        for slot in ["X", "W", "Bias", "Out", "Out@GRAD"] {
            grad = grad.input(slot, [slot]);
        }
        for slot in ["X@GRAD", "W@GRAD", "Bias@GRAD"] {
            grad = grad.output(slot, [slot]);
        }
        grad.attrs.clone_from(&op.attrs);
        grad
    };
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        for [m, k, n] in [[5, 7, 3], [300, 33, 1], [400, 5, 64], [70, 40, 130], [0, 4, 3]] {
            for act in ["", "relu", "sigmoid", "tanh"] {
                // Of 16 bits, sums of many are off by more than the tolerance.
                let limit = if dtype == DType::F32 { 1.0 } else { 0.2 };
                let net =
                    net("fused_fc").of(dtype).attr("act", act).real("X", &[m, k], -limit, limit);
                let net = net.real("W", &[k, n], -limit, limit).real("Bias", &[n], -1.0, 1.0);
                net.out(["Out"]).check_with(gradient);
            }
        }
    }
}

#[test]
fn a_logit_of_32_bits_and_the_slopes_below_it_agree() {
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        for [m, k] in [[300, 33], [7, 128], [1, 1]] {
            let mut draws = Draws(7);
            let mut real = |dtype, dims: &[usize]| draws.tensor(dtype, dims, -0.3, 0.3);
            let given = named(&[
                ("x", real(dtype, &[m, k])),
                ("w", real(dtype, &[k, 1])),
                ("b", real(dtype, &[1])),
                ("d", real(DType::F32, &[m, 1])),
            ]);
            let wide = DType::F32.code();
            let layer =
                |kind: &str| Op::new(kind).input("X", ["x"]).input("W", ["w"]).input("Bias", ["b"]);
            let forward = layer("fused_fc").output("Out", ["out"]).attr("out_dtype", wide);
            let out = check_within(&forward, &given, 1e-2);
            assert_eq!(out["out"].tensor().unwrap().dtype(), DType::F32);
            for x_act in ["", "relu"] {
                let backward = layer("fused_fc_grad").input("Out@GRAD", ["d"]);
                let backward = backward.output("X@GRAD", ["dx"]).output("W@GRAD", ["dw"]);
                let backward = backward.output("Bias@GRAD", ["db"]).attr("x_act", x_act);
                check_within(&backward.attr("param_grad_dtype", wide), &given, 1e-2);
            }
        }
    }
}
