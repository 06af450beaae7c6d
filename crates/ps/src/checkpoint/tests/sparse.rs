//! Checkpoints of the tables that servers have.

use bireme_engine::tensor::Tensor;

use super::*;
use crate::Result;
use crate::table::{
    AccessorConfig, CtrClass, CtrConfig, OptimizerRule, PushStep, RowStore, SparseRule,
    SparseRuleKind, SparseTable, TableConfig,
};

/// A server with a table and nothing else.
struct Tables(Vec<Arc<SparseTable>>);

impl Holdings for Tables {
    fn step(&self) -> u64 {
        3
    }

    fn set_step(&self, _: u64) {}

    fn pieces(&self) -> Vec<Piece> {
        Vec::new()
    }

    fn read_piece(&self, _: &str, _: &mut dyn FnMut(&[&Tensor]) -> Result<()>) -> Result<()> {
        unreachable!("there are no pieces")
    }

    fn write_piece(
        &self,
        _: &str,
        _: &mut dyn FnMut(&mut [&mut Tensor]) -> Result<()>,
    ) -> Result<()> {
        unreachable!("there are no pieces")
    }

    fn tables(&self) -> Vec<Arc<dyn Rows>> {
        self.0.iter().map(|table| table.clone() as Arc<dyn Rows>).collect()
    }
}

const ONLY: ServerIndex = ServerIndex { index: 0, count: 1 };

fn plain() -> TableConfig {
    let mut config = TableConfig::new("emb", 4);
    config.accessor = AccessorConfig::Plain(OptimizerRule::Adagrad { epsilon: 1e-6, initial: 0.1 });
    config.shards = 5;
    config
}

fn ctr() -> TableConfig {
    let mut config = TableConfig::new("ctr", 4);
    let kind = SparseRuleKind::AdaGrad { initial_g2sum: 3.0 };
    let rule = SparseRule { kind, learning_rate: 0.05, initial_range: 1e-4, bounds: [-10.0, 10.0] };
    config.accessor = AccessorConfig::Ctr(CtrConfig::unconfigured(CtrClass::SparseAccessor, rule));
    config.shards = 5;
    config
}

fn train(table: &SparseTable, keys: std::ops::Range<u64>, gradient: f32) {
    let keys: Vec<u64> = keys.collect();
    let mut pulled = vec![0.0; keys.len() * table.width()];
    table.pull(&keys, &mut pulled).unwrap();
    let gradients: Vec<f32> =
        (0..keys.len() * table.width()).map(|at| gradient + at as f32 / 50.0).collect();
    let counts = vec![[2.0, 1.0]; keys.len()];
    let step = PushStep { rate: 0.1, count: 1 };
    table.push(&keys, &gradients, Some(&counts), &step).unwrap();
}

/// Keys with their records, and what a pull gives.
fn contents(table: &SparseTable) -> BTreeMap<u64, (Vec<f32>, Vec<f32>)> {
    let mut rows = BTreeMap::new();
    table.for_each_shard(|shard| {
        shard.rows().for_each(|row| drop(rows.insert(row.key, row.record.to_vec())));
    });
    let pull = |key: u64| {
        let mut out = vec![0.0; table.width()];
        table.pull(&[key], &mut out).unwrap();
        out
    };
    rows.into_iter().map(|(key, record)| (key, (record, pull(key)))).collect()
}

#[test]
fn tables_come_back_with_their_state() {
    let dir = tempfile::tempdir().unwrap();
    let tables = [plain(), ctr()].map(|config| Arc::new(SparseTable::new(config).unwrap()));
    tables.iter().for_each(|table| train(table, 0..40, 0.5));
    let server = Tables(tables.to_vec());
    let saved = save(&server, dir.path(), ONLY, SaveMode::Full).unwrap();
    finish(dir.path(), vec![saved]).unwrap();
    let text = dir.path().join("text");
    let written = export_text(&server, &text, ONLY, SaveMode::Full).unwrap();
    finish_text(&text, vec![written]).unwrap();

    for from_text in [false, true] {
        let mut rows: [BTreeMap<_, _>; 2] = Default::default();
        for index in 0..3 {
            let tables = [plain(), ctr()].map(|config| Arc::new(SparseTable::new(config).unwrap()));
            let (server, me) = (Tables(tables.to_vec()), ServerIndex { index, count: 3 });
            match from_text {
                true => import_text(&text, &server, me).unwrap(),
                false => load(dir.path(), &server, me).unwrap(),
            };
            rows.iter_mut().zip(&tables).for_each(|(rows, table)| rows.extend(contents(table)));
        }
        assert_eq!(rows, [contents(&tables[0]), contents(&tables[1])], "text: {from_text}");
    }
}

