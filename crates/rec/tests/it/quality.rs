//! What makes a model better: shuffled samples, settings of the optimizer, validation, early ends.

use bireme_rec::run::{Best, Options, infer};
use bireme_rec::{Config, Log, report};

use crate::job::{Process, Setup, comparable};

const RUN: &str = "  epochs: 2\n  train_batch_size: 20\n  print_interval: 1\n  \
                   checkpoint_interval: 4\n";

/// Kills a process that has written a checkpoint or two.
fn kill(process: &mut Process) {
    let is_progress = |line: &str| line.starts_with("time: [");
    assert!((0..12).all(|_| process.until(is_progress).is_some()), "{:?}", process.said());
    process.kill();
}

#[test]
fn another_order_every_epoch_is_the_same_after_a_kill() {
    let plain = Setup::new(3, 200, RUN);
    let as_read = plain.start(&[], false).finish();
    for shuffle in ["files", "buffer\n  shuffle_buffer: 100", "memory"] {
        let keys = format!("{RUN}  shuffle: {shuffle}\n");
        let setup = Setup::new(3, 200, &keys);
        let epochs = setup.start(&[], false).finish();
        assert_eq!(epochs[0].samples, 600, "{shuffle}");
        assert_ne!(comparable(&epochs), comparable(&as_read), "{shuffle}");
        let killed = Setup::new(3, 200, &keys);
        kill(&mut killed.start(&[], false));
        let resumed = killed.start(&[], true).finish();
        assert_eq!(comparable(&resumed), comparable(&epochs), "{shuffle}");
        assert!(killed.parameters(1) == setup.parameters(1), "{shuffle}");
        let other = Setup::new(3, 200, &format!("{keys}  seed: 7\n"));
        other.edit("  seed: 7\n", "");
        let again = other.start(&[], false).finish();
        assert_eq!(comparable(&again), comparable(&epochs), "{shuffle}: a seed decides");
    }
}

#[test]
fn trainers_with_servers_shuffle_in_memory_among_each_other() {
    let keys = format!("{RUN}  shuffle: memory\n  sync_mode: sync\n  split_file_list: True\n");
    let setup = Setup::new(4, 100, &keys);
    let mut processes = setup.start_cluster(2, false);
    let results: Vec<_> = processes.iter_mut().map(Process::finish).take(2).collect();
    // A trainer keeps what chance gives it, not just what its files had.
    let samples: Vec<u64> = results.iter().map(|epochs| epochs[0].samples).collect();
    assert!(samples.iter().all(|samples| (150..=200).contains(samples)), "{samples:?}");
    let killed = Setup::new(4, 100, &keys);
    let mut processes = killed.start_cluster(2, false);
    let reached = (0..12).all(|_| processes[0].until(|line| line.starts_with("time: [")).is_some());
    processes[1].kill();
    assert!(reached, "{:?}", processes[0].said());
    drop(processes);
    let resumed = killed.run_cluster(2, true);
    assert_eq!(comparable(&resumed), comparable(&results[0]));
    assert!(killed.parameters(1) == setup.parameters(1));
}

/// Adds validation data to a setup, which is drawn from the same world.
fn validated(files: u64, rows: usize, keys: &str) -> Setup {
    let setup =
        Setup::new(files, rows, &format!("{keys}  valid_data_dir: \"{{workspace}}/valid\"\n"));
    let folder = setup.folder().join("valid");
    std::fs::create_dir(&folder).unwrap();
    let mut text = Vec::new();
    (bireme_rec::zoo::find("dnn").unwrap().generate)(&mut text, 500, 99).unwrap();
    std::fs::write(folder.join("part-0"), text).unwrap();
    setup
}

fn options() -> Options {
    Options { log: Log::silent(), ..Options::default() }
}

