//! Training that begins with a saved model.

use std::collections::BTreeMap;

use bireme_engine::{Scope, io};
use bireme_rec::run::Epoch;

use crate::job::Setup;

const RUN: &str = "  epochs: 2\n  train_batch_size: 50\n  print_interval: 5\n";

fn auc(epoch: &Epoch) -> f64 {
    epoch.metrics["auc"]
}

/// A setup that begins with the model of an epoch of another.
fn warm(from: &Setup, epoch: u64, key: &str, more: &str) -> Setup {
    let setup = Setup::new(2, 300, more);
    let model = from.folder().join("models").join(epoch.to_string());
    setup.edit("runner:", &format!("runner:\n  {key}: \"{}\"", model.display()));
    setup
}

#[test]
fn a_local_run_goes_on_from_the_model_of_an_epoch_to_the_bit() {
    let whole = Setup::new(2, 300, RUN);
    let expected = whole.start(&[], false).finish();
    for file in ["rec_static.pdparams", "rec_static.pdopt", "rec_static.pdmodel"] {
        assert!(whole.folder().join("models/0").join(file).is_file(), "{file}");
    }
    // With its optimizer state, the second epoch is that of the run that was not interrupted.
    let second = warm(&whole, 0, "model_init_path", RUN);
    second.edit("model: dnn", "model: dnn\nlast_epoch: 0");
    let mut process = second.start(&[], false);
    let epochs = process.finish();
    assert!(process.said().iter().any(|line| line.contains("start load model from")));
    assert_eq!((epochs.len(), epochs[0].epoch), (1, 1));
    assert_eq!(epochs[0].loss.to_bits(), expected[1].loss.to_bits());
    assert!(second.parameters(1) == whole.parameters(1));
    // The learning rate is the configuration's.
    let third = warm(&whole, 0, "model_init_path", RUN);
    third.edit("model: dnn", "model: dnn\nlast_epoch: 0");
    third.edit("learning_rate: 0.01", "learning_rate: 0.1");
    third.start(&[], false).finish();
    assert!(third.parameters(1) != whole.parameters(1));
}

#[test]
fn servers_begin_with_a_model_of_servers_and_with_a_local_one() {
    let local = Setup::new(2, 300, RUN);
    let first = auc(&local.start(&[], false).finish()[0]);
    let sync = format!("{RUN}  sync_mode: sync\n  split_file_list: True\n");
    let servers = Setup::new(2, 300, &sync);
    let cold = auc(&servers.run_cluster(2, false)[0]);
    for (from, key) in [(&servers, "model_init_path"), (&local, "model_init_path")] {
        let warm = warm(from, 1, key, &sync);
        let auc = auc(&warm.run_cluster(2, false)[0]);
        assert!(auc > cold + 0.02 && auc > first + 0.02, "{auc} after {cold}");
    }
    // Without training, nothing changes.
    let untouched = warm(&local, 1, "warmup_model_path", &sync);
    untouched.edit("learning_rate: 0.01", "learning_rate: 0.00000000001");
    untouched.run_cluster(2, false);
    let (before, after) = (values(&local, 1), values(&untouched, 0));
    assert!(before.keys().eq(after.keys()) && before.len() > 4);
    for (name, before) in before {
        let pairs = before.iter().zip(&after[&name]);
        assert!(pairs.map(|(one, other)| (one - other).abs()).all(|gap| gap < 1e-6), "{name}");
    }
}

/// The parameters of the model of an epoch.
fn values(setup: &Setup, epoch: u64) -> BTreeMap<String, Vec<f64>> {
    let scope = Scope::new();
    let prefix = setup.folder().join(format!("models/{epoch}/rec_inference"));
    io::load_inference_model(prefix, &scope).unwrap();
    let value = |name: String| (name.clone(), scope.get(&name).unwrap().to_f64_vec());
    scope.names().into_iter().map(value).collect()
}

#[test]
fn a_model_of_another_shape_is_refused() {
    let small = Setup::new(1, 100, RUN);
    small.start(&[], false).finish();
    let large = warm(&small, 1, "model_init_path", RUN);
    large.edit("fc_sizes: [16, 8]", "fc_sizes: [16, 9]");
    let mut process = large.start(&[], false);
    let line = process.until(|line| line.starts_with("error: ")).unwrap();
    assert!(
        line.contains("cannot load the model") && line.contains(" there, float32 [16, 9] here"),
        "{line}"
    );
    large.edit("fc_sizes: [16, 9]", "fc_sizes: [16, 8]");
    let damaged = small.folder().join("models/1/rec_static.pdparams");
    std::fs::write(&damaged, b"\x80\x04cposix\nsystem\n.").unwrap();
    let mut process = large.start(&[], false);
    let line = process.until(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("it asks for `posix.system`"), "{line}");
}
