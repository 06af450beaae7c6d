//! A model that real Paddle saved, in both layouts: loaded here it predicts what Paddle predicts.
//!
//! `tests/data/tiny_ctr/make.py` made the files.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bireme_engine::io::{load_inference_model, save_inference_model, save_inference_model_dir};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Scope};
use bireme_ir::{DType, Program};

#[derive(serde::Deserialize)]
struct Expected {
    feeds: BTreeMap<String, Vec<Vec<f64>>>,
    prediction: Vec<Vec<f64>>,
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiny_ctr")
}

fn expected() -> Expected {
    let text = std::fs::read_to_string(data().join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn tensor(rows: &[Vec<f64>], dtype: DType) -> Tensor {
    let dims = [rows.len(), rows[0].len()];
    match dtype {
        DType::I64 => {
            let ids: Vec<i64> = rows.iter().flatten().map(|id| *id as i64).collect();
            Tensor::from_slice(dims, &ids).unwrap()
        }
        _ => {
            let values: Vec<f32> = rows.iter().flatten().map(|value| *value as f32).collect();
            Tensor::from_slice(dims, &values).unwrap()
        }
    }
}

fn predict(program: &Program, feeds: &[String], fetches: &[String], scope: Scope) -> Vec<f64> {
    let given = expected().feeds;
    let dtype = |name: &String| program.global().var(name).unwrap().dtype;
    let tensors: Vec<Tensor> = feeds.iter().map(|name| tensor(&given[name], dtype(name))).collect();
    let feeds: Vec<(&str, &Tensor)> = feeds.iter().map(String::as_str).zip(&tensors).collect();
    let mut executor = Executor::new(Place::Cpu).unwrap().with_scope(scope);
    executor.run(program, &feeds, &[&fetches[0]]).unwrap()[0].to_f64_vec()
}

fn assert_predicts(model: &Path) {
    let scope = Scope::new();
    let model = load_inference_model(model, &scope).unwrap();
    assert_eq!(model.feeds, ["slot_0", "slot_1", "dense"]);
    let predicted = predict(&model.program, &model.feeds, &model.fetches, scope);
    let expected: Vec<f64> = expected().prediction.into_iter().flatten().collect();
    assert_eq!(predicted.len(), expected.len());
    for (ours, theirs) in predicted.iter().zip(&expected) {
        assert!((ours - theirs).abs() < 1e-6, "{predicted:?} instead of {expected:?}");
    }
}

#[test]
fn a_model_of_paddle_predicts_the_same_in_both_layouts() {
    for layout in ["model", "model.pdmodel", "fluid", "fluid/__model__"] {
        assert_predicts(&data().join(layout));
    }
}

#[test]
fn a_model_of_paddle_saved_again_has_the_same_parameters() {
    let dir = tempfile::tempdir().unwrap();
    let scope = Scope::new();
    let model = load_inference_model(data().join("model"), &scope).unwrap();
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let fetches: Vec<&str> = model.fetches.iter().map(String::as_str).collect();

    let prefix = dir.path().join("model");
    save_inference_model(&prefix, &feeds, &fetches, &model.program, &scope).unwrap();
    assert_predicts(&prefix);
    let folder = dir.path().join("fluid");
    save_inference_model_dir(&folder, &feeds, &fetches, &model.program, &scope, None, None)
        .unwrap();
    assert_predicts(&folder);
    for file in ["model.pdiparams", "fluid/table", "fluid/fc_0.w_0", "fluid/fc_1.b_0"] {
        let (ours, theirs) = (dir.path().join(file), data().join(file));
        assert_eq!(std::fs::read(ours).unwrap(), std::fs::read(theirs).unwrap(), "{file}");
    }
}
