//! Lookups on the card, one table or many side by side, and their gradients.

use bireme_engine::Value;
use bireme_engine::ops::PassIndex;
use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::beside_host::{Values, check_within, on_card, refused, values};
use crate::card::device;
use crate::draws::Draws;

fn look_up(kind: &str) -> Op {
    Op::new(kind).input("W", ["w"]).input("Ids", ["ids"])
}

fn longs(dims: &[usize], ids: &[i64]) -> Value {
    Tensor::from_slice(bireme_engine::tensor::Dims::new(dims), ids).unwrap().into()
}

#[test]
fn rows_are_looked_up_in_any_width_and_type() {
    let mut draws = Draws(1);
    for (dtype, width, count) in [
        (DType::F32, 1, 3),
        (DType::F32, 3, 700),
        (DType::F32, 16, 300),
        (DType::F64, 5, 40),
        (DType::F64, 2, 1),
        (DType::F32, 4, 0),
    ] {
        let ids = draws.ids(count, 50, 0.1);
        let mut given = values([
            ("w", draws.tensor(dtype, &[50, width], -1.0, 1.0).into()),
            ("ids", longs(&[count], &ids)),
        ]);
        let op = look_up("lookup_table_v2").output("Out", ["out"]);
        check_within(&op, &given, 0.0);
        check_within(&op.clone().attr("padding_idx", 25i64), &given, 0.0);
        let narrow: Vec<i32> = ids.iter().map(|id| *id as i32).collect();
        given.insert("ids".to_owned(), Tensor::from_slice([count], &narrow).unwrap().into());
        check_within(&op, &given, 0.0);
    }
}

#[test]
fn rows_of_16_bit_floats_are_looked_up() {
    if device().is_none() {
        return;
    }
    for (dtype, width) in [(DType::BF16, 3), (DType::F16, 8)] {
        let mut table = Tensor::zeros(dtype, [4, width]);
        for (at, byte) in table.as_mut_bytes().iter_mut().enumerate() {
            *byte = at as u8;
        }
        let expected = table.as_bytes()[3 * width * 2..].to_vec();
        let given = values([("w", table.into()), ("ids", longs(&[2], &[3, 0]))]);
        let op = look_up("lookup_table_v2").output("Out", ["out"]);
        let made = on_card(&op, &given, 1).unwrap().unwrap();
        assert_eq!(made["out"].tensor().unwrap().as_bytes()[..width * 2], expected);
    }
}

#[test]
fn an_id_outside_of_the_table_is_complained_of() {
    if device().is_none() {
        return;
    }
    let mut draws = Draws(2);
    for id in [4, -7] {
        let given = values([
            ("w", draws.tensor(DType::F32, &[4, 2], -1.0, 1.0).into()),
            ("ids", longs(&[2], &[0, id])),
            ("out@GRAD", draws.tensor(DType::F32, &[2, 2], -1.0, 1.0).into()),
        ]);
        let gradient = |sparse: bool| {
            let op = look_up("lookup_table_v2_grad").input("Out@GRAD", ["out@GRAD"]);
            op.output("W@GRAD", ["w@GRAD"]).attr("is_sparse", sparse)
        };
        let ops =
            [look_up("lookup_table_v2").output("Out", ["out"]), gradient(true), gradient(false)];
        for op in ops {
            let error = on_card(&op, &given, 1).unwrap().unwrap_err().to_string();
            assert!(error.contains(&format!("{id} at position 1 lies outside 0..4")), "{error}");
        }
    }
}

#[test]
fn gradients_of_tables() {
    let mut draws = Draws(3);
    for (dtype, width, count, rows) in [
        (DType::F32, 1, 5000, 40),
        (DType::F32, 16, 4000, 3000),
        (DType::F32, 10, 900, 70_000),
        (DType::F64, 3, 300, 20),
        (DType::F32, 8, 0, 9),
    ] {
        let given = values([
            ("w", draws.tensor(dtype, &[rows, width], -1.0, 1.0).into()),
            ("ids", longs(&[count, 1], &draws.ids(count, rows, 0.3))),
            ("out@GRAD", draws.tensor(dtype, &[count, width], -1.0, 1.0).into()),
        ]);
        for sparse in [false, true] {
            for padding in [-1, rows as i64 / 2] {
                let op = look_up("lookup_table_grad")
                    .input("Out@GRAD", ["out@GRAD"])
                    .output("W@GRAD", ["w@GRAD"])
                    .attr("is_sparse", sparse)
                    .attr("padding_idx", padding);
                check_within(&op, &given, if sparse { 0.0 } else { 1e-4 });
            }
        }
    }
}