#[test]
fn deltas_have_what_changed_since_the_base() {
    let dir = tempfile::tempdir().unwrap();
    let table = Arc::new(SparseTable::new(plain()).unwrap());
    let server = Tables(vec![table.clone()]);
    let save = |mode| {
        let saved = save(&server, dir.path(), ONLY, mode).unwrap();
        finish(dir.path(), vec![saved]).unwrap();
        commit(&server);
    };
    train(&table, 0..40, 0.5);
    save(SaveMode::Base);
    train(&table, 30..43, 0.1);
    save(SaveMode::Delta);
    let manifest = read_manifest(dir.path()).unwrap();
    let rows: Vec<u64> = manifest.saves.iter().map(|save| save.tables[0].rows).collect();
    assert_eq!(rows, [40, 13]);
    assert_eq!(manifest.saves[1].tables[0].picks, Picks::Changed);

    let again = Arc::new(SparseTable::new(plain()).unwrap());
    let other = Tables(vec![again.clone()]);
    load(dir.path(), &other, ONLY).unwrap();
    assert_eq!(contents(&again), contents(&table));
    // What was loaded did not change: a delta of it has nothing.
    let saved = super::save(&other, dir.path(), ONLY, SaveMode::Delta).unwrap();
    assert_eq!(saved.tables[0].rows, 0);
}

/// Keys with their records, but for the score that a save sets back once the row is written.
fn lasting(table: &SparseTable) -> BTreeMap<u64, Vec<f32>> {
    let columns = table.columns();
    let score = columns.iter().position(|column| column.name == "delta_score").unwrap();
    let at: usize = columns[..score].iter().map(|column| column.width).sum();
    let mut rows = BTreeMap::new();
    for (key, (mut record, _)) in contents(table) {
        record[at] = 0.0;
        rows.insert(key, record);
    }
    rows
}

/// Rows that shrink drops stay away, those that come again stay, and a save that fails loses none
/// of it.
#[test]
fn deltas_have_what_shrink_removed() {
    let dir = tempfile::tempdir().unwrap();
    let config = || {
        let mut config = ctr();
        if let AccessorConfig::Ctr(ctr) = &mut config.accessor {
            (ctr.nonclk_coeff, ctr.click_coeff) = (1.0, 1.0);
            (ctr.show_click_decay_rate, ctr.delete_threshold) = (0.5, 1.5);
            (ctr.base_threshold, ctr.delta_threshold, ctr.delta_keep_days) = (0.0, 0.0, 1e9);
        }
        config
    };
    let table = Arc::new(SparseTable::new(config()).unwrap());
    let server = Tables(vec![table.clone()]);
    let write = |mode| save(&server, dir.path(), ONLY, mode).unwrap();
    let complete = |saved| {
        finish(dir.path(), vec![saved]).unwrap();
        commit(&server);
    };
    let check = |removed: &[u64]| {
        let manifest = read_manifest(dir.path()).unwrap();
        let entries = manifest.saves.iter().map(|save| &save.tables[0]);
        let counts: Vec<u64> = entries.map(|entry| entry.files[0].removed).collect();
        assert_eq!(counts, removed);
        let mut keys = Vec::new();
        let look = &mut |scan: &RowScan<'_>| {
            keys.extend_from_slice(scan.keys);
            Ok(())
        };
        scan_table(dir.path(), &manifest, "ctr", look).unwrap();
        keys.sort_unstable();
        let live = lasting(&table);
        assert_eq!(keys, live.keys().copied().collect::<Vec<_>>());
        let mut loaded = BTreeMap::new();
        for index in 0..2 {
            let again = Arc::new(SparseTable::new(config()).unwrap());
            train(&again, 0..500, 0.1);
            load(dir.path(), &Tables(vec![again.clone()]), ServerIndex { index, count: 2 })
                .unwrap();
            loaded.extend(lasting(&again));
        }
        assert_eq!(loaded, live);
    };
    train(&table, 0..400, 0.5);
    complete(write(SaveMode::Base));
    check(&[0]);
    // Shown more often, these stay when the others have decayed.
    (0..3).for_each(|_| train(&table, 0..100, 0.1));
    assert_eq!(table.shrink().removed, 300);
    train(&table, 350..360, 0.3);
    complete(write(SaveMode::Delta));
    check(&[0, 290]);
    // The save that fails takes nothing away from the next.
    assert!(table.shrink().removed > 0);
    let lost = 110 - table.len() as u64;
    write(SaveMode::Delta);
    complete(write(SaveMode::Delta));
    check(&[0, 290, lost]);
    table.clear();
    complete(write(SaveMode::Delta));
    check(&[0, 290, lost, 110 - lost]);
}

