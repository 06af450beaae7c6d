//! GPUBox from YAML with data that is read while it is trained: `reader_type: QueueDataset`.

use super::*;

/// So many rows of 4 weights and two moments each, with their keys.
fn memory(rows: usize) -> [(&'static str, String); 1] {
    [("BIREME_GPUBOX_MEMORY", (rows * (12 * 4 + 64)).to_string())]
}

#[test]
fn it_learns_what_sync_training_learns_whatever_the_memory() {
    let sync = Setup::new(2, 150, &KEYS.replace("gpubox", "sync")).run_cluster(1, false);
    let roomy = Setup::new(2, 150, KEYS);
    let mut process = roomy.start(&[], false);
    let epochs = process.finish();
    for (own, sync) in epochs.iter().zip(&sync) {
        assert!((own.loss - sync.loss).abs() < 1e-5, "{epochs:?}\n{sync:?}");
        assert!((own.metrics["auc"] - sync.metrics["auc"]).abs() < 1e-3, "{epochs:?}\n{sync:?}");
    }
    let said = process.said().join("\n");
    for line in ["stream: 15 batches, 7800 keys, ", " 0 evicted, hit rate ", "Run Success, Exit."] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let narrow = Setup::new(2, 150, KEYS);
    let mut process = narrow.start(&memory(540), false);
    assert_eq!(comparable(&process.finish()), comparable(&epochs));
    let said = process.said().join("\n");
    assert!(said.contains("stream: 15 batches") && !said.contains(" 0 evicted"), "{said}");
    let others = Setup::new(2, 150, KEYS);
    assert_eq!(comparable(&others.run_cluster(1, false)), comparable(&epochs));
    for epoch in 0..2 {
        assert!(narrow.parameters(epoch) == roomy.parameters(epoch), "epoch {epoch}");
        assert!(others.parameters(epoch) == roomy.parameters(epoch), "epoch {epoch}");
    }
}

#[test]
fn two_trainers_stream_their_own_files_and_go_on_after_a_kill() {
    let keys = format!("{KEYS}  split_file_list: True\n");
    let sync = Setup::new(4, 100, &keys.replace("gpubox", "sync")).run_cluster(2, false);
    let own = Setup::new(4, 100, &keys);
    let mut ranks = own.start_ranks(2, false);
    let epochs: Vec<_> = ranks.iter_mut().map(Process::finish).collect();
    for (own, sync) in epochs[0].iter().zip(&sync) {
        assert!((own.loss - sync.loss).abs() < 1e-5, "{epochs:?}\n{sync:?}");
        assert!((own.metrics["auc"] - sync.metrics["auc"]).abs() < 1e-3, "{epochs:?}\n{sync:?}");
    }
    let said = ranks[1].said().join("\n");
    assert!(said.contains("stream: 10 batches"), "{said}");
    let again = Setup::new(4, 100, &keys);
    let mut ranks = again.start_ranks(2, false);
    let reached = (0..7).all(|_| ranks[1].until(|line| line.starts_with("time: [")).is_some());
    assert!(reached, "{:?}", ranks[1].said());
    ranks[1].kill();
    drop(ranks);
    let mut ranks = again.start_ranks(2, true);
    let gone_on: Vec<_> = ranks.iter_mut().map(Process::finish).collect();
    assert_eq!(comparable(&gone_on[0]), comparable(&epochs[0]));
    assert!(again.parameters(1) == own.parameters(1));
}

#[test]
fn a_loader_is_a_stream_too_and_a_batch_that_does_not_fit_is_an_error() {
    let setup = Setup::new(1, 70, KEYS);
    setup.edit("reader_type: QueueDataset", "reader_type: DataLoader");
    let mut process = setup.start(&memory(600), false);
    assert_eq!(process.finish().len(), 2);
    // A loader has no short batch.
    assert!(process.said().join("\n").contains("stream: 3 batches"), "{:?}", process.said());
    let narrow = Setup::new(1, 70, KEYS);
    let mut process = narrow.start(&memory(10), false);
    let error = process.until(|line| line.starts_with("error: ")).unwrap();
    assert!(error.contains("the rows of a single batch take"), "{error}");
    assert!(error.contains("BIREME_GPUBOX_MEMORY"), "{error}");
}

#[test]
fn a_job_killed_anywhere_ends_with_the_same_parameters() {
    let undisturbed = Setup::new(2, 150, KEYS);
    let expected = undisturbed.start(&[], false).finish();
    for place in 0..5 {
        let setup = Setup::new(2, 150, KEYS);
        let lines = 1 + Philox::new(8, "places to kill at").u64(place) % 30;
        let mut process = setup.start(&memory(560), false);
        let reached =
            (0..lines).all(|_| process.until(|line| line.starts_with("time: [")).is_some());
        process.kill();
        assert!(reached, "place {place}");
        let epochs = setup.start(&memory(700), true).finish();
        assert_eq!(comparable(&epochs), comparable(&expected), "place {place}");
        for epoch in 0..2 {
            assert!(setup.parameters(epoch) == undisturbed.parameters(epoch), "place {place}");
        }
    }
}

#[test]
fn days_are_streamed_saved_and_go_on_after_a_kill() {
    let keys = "  train_batch_size: 50\n  print_interval: 5\n  start_day: 20190731\n  end_day: 20190801\n  \
                split_interval: 360\n  split_per_pass: 2\n  checkpoint_per_pass: 1\n  \
                save_delta_frequency: 2\n  train_thread_num: 1\n  infer_thread_num: 1\n  \
                preload_thread_num: 1\n  data_donefile: DONE\n  prefetch: True\n  sync_mode: gpubox\n";
    let setup = || {
        let setup = Setup::new(1, 1, keys);
        std::fs::remove_dir_all(setup.folder().join("data")).unwrap();
        write_days(&setup.folder().join("data"));
        setup
    };
    let roomy = setup();
    let mut process = roomy.start(&[], false);
    let expected = process.finish();
    assert_eq!(expected.len(), 4);
    let said = process.said().join("\n");
    assert!(said.contains("stream: 24 batches") && said.contains("shrink table"), "{said}");
    for path in ["20190731/1", "20190731/delta_2", "20190801/base", "20190802/0"] {
        assert!(roomy.folder().join("models").join(path).is_dir(), "{path}");
    }
    let narrow = setup();
    let mut process = narrow.start(&memory(1300), false);
    let second = |line: &str| line.contains("Day:20190801, Pass: 1, Infer Global Metric");
    assert!(process.until(second).is_some(), "{:?}", process.said());
    process.kill();
    let epochs = narrow.start(&memory(1300), true).finish();
    assert_eq!(comparable(&epochs)[..], comparable(&expected)[2..]);
}
