//! From YAML to a trained model, as `docs/training.md` tells it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Ran, bireme, finish};

const CONFIG: &str = "\
model: dnn
runner:
  train_data_dir: \"data\"
  test_data_dir: \"data\"
  train_batch_size: 100
  epochs: 2
  print_interval: 5
  use_auc: True
  split_file_list: True
  model_save_path: \"models\"
  infer_load_path: \"models\"
  infer_end_epoch: 2
hyper_parameters:
  optimizer: {class: Adam, learning_rate: 0.005}
  sparse_feature_number: 6001
  sparse_feature_dim: 4
  fc_sizes: [16]
";

fn desk() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.yaml"), CONFIG).unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let dnn = bireme_rec::zoo::find("dnn").unwrap();
    for part in 0..2 {
        let mut text = Vec::new();
        (dnn.generate)(&mut text, 1000, part).unwrap();
        fs::write(folder.path().join(format!("data/part-{part}")), text).unwrap();
    }
    folder
}

fn run(folder: &Path, line: &str) -> Ran {
    bireme(folder, &line.split_whitespace().collect::<Vec<_>>(), "")
}

#[test]
fn train_infer_and_report() {
    let folder = desk();
    let ran = run(folder.path(), "train -m config.yaml -o runner.epochs=3 runner.thread_num=2");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("epoch 2: loss 0."), "{}", ran.stdout);
    assert!(ran.stderr.contains("epoch: 2 done, cost: 0."), "{}", ran.stderr);
    let ran = run(folder.path(), "infer -m config.yaml");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);
    assert!(ran.stdout.contains(", 2000 samples"), "{}", ran.stdout);
    let ran = run(folder.path(), "report models");
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "models/report.html\n"),
        "{}",
        ran.stderr
    );
    let page = fs::read_to_string(folder.path().join("models/report.html")).unwrap();
    assert!(page.contains("<h2>Loss</h2>"));
}

#[test]
fn a_cluster_from_one_command_and_from_fleetrun() {
    let folder = desk();
    let ran = run(folder.path(), "train -m config.yaml --servers 1 --workers 2 --mode sync");
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(folder.path().join("models/1/rec_inference.pdmodel").is_file());
    fs::remove_dir_all(folder.path().join("models")).unwrap();
    let line = "--server_num=1 --worker_num=2 -m config.yaml -o runner.sync_mode=async";
    let mut fleetrun = Command::new(env!("CARGO_BIN_EXE_fleetrun"));
    let ran = finish(fleetrun.args(line.split_whitespace()).current_dir(&folder), "");
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let log = fs::read_to_string(folder.path().join("log/workerlog.0")).unwrap();
    assert!(log.contains("Epoch: 1, using time: ") && log.contains("Run Success, Exit."), "{log}");
}

#[test]
fn mistakes_are_said_with_their_place() {
    let folder = desk();
    let wrong = CONFIG.replace("epochs: 2", "epochs: two");
    fs::write(folder.path().join("config.yaml"), wrong).unwrap();
    let ran = run(folder.path(), "train -m config.yaml");
    assert_eq!(ran.code, Some(1));
    let error = "error: config.yaml:6:11: `runner.epochs` must be a whole number of at least 0, not \
                 the text \"two\"\n";
    assert_eq!(ran.stderr, error);
    let ran = run(folder.path(), "train -o runner.epochs=2");
    assert!(ran.code == Some(1) && ran.stderr.contains("name one with `-m`"), "{}", ran.stderr);
}

#[test]
fn ctrl_c_ends_with_130_and_resume_goes_on() {
    let folder = desk();
    let long = "train -m config.yaml -o runner.epochs=100000 runner.checkpoint_interval=3";
    let mut child = Command::new(env!("CARGO_BIN_EXE_bireme"))
        .args(long.split_whitespace())
        .current_dir(&folder)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("epoch: 1, batch_id: 5")).unwrap().unwrap();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.last().unwrap().contains("`--resume` goes on"), "{rest:?}");
    let epochs = fs::read_dir(folder.path().join("models")).unwrap().count();
    let ran =
        run(folder.path(), &format!("train -m config.yaml --resume -o runner.epochs={epochs}"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("goes on from checkpoint"), "{}", ran.stderr);
}