/// The rows of the newest save in `dir`.
fn rows_of_last(dir: &Path) -> u64 {
    read_manifest(dir).unwrap().saves.last().unwrap().tables[0].rows
}

/// A disk that fails at any operation of a save, and an asker that never completes one.
#[test]
fn a_save_without_a_manifest_neither_marks_nor_ages_rows() {
    use super::super::disk::Disk;
    use super::super::save::save_on;
    let config = || {
        let mut config = ctr();
        if let AccessorConfig::Ctr(ctr) = &mut config.accessor {
            (ctr.nonclk_coeff, ctr.click_coeff) = (1.0, 1.0);
            (ctr.base_threshold, ctr.delta_threshold, ctr.delta_keep_days) = (0.0, 0.25, 1e9);
        }
        config
    };
    for mode in [SaveMode::Delta, SaveMode::Base, SaveMode::FullAging] {
        for (name, config) in [("emb", plain()), ("ctr", config())] {
            for operations in 0.. {
                let dir = tempfile::tempdir().unwrap();
                let table = Arc::new(SparseTable::new(config.clone()).unwrap());
                let server = Tables(vec![table.clone()]);
                train(&table, 0..300, 0.5);
                let base = save(&server, dir.path(), ONLY, SaveMode::Base).unwrap();
                finish(dir.path(), vec![base]).unwrap();
                commit(&server);
                train(&table, 0..40, 0.5);
                let before = contents(&table);
                let disk = Disk::stopping_after(operations);
                let stopped = save_on(&disk, &server, dir.path(), ONLY, mode, None).is_err();
                // A row that changes meanwhile is in the next delta like the others.
                train(&table, 299..301, 0.5);
                let next = save(&server, dir.path(), ONLY, SaveMode::Delta).unwrap();
                finish(dir.path(), vec![next]).unwrap();
                let rows = rows_of_last(dir.path());
                match mode {
                    // What a base takes of a table with counters, a delta takes in its place.
                    SaveMode::Base if name == "ctr" && !stopped => assert_eq!(rows, 301),
                    _ => assert!((42..=301).contains(&rows), "{mode:?} of `{name}`: {rows}"),
                }
                if mode == SaveMode::FullAging {
                    abandon(&server);
                    let after = contents(&table);
                    let days = |rows: &BTreeMap<u64, (Vec<f32>, Vec<f32>)>| {
                        rows.range(40..299).map(|(_, (row, _))| row.clone()).collect::<Vec<_>>()
                    };
                    assert_eq!(days(&after), days(&before), "`{name}`");
                }
                let again = Arc::new(SparseTable::new(config.clone()).unwrap());
                load(dir.path(), &Tables(vec![again.clone()]), ONLY).unwrap();
                assert_eq!(again.len(), table.len());
                if !stopped {
                    break;
                }
            }
        }
    }
}
