//! Checkpoints are neither lost nor believed when they are damaged.

use std::fs;
use std::path::{Path, PathBuf};

use crate::job::{Process, SLOW, Setup, comparable};

/// 30 batches an epoch, and a checkpoint every four.
const KEYS: &str = "  epochs: 2\n  train_batch_size: 20\n  print_interval: 1\n  \
                    checkpoint_interval: 4\n";

fn folder(setup: &Setup) -> PathBuf {
    setup.folder().join("models/checkpoints")
}

/// The numbered folders in a folder, in order.
fn numbered(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_number = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().parse::<u64>();
    let mut all: Vec<PathBuf> = entries.filter(|path| is_number(path).is_ok()).collect();
    all.sort();
    all
}

fn states(checkpoints: &[PathBuf]) -> Vec<Vec<u8>> {
    checkpoints.iter().map(|path| fs::read(path.join("state.json")).unwrap()).collect()
}

/// Runs to the end; what it said.
fn said(mut process: Process) -> String {
    process.finish();
    process.said().join("\n")
}

fn error_of(mut process: Process) -> String {
    process.until(|line| line.starts_with("error: ")).expect("an error")
}

#[test]
fn a_run_that_begins_anew_loses_no_checkpoint() {
    let setup = Setup::new(3, 200, KEYS);
    let expected = setup.start(&[], false).finish();
    let parameters = setup.parameters(1);
    let old = numbered(&folder(&setup));
    let saved = states(&old);
    assert_eq!(saved.len(), 2);
    let untouched = || numbered(&folder(&setup)) == old && states(&old) == saved;
    // One that trains nothing.
    setup.edit("epochs: 2", "epochs: 0");
    let text = said(setup.start(&[], false));
    assert!(text.contains("training begins anew: 2 checkpoints of a run before it"), "{text}");
    assert!(untouched());
    setup.edit("epochs: 0", "epochs: 2");
    // One that is killed before its first checkpoint.
    let mut killed = setup.start(&[(SLOW, "100".to_owned())], false);
    assert!(killed.until(|line| line.starts_with("time: [")).is_some(), "{:?}", killed.said());
    killed.kill();
    assert!(untouched());
    // A launcher starts that one again: it does not take the checkpoints for its own.
    let mut again = setup.start(&[("BIREME_RESTART", "1".to_owned())], false);
    let epochs = again.finish();
    let text = again.said().join("\n");
    assert!(text.contains("there is no checkpoint to go on from: training begins anew"), "{text}");
    assert_eq!(comparable(&epochs), comparable(&expected));
    assert!(setup.parameters(1) == parameters);
    // Its own took their place, and they are in a folder that the log names.
    let line = again.said().iter().find(|line| line.contains("are now in")).expect("a warning");
    let own = numbered(&folder(&setup));
    assert!(own.len() == 2 && own.iter().all(|path| !old.contains(path)), "{own:?}");
    let before = folder(&setup).join(format!("before-{:08}", 1 + saved_number(&old[1])));
    assert!(line.contains(&format!("runner.checkpoint_path={}`", before.display())), "{line}");
    assert_eq!(states(&numbered(&before)), saved);
    // And the way back that it names works.
    let path = format!("epochs: 2\n  checkpoint_path: {}", before.display());
    setup.edit("epochs: 2", &path);
    let text = said(setup.start(&[], true));
    assert!(text.contains("goes on from checkpoint"), "{text}");
}

