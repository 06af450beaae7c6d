//! Damaged and partial checkpoints are refused by name, and nothing panics.

use std::fs;

use super::*;

/// A small checkpoint of two servers, and the model in it.
fn checkpoint() -> (tempfile::TempDir, Model) {
    let dir = tempfile::tempdir().unwrap();
    let rows: BTreeMap<u64, f32> = (0..9).map(|key| (key, key as f32)).collect();
    let model = Model::new(&[(3, 2)], &rows, 4);
    save_all(dir.path(), &model.on_servers(2, 2), SaveMode::Full);
    (dir, model)
}

/// Tries to load everything; the first error.
fn try_load(dir: &Path) -> Result<(), String> {
    let servers = Model::empty(&[(3, 2)], 4).on_servers(2, 1);
    for server in &servers {
        let before = Model::of(std::slice::from_ref(server));
        if let Err(error) = load(dir, server, server.index) {
            // Files that are not what their checksums say are found before anything is changed.
            let error = error.to_string();
            let unchanged = Model::of(std::slice::from_ref(server)) == before;
            assert!(unchanged || error.contains("tensor `"), "{error}");
            return Err(error);
        }
    }
    // What inspects a checkpoint without its checksums must not panic either.
    let manifest = read_manifest(dir).unwrap();
    scan_table(dir, &manifest, "emb", &mut |_| Ok(())).ok();
    Ok(())
}

#[test]
fn every_damaged_byte_is_found() {
    let (dir, _) = checkpoint();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 60 + 1) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            let error = try_load(dir.path()).expect_err("a bit was flipped");
            assert!(error.contains(&name), "{name} at {at}: {error}");
            let manifest = read_manifest(dir.path());
            if let Ok(manifest) = manifest {
                scan_table(dir.path(), &manifest, "emb", &mut |_| Ok(())).ok();
                let states = verify(dir.path(), &manifest);
                assert_eq!(states.iter().filter(|(_, state)| state.is_err()).count(), 1);
            }
            gather_states(dir.path()).ok();
            fs::write(&path, &whole[..at]).unwrap();
            let error = try_load(dir.path()).expect_err("the end is missing");
            assert!(error.contains(&name), "{name} cut at {at}: {error}");
            if let Ok(manifest) = read_manifest(dir.path()) {
                scan_table(dir.path(), &manifest, "emb", &mut |_| Ok(())).ok();
            }
        }
        fs::write(&path, &whole).unwrap();
    }
    try_load(dir.path()).unwrap();
}

#[test]
fn a_manifest_with_anything_in_it_is_refused_or_read() {
    let (dir, _) = checkpoint();
    let path = dir.path().join(MANIFEST);
    let text = fs::read_to_string(&path).unwrap();
    let free: String = {
        let (first, rest) = text.split_once("\n").unwrap();
        format!("{first}\n{}", rest.split_once('\n').unwrap().1)
    };
    // Without the checksum's line it is taken as it is, and every claim is checked.
    fs::write(&path, &free).unwrap();
    try_load(dir.path()).unwrap();
    let changes = [
        ("\"start\": 0", "\"start\": 18446744073709551615", "outside"),
        ("\"start\": 0", "\"start\": 1", "in no piece"),
        ("\"version\": 1", "\"version\": 9", "use a newer"),
        (
            "\"server-000-of-002-000001.safetensors\",\n          \"server\"",
            "\"../../etc/passwd\",\n          \"server\"",
            "not the name of a file",
        ),
        ("float32", "float33", "is no type"),
        ("\"shards\": 4", "\"shards\": 0", "proper size"),
        (
            "\"width\": 3,\n              \"kind\": \"weight\"",
            "\"width\": 18446744073709551615,\n              \"kind\": \"weight\"",
            "too wide",
        ),
        ("\"bireme checkpoint\"", "\"else\"", "not the manifest"),
        ("\"servers\": 2", "\"servers\": 0", "0 servers"),
        ("\"mode\": \"full\"", "\"mode\": \"empty\"", "unknown variant"),
    ];
    for (from, to, reason) in changes {
        assert!(free.contains(from), "{from} in {free}");
        fs::write(&path, free.replacen(from, to, 1)).unwrap();
        let error = try_load(dir.path()).unwrap_err();
        assert!(error.contains("manifest.json") && error.contains(reason), "{reason}: {error}");
    }
    // Any cut and any changed digit: an error or a checkpoint, no panic.
    for at in (0..free.len()).step_by(7) {
        fs::write(&path, &free[..at]).unwrap();
        try_load(dir.path()).unwrap_err();
        let mut changed = free.clone().into_bytes();
        changed[at] = b'9';
        fs::write(&path, changed).unwrap();
        try_load(dir.path()).ok();
        gather_dense(dir.path()).ok();
    }
}

#[test]
fn what_is_missing_is_named() {
    let (dir, _) = checkpoint();
    let servers = Model::empty(&[(3, 2)], 4).on_servers(1, 1);
    let error = load(&dir.path().join("no"), &servers[0], servers[0].index).unwrap_err();
    assert!(error.to_string().contains("there is no such folder"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = load(empty.path(), &servers[0], servers[0].index).unwrap_err().to_string();
    assert!(error.contains("a save into it never finished"), "{error}");

    let more = Model::empty(&[(3, 2), (1, 1)], 4).on_servers(1, 1);
    let error = load(dir.path(), &more[0], more[0].index).unwrap_err().to_string();
    assert!(error.contains("it has no variable `v1`"), "{error}");
    let other = Model::empty(&[(2, 3)], 4).on_servers(1, 1);
    let error = load(dir.path(), &other[0], other[0].index).unwrap_err().to_string();
    assert!(error.contains("`v0` is float32 [3, 2] there and float32 [2, 3]"), "{error}");

    let name = "server-001-of-002-000001-table-000.safetensors";
    fs::remove_file(dir.path().join(name)).unwrap();
    let error = load(dir.path(), &servers[0], servers[0].index).unwrap_err().to_string();
    assert!(error.contains(name) && error.contains("it is missing"), "{error}");
}

#[test]
fn servers_that_do_not_fit_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Model::new(&[(3, 2)], &BTreeMap::new(), 4).on_servers(2, 2);
    let shards: Vec<SavedShard> = servers
        .iter()
        .map(|server| save(server, dir.path(), server.index, SaveMode::Full).unwrap())
        .collect();
    let refused = |shards: Vec<SavedShard>, reason: &str| {
        let error = finish(dir.path(), shards).unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    };
    refused(vec![], "no server took part");
    refused(vec![shards[0].clone()], "server 1 has not saved");
    refused(vec![shards[0].clone(), shards[0].clone()], "server 0 has saved 2 times");
    let mut other = shards.clone();
    other[1].mode = SaveMode::Delta;
    refused(other, "something else");
    let mut other = shards.clone();
    other[1].pieces[0].shape = vec![6];
    refused(other, "disagree on variable `v0`");
    let mut other = shards.clone();
    other[1].tables[0].layout.shards = 9;
    refused(other, "disagree on table `emb`");
    let mut other = shards.clone();
    other[1].files[0].bytes += 1;
    refused(other, "cannot be seen from here");
    assert!(!is_checkpoint(dir.path()));
    finish(dir.path(), shards).unwrap();
}
