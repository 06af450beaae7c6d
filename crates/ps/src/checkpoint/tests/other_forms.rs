//! Checkpoints as something else: whole tensors, tables of another optimizer.

use super::*;

#[test]
fn whole_parameters_come_out_of_any_cut() {
    let dir = tempfile::tempdir().unwrap();
    let model = Model::new(&[(5, 3)], &BTreeMap::from([(1, 1.0), (3, 3.0)]), 4);
    save_all(dir.path(), &model.on_servers(3, 4), SaveMode::Full);
    let states = gather_states(dir.path()).unwrap();
    let moment = states["v0_moment_0"].as_slice::<f32>().unwrap();
    assert_eq!(moment, model.states["v0_moment_0"]);
    assert_eq!(states["v0_beta1_pow_acc_0"].numel(), 1);

    let table = gather_table(dir.path(), "emb", 5, &|key, row| row.fill(key as f32)).unwrap();
    assert_eq!(&*table.dims(), &[5, MemoryTable::WIDTH]);
    let numbers = table.as_slice::<f32>().unwrap();
    assert_eq!(numbers[..3], [0.0; 3], "a row that is not there is as it begins");
    assert_eq!(numbers[9..12], model.rows[&3][..3]);
    let error = gather_table(dir.path(), "emb", 3, &|_, _| ()).unwrap_err().to_string();
    assert!(error.contains("key 3, which is no row of 3"), "{error}");
    let error = gather_table(dir.path(), "other", 3, &|_, _| ()).unwrap_err().to_string();
    assert!(error.contains("no table `other`"), "{error}");
}

/// A server whose table and variable have the states of another optimizer.
fn other_optimizer(mut server: Server) -> Server {
    let table = Arc::get_mut(&mut server.table).unwrap();
    table.layout.columns[1].name = "velocity".to_owned();
    for piece in &mut server.pieces {
        piece.states[0].variable = "v0_velocity_0".to_owned();
    }
    server
}

#[test]
fn states_of_another_optimizer_start_afresh() {
    let dir = tempfile::tempdir().unwrap();
    let model = Model::new(&[(2, 2)], &BTreeMap::from([(6, 0.5)]), 4);
    save_all(dir.path(), &model.on_servers(2, 1), SaveMode::Full);
    let server = other_optimizer(Model::empty(&[(2, 2)], 4).on_servers(1, 1).remove(0));
    let loaded = load(dir.path(), &server, server.index).unwrap();
    let notes = loaded.notes.join("; ");
    assert!(notes.contains("`v0` comes without `v0_velocity_0`"), "{notes}");
    assert!(notes.contains("table `emb` comes without `velocity`"), "{notes}");
    let row = server.table.rows().remove(&6).unwrap();
    assert_eq!(row[..3], model.rows[&6][..3]);
    assert_eq!(row[3..6], [6.0; 3], "as a new row has them");

    let mut wider = Model::empty(&[(2, 2)], 4).on_servers(1, 1).remove(0);
    Arc::get_mut(&mut wider.table).unwrap().layout.columns[0].width = 4;
    let error = load(dir.path(), &wider, wider.index).unwrap_err().to_string();
    assert!(error.contains("column `weight` has 3 numbers a row there and 4"), "{error}");
}

#[test]
fn rows_on_servers_of_another_rule_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let model = Model::new(&[(2, 2)], &BTreeMap::new(), 4);
    let mut servers = model.on_servers(2, 1);
    for (key, server) in [(0u64, 1usize), (1, 1), (2, 0), (3, 0)] {
        servers[server].table.restore(&[key], &[key as f32; MemoryTable::RECORD]).unwrap();
    }
    save_all(dir.path(), &servers, SaveMode::Full);
    assert!(!read_manifest(dir.path()).unwrap().saves[0].tables[0].routed);
    servers = Model::empty(&[(2, 2)], 4).on_servers(2, 1);
    load_all(dir.path(), &servers);
    assert_eq!([servers[0].keys(), servers[1].keys()], [[0, 1], [2, 3]]);
}