/// Slots with ids for `samples` samples, looked up in tables of the given widths, and dense features.
struct Join {
    samples: usize,
    /// Of each slot: its table, and its ids for a sample.
    slots: Vec<(usize, usize)>,
    tables: Vec<usize>,
    dense: Vec<usize>,
    order: Vec<i32>,
}

impl Join {
    fn values(&self, draws: &mut Draws) -> Values {
        let mut values = Values::new();
        for (at, width) in self.tables.iter().enumerate() {
            let table = draws.tensor(DType::F32, &[100 + at, *width], -1.0, 1.0);
            values.insert(format!("w{at}"), table.into());
        }
        for (at, (_, per_sample)) in self.slots.iter().enumerate() {
            let ids = draws.ids(self.samples * per_sample, 100, 0.2);
            values.insert(format!("ids{at}"), longs(&[self.samples, *per_sample], &ids));
        }
        for (at, width) in self.dense.iter().enumerate() {
            let dense = draws.tensor(DType::F32, &[self.samples, *width], -1.0, 1.0);
            values.insert(format!("dense{at}"), dense.into());
        }
        let lookups = self.slots.iter().map(|(table, per_sample)| self.tables[*table] * per_sample);
        let width = lookups.sum::<usize>() + self.dense.iter().sum::<usize>();
        let grad = draws.tensor(DType::F32, &[self.samples, width], -1.0, 1.0);
        values.insert("out@GRAD".to_owned(), grad.into());
        values
    }

    fn ops(&self) -> [Op; 2] {
        let names = |what: &str, count: usize| -> Vec<String> {
            (0..count).map(|at| format!("{what}{at}")).collect()
        };
        let grads = |what: &str, count: usize| -> Vec<String> {
            (0..count).map(|at| format!("{what}{at}@GRAD")).collect()
        };
        let padding = |at: usize| if at.is_multiple_of(2) { 50i64 } else { -1 };
        let op = |kind: &str| {
            Op::new(kind)
                .input("W", names("w", self.tables.len()))
                .input("Ids", names("ids", self.slots.len()))
                .input("Dense", names("dense", self.dense.len()))
                .attr("order", self.order.clone())
                .attr("table", self.slots.iter().map(|slot| slot.0 as i32).collect::<Vec<_>>())
                .attr("padding_idx", (0..self.slots.len()).map(padding).collect::<Vec<_>>())
        };
        let backward = op("fused_embedding_concat_grad")
            .input("Out@GRAD", ["out@GRAD"])
            .output("W@GRAD", grads("w", self.tables.len()))
            .output("Dense@GRAD", grads("dense", self.dense.len()));
        [op("fused_embedding_concat").output("Out", ["out"]), backward]
    }
}

#[test]
fn slots_and_features_are_joined_side_by_side() {
    let mut draws = Draws(4);
    let many = (0..70).map(|at| (at % 3, 1 + usize::from(at % 10 == 0))).collect();
    let joins = [
        // As recommenders have it: slots of one table, and features that spoil the alignment.
        Join {
            samples: 77,
            slots: vec![(0, 1); 26],
            tables: vec![16],
            dense: vec![13],
            order: (0..26).chain([-1]).collect(),
        },
        Join {
            samples: 33,
            slots: vec![(0, 1), (1, 3), (0, 2), (1, 1)],
            tables: vec![4, 8],
            dense: vec![12, 4],
            order: vec![-2, 0, 1, -1, 2, 3],
        },
        Join {
            samples: 3,
            slots: many,
            tables: vec![1, 5, 8],
            dense: vec![],
            order: (0..70).collect(),
        },
    ];
    for join in joins {
        let mut given = join.values(&mut draws);
        // Ids of 64 bits, of both kinds, of 32 bits.
        for every in [usize::MAX, 2, 1] {
            for at in (0..join.slots.len()).filter(|at| (at + 1).is_multiple_of(every)) {
                let ids = given[&format!("ids{at}")].tensor().unwrap().clone();
                if let Ok(long) = ids.as_slice::<i64>() {
                    let short: Vec<i32> = long.iter().map(|id| *id as i32).collect();
                    let short = Tensor::from_slice(ids.dims(), &short).unwrap();
                    given.insert(format!("ids{at}"), short.into());
                }
            }
            for op in join.ops() {
                check_within(&op, &given, 0.0);
            }
        }
    }
}