fn saved_number(checkpoint: &Path) -> u64 {
    checkpoint.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

#[test]
fn resume_after_a_mistaken_start_goes_on_from_what_was_there() {
    let setup = Setup::new(3, 200, KEYS);
    let expected = setup.start(&[], false).finish();
    // The last epoch is not over.
    fs::remove_dir_all(numbered(&folder(&setup)).pop().unwrap()).unwrap();
    let mut mistaken = setup.start(&[(SLOW, "100".to_owned())], false);
    assert!(mistaken.until(|line| line.starts_with("time: [")).is_some());
    mistaken.kill();
    let mut process = setup.start(&[], true);
    let epochs = process.finish();
    assert!(process.said().join("\n").contains("epoch 1, batch 28"), "{:?}", process.said());
    assert_eq!(comparable(&epochs), comparable(&expected));
    assert_eq!(numbered(&folder(&setup)).len(), 2);
}

#[test]
fn batches_that_were_shared_out_in_another_way_are_not_skipped() {
    let setup = Setup::new(3, 200, &format!("{KEYS}  thread_num: 2\n  parallel: batch\n"));
    setup.start(&[], false).finish();
    let end = numbered(&folder(&setup)).pop().unwrap();
    setup.edit("parallel: batch", "parallel: threads");
    // Between epochs nobody has taken any.
    let text = said(setup.start(&[], true));
    assert!(text.contains("goes on from checkpoint"), "{text}");
    fs::remove_dir_all(end).unwrap();
    let error = error_of(setup.start(&[], true));
    assert!(error.contains("(batches trained at a time: 1, in this run 2)"), "{error}");
}

/// What a warning says, and the damage that it is about.
type Damage = (&'static str, fn(&Path));

fn damages() -> Vec<Damage> {
    fn change(path: &Path, how: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(path).unwrap();
        how(&mut bytes);
        fs::write(path, bytes).unwrap();
    }
    fn parameter(checkpoint: &Path, at: usize) -> PathBuf {
        let files = fs::read_dir(checkpoint.join("parameters")).unwrap();
        let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files.swap_remove(at * (files.len() - 1) / 2)
    }
    vec![
        ("has the checksum", |folder| change(&parameter(folder, 0), |bytes| bytes[0] ^= 1)),
        ("has the checksum", |folder| {
            change(&parameter(folder, 1), |bytes| *bytes.last_mut().unwrap() ^= 0x80);
        }),
        ("has the checksum", |folder| {
            change(&parameter(folder, 2), |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 4;
            });
        }),
        ("bytes, not the", |folder| {
            change(&parameter(folder, 1), |bytes| bytes.truncate(bytes.len() / 2));
        }),
        ("bytes, not the", |folder| change(&parameter(folder, 0), |bytes| bytes.push(0))),
        ("is missing", |folder| fs::remove_file(parameter(folder, 2)).unwrap()),
        ("`state.json`: its checksum does not fit", |folder| {
            change(&folder.join("state.json"), |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            });
        }),
        ("`state.json`: ", |folder| {
            change(&folder.join("state.json"), |bytes| bytes.truncate(100));
        }),
        ("`state.json`: ", |folder| change(&folder.join("state.json"), Vec::clear)),
    ]
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_one_before_it() {
    let setup = Setup::new(3, 200, KEYS);
    let expected = setup.start(&[], false).finish();
    let parameters = setup.parameters(1);
    for (number, (what, damage)) in damages().into_iter().enumerate() {
        let last = numbered(&folder(&setup)).pop().unwrap();
        damage(&last);
        let mut process = setup.start(&[], true);
        let epochs = process.finish();
        let text = process.said().join("\n");
        let warning = format!("WARNING - checkpoint {} is damaged (", last.display());
        let line = text.lines().find(|line| line.contains(&warning)).expect(&text);
        assert!(line.contains(what), "damage {number}: {line}");
        assert!(text.contains("the damaged checkpoint is now"), "damage {number}: {text}");
        assert!(text.contains("epoch 1, batch 28"), "damage {number}: {text}");
        assert_eq!(comparable(&epochs), comparable(&expected), "damage {number}");
        assert!(setup.parameters(1) == parameters, "damage {number}");
    }
    // When nothing whole is left, training does not begin anew in silence.
    for checkpoint in numbered(&folder(&setup)) {
        fs::write(checkpoint.join("state.json"), "{}").unwrap();
    }
    let line = error_of(setup.start(&[], true));
    assert!(line.contains("every checkpoint in it is damaged"), "{line}");
    assert!(line.contains("start anew without `--resume`"), "{line}");
    assert_eq!(numbered(&folder(&setup)).len(), 2);
}

#[test]
fn damage_to_what_servers_and_trainers_saved_is_found() {
    let keys = format!("{KEYS}  sync_mode: sync\n  split_file_list: True\n");
    let setup = Setup::new(4, 100, &keys);
    let expected = setup.run_cluster(2, false);
    for (file, what) in [("parameters", ".safetensors"), ("trainer-1", "variables")] {
        let last = numbered(&folder(&setup)).pop().unwrap();
        let files = fs::read_dir(last.join(file)).unwrap().map(|file| file.unwrap().path());
        let path = files.into_iter().find(|path| path.to_string_lossy().ends_with(what)).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        let mut processes = setup.start_cluster(2, true);
        let epochs = processes[0].finish();
        let text = processes[0].said().join("\n");
        let line = text.lines().find(|line| line.contains(" is damaged (")).expect(&text);
        assert!(line.contains(what), "{line}");
        assert_eq!(comparable(&epochs), comparable(&expected), "{file}");
    }
}

#[test]
fn another_optimizer_or_shape_is_named() {
    let setup = Setup::new(1, 100, KEYS);
    setup.start(&[], false).finish();
    setup.edit("class: Adam", "class: SGD");
    let line = error_of(setup.start(&[], true));
    assert!(line.contains("(optimizer adam in the checkpoint, sgd here)"), "{line}");
    setup.edit("class: SGD", "class: adam");
    setup.edit("fc_sizes: [16, 8]", "fc_sizes: [16, 4]");
    let line = error_of(setup.start(&[], true));
    assert!(line.contains("float32 [16, 8] in the checkpoint, float32 [16, 4] here"), "{line}");
    assert!(line.contains("made by another training"), "{line}");
    setup.edit("fc_sizes: [16, 4]", "fc_sizes: [16, 8]");
    setup.start(&[], true).finish();
}
