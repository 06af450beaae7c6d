//! Selected rows on the card: joined, added to dense tensors, merged, clipped.

use bireme_ir::{DType, Op};

use crate::beside_host::{check_within, on_card, values};
use crate::card::device;
use crate::draws::Draws;

fn op(kind: &str, inputs: &[&str]) -> Op {
    Op::new(kind).input("X", inputs.to_vec()).output("Out", ["out"])
}

#[test]
fn rows_are_joined_or_added_to_a_dense_tensor() {
    let mut draws = Draws(1);
    let (a, b) = (draws.ids(2000, 30, 0.5), draws.ids(70, 30, 0.0));
    let given = values([
        ("a", draws.rows(DType::F32, a, 30, 6)),
        ("b", draws.rows(DType::F32, b, 30, 6)),
        ("none", draws.rows(DType::F32, vec![], 30, 6)),
        ("dense", draws.tensor(DType::F32, &[30, 6], -1.0, 1.0).into()),
    ]);
    check_within(&op("sum", &["a", "none", "b"]), &given, 0.0);
    check_within(&op("sum", &["a", "dense", "b"]), &given, 1e-4);
}

#[test]
fn rows_are_merged_clipped_and_measured() {
    let mut draws = Draws(2);
    for (dtype, width, count, height) in [
        (DType::F32, 16, 3000, 200),
        (DType::F32, 1, 3000, 3000),
        (DType::F32, 7, 100, 9),
        (DType::F64, 4, 90, 100_000),
        (DType::F64, 1, 33, 3),
        (DType::F32, 4, 0, 3),
    ] {
        let rows = draws.ids(count, height, 0.4);
        let given = values([("x", draws.rows(dtype, rows, height, width))]);
        check_within(&op("merge_selected_rows", &["x"]), &given, 1e-4);
        check_within(&op("squared_l2_norm", &["x"]), &given, 1e-4);
        for longest in [0.5f32, 1e6] {
            check_within(&op("clip_by_norm", &["x"]).attr("max_norm", longest), &given, 1e-4);
        }
    }
}

#[test]
fn a_row_outside_of_its_tensor_is_complained_of() {
    if device().is_none() {
        return;
    }
    let given = values([("x", Draws(3).rows(DType::F32, vec![1, 9], 9, 2))]);
    let error = on_card(&op("merge_selected_rows", &["x"]), &given, 1).unwrap().unwrap_err();
    assert!(error.to_string().contains("9 at position 1 lies outside 0..9"), "{error}");
}
