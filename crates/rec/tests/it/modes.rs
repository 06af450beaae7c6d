//! One configuration in every mode, its log lines, and inference with what was saved.

use bireme_rec::run::{Options, infer};
use bireme_rec::{Config, Log};

use crate::job::{Setup, comparable};

const RUN: &str = "  epochs: 3\n  train_batch_size: 50\n  print_interval: 5\n";

fn options() -> Options {
    Options { log: Log::silent(), ..Options::default() }
}

/// The shape of a line: digits are 0, runs of them one 0.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for c in line.chars() {
        match c.is_ascii_digit() {
            true if shape.ends_with('0') => {}
            true => shape.push('0'),
            false => shape.push(c),
        }
    }
    shape
}

#[test]
fn training_alone_says_what_static_trainer_says_and_learns() {
    let setup = Setup::new(2, 1000, &RUN.replace("print", "thread_num: 1\n  print"));
    let text = std::fs::read_to_string(setup.config()).unwrap();
    std::fs::write(setup.config(), text.replace("QueueDataset", "DataLoader")).unwrap();
    let mut process = setup.start(&[], false);
    let epochs = process.finish();
    assert!(epochs[2].metrics["auc"] > 0.6, "{epochs:?}");
    let said = process.said().join("\n");
    for line in [
        "**************common.configs**********",
        "use_gpu: False, use_xpu: False, use_npu: False, use_visual: False, train_batch_size: 50, ",
        "- INFO - read data",
        "- INFO - epoch: 0, batch_id: 35, cost: 0.",
        ", auc: 0.",
        "epoch: 2 done, cost: 0.",
        "- INFO - Already save model in ",
        "PaddleRec Benchmark Envs",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let step = process.said().iter().find(|line| line.contains("batch_id: 5")).unwrap();
    assert_eq!(
        shape(step),
        "0-0-0 0:0:0,0 - INFO - epoch: 0, batch_id: 0, cost: 0.0, auc: 0.0, avg_reader_cost: 0.0 \
         sec, avg_batch_cost: 0.0 sec, avg_samples: 0.0, ips: 0.0 ins/s"
    );

    let config = Config::load(&setup.config(), &["runner.infer_end_epoch=3".to_owned()]).unwrap();
    let evaluations = infer(&config, &options()).unwrap();
    let aucs: Vec<f64> = evaluations.iter().map(|epoch| epoch.metrics["auc"]).collect();
    // On its own training data a later model is better.
    assert!(aucs.len() == 3 && aucs[2] > 0.65 && aucs[2] > aucs[0], "{aucs:?}");
    assert_eq!(evaluations[0].samples, 2000);
    let page = bireme_rec::report::read(&setup.folder().join("models")).unwrap();
    assert!(page.trainers[0].ended && bireme_rec::report::page(&page).contains("<h2>AUC</h2>"));
}

#[test]
fn every_mode_with_servers_learns_and_says_what_static_ps_trainer_says() {
    for mode in ["sync", "async", "half_async", "geo", "hybrid"] {
        let more = format!("{RUN}  sync_mode: {mode}\n  geo_step: 5\n  split_file_list: True\n");
        let setup = Setup::new(4, 500, &more);
        let mut processes = setup.start_cluster(2, false);
        let results: Vec<_> = processes.iter_mut().map(|process| process.finish()).collect();
        assert_eq!((results[0].len(), results[1].len(), results[2].len()), (3, 3, 0), "{mode}");
        // The AUC is of both trainers.
        assert_eq!(results[0][2].metrics, results[1][2].metrics, "{mode}");
        assert!(results[0][2].metrics["auc"] > 0.6, "{mode}: {:?}", results[0]);
        let said = processes[0].said();
        let line = said.iter().find(|line| line.contains("Epoch: 2, using time: ")).unwrap();
        assert_eq!(
            shape(line),
            "0-0-0 0:0:0,0 - INFO - Epoch: 0, using time: 0.0 second, ips: 0.0 example/sec. auc: 0.0",
            "{mode}"
        );
        let said = said.join("\n");
        for line in [
            "- INFO - Run Worker Begin",
            "- INFO - Epoch: 0, Running Dataset Begin.",
            ", batch: [5], Epoch 0 Var cost[1]:[0.",
            "], Epoch 0 Var auc[1]:[0.",
            "- INFO - train_result_dict: {'speed': [",
            "- INFO - Run Success, Exit.",
        ] {
            assert!(said.contains(line), "{mode}: {line}\n{said}");
        }
        assert!(processes[2].said().join("\n").contains("Run Server Begin"));
        let path = setup.folder().join("models/train_result_dict.txt");
        let results = std::fs::read_to_string(path).unwrap();
        assert!(
            results.starts_with("{'speed': [") && results.contains("], 'auc': [0."),
            "{results}"
        );
        let config = Config::load(&setup.config(), &[]).unwrap();
        assert_eq!(infer(&config, &options()).unwrap()[0].samples, 2000, "{mode}");
    }
}

#[test]
fn ranks_train_together_and_agree_on_their_steps() {
    let more = format!("{RUN}  use_fleet: True\n  split_file_list: True\n");
    // The first rank has a file more than the second.
    let setup = Setup::new(3, 500, &more);
    let mut ranks = setup.start_ranks(2, false);
    let results: Vec<_> = ranks.iter_mut().map(|rank| rank.finish()).collect();
    assert_eq!(results[0][0].samples, 500);
    assert_eq!(results[0][2].metrics, results[1][2].metrics);
    assert!(results[0][2].metrics["auc"] > 0.55, "{:?}", results[0]);
}

#[test]
fn sync_training_gives_the_same_numbers_twice_and_starts_from_a_model() {
    let more = format!("{RUN}  sync_mode: sync\n  split_file_list: True\n");
    let first = Setup::new(2, 300, &more);
    let second = Setup::new(2, 300, &more);
    let results = [first.run_cluster(2, false), second.run_cluster(2, false)];
    assert_eq!(comparable(&results[0]), comparable(&results[1]));
    assert!(first.parameters(2) == second.parameters(2));
    let text = std::fs::read_to_string(first.config()).unwrap();
    let model = first.folder().join("models/2");
    let warm = format!("runner:\n  warmup_model_path: \"{}\"", model.display());
    let third = Setup::new(2, 300, &more);
    std::fs::write(third.config(), text.replace("runner:", &warm)).unwrap();
    let results_of_third = third.run_cluster(2, false);
    let auc = |epoch: &bireme_rec::run::Epoch| epoch.metrics["auc"];
    assert!(auc(&results_of_third[0]) > auc(&results[0][0]) + 0.02, "{results_of_third:?}");
}
