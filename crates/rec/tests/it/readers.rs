//! How data comes to trainers: files that they draw, commands that make lines, and what waiting for
//! them costs.

use crate::job::Setup;

#[test]
fn a_slow_trainer_does_not_hold_the_others_where_files_are_drawn() {
    for mode in ["async", "geo"] {
        let keys = format!(
            "  epochs: 2\n  train_batch_size: 20\n  print_interval: 1\n  sync_mode: {mode}\n  \
             geo_step: 5\n  share_files: True\n"
        );
        // 12 files of 3 batches; each batch of the slow trainer takes longer than a file of the other.
        let setup = Setup::new(12, 60, &keys);
        let mut processes = setup.start_uneven(2, false, 100);
        let results: Vec<_> = processes.iter_mut().map(|process| process.finish()).collect();
        for (quick, slow) in results[0].iter().zip(&results[1]) {
            let samples = [quick.samples, slow.samples];
            assert_eq!(samples[0] + samples[1], 720, "{mode}: every file once: {samples:?}");
            assert!(samples[0] > samples[1], "{mode}: {samples:?}");
        }
    }
}

#[test]
fn files_are_not_drawn_where_steps_are_made_together_or_positions_remembered() {
    let keys = "  epochs: 1\n  train_batch_size: 20\n  share_files: True\n  use_fleet: True\n";
    let setup = Setup::new(2, 60, keys);
    let mut ranks = setup.start_ranks(2, false);
    let line = ranks[0].until(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("`runner.share_files` lets trainers"), "{line}");
    drop(ranks);
    setup.edit("use_fleet: True", "checkpoint_interval: 3");
    let mut processes = setup.start_cluster(1, false);
    let line = processes[0].until(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("`runner.checkpoint_interval` cannot be used with"), "{line}");
}

/// Writes another name for slot 1 into all files.
fn rename_slot(setup: &Setup, files: usize) {
    for file in 0..files {
        let path = setup.folder().join(format!("data/part-{file}"));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(" 1:", " C1:")).unwrap();
    }
}

#[test]
fn what_was_trained_is_saved_before_a_slot_without_data_is_an_error() {
    let setup = Setup::new(2, 60, "  epochs: 2\n  train_batch_size: 20\n");
    rename_slot(&setup, 2);
    let mut process = setup.start(&[], false);
    let line = process.until(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("they name `C1:`, did you mean that?"), "{line}");
    assert!(!setup.parameters(0).is_empty());
    assert!(!setup.folder().join("models/1").exists());
}

#[test]
fn a_test_file_may_lack_a_slot() {
    let keys = "  epochs: 1\n  train_batch_size: 20\n  infer_end_epoch: 1\n";
    for reader in ["QueueDataset", "InmemoryDataset"] {
        let setup = Setup::new(1, 60, keys);
        setup.edit("reader_type: QueueDataset", &format!("reader_type: {reader}"));
        setup.start(&[], false).finish();
        rename_slot(&setup, 1);
        let config = bireme_rec::Config::load(&setup.config(), &[]).unwrap();
        let options = bireme_rec::run::Options::default();
        let evaluations = bireme_rec::run::infer(&config, &options).unwrap();
        assert_eq!(evaluations[0].samples, 60);
    }
}

/// `A;B;C` of ids, as PaddleRec writes histories, to the two slots of a model.
const READER: &str = "\
import sys

assert sys.argv[1].endswith('config.yaml'), sys.argv
for line in sys.stdin:
    slots = []
    for part in line.rstrip('\\n').split(';'):
        values = part.split(',')
        slots.append(' '.join([str(len(values)), *values]))
    print(' '.join(slots))
";

#[test]
fn a_python_reader_turns_lines_of_another_kind_into_samples() {
    let ncf = bireme_rec::zoo::find("ncf").unwrap();
    let setup = Setup::new(1, 1, "  epochs: 1\n  train_batch_size: 20\n  print_interval: 5\n");
    let mut text = Vec::new();
    (ncf.generate)(&mut text, 200, 1).unwrap();
    // `1 5 1 7 1 0` becomes `5;7;0`.
    let odd = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.chunks(2).map(|pair| pair[1]).collect::<Vec<_>>().join(";")
    };
    let lines: Vec<String> = String::from_utf8(text).unwrap().lines().map(odd).collect();
    std::fs::write(setup.folder().join("data/part-0"), lines.join("\n") + "\n").unwrap();
    std::fs::create_dir(setup.folder().join("elsewhere")).unwrap();
    std::fs::write(setup.folder().join("reader.py"), READER).unwrap();
    let head = "model: ncf\nrunner:\n  pipe_command: \"python3 reader.py\"";
    setup.edit("model: dnn\nrunner:", head);
    setup.edit("  sparse_feature_number: 6001\n  sparse_feature_dim: 4\n", "");
    let epochs = setup.start(&[], false).finish();
    assert_eq!(epochs[0].samples, 200);
    // Without it, the lines are wrong.
    setup.edit("  pipe_command: \"python3 reader.py\"\n", "");
    let mut process = setup.start(&[], false);
    let line = process.until(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("part-0"), "{line}");
}

#[test]
fn waiting_for_data_and_words_are_counted() {
    let keys = "  epochs: 1\n  train_batch_size: 20\n  print_interval: 1\n";
    let setup = Setup::new(1, 60, keys);
    setup.edit("reader_type: QueueDataset", "reader_type: DataLoader");
    // The first batch comes late.
    setup.edit("runner:", "runner:\n  pipe_command: \"sleep 1; cat; true\"");
    let text = std::fs::read_to_string(setup.folder().join("data/part-0")).unwrap();
    let multi_slot: Vec<String> = text.lines().map(to_multi_slot).collect();
    std::fs::write(setup.folder().join("data/part-0"), multi_slot.join("\n") + "\n").unwrap();
    let mut process = setup.start(&[], false);
    process.finish();
    let line = process.said().iter().find(|line| line.contains("batch_id: 0,")).unwrap();
    let cost = line.split("avg_reader_cost: ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(cost.parse::<f64>().unwrap() > 0.05, "{line}");

    let setup = Setup::new(2, 100, &format!("{keys}  sync_mode: async\n"));
    setup.edit("runner:", "runner:\n  example_count_method: word");
    let mut processes = setup.start_cluster(1, false);
    processes[0].finish();
    let said = processes[0].said().join("\n");
    // 40 words a line.
    assert!(said.contains("Total word: 8000\n"), "{said}");
    assert!(said.contains(" word/sec."), "{said}");
}

/// `click:0 dense_feature:0.1 … 1:5 …` as counts and values, in the order of the slots.
fn to_multi_slot(line: &str) -> String {
    let mut slots = vec![Vec::new(); 28];
    for token in line.split_whitespace() {
        let (name, value) = token.split_once(':').unwrap();
        let slot = match name {
            "click" => 0,
            "dense_feature" => 27,
            number => number.parse().unwrap(),
        };
        slots[slot].push(value);
    }
    let counted = |values: &Vec<&str>| format!("{} {}", values.len(), values.join(" "));
    slots.iter().map(counted).collect::<Vec<_>>().join(" ")
}
