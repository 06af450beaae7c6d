//! Every model of the zoo through the commands: what `train` saves, `predict` takes with the lines
//! that it was trained on, and gives the scores that `infer` evaluates.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use bireme_data::parse::Parser;
use bireme_data::{Batch, Samples, Values};
use bireme_engine::io::load_inference_model;
use bireme_engine::{Executor, Place, Scope};
use bireme_rec::zoo::{self, Entry, Hyper, Model, Value};

use crate::{Ran, bireme};

const ROWS: usize = 60;

/// Hyper parameters of a small model, whatever it is.
fn small(entry: &Entry) -> Vec<(&'static str, i64)> {
    let sizes = |key: &'static str, size: i64| match key {
        "sparse_feature_number" | "feature_number" if size > 10_000 => (key, 8_001),
        _ => (key, size),
    };
    entry.sample.iter().map(|(key, size)| sizes(key, *size)).collect()
}

/// Data and a configuration of a model; the text of the data.
fn desk(folder: &Path, entry: &Entry) -> String {
    let mut text = Vec::new();
    (entry.generate)(&mut text, ROWS, 1).unwrap();
    // Ids of a table that is smaller than that of the data.
    let mut text = String::from_utf8(text).unwrap();
    if text.contains("click:") {
        text = text.split_inclusive([' ', '\n']).map(shrunk).collect();
    }
    fs::create_dir(folder.join("data")).unwrap();
    fs::write(folder.join("data/part-0"), &text).unwrap();
    let mut config = format!(
        "model: {}\nrunner: {{train_data_dir: data, test_data_dir: data, train_batch_size: 20, \
         epochs: 2, use_auc: True, model_save_path: models, infer_load_path: models, \
         infer_start_epoch: 1, infer_end_epoch: 2, thread_num: 1}}\nhyper_parameters:\n  optimizer: \
         {{class: Adam, learning_rate: 0.01}}\n",
        entry.name
    );
    for (key, value) in small(entry) {
        writeln!(config, "  {key}: {value}").unwrap();
    }
    fs::write(folder.join("config.yaml"), config).unwrap();
    text
}

/// A token whose id is below 8,000.
fn shrunk(token: &str) -> String {
    let (name, value) = token.split_once(':').unwrap_or((token, ""));
    match (name.parse::<u32>(), value.trim_end().parse::<u64>()) {
        (Ok(_), Ok(id)) => format!("{name}:{}{}", id % 8000, &value[value.trim_end().len()..]),
        _ => token.to_owned(),
    }
}

fn run(folder: &Path, line: &str, stdin: &str) -> Ran {
    let ran = bireme(folder, &line.split(' ').collect::<Vec<_>>(), stdin);
    assert_eq!(ran.code, Some(0), "{line}: {}", ran.stderr);
    ran
}

/// The values of each row that `predict` printed.
fn printed(ran: &Ran) -> Vec<Vec<f32>> {
    let row = |line: &str| {
        let parsed: serde_json::Value = serde_json::from_str(line).unwrap();
        let values = parsed.as_object().unwrap().values().next().unwrap();
        let number = |value: &serde_json::Value| value.as_f64().unwrap() as f32;
        values.as_array().unwrap().iter().map(number).collect()
    };
    ran.stdout.lines().map(row).collect()
}

/// The scores of the saved model, as a step on the samples of training has them.
fn scores(folder: &Path, model: &Model, samples: &Samples) -> Vec<Vec<f32>> {
    let scope = Scope::new();
    let saved = load_inference_model(folder.join("models/1/rec_inference"), &scope).unwrap();
    let mut batch = Batch::of(&model.slots);
    batch.fill(samples, 0..samples.len());
    let place = |feed: &String| model.slots.iter().position(|slot| slot.name == *feed).unwrap();
    let tensors = batch.tensors();
    let fed: Vec<_> = saved.feeds.iter().map(|feed| tensors[place(feed)]).collect();
    let feeds: Vec<&str> = saved.feeds.iter().map(String::as_str).collect();
    let fetches: Vec<&str> = saved.fetches.iter().map(String::as_str).collect();
    let executor = Executor::new(Place::Cpu).unwrap().with_scope(scope);
    let mut step = executor.prepare(&saved.program, &feeds, &fetches).unwrap();
    step.run(&fed).unwrap();
    let fetched = step.fetched(0);
    let width = fetched.numel() / fetched.rows();
    fetched.as_slice::<f32>().unwrap().chunks(width).map(<[f32]>::to_vec).collect()
}

