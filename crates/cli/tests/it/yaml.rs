//! From YAML to a trained model, as `docs/training.md` tells it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bireme_rec::run::Event;

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
fn a_quiet_training_shows_results_alone_and_a_seed_changes_them() {
    let folder = desk();
    let [one, again, other] = ["7", "7", "8"]
        .map(|seed| run(folder.path(), &format!("train -m config.yaml --quiet --seed {seed}")));
    assert_eq!((one.code, one.stderr.as_str()), (Some(0), ""));
    assert!(one.stdout.starts_with("epoch 1: loss 0."), "{}", one.stdout);
    assert!(one.stdout == again.stdout && one.stdout != other.stdout, "{}", other.stdout);
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

/// Where the launcher writes what the first worker says.
const LOG: &str = "log/workerlog.0";
/// A job that says every step, with checkpoints between them.
const WATCHED: &str = "-m config.yaml -o runner.print_interval=1 runner.checkpoint_interval=4 \
                       runner.reader_type=QueueDataset";

/// Starts `fleetrun`, kills the process of a role as a power failure would once the first worker has
/// said so many steps, and waits for the end.
fn run_and_kill(folder: &Path, line: &str, victim: &str, steps: usize) -> Ran {
    let mut fleetrun = Command::new(env!("CARGO_BIN_EXE_fleetrun"));
    let args = format!("--max_restart 2 {line}");
    fleetrun.args(args.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    let child = fleetrun.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let progress = || {
        let log = fs::read_to_string(folder.join(LOG)).unwrap_or_default();
        log.lines().filter(|line| line.starts_with("time: [")).count()
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    while progress() < steps {
        assert!(Instant::now() < deadline, "no {steps} steps in two minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = process_with(child.id(), victim).expect("the victim runs");
    assert!(Command::new("kill").args(["-9", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The last process below `launcher` that has a variable in its environment.
fn process_with(launcher: u32, variable: &str) -> Option<String> {
    let mut below = vec![launcher.to_string()];
    let mut found = None;
    while let Some(id) = below.pop() {
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        below.extend(children.unwrap_or_default().split_whitespace().map(str::to_owned));
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes()) {
            found = Some(id);
        }
    }
    found
}

/// Samples of each epoch that the event log of a trainer has, once each.
fn samples(folder: &Path, trainer: usize) -> Vec<u64> {
    let run = bireme_rec::report::read(&folder.join("models")).unwrap();
    let samples = |event: &Event| match event {
        Event::Epoch { samples, .. } => Some(*samples),
        _ => None,
    };
    run.trainers[trainer].events.iter().filter_map(samples).collect()
}

#[test]
fn a_launcher_starts_a_killed_job_again_and_it_goes_on_by_itself() {
    let servers = format!("--server_num=1 --worker_num=2 {WATCHED} runner.sync_mode=");
    let ranks = format!("--nproc_per_node=2 {WATCHED} runner.use_fleet=true");
    let (server, trainer) = ("TRAINING_ROLE=PSERVER", "PADDLE_TRAINER_ID=1");
    // 10 steps an epoch; in sync and without servers the end is the same to the bit.
    let exact = [
        (format!("{servers}sync"), vec![(server, 1), (trainer, 7), (server, 13)]),
        (ranks, vec![(trainer, 5), (trainer, 16)]),
    ];
    for (line, kills) in exact {
        let undisturbed = desk();
        let mut fleetrun = Command::new(env!("CARGO_BIN_EXE_fleetrun"));
        let ran = finish(fleetrun.args(line.split_whitespace()).current_dir(&undisturbed), "");
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
        let model = |folder: &Path| fs::read(folder.join("models/1/rec_inference.pdiparams"));
        for (victim, steps) in kills {
            let folder = desk();
            let ran = run_and_kill(folder.path(), &line, victim, steps);
            assert_eq!(ran.code, Some(0), "{line}: {}\n{}", ran.stdout, ran.stderr);
            assert_eq!(samples(folder.path(), 0), [1000, 1000], "{line}");
            let same = model(folder.path()).unwrap() == model(undisturbed.path()).unwrap();
            assert!(same, "{line}, {victim} killed after {steps} steps");
        }
    }
    for (mode, victim, steps) in
        [("async", trainer, 6), ("async", server, 12), ("geo", trainer, 14), ("geo", server, 3)]
    {
        let folder = desk();
        let ran = run_and_kill(folder.path(), &format!("{servers}{mode}"), victim, steps);
        assert_eq!(ran.code, Some(0), "{mode}: {}\n{}", ran.stdout, ran.stderr);
        for trainer in 0..2 {
            assert_eq!(samples(folder.path(), trainer), [1000, 1000], "{mode}, {victim}");
        }
    }
}

/// A training of the desk that was sent a signal after its first steps: exit code and what it said.
fn signalled(folder: &Path, signal: &str, more: &[&str]) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bireme"))
        .args(["train", "-m", "config.yaml", "-o", "runner.print_interval=1"])
        .args(more)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.contains("batch_id: 3")).unwrap();
    assert!(
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success()
    );
    let said: Vec<String> = lines.collect();
    (child.wait().unwrap().code(), said.join("\n"))
}

#[test]
fn a_training_that_is_told_to_stop_saves_a_checkpoint_and_goes_on_from_it() {
    for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
        let folder = desk();
        let (ended, said) = signalled(folder.path(), signal, &["runner.epochs=100000"]);
        assert_eq!(ended, Some(code), "{said}");
        let said = said.lines().last().unwrap();
        assert!(
            said.starts_with("interrupted; `--resume` goes on from models/checkpoints/"),
            "{said}"
        );
        let ran = run(folder.path(), "train -m config.yaml --resume -o runner.epochs=3");
        let begun = ran.stderr.lines().find(|line| line.contains("goes on from checkpoint"));
        // Before the end of the first epoch, or some epochs later on a machine that was busy.
        assert!(begun.is_some(), "{}", ran.stderr);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
}

#[test]
fn trainers_of_one_machine_read_every_sample_once() {
    let folder = desk();
    fs::remove_file(folder.path().join("data/part-1")).unwrap();
    let ran = run(folder.path(), "train -m config.yaml --servers 1 --workers 2 --mode sync");
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let mut samples = 0;
    for trainer in 0..2 {
        let log = folder.path().join(format!("models/run/trainer-{trainer}.jsonl"));
        for line in fs::read_to_string(log).unwrap().lines() {
            if let Ok(Event::Epoch { epoch: 0, samples: own, .. }) = serde_json::from_str(line) {
                samples += own;
            }
        }
    }
    // Steps that both make: what is left over of the larger share is none.
    assert!((900..=1000).contains(&samples), "{samples}");
    let log = fs::read_to_string(folder.path().join("log/workerlog.0")).unwrap();
    assert!(log.contains("1 files are fewer than 2 trainers"), "{log}");
}

#[test]
fn names_that_are_not_those_of_the_data_are_refused() {
    let folder = desk();
    let part = folder.path().join("data/part-0");
    fs::remove_file(folder.path().join("data/part-1")).unwrap();
    let text = fs::read_to_string(&part).unwrap();
    let refused = |text: &str, options: &str| {
        fs::write(&part, text).unwrap();
        let ran = run(folder.path(), &format!("train -m config.yaml {options}"));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        ran.stderr.lines().last().unwrap().to_owned()
    };
    let said = refused(&text.replace("click:", "label:"), "");
    assert!(said.contains("part-0:1: ") && said.ends_with("write `click:` for `label:`"), "{said}");
    let said = refused(&text.replace(" 1:", " C1:"), "");
    assert!(said.contains("names slot `1`") && said.contains("they name `C1:`"), "{said}");
    let said = refused(&text, "-o hyper_parameters.sparse_feature_number=50");
    assert!(said.contains("data/part-0:2 has it, in slot `3`"), "{said}");
    assert!(!folder.path().join("models/0").exists(), "no model of zeros is saved");
}

#[test]
fn slots_that_the_data_does_not_have_are_zeros_with_a_warning() {
    let folder = desk();
    let part = folder.path().join("data/part-0");
    fs::remove_file(folder.path().join("data/part-1")).unwrap();
    let text = fs::read_to_string(&part).unwrap();
    let without_dense = |line: &str| {
        let is_dense = |token: &&str| token.starts_with("dense_feature:");
        line.split(' ').filter(|token| !is_dense(token)).collect::<Vec<_>>().join(" ")
    };
    fs::write(&part, text.lines().map(without_dense).collect::<Vec<_>>().join("\n")).unwrap();
    let options = "-o hyper_parameters.sparse_inputs_slots=29 runner.epochs=1";
    let ran = run(folder.path(), &format!("train -m config.yaml {options}"));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        said.contains("names slots `27`, `28`, `dense_input` (`dense_feature:` in the data)"),
        "{said}"
    );
}