#[test]
fn keys_of_a_pass_are_given_their_rows() {
    let key = |at: u64| at.wrapping_mul(0x1234_5678_9abc_def1) as i64;
    let mut index = PassIndex::default();
    for at in 0..500 {
        index.insert(key(at) as u64, at + 1);
    }
    let mut draws = Draws(9);
    let mut given = values([("index", index.tensor().clone().into())]);
    let mut names = Vec::new();
    // More lists than one launch takes, one of them empty.
    for slot in 0..70usize {
        let ids = draws.ids(slot * 5, 500, 0.2);
        let keys: Vec<i64> = ids.iter().map(|id| key(*id as u64)).collect();
        given.insert(format!("ids{slot}"), longs(&[slot * 5, 1], &keys));
        names.push(slot);
    }
    let op = |padding: i64| {
        Op::new("find_rows")
            .input("Ids", names.iter().map(|slot| format!("ids{slot}")))
            .input("Index", ["index"])
            .output("Out", names.iter().map(|slot| format!("rows{slot}")))
            .attr("padding_idx", padding)
    };
    check_within(&op(-1), &given, 0.0);
    check_within(&op(key(3)), &given, 0.0);
    given.insert("ids69".to_owned(), longs(&[2, 1], &[key(1), 77]));
    refused(&op(-1), &given, "key 77 at position 1 of slot 69 is not among the keys");
}

#[test]
fn rows_of_a_variable_become_others_in_place() {
    let mut draws = Draws(11);
    for (width, rows, count) in [(1, 9, 4), (16, 300, 120), (5, 40, 0)] {
        let mut places: Vec<i64> = (0..rows as i64).rev().collect();
        places.truncate(count);
        let given = values([
            ("w", draws.tensor(DType::F32, &[rows, width], -1.0, 1.0).into()),
            ("rows", longs(&[count], &places)),
            ("new", draws.tensor(DType::F32, &[count, width], -1.0, 1.0).into()),
        ]);
        let op = Op::new("put_rows").input("Param", ["w"]).input("Rows", ["rows"]);
        let op = op.input("Values", ["new"]);
        check_within(&op.clone().output("ParamOut", ["w"]), &given, 0.0);
        check_within(&op.output("ParamOut", ["other"]), &given, 0.0);
    }
}

/// Which rows are asked of which rank, as on the host: with lists of many lengths, padding among them.
#[test]
fn rows_are_spread_over_the_ranks_that_have_them() {
    let mut draws = Draws(11);
    for (ranks, each, lists, count) in
        [(1, 40, 1, 7), (2, 300, 3, 500), (4, 5000, 26, 256), (3, 900, 70, 90), (2, 10, 2, 0)]
    {
        let room = 1 + ranks * each;
        let mut op = Op::new("spread_rows").input("W", ["w"]).input("Room", ["room"]);
        let mut given = values([
            ("w", draws.tensor(DType::F32, &[each, 2], -1.0, 1.0).into()),
            ("room", Tensor::zeros(DType::I32, [room]).into()),
        ]);
        let names = |of: &str| (0..lists).map(|at| format!("{of}{at}")).collect::<Vec<_>>();
        for (at, name) in names("rows").into_iter().enumerate() {
            let ids = draws.ids(count + at, ranks * each, 0.3);
            // Row 0 of every other rank is nobody's, and never named.
            let rows: Vec<i64> =
                ids.iter().map(|id| id + i64::from(*id > 0 && *id % each as i64 == 0)).collect();
            given.insert(name, longs(&[rows.len(), 1], &rows));
        }
        op = op.input("Rows", names("rows")).output("Places", names("places"));
        op = op.output("Wanted", ["wanted"]).attr("ranks", ranks as i32);
        check_within(&op, &given, 0.0);
    }
}

#[test]
fn more_rows_of_a_rank_than_there_is_room_for_are_complained_of() {
    if device().is_none() {
        return;
    }
    let given = values([
        ("w", Tensor::zeros(DType::F32, [10, 2]).into()),
        ("room", Tensor::zeros(DType::I32, [3]).into()),
        ("rows", longs(&[4], &[11, 12, 13, 1])),
    ]);
    let op = Op::new("spread_rows").input("Rows", ["rows"]).input("W", ["w"]);
    let op = op.input("Room", ["room"]).output("Places", ["places"]).output("Wanted", ["wanted"]);
    let error = on_card(&op.attr("ranks", 2), &given, 1).unwrap().unwrap_err().to_string();
    assert!(error.contains("3 distinct keys whose rows lie with rank 1"), "{error}");
}
