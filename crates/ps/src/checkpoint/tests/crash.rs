//! A machine that stops in the middle of a save leaves the checkpoint before it.

use std::fs;

use super::super::disk::Disk;
use super::super::save::{finish_on, save_on};
use super::*;

/// Saves on a disk that stops after some operations; returns whether the save was finished.
fn save_until(dir: &Path, servers: &[Server], mode: SaveMode, operations: usize) -> bool {
    let disk = Disk::stopping_after(operations);
    let saved: Result<Vec<_>, _> = servers
        .iter()
        .map(|server| save_on(&disk, server, dir, server.index, mode, None))
        .collect();
    saved.and_then(|shards| finish_on(&disk, dir, shards)).is_ok()
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn check(mode: SaveMode, expected_new: &Model, old: &Model, new: &Model) {
    let shapes = [(3, 2), (4, 1)];
    let first = tempfile::tempdir().unwrap();
    save_all(first.path(), &old.on_servers(2, 2), SaveMode::Full);
    let mut outcomes = [0, 0];
    for operations in 0.. {
        let dir = tempfile::tempdir().unwrap();
        copy_folder(first.path(), dir.path());
        let finished = save_until(dir.path(), &new.on_servers(2, 3), mode, operations);
        let loaded = Model::empty(&shapes, 5).on_servers(3, 1);
        load_all(dir.path(), &loaded);
        let found = Model::of(&loaded);
        let is_new = found == *expected_new;
        assert!(is_new || found == *old, "after {operations} operations");
        assert!(!finished || is_new, "a save that succeeded is there");
        outcomes[usize::from(is_new)] += 1;
        // The next save is not disturbed by what is left.
        save_all(dir.path(), &new.on_servers(2, 3), SaveMode::Full);
        let again = Model::empty(&shapes, 5).on_servers(1, 1);
        load_all(dir.path(), &again);
        assert_eq!(Model::of(&again), *new);
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 5, "two files a server and the manifest");
        if finished && outcomes[1] > 8 {
            break;
        }
    }
    assert!(outcomes[0] > 10, "{outcomes:?}");
}

#[test]
fn a_crash_at_any_instant_leaves_a_whole_checkpoint() {
    let shapes = [(3, 2), (4, 1)];
    let old = Model::new(&shapes, &BTreeMap::from([(1, 1.0), (2, 2.0), (3, 3.0)]), 5);
    let mut new = Model::new(&shapes, &BTreeMap::from([(2, 20.0), (7, 7.0)]), 5);
    new.dense.get_mut("v0").unwrap().1[0] = 99.0;
    check(SaveMode::Full, &new, &old, &new);
    let mut both = new.clone();
    both.rows.extend(old.rows.iter().filter(|(key, _)| **key != 2).map(|(k, v)| (*k, v.clone())));
    check(SaveMode::Delta, &both, &old, &new);
}

/// Whoever asked may be gone, so that nobody says what became of the save.
#[test]
fn a_save_that_stops_anywhere_takes_no_row_from_the_next_delta() {
    let model = Model::new(&[(2, 2)], &BTreeMap::from([(1, 1.0), (2, 2.0), (3, 3.0)]), 5);
    for operations in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let servers = model.on_servers(2, 1);
        save_all(dir.path(), &servers, SaveMode::Full);
        for server in &servers {
            server.table.restore(&server.keys()[..1], &[9.0; MemoryTable::RECORD]).unwrap();
        }
        let finished = save_until(dir.path(), &servers, SaveMode::Delta, operations);
        let written = read_manifest(dir.path()).unwrap().saves.len() > 1;
        save_all(dir.path(), &servers, SaveMode::Delta);
        let manifest = read_manifest(dir.path()).unwrap();
        assert_eq!(manifest.saves.last().unwrap().tables[0].rows, 2, "after {operations}");
        assert!(written || !finished);
        let loaded = Model::empty(&[(2, 2)], 5).on_servers(1, 1);
        load_all(dir.path(), &loaded);
        assert_eq!(Model::of(&loaded), Model::of(&servers));
        if finished {
            break;
        }
    }
}
