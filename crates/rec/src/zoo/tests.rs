//! Every model builds, has a gradient for every parameter, and learns.

use std::path::Path;

use bireme_data::parse::Parser;
use bireme_data::{Batch, Samples, Values};
use bireme_engine::optimizer::{Adam, Optimizer};
use bireme_engine::{Executor, Place, autodiff};

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

/// Losses of some steps of a click model on these lines, with these hyper parameters.
fn losses(name: &str, hyper: &[(&str, Value)], lines: &[&str]) -> Vec<f64> {
    let mut hyper = Hyper::of(hyper.iter().cloned());
    let model = (find(name).unwrap().build)(&mut hyper).unwrap();
    let mut parser = Parser::new(&model.format, &model.slots).unwrap();
    let mut samples = Samples::of(&model.slots);
    lines.iter().for_each(|line| parser.line(line.as_bytes(), &mut samples).unwrap());
    let mut batch = Batch::of(&model.slots);
    batch.fill(&samples, 0..samples.len());
    model.graph.set_random_seed(3);
    Adam::new(0.01).minimize(&model.loss).unwrap();
    let mut executor = Executor::new(Place::Cpu).unwrap().threads(1);
    executor.run(&model.graph.startup(), &[], &[]).unwrap();
    let feeds: Vec<&str> = model.slots.iter().map(|slot| slot.name.as_str()).collect();
    let main = model.graph.main();
    let mut step = executor.prepare(&main, &feeds, &[model.loss.name()]).unwrap();
    let mut loss = || {
        step.run(&batch.tensors()).unwrap();
        step.fetched(0).to_f64_vec()[0]
    };
    (0..40).map(|_| loss()).collect()
}

const CLICK_MODELS: [&str; 11] = [
    "autoint",
    "dcn",
    "dcn_v2",
    "deepfm",
    "dlrm",
    "dnn",
    "ffm",
    "fm",
    "logistic_regression",
    "wide_deep",
    "xdeepfm",
];

/// Small tables, no dense features and three slots of which the second has any number of ids.
fn small() -> Vec<(&'static str, Value)> {
    let place = crate::config::Place::Program;
    let second = crate::config::Node { value: Value::Int(2), place };
    vec![
        ("sparse_feature_number", Value::Int(20)),
        ("feature_number", Value::Int(20)),
        ("sparse_inputs_slots", Value::Int(4)),
        ("dense_input_dim", Value::Int(0)),
        ("low_rank", Value::Int(8)),
        ("dropout_rate", Value::Int(0)),
        ("multi_slots", Value::List(vec![second])),
    ]
}

#[test]
fn click_models_take_lists_of_ids_and_no_dense_features() {
    let lines = ["click:1 1:3 2:4 2:5 3:6", "click:0 1:3 2:7 3:6", "click:0 1:8 2:4 2:7 2:9 3:6"];
    for name in CLICK_MODELS {
        let losses = losses(name, &small(), &lines);
        let (first, last) = (losses[0], losses[losses.len() - 1]);
        assert!(last < 0.9 * first, "{name}: {first} {last}");
    }
}

#[test]
fn several_ids_in_a_slot_are_pooled_as_asked() {
    let mut mean = small();
    mean.push(("pooling", Value::Text("mean".into())));
    // The mean of one row twice is that row; the sum is not.
    let [once, twice] = ["click:1 1:3 2:4 3:6", "click:1 1:3 2:4 2:4 3:6"];
    assert_eq!(losses("fm", &mean, &[once]), losses("fm", &mean, &[twice]));
    assert_eq!(losses("fm", &small(), &[once]), losses("fm", &mean, &[once]));
    assert_ne!(losses("fm", &small(), &[twice]), losses("fm", &mean, &[twice]));
    let single = (find("fm").unwrap().build)(&mut Hyper::default()).unwrap();
    let mut parser = Parser::new(&single.format, &single.slots).unwrap();
    let problem = parser.line(b"click:1 2:4 2:5", &mut Samples::of(&single.slots)).unwrap_err();
    assert!(problem.contains("slot `C2` has 2 values, not 1"), "{problem}");
    let mut wrong = Hyper::of([("pooling", Value::Text("max".into()))]);
    let error = (find("fm").unwrap().build)(&mut wrong).unwrap_err().to_string();
    assert!(error.contains("`hyper_parameters.pooling` is `max`: use sum or mean"), "{error}");
}

#[test]
fn the_loss_of_a_sample_counts_as_often_as_its_weight_says() {
    let mut weighted = small();
    weighted.push(("sample_weight", Value::Bool(true)));
    let lines = ["click:1 1:3 2:4 3:6 sample_weight:2", "click:0 1:5 2:4 3:6 sample_weight:0"];
    for name in CLICK_MODELS {
        let weighted = losses(name, &weighted, &lines)[0];
        let alone = losses(name, &small(), &lines[..1])[0];
        // A mean over two samples, of which one counts twice and one not at all; logistic regression
        // sums them, and has no penalty on weights of 0. Normalisation over a batch sees both.
        let factor = if name == "logistic_regression" { 2.0 } else { 1.0 };
        if name != "dlrm" {
            assert!((weighted - factor * alone).abs() < 1e-5, "{name}: {weighted} {alone}");
        }
    }
}
