//! Checkpoints of servers that live in memory: what is saved is what is loaded.

mod crash;
mod damage;
mod deltas;
mod memory;
mod other_forms;
mod sparse;
mod text_layout;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use safetensors::SafeTensors;

use super::*;
use memory::{MemoryTable, Model, Server};

/// Saves the servers' state into `dir`.
#[track_caller]
fn save_all(dir: &Path, servers: &[Server], mode: SaveMode) {
    let saved = servers.iter().map(|server| save(server, dir, server.index, mode).unwrap());
    finish(dir, saved.collect()).unwrap();
    servers.iter().for_each(|server| commit(server));
}

#[track_caller]
fn load_all(dir: &Path, servers: &[Server]) {
    for server in servers {
        load(dir, server, server.index).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_number_of_servers_loads_what_any_number_saved(
        shapes in vec((1usize..9, 1usize..5), 1..5),
        rows in btree_map(any::<u64>(), -1e3f32..1e3, 0..200),
        shards in 1u64..40,
        before in 1u32..5,
        after in 1u32..5,
        (cuts, other_cuts) in (1usize..5, 1usize..5),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let model = Model::new(&shapes, &rows, shards);
        let saved = model.on_servers(before, cuts);
        save_all(dir.path(), &saved, SaveMode::Full);
        let loaded = Model::empty(&shapes, shards).on_servers(after, other_cuts);
        load_all(dir.path(), &loaded);
        prop_assert_eq!(Model::of(&loaded), model.clone());
        let step = loaded[0].step();
        prop_assert_eq!(step, 7);
        // Each row is where the rule wants it.
        for server in &loaded {
            let sharding = Sharding::new(shards, after);
            prop_assert!(server.keys().iter().all(|key| sharding.server(*key) == server.index.index));
        }

        let dense = gather_dense(dir.path()).unwrap();
        for (name, (shape, numbers)) in &model.dense {
            prop_assert_eq!(dense[name].as_slice::<f32>().unwrap(), numbers.as_slice());
            prop_assert_eq!(&*dense[name].dims(), shape.as_slice());
        }
    }

    #[test]
    fn no_bytes_of_a_manifest_panic(bytes in vec(any::<u8>(), 0..200)) {
        Manifest::from_bytes(&bytes).unwrap_err();
    }
}

#[test]
fn files_are_what_the_safetensors_library_reads() {
    // In Python: `safetensors.numpy.load_file(path)["emb/part-00000/weight"]`.
    let dir = tempfile::tempdir().unwrap();
    let rows: BTreeMap<u64, f32> = (0..101).map(|key| (key * 3, key as f32)).collect();
    let servers = Model::new(&[(5, 3), (1, 1)], &rows, 10).on_servers(2, 2);
    save_all(dir.path(), &servers, SaveMode::Full);
    let manifest = read_manifest(dir.path()).unwrap();
    let mut rows = 0;
    for file in &manifest.saves[0].files {
        let bytes = std::fs::read(dir.path().join(&file.name)).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert_eq!((header + 8) % 64, 0, "arrays lie aligned");
        let text = std::str::from_utf8(&bytes[8..8 + header]).unwrap();
        assert!(text.starts_with("{\"") && text.trim_end().ends_with('}'), "{text}");
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        for (name, tensor) in tensors.iter() {
            let at = tensor.data().as_ptr() as usize - bytes.as_ptr() as usize;
            assert_eq!(at % (tensor.dtype().bitsize() / 8), 0, "`{name}` is aligned");
            if name == "emb/part-00000/weight" {
                assert_eq!(tensor.shape()[1], MemoryTable::WIDTH);
                rows += tensor.shape()[0];
            }
        }
    }
    assert_eq!(rows, 101);
    let names: Vec<&str> = manifest.saves[0].files.iter().map(|file| file.name.as_str()).collect();
    let expected = [
        "server-000-of-002-000001.safetensors",
        "server-000-of-002-000001-table-000.safetensors",
        "server-001-of-002-000001.safetensors",
        "server-001-of-002-000001-table-000.safetensors",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_save_takes_the_place_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let rows = BTreeMap::from([(1, 1.0), (2, 2.0)]);
    save_all(dir.path(), &Model::new(&[(2, 2)], &rows, 4).on_servers(3, 1), SaveMode::Full);
    let model = Model::new(&[(2, 2)], &BTreeMap::from([(9, 9.0)]), 4);
    save_all(dir.path(), &model.on_servers(1, 1), SaveMode::Full);
    let loaded = Model::empty(&[(2, 2)], 4).on_servers(2, 2);
    loaded[0].table.restore(&[4], &[0.5; MemoryTable::RECORD]).unwrap();
    load_all(dir.path(), &loaded);
    assert_eq!(Model::of(&loaded), model, "rows that were there before are gone");
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files, 3, "one server's two files and the manifest");
}

#[test]
fn a_row_and_its_state_are_of_one_instant() {
    let dir = tempfile::tempdir().unwrap();
    let rows: BTreeMap<u64, f32> = (0..500).map(|key| (key, 0.0)).collect();
    let mut servers = Model::new(&[(64, 4)], &rows, 8).on_servers(1, 1);
    let server = Arc::new(servers.pop().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let trainer = std::thread::spawn({
        let (server, stop) = (server.clone(), stop.clone());
        move || {
            let mut number = 1.0;
            while !stop.load(Ordering::SeqCst) {
                server.set_everything(number);
                number += 1.0;
            }
            number
        }
    });
    for _ in 0..5 {
        let saved = save(&*server, dir.path(), server.index, SaveMode::Full).unwrap();
        finish(dir.path(), vec![saved]).unwrap();
        let loaded = Model::empty(&[(64, 4)], 8).on_servers(1, 1);
        load_all(dir.path(), &loaded);
        loaded[0].check_one_instant();
    }
    stop.store(true, Ordering::SeqCst);
    assert!(trainer.join().unwrap() > 1.0);
}

#[test]
fn large_pieces_are_written_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Model::new(&[(5, 3)], &BTreeMap::new(), 4).on_servers(1, 1);
    let (server, disk) = (&servers[0], disk::Disk::default());
    let piece = server.pieces()[0].clone();
    let names: Vec<String> = (0..=piece.states.len()).map(|at| format!("value{at}")).collect();
    let name = "server-000-of-001-000001.safetensors".to_owned();
    let mut file = tensor_file::TensorWriter::begin(&disk, dir.path(), name, 4096).unwrap();
    let mut waiting = Vec::new();
    save::write_in_parts(server, &piece, &names, &mut file, &mut waiting).unwrap();
    let entry = file.finish(0).unwrap();
    tensor_file::TensorReader::verify(dir.path(), &entry, &|| ()).unwrap();
    let mut file = tensor_file::TensorReader::open(&dir.path().join(&entry.name)).unwrap();
    let values = server.values.lock().unwrap()[&piece.name].clone();
    for (name, value) in names.iter().zip(&values) {
        if value.dtype().size() == piece.dtype.size() {
            let mut bytes = vec![0; value.as_bytes().len()];
            file.bytes(name, 0, &mut bytes).unwrap();
            assert_eq!(bytes, value.as_bytes());
        } else {
            let found = waiting.iter().find(|(known, _)| known == name).unwrap();
            assert_eq!(found.1.as_bytes(), value.as_bytes());
        }
    }
}

#[test]
fn large_tables_are_written_in_parts() {
    let layout = MemoryTable::new(3).layout();
    let dir = tempfile::tempdir().unwrap();
    let disk = disk::Disk::default();
    let name = "server-000-of-001-000001.safetensors".to_owned();
    let mut file = tensor_file::TensorWriter::begin(&disk, dir.path(), name, 4096).unwrap();
    let record = layout.record_width();
    for part in 0..2u32 {
        let keys: Vec<u64> = (0..4).map(|key| u64::from(part) * 4 + key).collect();
        let records: Vec<f32> = (0..4 * record).map(|x| x as f32).collect();
        file.rows(&layout, part, &keys, &records).unwrap();
    }
    let entry = file.finish(0).unwrap();
    tensor_file::TensorReader::verify(dir.path(), &entry, &|| ()).unwrap();
    let mut file = tensor_file::TensorReader::open(&dir.path().join(&entry.name)).unwrap();
    assert_eq!(file.keys("emb/part-00001/keys").unwrap(), [4, 5, 6, 7]);
    let shows = file.column("emb/part-00001/show", 4, 1).unwrap();
    let place = MemoryTable::WIDTH * 2;
    assert_eq!(shows, (0..4).map(|row| (row * record + place) as f32).collect::<Vec<_>>());
}
