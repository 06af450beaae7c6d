//! Picking by position: repeated indices, many of them, and bad ones.

use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::beside_host::{Values, check, check_gradient, input, refused};
use crate::draws::{raw, reals, wholes};

fn by_index(kind: &str) -> Op {
    Op::new(kind).input("X", ["x"]).input("Index", ["i"]).output("Out", ["out"])
}

#[test]
fn many_slices_go_back_to_few_places() {
    for (dims, axis, count) in [
        ([7usize, 16], 0, 10_000usize),
        ([5000, 3], 0, 6000),
        ([6, 300], 1, 2049),
        ([3, 1], 0, 64),
        ([4, 5], 1, 65),
        ([4, 5], 0, 0),
    ] {
        let op = by_index("gather").attr("axis", axis as i32);
        let index = wholes(&[count], dims[axis] as i64);
        let mut values = Values::from([input("x", reals(&dims)), input("i", index)]);
        check_gradient(&op, &mut values, &["x"]);
    }
}

#[test]
fn sums_of_16_bits_are_made_in_32() {
    let many = 600;
    let mut ones = Tensor::zeros(DType::BF16, [many, 1]);
    ones.as_mut_bytes().chunks_exact_mut(2).for_each(|one| one.copy_from_slice(&[0x80, 0x3f]));
    let index = Tensor::from_slice([many], &vec![1i64; many]).unwrap();
    let x = raw(DType::BF16, &[2, 1]);
    let values = Values::from([input("x", x), input("i", index), input("out@GRAD", ones)]);
    let grad = Op::new("gather_grad").input("X", ["x"]).input("Index", ["i"]);
    let grad = grad.input("Out@GRAD", ["out@GRAD"]).output("X@GRAD", ["x@GRAD"]);
    check(&grad, &values);
}

#[test]
fn indices_outside_are_refused() {
    for (index, dtype) in [(7i64, DType::I64), (-1, DType::I64), (5, DType::I32)] {
        let mut ids = vec![2i64; 300];
        ids[123] = index;
        let ids = match dtype {
            DType::I32 => {
                let ids: Vec<i32> = ids.iter().map(|id| *id as i32).collect();
                Tensor::from_slice([300], &ids).unwrap()
            }
            _ => Tensor::from_slice([300], &ids).unwrap(),
        };
        let values = Values::from([input("x", reals(&[5, 4])), input("i", ids)]);
        let text = format!("{index} at position 123 lies outside 0..5");
        refused(&by_index("gather"), &values, &text);
    }
}

#[test]
fn slices_by_several_coordinates() {
    for (dims, index) in [(vec![6usize, 5, 8], vec![3000usize, 2]), (vec![40, 3], vec![7, 11, 1])] {
        let depth = *index.last().unwrap();
        let bound = dims[..depth].iter().min().copied().unwrap() as i64;
        let mut values =
            Values::from([input("x", reals(&dims)), input("i", wholes(&index, bound))]);
        check_gradient(&by_index("gather_nd"), &mut values, &["x"]);
    }
    let index = Tensor::from_slice([2, 2], &[1i64, 2, 0, 9]).unwrap();
    let values = Values::from([input("x", reals(&[6, 5])), input("i", index)]);
    refused(&by_index("gather_nd"), &values, "9 at position 3 lies outside 0..5");
}

#[test]
fn rows_are_replaced_or_summed() {
    for (rows, width, count) in [(9usize, 4usize, 5000usize), (3000, 3, 2500), (4, 1, 3)] {
        for overwrite in [true, false] {
            let op = Op::new("scatter").input("X", ["x"]).input("Ids", ["i"]);
            let op = op.input("Updates", ["u"]).output("Out", ["out"]);
            let op = op.attr("overwrite", overwrite);
            let mut values = Values::from([
                input("x", reals(&[rows, width])),
                input("i", wholes(&[count], rows as i64)),
                input("u", reals(&[count, width])),
            ]);
            check_gradient(&op, &mut values, &["x", "u"]);
        }
    }
}

