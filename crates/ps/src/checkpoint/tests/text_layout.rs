//! Paddle's text layout, both ways.

use std::fs;
use std::io::Write;

use super::*;

#[track_caller]
fn export_all(dir: &Path, servers: &[Server]) {
    let shards =
        servers.iter().map(|s| export_text(s, dir, s.index, SaveMode::Full).unwrap()).collect();
    finish_text(dir, shards).unwrap();
}

#[track_caller]
fn import_all(dir: &Path, servers: &[Server]) {
    for server in servers {
        import_text(dir, server, server.index).unwrap();
    }
}

fn model() -> Model {
    let rows: BTreeMap<u64, f32> = (0..30).map(|key| (key * key, key as f32 * 1e-9)).collect();
    Model::new(&[(3, 2), (4, 1)], &rows, 7)
}

#[test]
fn any_number_of_servers_imports_what_any_number_exported() {
    let dir = tempfile::tempdir().unwrap();
    // Later exports with fewer or more servers leave no files of earlier ones behind.
    for (before, after) in [(1, 2), (3, 1), (2, 5), (5, 2)] {
        let model = model();
        export_all(dir.path(), &model.on_servers(before, 2));
        let files = fs::read_dir(dir.path().join("000")).unwrap().count();
        assert_eq!(files, 7, "a file for each shard");
        let loaded = Model::empty(&[(3, 2), (4, 1)], 7).on_servers(after, 3);
        import_all(dir.path(), &loaded);
        assert_eq!(Model::of(&loaded), model);
    }
}

#[test]
fn lines_are_those_of_paddle() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Model::new(&[(1, 2)], &BTreeMap::from([(9, 0.5)]), 7).on_servers(2, 1);
    export_all(dir.path(), &servers);
    let row = fs::read_to_string(dir.path().join("000/part-000-00002")).unwrap();
    assert!(row.starts_with("9 0.5 0.8333334 "), "{row}");
    assert_eq!(fs::read_to_string(dir.path().join("000/part-001-00004")).unwrap(), "");
    let dense = fs::read_to_string(dir.path().join("001/part-000")).unwrap();
    assert_eq!(dense.lines().next(), Some("0.1 -1000.7"));
}

#[test]
fn what_paddle_wrote_is_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("000")).unwrap();
    for shard in 0..7 {
        // Written by three servers, with six digits, some of the files compressed.
        let key = 70 + shard;
        let text = format!("{key} 0.123457 1e-05 3 0 0 0 1\n\n{}\t1 2\n", key + 7);
        let name = dir.path().join(format!("000/part-{:03}-{shard:05}", shard / 3));
        if shard % 2 == 0 {
            fs::write(name, text).unwrap();
        } else {
            let file = fs::File::create(name.with_extension("gz")).unwrap();
            let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            file.write_all(text.as_bytes()).unwrap();
            file.finish().unwrap();
        }
    }
    let servers = Model::empty(&[(1, 1)], 7).on_servers(2, 1);
    for server in &servers {
        let loaded = import_text(dir.path(), server, server.index).unwrap();
        assert!(loaded.notes[0].contains("variable files"), "{:?}", loaded.notes);
    }
    let rows = Model::of(&servers).rows;
    assert_eq!(rows.len(), 14);
    assert_eq!(rows[&73][..3], [0.123_457, 1e-5, 3.0]);
    assert_eq!(rows[&77][..4], [1.0, 2.0, 77.0, 77.0], "the rest as in a new row");
}

#[test]
fn wrong_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let server = Model::empty(&[(1, 1)], 7).on_servers(1, 1).remove(0);
    let refused = |reasons: &[&str]| {
        let error = import_text(dir.path(), &server, server.index).unwrap_err().to_string();
        for reason in reasons {
            assert!(error.contains(reason), "{reason}: {error}");
        }
    };
    refused(&["000", "there is no such folder"]);
    export_all(dir.path(), &model().on_servers(2, 1));
    let file = |name: &str| dir.path().join("000").join(name);
    fs::write(file("part-009-00003"), "").unwrap();
    refused(&["shard 3 is in", "too"]);
    fs::remove_file(file("part-009-00003")).unwrap();
    let shard = fs::read(file("part-000-00003")).unwrap();
    fs::remove_file(file("part-000-00003")).unwrap();
    refused(&["files of 6 shards, the table has 7"]);
    fs::write(file("part-000-00009"), "").unwrap();
    refused(&["part-000-00009", "shard 9", "has 7"]);
    fs::remove_file(file("part-000-00009")).unwrap();
    fs::write(file("part-000"), "").unwrap();
    refused(&["part-SSS-FFFFF"]);
    fs::remove_file(file("part-000")).unwrap();
    fs::write(file("part-000-00003"), shard).unwrap();

    let layout = fs::read_to_string(dir.path().join("layout.json")).unwrap();
    fs::remove_file(dir.path().join("layout.json")).unwrap();
    for (line, reason) in [
        ("x 1", "line 2: `x` is not a key"),
        ("-3 1", "line 2: `-3` is not a key"),
        ("3 1 y", "line 2: `y` is not a number"),
        ("4 1", "line 2: key 4 does not belong to shard 3"),
        ("3 1 2 3 4 5 6 7 8", "line 2: a row has 8 numbers"),
    ] {
        fs::write(file("part-000-00003"), format!("10 1\n{line}\n")).unwrap();
        refused(&["part-000-00003", reason]);
    }
    fs::write(file("part-000-00003"), "10 1\n").unwrap();
    import_text(dir.path(), &server, server.index).unwrap();
    fs::write(dir.path().join("layout.json"), &layout[..50]).unwrap();
    refused(&["layout.json", "damaged"]);
    fs::write(dir.path().join("layout.json"), layout).unwrap();
    refused(&["variable `v0` is [3, 2] there and [1, 1]"]);
    fs::write(file("../001/part-000"), "1 2\n").unwrap();
    let fits = Model::empty(&[(3, 2), (4, 1)], 7).on_servers(1, 1).remove(0);
    let error = import_text(dir.path(), &fits, fits.index).unwrap_err().to_string();
    assert!(error.contains("it ends before line 2"), "{error}");
}

#[test]
fn requests_say_what_they_want() {
    let dir = tempfile::tempdir().unwrap();
    let model = model();
    for (form, table) in [
        (Form::Text, None),
        (Form::Text, Some("emb")),
        (Form::Checkpoint, None),
        (Form::Checkpoint, Some("emb")),
    ] {
        let servers = model.on_servers(2, 1);
        let answers: Vec<Vec<u8>> = servers
            .iter()
            .map(|s| save_request(s, dir.path(), s.index, SaveMode::Full, table, form).unwrap())
            .collect();
        complete_request(dir.path(), &answers).unwrap();
        let loaded = Model::empty(&[(3, 2), (4, 1)], 7).on_servers(3, 2);
        for server in &loaded {
            load_request(dir.path(), server, server.index, table).unwrap();
        }
        assert_eq!(Model::of(&loaded).rows, model.rows, "{form:?} {table:?}");
        assert_eq!(Model::of(&loaded).dense == model.dense, table.is_none());
        assert!(complete_request(dir.path(), &answers[..1]).is_err());
        let none = save_request(
            &servers[0],
            dir.path(),
            servers[0].index,
            SaveMode::Full,
            Some("x"),
            form,
        );
        assert!(none.unwrap_err().to_string().contains("no table `x`"));
    }
    let error = complete_request(dir.path(), &[b"{".to_vec()]).unwrap_err().to_string();
    assert!(error.contains("answer is damaged"), "{error}");
}
