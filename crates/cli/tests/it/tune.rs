//! A search for the best values of some keys, as `docs/training.md` tells it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Ran, bireme};

const CONFIG: &str = "\
model: dnn
runner:
  train_data_dir: \"data\"
  valid_data_dir: \"valid\"
  train_batch_size: 100
  epochs: 2
  model_save_path: \"models\"
hyper_parameters:
  optimizer: {class: Adam, learning_rate: 0.005}
  sparse_feature_number: 6001
  sparse_feature_dim: 4
  fc_sizes: [16]
tune:
  hyper_parameters.optimizer.learning_rate: {log: [1e-3, 1e-1]}
  hyper_parameters.fc_sizes: {choice: [[16], [8, 4]]}
";

fn desk() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.yaml"), CONFIG).unwrap();
    let dnn = bireme_rec::zoo::find("dnn").unwrap();
    for (part, rows) in [("data", 600), ("valid", 300)] {
        fs::create_dir(folder.path().join(part)).unwrap();
        let mut text = Vec::new();
        (dnn.generate)(&mut text, rows, rows as u64).unwrap();
        fs::write(folder.path().join(part).join("part-0"), text).unwrap();
    }
    folder
}

fn tune(folder: &Path, more: &str) -> Ran {
    let line = format!("tune -m config.yaml {more}");
    bireme(folder, &line.split_whitespace().collect::<Vec<_>>(), "")
}

/// The numbers of trials and their values, as they were printed.
fn rows(ran: &Ran) -> Vec<(u64, f64)> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    ran.stdout.lines().filter_map(row).collect()
}

#[test]
fn a_search_prints_the_best_first_and_goes_on_where_it_was() {
    let folder = desk();
    let two = tune(folder.path(), "--trials 2 --seed 3");
    assert_eq!(two.code, Some(0), "{}", two.stderr);
    assert_eq!(rows(&two).len(), 2, "{}", two.stdout);
    let four = tune(folder.path(), "--trials 4 --parallel 2 --seed 3");
    assert!(four.stderr.contains("2 of 4 trials are done"), "{}", four.stderr);
    let four = rows(&four);
    assert_eq!(four.len(), 4);
    assert!(four.is_sorted_by(|one, other| one.1 >= other.1), "{four:?}");
    assert!(rows(&two).iter().all(|row| four.contains(row)), "{four:?}");
    let page = fs::read_to_string(folder.path().join("models/tune/tune.html")).unwrap();
    assert!(page.contains("auc of the best trials") && page.matches("<polyline").count() == 4);
    // The same seed has the same trials, whatever ran beside each other.
    let again = tune(folder.path(), "--trials 4 --seed 3 --output again");
    assert_eq!(rows(&again), four, "{}", again.stderr);
    let best = again.stdout.lines().find(|line| line.starts_with("best ")).unwrap();
    assert!(best.contains("-o 'hyper_parameters."), "{best}");
    let other = tune(folder.path(), "--trials 4 --seed 4");
    assert_eq!(other.code, Some(1));
    assert!(other.stderr.contains("trials of another search (seed 3 there"), "{}", other.stderr);
}

#[test]
fn a_trial_that_fails_is_said_and_leaves_the_others_alone() {
    let folder = desk();
    let text = CONFIG
        .replace("[[16], [8, 4]]", "[[16], [0]]")
        .replace("{log: [1e-3, 1e-1]}", "{choice: [0.01]}");
    fs::write(folder.path().join("config.yaml"), text).unwrap();
    let ran = tune(folder.path(), "--trials 5");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("there are 2 combinations"), "{}", ran.stderr);
    assert!(ran.stderr.contains("must be a whole number of at least 1"), "{}", ran.stderr);
    assert!(ran.stdout.contains("failed"), "{}", ran.stdout);
    for (change, words) in [
        (("  valid_data_dir: \"valid\"\n", ""), "`runner.valid_data_dir` is missing"),
        (("{log: [1e-3, 1e-1]}", "{log: [1e-1]}"), "must be two numbers, the smaller one first"),
        (("tune:\n", "tune:\n  metric: rmse\n"), "`tune.metric` is `rmse`, which is not computed"),
    ] {
        let text = CONFIG.replace(change.0, change.1);
        fs::write(folder.path().join("config.yaml"), text).unwrap();
        let ran = tune(folder.path(), "--trials 1");
        assert!(ran.code == Some(1) && ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
fn a_search_that_is_stopped_shows_what_is_done() {
    let folder = desk();
    let text = CONFIG.replace("epochs: 2", "epochs: 4");
    fs::write(folder.path().join("config.yaml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bireme"));
    command.args(["tune", "-m", "config.yaml", "--trials", "500"]).current_dir(folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(said);
    assert!(lines.any(|line| line.unwrap().contains("(1 of 500)")));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("the same command goes on")), "{rest:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("trial") && stdout.contains("page   models/tune"), "{stdout}");
}
