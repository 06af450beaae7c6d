//! A base with deltas, and saves of one table.

use super::*;

fn change(server: &Server, key: u64, number: f32) {
    server.table.restore(&[key], &[number; MemoryTable::RECORD]).unwrap();
}

#[test]
fn a_base_and_its_deltas_are_loaded_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let rows: BTreeMap<u64, f32> = (0..20).map(|key| (key, key as f32)).collect();
    let servers = Model::new(&[(3, 2)], &rows, 4).on_servers(2, 2);
    let home = |key: u64| &servers[Sharding::new(4, 2).server(key) as usize];
    save_all(dir.path(), &servers, SaveMode::Full);
    for round in 1..4 {
        change(home(5), 5, 100.0 * round as f32);
        change(home(100 + round), 100 + round, 1.0);
        servers[0].values.lock().unwrap().values_mut().next().unwrap()[0]
            .as_mut_slice::<f32>()
            .unwrap()[0] = round as f32;
        save_all(dir.path(), &servers, SaveMode::Delta);
    }
    let manifest = read_manifest(dir.path()).unwrap();
    let rows: Vec<u64> = manifest.saves.iter().map(|save| save.tables[0].rows).collect();
    assert_eq!(rows, [20, 2, 2, 2]);
    assert!(manifest.saves[1].variables.is_empty(), "the newest save has the dense variables");

    let loaded = Model::empty(&[(3, 2)], 4).on_servers(3, 1);
    load_all(dir.path(), &loaded);
    assert_eq!(Model::of(&loaded), Model::of(&servers));
    let mut seen = BTreeMap::new();
    scan_table(dir.path(), &manifest, "emb", &mut |scan| {
        let shows = scan.of_kind(ColumnKind::Show);
        shows.for_each(|(key, show)| assert!(seen.insert(key, show[0]).is_none(), "{key} twice"));
        Ok(())
    })
    .unwrap();
    assert_eq!((seen.len(), seen[&5]), (23, 300.0));

    save_all(dir.path(), &servers, SaveMode::Full);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 5, "the deltas are gone");
}

#[test]
fn a_delta_of_its_own_folder_goes_on_top_of_what_is_there() {
    let (base, delta) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let servers = Model::new(&[(1, 1)], &BTreeMap::from([(1, 1.0), (2, 2.0)]), 4).on_servers(1, 1);
    save_all(base.path(), &servers, SaveMode::Full);
    change(&servers[0], 2, 9.0);
    save_all(delta.path(), &servers, SaveMode::Delta);
    let loaded = Model::empty(&[(1, 1)], 4).on_servers(2, 1);
    load_all(base.path(), &loaded);
    load_all(delta.path(), &loaded);
    assert_eq!(Model::of(&loaded), Model::of(&servers));
}

#[test]
fn one_table_can_be_saved_and_loaded_alone() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Model::new(&[(2, 2)], &BTreeMap::from([(1, 1.0)]), 4).on_servers(2, 1);
    save_all(dir.path(), &servers, SaveMode::Full);
    change(&servers[1], 2, 9.0);
    let saved = servers
        .iter()
        .map(|server| save_table(server, dir.path(), server.index, SaveMode::Full, "emb").unwrap());
    finish(dir.path(), saved.collect()).unwrap();
    let manifest = read_manifest(dir.path()).unwrap();
    assert_eq!(manifest.saves.len(), 2);
    assert!(manifest.saves[0].tables.is_empty(), "the new table takes the place of the old");
    let loaded = Model::empty(&[(2, 2)], 4).on_servers(1, 1);
    load_all(dir.path(), &loaded);
    assert_eq!(Model::of(&loaded), Model::of(&servers));

    let alone = Model::empty(&[(2, 2)], 4).on_servers(1, 1);
    let read = load_table(dir.path(), &alone[0], alone[0].index, "emb").unwrap();
    assert_eq!((read.pieces, read.rows["emb"]), (0, 2));
    assert_eq!(alone[0].keys(), [1, 2]);
    let error = load_table(dir.path(), &alone[0], alone[0].index, "no").unwrap_err();
    assert!(error.to_string().contains("no table `no`"), "{error}");
    let error = save_table(&alone[0], dir.path(), alone[0].index, SaveMode::Full, "no");
    assert!(error.unwrap_err().to_string().contains("no table `no`"));
}