#[test]
fn elements_along_an_axis() {
    for (x, index, axis) in [
        ([5usize, 40, 7], [5usize, 500, 7], 1),
        ([5, 40, 7], [2, 40, 7], 0),
        ([3, 4, 60], [3, 4, 1], 2),
    ] {
        let op = Op::new("take_along_axis").input("Input", ["x"]).input("Index", ["i"]);
        let op = op.output("Result", ["out"]).attr("Axis", axis);
        let index = wholes(&index, x[axis as usize] as i64);
        let mut values = Values::from([input("x", reals(&x)), input("i", index)]);
        check_gradient(&op, &mut values, &["x"]);
    }
    let mut values =
        Values::from([input("x", reals(&[300, 9])), input("i", wholes(&[300, 11], 9))]);
    check_gradient(&by_index("index_sample"), &mut values, &["x"]);
}

#[test]
fn choices_of_all_element_types() {
    let op = Op::new("where").input("Condition", ["c"]).input("X", ["x"]).input("Y", ["y"]);
    let op = op.output("Out", ["out"]);
    let mut condition = Tensor::zeros(DType::Bool, [700, 3]);
    condition.as_mut_bytes().iter_mut().enumerate().for_each(|(i, c)| *c = u8::from(i % 3 == 1));
    for dtype in [DType::F32, DType::I64, DType::Bool, DType::F16] {
        let [x, y] = ["x", "y"].map(|name| input(name, raw(dtype, &[700, 3])));
        check(&op, &Values::from([x, y, input("c", condition.clone())]));
    }
    let [x, y] = ["x", "y"].map(|name| input(name, reals(&[700, 3])));
    check_gradient(&op, &mut Values::from([x, y, input("c", condition)]), &["x", "y"]);
}

#[test]
fn ids_become_rows_with_a_one() {
    let op = Op::new("one_hot_v2").input("X", ["x"]).output("Out", ["out"]).attr("depth", 33);
    for dtype in [DType::F32, DType::F64, DType::I64, DType::Bool, DType::BF16] {
        let op = op.clone().attr("dtype", dtype.code());
        check(&op, &Values::from([input("x", wholes(&[70, 5], 33))]));
    }
    let bad = Values::from([input("x", wholes(&[70, 5], 34))]);
    refused(&op, &bad, "33 at position");
    check(&op.attr("allow_out_of_range", true), &bad);
}

#[test]
fn triangles_diagonals_and_masks() {
    for (diagonal, lower) in
        [(0, true), (3, true), (-2, false), (40, true), (-40, true), (50, false)]
    {
        let op = Op::new("tril_triu").input("X", ["x"]).output("Out", ["out"]);
        let op = op.attr("diagonal", diagonal).attr("lower", lower);
        check_gradient(&op, &mut Values::from([input("x", reals(&[3, 20, 33]))]), &["x"]);
    }
    for offset in [0, 2, -3, 50] {
        let op = Op::new("diag_v2").input("X", ["x"]).output("Out", ["out"]);
        let op = op.attr("offset", offset).attr("padding_value", 7.0f32);
        for dims in [vec![40usize], vec![30, 21], vec![]] {
            check_gradient(&op, &mut Values::from([input("x", reals(&dims))]), &["x"]);
        }
    }
    let op = Op::new("sequence_mask").input("X", ["x"]).output("Y", ["out"]).attr("maxlen", 50);
    for dtype in [DType::F32, DType::I64, DType::Bool] {
        let op = op.clone().attr("out_dtype", dtype.code());
        check(&op, &Values::from([input("x", wholes(&[7, 30], 60))]));
    }
}

#[test]
fn rows_go_along_the_edges_of_a_graph() {
    for reduce in ["SUM", "MEAN", "MAX", "MIN"] {
        for (rows, width, edges) in [(30usize, 5usize, 3000usize), (4, 1, 2)] {
            let op = Op::new("graph_send_recv").input("X", ["x"]).input("Src_index", ["s"]);
            let op = op.input("Dst_index", ["d"]).output("Out", ["out"]);
            let op = op.output("Dst_count", ["count"]).attr("reduce_op", reduce);
            let mut values = Values::from([
                input("x", reals(&[rows, width])),
                input("s", wholes(&[edges], rows as i64)),
                input("d", wholes(&[edges], rows as i64 - 2)),
            ]);
            check_gradient(&op, &mut values, &["x"]);
            values.extend([input("s", wholes(&[edges], 100_000))]);
            refused(&op, &values, "lies outside");
        }
    }
}
