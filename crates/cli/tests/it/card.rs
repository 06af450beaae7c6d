//! Training on a card by `--device` and `runner.use_gpu`, on the emulated one.

use std::fs;
use std::path::Path;
use std::process::Command;

use bireme_emulator::DIR;

use crate::{Ran, bireme, finish};

const CONFIG: &str = "\
model: dnn
runner:
  train_data_dir: \"data\"
  test_data_dir: \"data\"
  train_batch_size: 40
  epochs: 1
  print_interval: 2
  use_gpu: True
  model_save_path: \"models\"
  infer_load_path: \"models\"
  infer_end_epoch: 1
hyper_parameters:
  optimizer: {class: Adam, learning_rate: 0.005}
  sparse_feature_number: 6001
  sparse_feature_dim: 4
  fc_sizes: [8]
";

fn desk() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.yaml"), CONFIG).unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let dnn = bireme_rec::zoo::find("dnn").unwrap();
    let mut text = Vec::new();
    (dnn.generate)(&mut text, 200, 1).unwrap();
    fs::write(folder.path().join("data/part-0"), text).unwrap();
    folder
}

/// Runs the command where there is a card; none where the emulated one was not built.
fn on_card(folder: &Path, line: &str) -> Option<Ran> {
    let args = line.split_whitespace();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bireme"));
    command.args(args).current_dir(folder).env("BIREME_CUDA_LIBRARIES", DIR?);
    Some(finish(&mut command, ""))
}

/// The loss in the first line of a result.
fn loss(ran: &Ran) -> f64 {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let text = ran.stdout.split_once("loss ").unwrap().1;
    text.split([',', '\n']).next().unwrap().trim().parse().unwrap()
}

#[test]
fn a_yaml_file_trains_on_a_card_as_on_the_host() {
    let folder = desk();
    let folder = folder.path();
    let Some(card) = on_card(folder, "train -m config.yaml") else { return };
    assert!(card.stderr.contains("memory of emulated card, card 0: "), "{}", card.stderr);
    assert_eq!(card.stderr.matches("memory of ").count(), 1, "{}", card.stderr);
    let evaluated = on_card(folder, "infer -m config.yaml").unwrap();
    let at_home = bireme(folder, &["infer", "-m", "config.yaml", "--device", "cpu"], "");
    assert!((loss(&evaluated) - loss(&at_home)).abs() < 1e-4, "{}", at_home.stdout);
    fs::remove_dir_all(folder.join("models")).unwrap();
    let quiet = on_card(folder, "train -m config.yaml --quiet --device gpu:1").unwrap();
    assert_eq!((quiet.stderr.as_str(), &quiet.stdout), ("", &card.stdout));
    let host = bireme(folder, &["train", "-m", "config.yaml", "--device", "cpu"], "");
    assert!((loss(&card) - loss(&host)).abs() < 1e-4, "{} {}", card.stdout, host.stdout);
}

#[test]
fn a_run_on_a_card_goes_on_from_a_checkpoint() {
    let folder = desk();
    let folder = folder.path();
    let line = "train -m config.yaml -o runner.save_epochs=1 runner.epochs=2";
    let Some(whole) = on_card(folder, line) else { return };
    fs::remove_dir_all(folder.join("models")).unwrap();
    let first = "train -m config.yaml -o runner.save_epochs=1 runner.epochs=1";
    loss(&on_card(folder, first).unwrap());
    let rest = on_card(folder, &format!("{line} --resume")).unwrap();
    assert!(rest.stderr.contains("goes on from checkpoint"), "{}", rest.stderr);
    assert!((loss(&rest) - loss(&whole)).abs() < 1e-6, "{} {}", rest.stdout, whole.stdout);
}

