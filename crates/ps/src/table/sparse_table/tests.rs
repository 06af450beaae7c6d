//! Tables against a model of hash maps, against local training, and with many threads.

use std::collections::{BTreeMap, HashMap};

use bireme_engine::Value;
use bireme_engine::op::run_once;
use bireme_engine::tensor::{SelectedRows, Tensor};
use bireme_ir::Op;
use proptest::prelude::*;

use super::*;
use crate::table::{AccessorConfig, CtrClass, CtrConfig, OptimizerRule, RowInit, SparseRule};
use crate::table::{Rows, SaveMode};
use crate::table::{SparseRuleKind, TableConfig};

const STEP: PushStep = PushStep { rate: 0.5, count: 1 };

fn uniform(width: usize, rule: OptimizerRule) -> TableConfig {
    TableConfig {
        initializer: RowInit::Uniform { min: -1.0, max: 1.0 },
        seed: 11,
        accessor: AccessorConfig::Plain(rule),
        ..TableConfig::new("emb", width)
    }
}

fn pull(table: &SparseTable, keys: &[u64]) -> Vec<f32> {
    let mut out = vec![f32::NAN; keys.len() * table.width()];
    table.pull(keys, &mut out).unwrap();
    out
}

/// What a program does to a table.
#[derive(Clone, Debug)]
enum Action {
    /// Pulls many keys from here on, so that shards grow.
    PullRange(u64),
    Pull(Vec<u64>),
    Push(Vec<u64>),
    Add(Vec<u64>),
    Set(Vec<u64>),
    Restore,
    Clear,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    // Few enough keys to meet again, some of them far apart.
    let key = prop_oneof![0u64..600, (0u64..50).prop_map(|key| u64::MAX - key)];
    let keys = || prop::collection::vec(key.clone(), 0..300);
    let distinct = || prop::collection::btree_set(key.clone(), 0..200);
    let distinct = move || distinct().prop_map(|keys| keys.into_iter().collect::<Vec<u64>>());
    let action = prop_oneof![
        2 => (0u64..8000).prop_map(Action::PullRange),
        4 => keys().prop_map(Action::Pull),
        4 => distinct().prop_map(Action::Push),
        2 => keys().prop_map(Action::Add),
        2 => distinct().prop_map(Action::Set),
        1 => Just(Action::Restore),
        1 => Just(Action::Clear),
    ];
    prop::collection::vec(action, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A table is a map from keys to rows, whatever happens in whatever order.
    #[test]
    fn a_table_is_a_map(actions in actions()) {
        let table = SparseTable::new(uniform(3, OptimizerRule::Sgd)).unwrap();
        let mut model: HashMap<u64, [f32; 3]> = HashMap::new();
        let draw = Philox::new(11, "emb");
        let initial = |key: u64| {
            [0, 1, 2].map(|i| -1.0 + 2.0 * draw.uniform(key.wrapping_mul(3).wrapping_add(i)))
        };
        for action in actions {
            let action = match action {
                Action::PullRange(first) => Action::Pull((first..first + 4000).collect()),
                other => other,
            };
            match action {
                Action::PullRange(_) => unreachable!("became a pull"),
                Action::Pull(keys) => {
                    let out = pull(&table, &keys);
                    for (key, row) in keys.iter().zip(out.chunks(3)) {
                        prop_assert_eq!(row, model.entry(*key).or_insert_with(|| initial(*key)));
                    }
                }
                Action::Push(keys) => {
                    let grads: Vec<f32> = (0..3 * keys.len()).map(|i| i as f32).collect();
                    table.push(&keys, &grads, None, &STEP).unwrap();
                    for (key, grad) in keys.iter().zip(grads.chunks(3)) {
                        let row = model.entry(*key).or_insert_with(|| initial(*key));
                        row.iter_mut().zip(grad).for_each(|(row, grad)| *row -= 0.5 * grad);
                    }
                }
                Action::Add(keys) => {
                    table.add(&keys, &vec![0.25; 3 * keys.len()]).unwrap();
                    for key in keys {
                        let row = model.entry(key).or_insert_with(|| initial(key));
                        row.iter_mut().for_each(|row| *row += 0.25);
                    }
                }
                Action::Set(keys) => {
                    let values: Vec<f32> = (0..3 * keys.len()).map(|i| -(i as f32)).collect();
                    table.set(&keys, &values).unwrap();
                    for (key, value) in keys.iter().zip(values.chunks(3)) {
                        model.insert(*key, [value[0], value[1], value[2]]);
                    }
                }
                Action::Restore => {
                    let (keys, records) = all_rows(&table);
                    table.clear();
                    prop_assert!(table.is_empty());
                    table.restore(&keys, &records).unwrap();
                }
                Action::Clear => {
                    table.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(table.len(), model.len());
        }
        let (keys, records) = all_rows(&table);
        let rows: HashMap<u64, [f32; 3]> = keys
            .into_iter()
            .zip(records.chunks(3).map(|row| [row[0], row[1], row[2]]))
            .collect();
        prop_assert_eq!(rows, model);
    }

    /// A shrink keeps exactly the rows above the threshold, and those can still be found.
    #[test]
    fn a_shrink_keeps_what_was_shown(shows in prop::collection::vec(0u32..20, 1..2000)) {
        let table = SparseTable::new(ctr()).unwrap();
        let keys: Vec<u64> = (0..shows.len() as u64).map(|key| key * 7).collect();
        let counts: Vec<[f32; 2]> = shows.iter().map(|shows| [*shows as f32, 0.0]).collect();
        let grads: Vec<f32> = (0..2 * keys.len()).map(|i| i as f32).collect();
        table.push(&keys, &grads, Some(&counts), &STEP).unwrap();
        saved(&table, SaveMode::Base);
        table.commit_save();
        let before = pull(&table, &keys);
        // Half of the shows is left, each is worth 1, and 3 must be left.
        let stays: Vec<bool> = shows.iter().map(|shows| *shows as f32 * 0.5 >= 3.0).collect();
        let kept = stays.iter().filter(|stays| **stays).count();
        let shrunk = table.shrink();
        prop_assert_eq!(shrunk, Shrunk { removed: keys.len() - kept, kept });
        for ((row, before), stays) in
            pull(&table, &keys).chunks(2).zip(before.chunks(2)).zip(&stays)
        {
            prop_assert_eq!(row, if *stays { before } else { &[0.0, 0.0] });
        }
        table.push(&keys, &grads, None, &STEP).unwrap();
        prop_assert_eq!(table.len(), keys.len());
    }
}

fn ctr() -> TableConfig {
    let rule = SparseRule {
        kind: SparseRuleKind::Naive,
        learning_rate: 0.1,
        initial_range: 0.1,
        bounds: [-10.0, 10.0],
    };
    let config = CtrConfig {
        nonclk_coeff: 1.0,
        show_click_decay_rate: 0.5,
        delete_threshold: 3.0,
        ..CtrConfig::unconfigured(CtrClass::SparseAccessor, rule)
    };
    let accessor = AccessorConfig::Ctr(config);
    TableConfig { accessor, create_on_pull: false, ..TableConfig::new("emb", 2) }
}

fn all_rows(table: &SparseTable) -> (Vec<u64>, Vec<f32>) {
    let (mut keys, mut records) = (Vec::new(), Vec::new());
    table.for_each_shard(|shard| {
        for row in shard.rows() {
            keys.push(row.key);
            records.extend_from_slice(row.record);
        }
    });
    (keys, records)
}

/// Every optimizer trains rows as the engine's op trains a parameter by selected rows.
#[test]
fn rows_train_as_the_optimizer_op_trains() {
    let states: [(&str, &[(&str, &str)]); 10] = [
        ("sgd", &[]),
        ("momentum", &[("Velocity", "VelocityOut")]),
        ("adam", &[("Moment1", "Moment1Out"), ("Moment2", "Moment2Out")]),
        ("adamw", &[("Moment1", "Moment1Out"), ("Moment2", "Moment2Out")]),
        ("adamax", &[("Moment", "MomentOut"), ("InfNorm", "InfNormOut")]),
        ("adagrad", &[("Moment", "MomentOut")]),
        ("decayed_adagrad", &[("Moment", "MomentOut")]),
        (
            "adadelta",
            &[("AvgSquaredGrad", "AvgSquaredGradOut"), ("AvgSquaredUpdate", "AvgSquaredUpdateOut")],
        ),
        ("rmsprop", &[("MeanSquare", "MeanSquareOut"), ("Moment", "MomentOut")]),
        (
            "ftrl",
            &[("SquaredAccumulator", "SquaredAccumOut"), ("LinearAccumulator", "LinearAccumOut")],
        ),
    ];
    for (kind, states) in states {
        let mut op = Op::new(kind).input("Param", ["p"]).output("ParamOut", ["p"]);
        op = op.input("Grad", ["g"]).input("LearningRate", ["lr"]);
        for (input, output) in states {
            op = op.input(input, [*input]).output(output, [*input]);
        }
        op = match kind {
            "adam" | "adamw" => op
                .input("Beta1Pow", ["b1"])
                .input("Beta2Pow", ["b2"])
                .output("Beta1PowOut", ["b1"])
                .output("Beta2PowOut", ["b2"]),
            "adamax" => op.input("Beta1Pow", ["b1"]),
            _ => op,
        };
        op = match kind {
            "adam" => op.attr("lazy_mode", true),
            "adamw" => op.attr("lazy_mode", true).attr("with_decay", true),
            "momentum" => op.attr("mu", 0.9f32).attr("use_nesterov", true),
            "ftrl" => op.attr("l1", 0.01f32),
            _ => op,
        };
        train_beside(&op, states);
    }
}

/// Every step pushes all rows, so that ops without a lazy mode do the same as the table.
fn train_beside(op: &Op, states: &[(&str, &str)]) {
    const ROWS: usize = 7;
    const WIDTH: usize = 5;
    let rule = OptimizerRule::from_op(op, |_| None).unwrap();
    let table = SparseTable::new(uniform(WIDTH, rule)).unwrap();
    let keys: Vec<u64> = (0..ROWS as u64).collect();
    let mut values: HashMap<String, Value> = HashMap::new();
    let tensor =
        |dims: [usize; 2], data: &[f32]| Value::from(Tensor::from_slice(dims, data).unwrap());
    values.insert("p".into(), tensor([ROWS, WIDTH], &pull(&table, &keys)));
    for (state, _) in states {
        values.insert((*state).into(), tensor([ROWS, WIDTH], &[0.0; ROWS * WIDTH]));
    }
    for (name, value) in [("lr", 0.1), ("b1", 0.9), ("b2", 0.999)] {
        values.insert(name.into(), tensor([1, 1], &[value]));
    }
    for count in 1..=20u64 {
        let order: Vec<u64> = (0..ROWS as u64).map(|i| (i * 3 + count) % ROWS as u64).collect();
        let grads: Vec<f32> = (0..ROWS * WIDTH)
            .map(|i| ((i as u64 * 37 + count * 11) % 17) as f32 / 8.0 - 1.0)
            .collect();
        table.push(&order, &grads, None, &PushStep { rate: 0.1, count }).unwrap();
        let rows = SelectedRows {
            rows: order.iter().map(|row| *row as i64).collect(),
            height: ROWS,
            value: Tensor::from_slice([ROWS, WIDTH], &grads).unwrap(),
        };
        values.insert("g".into(), Value::Rows(rows));
        run_once(op, &mut values).unwrap();
        if op.kind == "adamax" {
            let power = values["b1"].tensor().unwrap().as_slice::<f32>().unwrap()[0];
            values.insert("b1".into(), tensor([1, 1], &[power * 0.9]));
        }
    }
    let expected = values["p"].tensor().unwrap().as_slice::<f32>().unwrap().to_vec();
    assert_eq!(pull(&table, &keys), expected, "{}", op.kind);
}

#[test]
fn entries_admit_some_keys() {
    let keys: Vec<u64> = (0..1000).collect();
    let ones = vec![1.0; 2000];
    let base = |entry| TableConfig { entry, ..uniform(2, OptimizerRule::Sgd) };
    let table = SparseTable::new(base(Entry::CountFilter(3))).unwrap();
    assert!(pull(&table, &keys).iter().all(|x| *x == 0.0) && table.is_empty());
    table.push(&keys, &ones, None, &STEP).unwrap();
    assert!(pull(&table, &keys).iter().all(|x| *x == 0.0), "seen once");
    table.push(&keys, &ones, Some(&[[2.0, 0.0]; 1000]), &STEP).unwrap();
    let first = Philox::new(11, "emb").uniform(0) * 2.0 - 1.0;
    assert_eq!(pull(&table, &keys)[0], first - 0.5, "the push that admits is applied");
    assert_eq!(table.top_by_show(2), [(0, 3.0), (1, 3.0)]);

    let table = SparseTable::new(base(Entry::Probability(0.25))).unwrap();
    table.push(&keys, &ones, None, &STEP).unwrap();
    let rows = pull(&table, &keys);
    assert!((150..350).contains(&table.len()), "{}", table.len());
    let zeros = rows.chunks(2).filter(|row| **row == [0.0, 0.0]).count();
    assert_eq!(zeros, 1000 - table.len());

    let show_click = Entry::ShowClick { show: "s".into(), click: "c".into() };
    let table = SparseTable::new(base(show_click)).unwrap();
    assert!(pull(&table, &[7]) == [0.0, 0.0] && table.is_empty());
    table.push(&[7, 8], &[0.0; 4], Some(&[[2.0, 1.0], [5.0, 0.0]]), &STEP).unwrap();
    assert_eq!(table.top_by_show(1), [(8, 5.0)]);
    assert_eq!(table.stat().counts, Some([7.0, 1.0]));
    assert!(pull(&table, &[7])[0] != 0.0);
}

#[test]
fn pulls_need_not_make_rows() {
    let config = TableConfig { create_on_pull: false, ..uniform(4, OptimizerRule::Sgd) };
    let table = SparseTable::new(config).unwrap();
    let there = SparseTable::new(uniform(4, OptimizerRule::Sgd)).unwrap();
    let keys = [3, u64::MAX, 3, 1 << 63];
    assert_eq!(pull(&table, &keys), pull(&there, &keys));
    assert_eq!((table.len(), there.len()), (0, 3));
}

/// Saves in a mode, and returns the keys of the rows that it took.
fn saved(table: &SparseTable, mode: SaveMode) -> Vec<u64> {
    let mut all = Vec::new();
    for shard in 0..table.parts() {
        let mut look = |keys: &[u64], _: &[f32]| {
            all.extend_from_slice(keys);
            Ok(())
        };
        table.read_part(shard, mode, &mut look).unwrap();
    }
    all.sort_unstable();
    all
}

#[test]
fn deltas_have_what_changed() {
    let table = SparseTable::new(uniform(2, OptimizerRule::Sgd)).unwrap();
    let keys: Vec<u64> = (0..500).collect();
    pull(&table, &keys);
    let delta = |commit: bool| {
        let keys = saved(&table, SaveMode::Delta);
        match commit {
            true => table.commit_save(),
            false => table.abandon_save(),
        }
        keys
    };
    assert_eq!(delta(false), keys, "new rows");
    assert_eq!(delta(true), keys);
    pull(&table, &keys);
    assert_eq!(delta(false), [0u64; 0]);
    table.push(&[3, 77], &[1.0; 4], None, &STEP).unwrap();
    table.add(&[5], &[1.0; 2]).unwrap();
    assert_eq!(delta(false), [3, 5, 77]);
    assert_eq!(saved(&table, SaveMode::Full), keys);
    table.commit_save();
    assert_eq!(saved(&table, SaveMode::Base), keys);
    table.push(&[9], &[1.0; 2], None, &STEP).unwrap();
    table.abandon_save();
    assert_eq!(delta(true), [3, 5, 9, 77], "a full save starts no new delta");
    saved(&table, SaveMode::Base);
    table.commit_save();
    let taken = table.save_filter(SaveMode::Delta);
    table.for_each_shard(|shard| assert!(!shard.rows().any(|row| taken(&row))));
}

#[test]
fn threads_lose_nothing() {
    const THREADS: u64 = 4;
    let table = SparseTable::new(uniform(1, OptimizerRule::Sgd)).unwrap();
    let keys: Vec<u64> = (0..12_000).map(|key| key * 31).collect();
    let initial = {
        let fresh = SparseTable::new(uniform(1, OptimizerRule::Sgd)).unwrap();
        pull(&fresh, &keys)
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (table, keys) = (&table, &keys);
            scope.spawn(move || {
                for round in 0..20 {
                    let some: Vec<u64> = keys
                        .iter()
                        .copied()
                        .filter(|key| !(key + round + thread).is_multiple_of(3))
                        .collect();
                    pull(table, &some);
                    table.add(&some, &vec![0.0; some.len()]).unwrap();
                    let step = PushStep { rate: 1.0, count: 1 };
                    table.push(keys, &vec![-1.0; keys.len()], None, &step).unwrap();
                    table.for_each_shard(|shard| assert!(shard.len() <= 12_000));
                }
            });
        }
    });
    assert_eq!(table.len(), keys.len());
    for (row, initial) in pull(&table, &keys).iter().zip(initial) {
        assert!((row - initial - 80.0).abs() < 1e-3, "{row} {initial}");
    }
}

#[test]
fn memory_stays_within_a_hundred_bytes_a_row() {
    let adagrad = OptimizerRule::Adagrad { epsilon: 1e-6, initial: 0.0 };
    let table = SparseTable::new(uniform(9, adagrad)).unwrap();
    let keys: Vec<u64> = (0..300_000).collect();
    for keys in keys.chunks(10_000) {
        pull(&table, keys);
    }
    let bytes = table.bytes() as f64 / keys.len() as f64;
    assert!((80.0..100.0).contains(&bytes), "{bytes}");
    assert_eq!(table.stat(), Stat { rows: 300_000, bytes: table.bytes(), counts: None });
    table.clear();
    assert!(table.is_empty() && table.bytes() < 1 << 20);
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let table = SparseTable::new(uniform(3, OptimizerRule::None)).unwrap();
    let error = |result: Result<()>| result.unwrap_err().to_string();
    assert!(error(table.pull(&[1, 2], &mut [0.0; 5])).contains("2 keys need 3 values each, but 5"));
    assert!(error(table.push(&[1], &[0.0; 2], None, &STEP)).contains("gradients"));
    assert!(error(table.push(&[1], &[0.0; 3], Some(&[]), &STEP)).contains("pairs of counts"));
    assert!(error(table.push(&[1], &[0.0; 3], None, &STEP)).contains("no optimizer"));
    assert!(error(table.set(&[1], &[0.0; 2])).contains("values"));
    assert!(error(table.add(&[1], &[0.0; 2])).contains("deltas"));
    assert!(error(table.restore(&[1], &[0.0; 2])).contains("numbers"));
    let refuse = |config| SparseTable::new(config).err().expect("refused").to_string();
    assert!(refuse(TableConfig::new("emb", 0)).contains("width 0"));
    assert!(refuse(TableConfig { shards: 0, ..TableConfig::new("emb", 1) }).contains("shard_num"));
    let narrow = TableConfig { width: 0, ..ctr() };
    assert!(refuse(narrow).contains("width 0"));
    let half = TableConfig { entry: Entry::Probability(2.0), ..TableConfig::new("emb", 1) };
    assert!(refuse(half).contains("probability 2"));
}

#[test]
fn columns_name_the_whole_record() {
    for config in [uniform(3, OptimizerRule::Adadelta { rho: 0.9, epsilon: 1e-6 }), ctr()] {
        let table = SparseTable::new(config).unwrap();
        let columns = table.columns();
        let width: usize = columns.iter().map(|column| column.width).sum();
        assert_eq!(width, table.record_width());
        let names: BTreeMap<&str, usize> =
            columns.iter().map(|column| (column.name.as_str(), column.width)).collect();
        assert_eq!(names.len(), columns.len());
    }
}

#[test]
fn lent_records_come_back_as_they_were_left() {
    let keys: Vec<u64> = (0..50).collect();
    let entry = |entry| TableConfig { entry, ..uniform(2, OptimizerRule::Sgd) };
    let show_click = Entry::ShowClick { show: "s".into(), click: "c".into() };
    let kinds = [entry(Entry::Every), entry(Entry::CountFilter(3)), entry(show_click), ctr()];
    for config in kinds {
        let (table, other) =
            (SparseTable::new(config.clone()).unwrap(), SparseTable::new(config).unwrap());
        table.push(&keys[..20], &[1.0; 40], None, &STEP).unwrap();
        let mut lent = vec![9.0; keys.len() * table.lent_width()];
        table.lend(&keys, &mut lent).unwrap();
        assert_eq!(table.len(), 20, "lending makes no rows");
        other.take_back(&keys, &lent).unwrap();
        let marked = table.lent_width() > table.record_width();
        assert_eq!(other.len(), if marked { 20 } else { 50 }, "what was not made is not there");
        let records = |table: &SparseTable| {
            let mut rows: Vec<(u64, Vec<f32>)> = Vec::new();
            table.for_each_shard(|shard| {
                rows.extend(shard.rows().map(|row| (row.key, row.record.to_vec())));
            });
            rows.retain(|(key, _)| *key < 20);
            rows.sort_by_key(|(key, _)| *key);
            rows
        };
        assert_eq!(records(&table), records(&other));
    }
    let table = SparseTable::new(entry(Entry::Probability(0.25))).unwrap();
    let mut lent = vec![9.0; keys.len() * table.lent_width()];
    table.lend(&keys, &mut lent).unwrap();
    table.push(&keys, &vec![1.0; 100], None, &STEP).unwrap();
    let marks = lent.chunks(table.lent_width()).filter(|lent| lent[0] > 0.0).count();
    assert_eq!(marks, table.len(), "the mark says who is admitted");
}
