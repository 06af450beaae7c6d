//! Every model builds, has a gradient for every parameter, and learns.

use std::path::Path;

use bireme_data::parse::Parser;
use bireme_data::{Samples, Values};
use bireme_engine::autodiff;

use super::trial::{Trial, parameters, sample_model};
use super::{Hyper, Value, entries, find};
use crate::Config;

#[test]
fn names_are_sorted_and_found() {
    let names: Vec<&str> = entries().iter().map(|entry| entry.name).collect();
    assert!(names.is_sorted());
    assert_eq!(names.len(), 18);
    assert!(names.iter().all(|name| find(name).is_some()));
    assert!(find("nothing").is_none());
}

#[test]
fn parameters_are_as_many_as_the_papers_say() {
    // Tables, then everything else, with PaddleRec's defaults.
    let rows = 1_000_001;
    let expected = [
        ("logistic_regression", 1_086_460 + 13 + 1),
        ("fm", rows * 10 + 13 * 10 + 1),
        ("ffm", rows * (1 + 9 * 39) + 13 * (1 + 9 * 39) + 1),
        ("deepfm", rows * 10 + 13 * 10 + 1 + layers(&[39 * 9, 512, 256, 128, 32, 1])),
        ("dnn", rows * 9 + layers(&[26 * 9 + 13, 512, 256, 128, 32, 2])),
        ("wide_deep", rows * 9 + 14 + layers(&[26 * 9 + 13, 512, 256, 128, 32, 1])),
        ("dcn", rows * 9 + 2 * 2 * 247 + layers(&[247, 512, 256, 128]) + 128 + 247 + 1),
        ("mmoe", layers(&[499, 8 * 16]) + 2 * (layers(&[499, 8]) + layers(&[16, 8, 2]))),
        ("share_bottom", layers(&[499, 117]) + 2 * layers(&[117, 8, 2])),
        ("ncf", (6040 + 3706) * (8 + 32) + layers(&[64, 32, 16, 8]) + 17),
        ("word2vec", 1000 * 601),
        ("dssm", 2 * layers(&[2900, 300, 300, 128])),
        ("esmm", 737_946 * 12 + 2 * layers(&[23 * 12, 256, 64, 2])),
    ];
    for (name, count) in expected {
        let model = (find(name).unwrap().build)(&mut Hyper::default()).unwrap();
        assert_eq!(parameters(&model), count, "{name}");
    }
}

/// Weights and biases of fully connected layers of these widths.
fn layers(widths: &[usize]) -> usize {
    widths.windows(2).map(|pair| pair[0] * pair[1] + pair[1]).sum()
}

#[test]
fn every_parameter_has_a_gradient_and_the_program_is_sound() {
    for entry in entries() {
        let model = (entry.build)(&mut Hyper::default()).unwrap();
        let trained = model.graph.main().parameters().filter(|var| !var.stop_gradient).count();
        let gradients = autodiff::append_backward(&model.loss, None, &[]).unwrap();
        assert_eq!(gradients.len(), trained, "{}", entry.name);
        let main = model.graph.main();
        for slot in &model.slots {
            let var = main.global().var(&slot.name).unwrap();
            assert_eq!(&bireme_data::Slot::of_var(var).unwrap(), slot, "{}", entry.name);
        }
        for feed in &model.inference_feeds {
            assert!(model.slots.iter().any(|slot| slot.name == *feed), "{}", entry.name);
        }
        assert!(!entry.labels.iter().any(|label| model.inference_feeds.iter().any(|f| f == label)));
    }
}

#[test]
fn predictions_have_a_row_for_each_sample() {
    let width = |name: &str| {
        let model = sample_model(find(name).unwrap()).unwrap();
        let shape = model.prediction.shape();
        assert_eq!((shape.len(), shape[0]), (2, -1), "{name}");
        shape[1]
    };
    let widths: Vec<i64> = entries().iter().map(|entry| width(entry.name)).collect();
    // One chance, but dlrm and dnn: of both classes; esmm, mmoe and share_bottom: of two tasks.
    assert_eq!(widths, [1, 1, 1, 1, 1, 2, 2, 1, 2, 1, 1, 1, 2, 1, 2, 1, 1, 1]);
}