#[test]
fn the_example_trains_on_a_card() {
    let folder = tempfile::tempdir().unwrap();
    let line = "train --device gpu --samples 256 --batch-size 64 --rows 500 --output demo";
    let Some(ran) = on_card(folder.path(), line) else { return };
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("training on a GPU, batches of 64"), "{}", ran.stderr);
    assert!(ran.stdout.contains("AUC"), "{}", ran.stdout);
    let ran = on_card(folder.path(), "inspect demo/model --memory --batch 64").unwrap();
    assert!(ran.stdout.starts_with("On emulated card, card 0, with a batch of 64\n"));
    assert!(ran.stdout.contains("are free"), "{}", ran.stdout);
    let paper = bireme(folder.path(), &["inspect", "demo/model", "--memory", "--batch", "64"], "");
    assert_eq!(paper.code, Some(0), "{}", paper.stderr);
    let table =
        |ran: &Ran| ran.stdout.lines().skip(2).take(8).map(str::to_owned).collect::<Vec<_>>();
    if paper.stdout.contains("a card on paper") {
        assert_eq!(table(&ran), table(&paper));
        assert!(!paper.stdout.contains("are free"));
    }
    assert!(table(&ran)[7].starts_with("sum "), "{}", ran.stdout);
    for (line, problem) in [
        ("train --device gpu --servers 2", "`--servers` is about a cluster"),
        ("train --device gpu --workers 2", "`--workers` is about a cluster"),
        ("train --device gpu --parallel threads", "`--parallel threads` is about threads"),
        ("train --device tpu", "write cpu, gpu, or gpu:1"),
        ("train -m config.yaml --device gpu --servers 1", "a cluster trains on CPUs so far"),
        ("inspect demo/model --batch 3", "--memory"),
    ] {
        fs::write(folder.path().join("config.yaml"), CONFIG).unwrap();
        let ran = on_card(folder.path(), line).unwrap();
        assert_ne!(ran.code, Some(0), "{line}");
        assert!(ran.stderr.contains(problem), "{line}: {}", ran.stderr);
    }
}

#[test]
fn what_is_missing_is_one_line() {
    let folder = desk();
    let folder = folder.path();
    let Some(far) = on_card(folder, "train -m config.yaml --device gpu:77") else { return };
    let line = "error: GPU 77 cannot be used; leave out `--device gpu` to train on the CPU: there is no card 77";
    assert!(far.stderr.lines().last().unwrap().starts_with(line), "{}", far.stderr);
    // A folder without libraries, where the system has none either.
    let none = bireme(folder, &["train", "-m", "config.yaml"], "");
    if none.code != Some(0) {
        let line =
            "error: GPU 0 cannot be used; add `--device cpu` to train on the CPU: no NVIDIA driver";
        assert!(none.stderr.lines().last().unwrap().starts_with(line), "{}", none.stderr);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_bireme"));
    command.args(["train", "-m", "config.yaml"]).current_dir(folder).env("BIREME_DEVICE", "cpu");
    let ran = finish(&mut command, "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("BIREME_DEVICE=cpu").count(), 1, "{}", ran.stderr);
    // A job of several processes, as a launcher starts it.
    let mut command = Command::new(env!("CARGO_BIN_EXE_bireme"));
    command.args(["train", "-m", "config.yaml"]).current_dir(folder);
    for (name, value) in [
        ("TRAINING_ROLE", "TRAINER"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:1"),
        ("PADDLE_TRAINERS_NUM", "1"),
        ("PADDLE_TRAINER_ID", "0"),
    ] {
        command.env(name, value);
    }
    let ran = finish(&mut command, "");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("`runner.use_gpu` asks for a GPU, and jobs of several"),
        "{}",
        ran.stderr
    );
}

#[test]
fn gpubox_trains_on_a_card_as_on_the_host() {
    let folder = desk();
    let folder = folder.path();
    let line = "train -m config.yaml -o runner.sync_mode=gpubox";
    let Some(card) = on_card(folder, line) else { return };
    assert!(card.stderr.contains("pass 1: 5200 keys, "), "{}", card.stderr);
    let host = bireme(
        folder,
        &[&line.split(' ').collect::<Vec<_>>()[..], &["--device", "cpu"]].concat(),
        "",
    );
    assert!((loss(&card) - loss(&host)).abs() < 1e-5, "{}\n{}", card.stdout, host.stdout);
}