#[test]
fn predict_takes_the_lines_that_each_model_was_trained_on() {
    for entry in zoo::entries() {
        let folder = tempfile::tempdir().unwrap();
        let text = desk(folder.path(), entry);
        let ran = run(folder.path(), "train -m config.yaml", "");
        let model = ran.stdout.lines().find_map(|line| line.strip_prefix("model   ")).unwrap();
        let predicted = printed(&run(folder.path(), &format!("predict {model}"), &text));
        assert_eq!(predicted.len(), ROWS, "{}", entry.name);

        let mut hyper = Hyper::of(small(entry).into_iter().map(|(key, v)| (key, Value::Int(v))));
        let model = (entry.build)(&mut hyper).unwrap();
        let (mut samples, mut parser) =
            (Samples::of(&model.slots), Parser::new(&model.format, &model.slots).unwrap());
        text.lines().for_each(|line| parser.line(line.as_bytes(), &mut samples).unwrap());
        let expected = scores(folder.path(), &model, &samples);
        for (row, (one, other)) in predicted.iter().zip(&expected).enumerate() {
            let near = one.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-6);
            assert!(near && one.len() == other.len(), "{} {row}: {one:?} {other:?}", entry.name);
        }

        // Of these scores `infer` has the AUC; the folder of all epochs means the last.
        let ran = run(folder.path(), "infer -m config.yaml", "");
        if let Some(infer) = auc_of(&ran.stdout).filter(|_| entry.labels == ["label"]) {
            let auc = auc(&model, &samples, &expected);
            assert!((auc - infer).abs() < 1e-5, "{}: {auc} {}", entry.name, ran.stdout);
        }
        let newest = run(folder.path(), "predict models", &text);
        assert_eq!(printed(&newest), predicted, "{}", entry.name);
        assert!(newest.stderr.contains("models/1/rec_inference"), "{}", newest.stderr);
    }
}

fn auc_of(stdout: &str) -> Option<f64> {
    let rest = stdout.split_once(", auc ")?.1;
    rest.split(',').next()?.trim().parse().ok()
}

/// The AUC of the last score of each row, in as many buckets as the models have.
fn auc(model: &Model, samples: &Samples, scores: &[Vec<f32>]) -> f64 {
    let label = model.slots.iter().position(|slot| slot.name == "label").unwrap();
    let positive: Vec<bool> = match samples.columns()[label].values() {
        Values::Ids(ids) => ids.iter().map(|id| *id > 0).collect(),
        Values::Floats(values) => values.iter().map(|value| *value > 0.0).collect(),
    };
    let buckets = model.metrics[0].counts[2].shape().iter().product::<i64>() as usize;
    let mut counts = [vec![0.0; buckets], vec![0.0; buckets]];
    for (score, positive) in scores.iter().zip(positive) {
        let bucket = (score.last().unwrap() * (buckets - 1) as f32) as usize;
        counts[usize::from(!positive)][bucket] += 1.0;
    }
    bireme_rec::run::auc(&counts[0], &counts[1])
}

#[test]
fn lines_may_leave_slots_and_labels_out_and_a_model_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    desk(folder.path(), zoo::find("deepfm").unwrap());
    run(folder.path(), "train -m config.yaml", "");
    let dense = "dense_feature:0 ".repeat(13);
    let text = format!("\u{feff}click:1 1:5\n1:5\n{dense}1:5\n");
    let ran = run(folder.path(), "predict models/1", &text);
    let rows = printed(&ran);
    assert!(rows.len() == 3 && rows[0] == rows[1] && rows[1] == rows[2], "{}", ran.stdout);
    let ran = bireme(folder.path(), &["predict", "models"], "C1:5\n");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("stdin, line 1: the line has `C1:`, and"), "{}", ran.stderr);
    // Criteo's raw lines hold the same slots, and ids below 1,000,001.
    let raw = format!("1{}\t{}\n", "\t1".repeat(13), ["68fd1e64"; 26].join("\t"));
    let large = "runner.model_save_path=large hyper_parameters.sparse_feature_number=1000001";
    run(folder.path(), &format!("train -m config.yaml -o {large}"), "");
    assert_eq!(printed(&run(folder.path(), "predict large", &raw)).len(), 1);

    for (from, to, words) in [
        ("model: deepfm", "model: fm", "model deepfm there, fm here"),
        ("sparse_feature_number: 8001", "sparse_feature_number: 8002", "[8002, 1] here"),
    ] {
        let text = fs::read_to_string(folder.path().join("config.yaml")).unwrap();
        fs::write(folder.path().join("other.yaml"), text.replace(from, to)).unwrap();
        let ran = bireme(folder.path(), &["infer", "-m", "other.yaml"], "");
        assert_eq!(ran.code, Some(1), "{}", ran.stdout);
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
        let warm = ["train", "-m", "other.yaml", "-o", "runner.model_init_path=models/1"];
        let ran = bireme(folder.path(), &warm, "");
        assert!(ran.code == Some(1) && ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
}

#[test]
fn a_line_without_an_end_does_not_fill_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    crate::train_small(folder.path());
    let ran = crate::finish(
        std::process::Command::new(env!("CARGO_BIN_EXE_bireme"))
            .args(["predict", "demo/model"])
            .current_dir(&folder),
        vec![b'1'; (64 << 20) + 1],
    );
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("stdin, line 1: longer than 64 MiB"), "{}", ran.stderr);
}