#[test]
fn wrong_hyper_parameters_are_refused() {
    let wrong = [
        ("dlrm", "sparse_feature_dim", 8),
        ("mmoe", "gate_num", 3),
        ("autoint", "head_num", 3),
        ("logistic_regression", "num_field", 40),
        ("dnn", "sparse_inputs_slots", 1),
    ];
    for (name, key, value) in wrong {
        let mut hyper = Hyper::of([(key, Value::Int(value))]);
        let error = (find(name).unwrap().build)(&mut hyper).unwrap_err().to_string();
        assert!(error.contains("hyper_parameters."), "{name}: {error}");
    }
}

#[test]
fn seeds_draw_different_samples_and_rows_the_same_ones() {
    for entry in entries() {
        let text = |rows, seed| {
            let mut text = Vec::new();
            (entry.generate)(&mut text, rows, seed).unwrap();
            String::from_utf8(text).unwrap()
        };
        let (few, many) = (text(3, 1), text(6, 1));
        assert_eq!(few.lines().count(), 3, "{}", entry.name);
        assert!(many.starts_with(&few), "{}", entry.name);
        assert_ne!(few, text(3, 2), "{}", entry.name);
    }
}

#[test]
fn every_model_gets_better_in_a_few_steps() {
    let trial = Trial { rows: 600, test_rows: 100, epochs: 6, batch_size: 60, ..Trial::default() };
    for entry in entries() {
        let outcome = trial.of(entry).unwrap();
        let [first, last] = outcome.losses;
        assert!(last < first && last.is_finite(), "{}: {first} {last}", entry.name);
        // After so few steps an AUC may be poor, but it is neither that of no sample (0) nor that
        // of a model which says the same of all (0.5).
        for (metric, value) in &outcome.metrics {
            let says_something = *value > 0.0 && *value < 1.0 && *value != 0.5;
            assert!(says_something, "{}: {metric} is {value}", entry.name);
        }
    }
}

#[test]
fn small_models_beat_logistic_regression() {
    let trial = Trial { rows: 12_000, test_rows: 4000, ..Trial::default() };
    for name in ["esmm", "ncf"] {
        let entry = find(name).unwrap();
        let (model, plain) = (trial.of(entry).unwrap(), trial.of_baseline(entry).unwrap());
        let (model, plain) = (&model.metrics[0], &plain.metrics[0]);
        assert!(model.1 > plain.1 + 0.02, "{name}: {} against {}", model.1, plain.1);
    }
}

/// As `bireme bench zoo`.
#[test]
#[ignore = "minutes of training"]
fn every_model_beats_logistic_regression() {
    for entry in entries().iter().filter(|entry| entry.name != "logistic_regression") {
        let trial = Trial::default();
        let (model, plain) = (trial.of(entry).unwrap(), trial.of_baseline(entry).unwrap());
        for ((name, value), (_, plain)) in model.metrics.iter().zip(&plain.metrics) {
            assert!(value > plain, "{}: {name} {value} against {plain}", entry.name);
        }
    }
}

#[test]
fn every_configuration_fits_its_model_and_its_sample_data() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    for entry in entries() {
        let path = models.join(entry.area).join(entry.name).join("config.yaml");
        let config = Config::load(&path, &[]).unwrap();
        // Folders that are PaddleRec's too name readers in Python, which nothing here needs.
        let warnings = config.warnings().iter().filter(|line| !line.contains("name Python code"));
        assert_eq!(warnings.count(), 0, "{}: {:?}", entry.name, config.warnings());
        let mut hyper = config.hyper();
        let model = (entry.build)(&mut hyper).unwrap();
        let unused = hyper.unasked().filter(|(key, _)| !key.starts_with("optimizer."));
        assert_eq!(unused.count(), 0, "{}: {:?}", entry.name, hyper.unasked().collect::<Vec<_>>());
        let folder = config.folder().join(config.text("runner.train_data_dir"));
        let mut parser = Parser::new(&model.format, &model.slots).unwrap();
        let mut samples = Samples::of(&model.slots);
        for file in std::fs::read_dir(&folder).unwrap() {
            let text = std::fs::read(file.unwrap().path()).unwrap();
            for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                parser.line(line, &mut samples).unwrap_or_else(|e| panic!("{}: {e}", entry.name));
            }
        }
        assert!(samples.len() >= 20, "{}", entry.name);
        // A slot that no line names is filled with zeros: the lines would fit any model.
        for (slot, column) in model.slots.iter().zip(samples.columns()) {
            let is_there = match column.values() {
                Values::Ids(ids) => ids.iter().any(|id| *id != 0),
                Values::Floats(numbers) => numbers.iter().any(|number| *number != 0.0),
            };
            assert!(is_there, "{}: no line has `{}`", entry.name, slot.name);
        }
    }
}
