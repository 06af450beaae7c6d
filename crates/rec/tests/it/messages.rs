//! What a run says when there is nothing to do, or something does not fit.

use crate::job::{Process, Setup};

fn said(mut process: Process) -> String {
    process.finish();
    process.said().join("\n")
}

fn error_of(mut process: Process) -> String {
    let line = process.until(|line| line.starts_with("error: "));
    line.unwrap_or_else(|| panic!("no error: {:?}", process.said()))
}

#[test]
fn a_run_that_trains_nothing_says_why() {
    let setup = Setup::new(1, 40, "  epochs: 0\n  train_batch_size: 20\n");
    let text = said(setup.start(&[], false));
    assert!(text.contains("WARNING - nothing is trained: `runner.epochs` is 0"), "{text}");
    setup.edit("epochs: 0", "epochs: 1");
    let text = said(setup.start(&[], false));
    assert!(!text.contains("nothing is trained"), "{text}");
    let text = said(setup.start(&[], true));
    let line = "nothing is trained: the checkpoint is after epoch 0, and `runner.epochs` is 1";
    assert!(text.contains(line), "{text}");
    setup.edit("model: dnn", "model: dnn\nlast_epoch: 3");
    let text = said(setup.start(&[], false));
    let line = "nothing is trained: `last_epoch` is 3, and `runner.epochs` is 1, which counts from \
                epoch 0: set it to at least 5";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_batch_larger_than_the_data_is_told_with_both_numbers() {
    let setup = Setup::new(2, 40, "  epochs: 1\n  train_batch_size: 100\n");
    setup.edit("reader_type: QueueDataset", "reader_type: DataLoader");
    let line = error_of(setup.start(&[], false));
    let wanted = "no batch in epoch 0: the 2 files have 80 samples, and `runner.train_batch_size` is \
                  100: please ensure batch size < dataset size!";
    assert!(line.contains(wanted), "{line}");
}

#[test]
fn an_id_outside_the_table_names_its_key() {
    let setup = Setup::new(1, 100, "  epochs: 1\n  train_batch_size: 20\n");
    setup.edit("sparse_feature_number: 6001", "sparse_feature_number: 50");
    let wanted = "`hyper_parameters.sparse_feature_number` is 50, and must be above every id";
    let line = error_of(setup.start(&[], false));
    assert!(line.contains("lies outside") && line.contains(wanted), "{line}");
}
