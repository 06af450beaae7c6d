//! GPUBox from YAML, on CPUs: with a server of its own or another's, in parts, after a kill, in days; and
//! of several trainers without a server.

mod stream;

use bireme_engine::random::Philox;

use crate::job::{Process, Setup, comparable};
use crate::online::write_days;

const KEYS: &str = "  epochs: 2\n  train_batch_size: 20\n  print_interval: 1\n  \
                    checkpoint_interval: 4\n  sync_mode: gpubox\n";

fn setup(files: u64, rows: usize, keys: &str) -> Setup {
    let setup = Setup::new(files, rows, keys);
    setup.edit("reader_type: QueueDataset", "reader_type: InmemoryDataset");
    setup
}

/// The same job trained in sync, by one trainer, in the order that GPUBox keeps.
fn in_sync(files: u64, rows: usize) -> Setup {
    setup(files, rows, &(KEYS.replace("gpubox", "sync") + "  shuffle: none\n"))
}

#[test]
fn it_learns_what_sync_training_learns_wherever_the_tables_are() {
    let sync = in_sync(2, 150).run_cluster(1, false);
    let own = setup(2, 150, KEYS);
    let mut process = own.start(&[], false);
    let epochs = process.finish();
    for (box_, sync) in epochs.iter().zip(&sync) {
        assert!((box_.loss - sync.loss).abs() < 1e-5, "{epochs:?}\n{sync:?}");
        assert!((box_.metrics["auc"] - sync.metrics["auc"]).abs() < 1e-3, "{epochs:?}\n{sync:?}");
    }
    let said = process.said().join("\n");
    for line in
        ["Run Worker Begin", "pass 1: 7800 keys, ", " unique, ", " 0 new, ", "Run Success, Exit."]
    {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let others = setup(2, 150, KEYS);
    let with_server = others.run_cluster(1, false);
    assert_eq!(comparable(&with_server), comparable(&epochs));
    for epoch in 0..2 {
        assert!(own.parameters(epoch) == others.parameters(epoch), "epoch {epoch}");
    }
}

#[test]
fn trainers_without_a_server_have_the_tables_with_the_first() {
    let sync = in_sync(4, 100).run_cluster(2, false);
    let own = setup(4, 100, KEYS);
    let mut ranks = own.start_ranks(2, false);
    let epochs: Vec<_> = ranks.iter_mut().map(Process::finish).collect();
    for (box_, sync) in epochs[0].iter().zip(&sync) {
        assert!((box_.loss - sync.loss).abs() < 1e-5, "{epochs:?}\n{sync:?}");
        assert!((box_.metrics["auc"] - sync.metrics["auc"]).abs() < 1e-3, "{epochs:?}\n{sync:?}");
    }
    // Whoever dies, the job goes on from its last checkpoint.
    for (place, dying) in [(7, 0), (9, 1)] {
        let again = setup(4, 100, KEYS);
        let mut ranks = again.start_ranks(2, false);
        let reached =
            (0..place).all(|_| ranks[0].until(|line| line.starts_with("time: [")).is_some());
        assert!(reached, "{:?}", ranks[0].said());
        ranks[dying].kill();
        drop(ranks);
        let mut ranks = again.start_ranks(2, true);
        let gone_on: Vec<_> = ranks.iter_mut().map(Process::finish).collect();
        assert_eq!(comparable(&gone_on[0]), comparable(&epochs[0]), "rank {dying} died");
        for epoch in 0..2 {
            assert!(again.parameters(epoch) == own.parameters(epoch), "rank {dying} died");
        }
    }
}

#[test]
fn a_pass_that_does_not_fit_is_trained_in_parts() {
    let whole = setup(1, 200, KEYS);
    let expected = whole.start(&[], false).finish();
    let cut = setup(1, 200, KEYS);
    // Rows of 4 weights and two moments each, with their keys: a hundred or so.
    let memory = [("BIREME_GPUBOX_MEMORY", (900 * (12 * 4 + 64)).to_string())];
    let mut process = cut.start(&memory, false);
    let epochs = process.finish();
    let said = process.said().join("\n");
    assert!(said.contains("it is trained in ") && said.contains(" parts"), "{said}");
    assert_eq!(comparable(&epochs), comparable(&expected));
    assert!(cut.parameters(1) == whole.parameters(1));
    let narrow = setup(1, 200, KEYS);
    let mut process = narrow.start(&[("BIREME_GPUBOX_MEMORY", "1000".to_owned())], false);
    let error = process.until(|line| line.starts_with("error: ")).unwrap();
    assert!(error.contains("the rows of a single batch take"), "{error}");
}

#[test]
fn a_job_killed_anywhere_ends_with_the_same_parameters() {
    let undisturbed = setup(2, 150, KEYS);
    let expected = undisturbed.start(&[], false).finish();
    for place in 0..5 {
        let setup = setup(2, 150, KEYS);
        let lines = 1 + Philox::new(7, "places to kill at").u64(place) % 30;
        let mut process = setup.start(&[], false);
        let reached =
            (0..lines).all(|_| process.until(|line| line.starts_with("time: [")).is_some());
        process.kill();
        assert!(reached, "place {place}");
        let epochs = setup.start(&[], true).finish();
        assert_eq!(comparable(&epochs), comparable(&expected), "place {place}");
        for epoch in 0..2 {
            assert!(setup.parameters(epoch) == undisturbed.parameters(epoch), "place {place}");
        }
    }
}

#[test]
fn days_are_trained_pass_by_pass_while_the_next_is_brought() {
    let keys = "  train_batch_size: 50\n  print_interval: 5\n  start_day: 20190731\n  end_day: 20190801\n  \
                split_interval: 360\n  split_per_pass: 2\n  checkpoint_per_pass: 1\n  \
                save_delta_frequency: 2\n  train_thread_num: 1\n  infer_thread_num: 1\n  \
                preload_thread_num: 1\n  data_donefile: DONE\n  prefetch: True\n";
    let run = |mode: &str| {
        let setup = setup(1, 1, &format!("{keys}  sync_mode: {mode}\n"));
        std::fs::remove_dir_all(setup.folder().join("data")).unwrap();
        write_days(&setup.folder().join("data"));
        setup
    };
    let (sync, own) = (run("sync"), run("gpubox"));
    let expected = sync.run_cluster(1, false);
    let mut process = own.start(&[], false);
    let epochs = process.finish();
    assert_eq!(epochs.len(), 4);
    for (own, sync) in epochs.iter().zip(&expected) {
        assert!((own.loss - sync.loss).abs() < 1e-4, "{epochs:?}\n{expected:?}");
    }
    let said = process.said().join("\n");
    assert!(said.contains("pass 3: ") && said.contains("shrink table"), "{said}");
    for path in ["20190731/1", "20190731/delta_2", "20190801/base", "20190802/0"] {
        assert!(own.folder().join("models").join(path).is_dir(), "{path}");
    }
}
