//! Records of keyed tables on the card: entries that admit and count, and pushes to Paddle's accessors.

use bireme_engine::Value;
use bireme_engine::accessor::Ctr;
use bireme_engine::op::OpView;
use bireme_engine::ops::accessor_of;
use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::beside_host::{Values, check_within, values};
use crate::draws::{Draws, wholes};

const HEIGHT: usize = 120;

fn longs(count: usize) -> Value {
    wholes(&[count, 1], HEIGHT as i64).into()
}

#[test]
fn entries_admit_and_count() {
    let mut draws = Draws(4);
    for (entry, columns) in
        [("count_filter_entry:3", 2), ("probability_entry:0.5", 1), ("show_click_entry:s:c", 3)]
    {
        let mut entries = Tensor::zeros(DType::F32, [HEIGHT, columns]);
        for entry in entries.as_mut_slice::<f32>().unwrap().chunks_exact_mut(columns) {
            entry.fill((draws.unit() * 5.0).floor() as f32);
            entry[0] = (draws.unit() * 3.0).floor() as f32 - 1.0;
        }
        let ids = draws.ids(3000, HEIGHT, 0.5);
        let given = values([
            ("a", longs(300)),
            ("b", longs(7)),
            ("entries", entries.into()),
            ("counts", draws.rows(DType::F32, ids, HEIGHT, 2)),
        ]);
        let op = Op::new("admit_rows").input("Rows", ["a", "b"]).input("Entry", ["entries"]);
        let op = op.output("Out", ["x", "y"]).attr("entry", entry);
        check_within(&op, &given, 0.0);
        check_within(&op.output("Trained", ["u", "v"]), &given, 0.0);
        if columns > 1 {
            let op = Op::new("count_rows").input("Entry", ["entries"]).input("Counts", ["counts"]);
            check_within(&op.output("EntryOut", ["entries"]).attr("entry", entry), &given, 1e-5);
        }
    }
}

#[test]
fn rows_have_the_counts_of_their_samples() {
    let mut draws = Draws(5);
    let given = values([
        ("a", longs(300)),
        ("b", wholes(&[300, 4], HEIGHT as i64).into()),
        ("w", Tensor::zeros(DType::F32, [HEIGHT, 5]).into()),
        ("show", wholes(&[300, 1], 7).into()),
        ("click", draws.tensor(DType::F32, &[300, 1], 0.0, 1.0).into()),
        ("one", Tensor::from_slice([1], &[3f32]).unwrap().into()),
    ]);
    let op = Op::new("counts_of_rows").input("Rows", ["a", "b"]).input("W", ["w"]);
    let op = op.output("Out", ["out"]);
    check_within(&op, &given, 0.0);
    let counted = op.clone().input("Shows", ["show"]).input("Clicks", ["click"]);
    check_within(&counted, &given, 0.0);
    check_within(&op.input("Shows", ["one"]).input("Clicks", ["one"]), &given, 0.0);
}

/// A table of lent records, some made, some refused, some with a long part.
fn pushes(op: &Op, width: usize, draws: &mut Draws) -> Values {
    let ctr = accessor_of(&OpView::new(op).unwrap(), width).unwrap();
    let lent = ctr.lent_width();
    let mut records = draws.tensor(DType::F32, &[HEIGHT, lent], 0.1, 0.9);
    for record in records.as_mut_slice::<f32>().unwrap().chunks_exact_mut(lent) {
        record[0] = (draws.unit() * 3.0).floor() as f32 - 1.0;
        record[Ctr::PUSHED].fill(0.0);
        let record = &mut record[Ctr::LENT_HEAD..];
        record[ctr.has_embedx()] = f32::from(u8::from(draws.unit() > 0.5));
        record[ctr.show.start] = (draws.unit() * 6.0).floor() as f32;
    }
    let ids: [Vec<i64>; 2] = [(); 2].map(|()| draws.ids(3000, HEIGHT, 0.5));
    values([
        ("w", draws.tensor(DType::F32, &[HEIGHT, width], -1.0, 1.0).into()),
        ("r", records.into()),
        ("g", draws.rows(DType::F32, ids[0].clone(), HEIGHT, width)),
        ("c", draws.rows(DType::F32, ids[1].clone(), HEIGHT, 2)),
    ])
}

#[test]
fn pushes_change_records_as_on_the_host() {
    let mut draws = Draws(6);
    let classes = ["CtrCommonAccessor", "CtrDoubleAccessor", "CtrDymfAccessor", "SparseAccessor"];
    let rules = [
        "SparseNaiveSGDRule",
        "SparseAdaGradSGDRule",
        "StdAdaGradSGDRule",
        "SparseAdamSGDRule",
        "SparseSharedAdamSGDRule",
    ];
    for (class, width) in classes.into_iter().zip([11, 8, 3, 9]) {
        for (embed, embedx) in rules.into_iter().zip(rules.into_iter().rev()) {
            let accessor = format!(
                r#"{{"accessor_class": "{class}", "embedx_threshold": 0.4,
                    "embed_sgd_param": {{"name": "{embed}"}},
                    "embedx_sgd_param": {{"name": "{embedx}"}}}}"#
            );
            for entry in ["", "count_filter_entry:3"] {
                let op = Op::new("update_records")
                    .input("Param", ["w"])
                    .input("Record", ["r"])
                    .input("Grad", ["g"])
                    .output("ParamOut", ["w"])
                    .output("RecordOut", ["r"])
                    .attr("accessor", accessor.as_str())
                    .attr("entry", entry);
                let given = pushes(&op, width, &mut draws);
                check_within(&op, &given, 1e-4);
                check_within(&op.input("Counts", ["c"]), &given, 1e-4);
            }
        }
    }
}