#[test]
fn training_stops_early_and_names_the_best_epoch() {
    let keys = "  epochs: 30\n  train_batch_size: 20\n  print_interval: 10\n  metrics: [auc, logloss, \
                pcoc, gauc]\n  metric_group: 3\n  early_stop: {metric: logloss, patience: 2}\n";
    let setup = validated(2, 500, keys);
    let mut process = setup.start(&[], false);
    let epochs = process.finish();
    let said = process.said().join("\n");
    let best = Best::read(&setup.folder().join("models")).unwrap().unwrap();
    assert_eq!(epochs.len() as u64, best.epoch + 3, "{epochs:?}");
    let losses: Vec<f64> = epochs.iter().map(|epoch| epoch.valid["logloss"]).collect();
    assert_eq!(losses.iter().copied().fold(f64::MAX, f64::min), best.value);
    assert!(said.contains("training stops early: logloss has not got better"), "{said}");
    assert!(said.contains(&format!("the best epoch is {}: valid logloss", best.epoch)), "{said}");
    assert!(said.contains(", pcoc: ") && said.contains(" valid, auc: "), "{said}");
    assert!(epochs[0].metrics.contains_key("logloss") && !epochs[0].metrics.contains_key("gauc"));
    assert!(epochs[0].valid.contains_key("gauc"), "{epochs:?}");
    // `infer` tries the best one, and computes what validation did.
    let test = [format!("runner.test_data_dir={}", setup.folder().join("valid").display())];
    let config = Config::load(&setup.config(), &test).unwrap();
    let evaluations = infer(&config, &options()).unwrap();
    assert_eq!((evaluations.len(), evaluations[0].epoch), (1, best.epoch));
    let valid = &epochs[best.epoch as usize].valid;
    for name in ["auc", "logloss", "pcoc", "gauc"] {
        let difference = (evaluations[0].metrics[name] - valid[name]).abs();
        assert!(difference < 1e-9, "{name}: {evaluations:?} {valid:?}");
    }
    let run = report::read(&setup.folder().join("models")).unwrap();
    let page = report::page(&run);
    for text in ["validation <b>", "infer <b>", "<h2>PCOC</h2>", "<h2>GAUC</h2>", "<th>validation"]
    {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_validated_run_that_is_killed_ends_as_one_that_was_not() {
    let keys = format!("{RUN}  metrics: [logloss]\n  save_epochs: 2\n")
        .replace("epochs: 2\n", "epochs: 4\n");
    let undisturbed = validated(2, 200, &keys);
    let expected = undisturbed.start(&[], false).finish();
    let plain = Setup::new(2, 200, &keys);
    let unseen = plain.start(&[], false).finish();
    assert_eq!(comparable(&expected), comparable(&unseen), "validation changes nothing");
    let killed = validated(2, 200, &keys);
    kill(&mut killed.start(&[], false));
    let epochs = killed.start(&[], true).finish();
    assert_eq!(comparable(&epochs), comparable(&expected));
    let valid = |epochs: &[bireme_rec::run::Epoch]| {
        epochs.iter().map(|epoch| epoch.valid.clone()).collect::<Vec<_>>()
    };
    assert_eq!(valid(&epochs), valid(&expected));
    let best = |setup: &Setup| Best::read(&setup.folder().join("models")).unwrap();
    assert_eq!(best(&killed), best(&undisturbed));
    assert!(!undisturbed.parameters(best(&killed).unwrap().epoch).is_empty(), "the best is kept");
}

#[test]
fn trainers_validate_together_in_every_mode() {
    let keys = "  epochs: 2\n  train_batch_size: 20\n  metrics: [logloss, gauc]\n  metric_group: 3\n  \
                split_file_list: True\n";
    for mode in ["sync", "async", "half_async", "geo", "hybrid", "ranks"] {
        let mode_key = match mode {
            "ranks" => "  use_fleet: True\n".to_owned(),
            mode => format!("  sync_mode: {mode}\n  geo_step: 3\n"),
        };
        let setup = validated(4, 200, &format!("{keys}{mode_key}"));
        let mut processes = match mode {
            "ranks" => setup.start_ranks(2, false),
            _ => setup.start_cluster(2, false),
        };
        let results: Vec<_> = processes.iter_mut().map(Process::finish).take(2).collect();
        for (one, other) in results[0].iter().zip(&results[1]) {
            assert_eq!(one.valid, other.valid, "{mode}");
            assert!(one.valid["auc"] > 0.4 && one.valid["gauc"].is_finite(), "{mode}: {one:?}");
        }
        // The saved model has the same loss, wherever its parameters are.
        let last = &results[0][1];
        let test = [
            format!("runner.test_data_dir={}", setup.folder().join("valid").display()),
            "runner.infer_start_epoch=1".to_owned(),
            "runner.infer_end_epoch=2".to_owned(),
        ];
        let config = Config::load(&setup.config(), &test).unwrap();
        let evaluation = infer(&config, &options()).unwrap().remove(0);
        // In the modes that let values be old, a trainer validates with its own.
        let bound = if ["sync", "ranks"].contains(&mode) { 1e-6 } else { 0.05 };
        let difference = (evaluation.metrics["logloss"] - last.valid["logloss"]).abs();
        assert!(difference < bound, "{mode}: {evaluation:?} {last:?}");
    }
}

/// Settings of the optimizer that change what is learned.
const SETTINGS: &str = "class: Adam\n    weight_decay: 0.001\n    epsilon: 0.001\n    \
                        lr_scheduler: {class: ExponentialDecay, gamma: 0.9, decay_steps: 5}\n    \
                        warmup: {warmup_steps: 4}";

#[test]
fn servers_have_the_same_penalty_and_schedule_as_training_alone() {
    let keys = "  epochs: 2\n  train_batch_size: 20\n  sync_mode: sync\n";
    let plain = Setup::new(2, 200, keys).start(&[], false).finish();
    let setup = |settings: &str| {
        let setup = Setup::new(2, 200, keys);
        setup.edit("class: Adam", settings);
        setup
    };
    let alone = setup(SETTINGS).start(&[], false).finish();
    let with_server = setup(SETTINGS).run_cluster(1, false);
    for ((alone, with_server), plain) in alone.iter().zip(&with_server).zip(&plain) {
        assert!((alone.loss - with_server.loss).abs() < 1e-5, "{alone:?} {with_server:?}");
        assert!((alone.loss - plain.loss).abs() > 1e-3, "{alone:?} {plain:?}");
    }
    // Rows that are pushed as they come are neither clipped nor all of them penalised.
    let refused = |settings: &str, more: &str, words: &str| {
        let setup = setup(settings);
        setup.edit("  sparse_feature_dim: 4\n", &format!("  sparse_feature_dim: 4\n{more}"));
        // A server refuses it as well; here it is a trainer without one.
        let trainer = [
            ("TRAINING_ROLE", "TRAINER".to_owned()),
            ("PADDLE_TRAINERS_NUM", "1".to_owned()),
            ("PADDLE_TRAINER_ID", "0".to_owned()),
            ("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:1".to_owned()),
        ];
        let mut process = setup.start(&trainer, false);
        let line = process.until(|line| line.starts_with("error: ")).unwrap();
        assert!(line.contains(words), "{line}");
    };
    let clip = "class: Adam\n    grad_clip: {class: ClipGradByGlobalNorm, clip_norm: 1.0}";
    refused(
        clip,
        "",
        "`hyper_parameters.optimizer.grad_clip.class` clips gradients, and with servers",
    );
    refused(SETTINGS, "  distributed_embedding: 1\n", "`hyper_parameters.optimizer.weight_decay`");
}

#[test]
fn clipping_holds_training_back() {
    let keys = "  epochs: 1\n  train_batch_size: 20\n";
    let loss = |settings: &str| {
        let setup = Setup::new(1, 400, keys);
        setup.edit("class: Adam", settings);
        setup.start(&[], false).finish()[0].loss
    };
    let free = loss("class: SGD");
    let clipped =
        loss("class: SGD\n    grad_clip: {class: ClipGradByGlobalNorm, clip_norm: 1.0e-6}");
    let loose = loss("class: SGD\n    grad_clip: {class: ClipGradByGlobalNorm, clip_norm: 1000}");
    assert!(clipped > free && (loose - free).abs() < 1e-6, "{free} {clipped} {loose}");
}

#[test]
fn a_model_with_dropout_and_norms_is_validated_as_it_predicts() {
    let keys = "  epochs: 2\n  train_batch_size: 50\n  metrics: [logloss]\n";
    let setup = validated(1, 600, keys);
    setup.edit(
        "  fc_sizes: [16, 8]\n",
        "  fc_sizes: [16, 8]\n  dropout_rate: 0.2\n  use_bn: True\n",
    );
    let epochs = setup.start(&[], false).finish();
    let test = [format!("runner.test_data_dir={}", setup.folder().join("valid").display())];
    let config = Config::load(&setup.config(), &test).unwrap();
    let best = infer(&config, &options()).unwrap().remove(0);
    let valid = &epochs[best.epoch as usize].valid;
    assert!((best.metrics["logloss"] - valid["logloss"]).abs() < 1e-9, "{best:?} {valid:?}");
}
