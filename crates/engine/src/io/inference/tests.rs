//! Both layouts, and models that are damaged or not ours to run.

use std::fs;

use bireme_ir::{DType, Op, Var};

use super::*;
use crate::tensor::Tensor;
use crate::{Executor, Place};

/// `y = relu(x w)`, and a loss that inference does not need.
fn program() -> Program {
    let mut program = Program::new();
    let global = program.global_mut();
    global.add_var(Var::tensor("x", DType::F32, [-1, 2])).need_check_feed = true;
    global.add_var(Var::parameter("w", DType::F32, [2, 1]));
    global.add_var(Var::tensor("xw", DType::F32, [-1, 1]));
    global.add_var(Var::tensor("y", DType::F32, [-1, 1]));
    global.add_var(Var::tensor("loss", DType::F32, [1]));
    global.add_var(Var::parameter("unused", DType::F32, [9]));
    global.ops.push(Op::new("mul").input("X", ["x"]).input("Y", ["w"]).output("Out", ["xw"]));
    global.ops.push(Op::new("relu").input("X", ["xw"]).output("Out", ["y"]));
    global.ops.push(Op::new("mean").input("X", ["y"]).output("Out", ["loss"]));
    program
}

fn scope() -> Scope {
    let scope = Scope::new();
    scope.set("w", &Tensor::from_slice([2, 1], &[2.0f32, 3.0]).unwrap());
    scope
}

fn predict(path: &Path) -> Vec<f64> {
    let scope = Scope::new();
    let model = load_inference_model(path, &scope).unwrap();
    assert_eq!(model.feeds, ["x"]);
    assert_eq!(model.fetches.len(), 1);
    let mut executor = Executor::new(Place::Cpu).unwrap().with_scope(scope);
    let x = Tensor::from_slice([2, 2], &[1.0f32, 10.0, -1.0, -10.0]).unwrap();
    let fetched = executor.run(&model.program, &[("x", &x)], &[&model.fetches[0]]).unwrap();
    fetched[0].to_f64_vec()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn two_files_of_one_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("out");
    // A dot in the name is part of it.
    let prefix = folder.join("model.v1");
    save_inference_model(&prefix, &["x"], &["y"], &program(), &scope()).unwrap();
    assert_eq!(names(&folder), ["model.v1.pdiparams", "model.v1.pdmodel"]);
    for path in [&prefix, &folder.join("model.v1.pdmodel"), &folder] {
        assert_eq!(predict(path), [32.0, 0.0]);
    }
}

#[test]
fn a_folder_with_a_model_file() {
    let dir = tempfile::tempdir().unwrap();
    for (folder, params, expected) in [
        ("own", None, ["__model__", "w"]),
        ("common", Some("__params__"), ["__model__", "__params__"]),
    ] {
        let folder = dir.path().join(folder);
        let (program, scope) = (program(), scope());
        save_inference_model_dir(&folder, &["x"], &["y"], &program, &scope, None, params).unwrap();
        assert_eq!(names(&folder), expected);
        assert_eq!(predict(&folder), [32.0, 0.0]);
        assert_eq!(predict(&folder.join("__model__")), [32.0, 0.0]);
        let loaded = Scope::new();
        let model = load_inference_model_dir(&folder, &loaded, None, params).unwrap();
        assert_eq!(model.fetches, ["y"]);
        assert_eq!(loaded.names(), ["w"]);
    }
    let folder = dir.path().join("named");
    let (program, scope) = (program(), scope());
    let (model, params) = (Some("m"), Some("p"));
    save_inference_model_dir(&folder, &["x"], &["y"], &program, &scope, model, params).unwrap();
    load_inference_model_dir(&folder, &Scope::new(), model, params).unwrap();
    let same =
        save_inference_model_dir(&folder, &["x"], &["y"], &program, &scope, model, Some("m"));
    assert!(same.unwrap_err().to_string().contains("both program and parameters"));
}

#[test]
fn a_model_without_parameters_is_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().join("m");
    save_inference_model(&prefix, &["xw"], &["y"], &program(), &Scope::new()).unwrap();
    assert_eq!(names(dir.path()), ["m.pdmodel"]);
    assert_eq!(load_inference_model(&prefix, &Scope::new()).unwrap().feeds, ["xw"]);
}

#[test]
fn a_failed_save_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().join("new/m");
    let empty = Scope::new();
    assert!(save_inference_model(&prefix, &["x"], &["y"], &program(), &empty).is_err());
    assert!(save_inference_model(&prefix, &[], &["y"], &program(), &scope()).is_err());
    assert!(save_inference_model(&prefix, &["x"], &["z"], &program(), &scope()).is_err());
    assert!(names(dir.path()).is_empty());
    fs::write(dir.path().join("file"), "").unwrap();
    let prefix = dir.path().join("file/child/m");
    let error = save_inference_model(prefix, &["x"], &["y"], &program(), &scope()).unwrap_err();
    assert!(error.to_string().contains("cannot save there"), "{error}");
    assert_eq!(names(dir.path()), ["file"]);
}

/// Saves `program` as it is, with the feeds and fetches of `y = f(x)`, and loads it.
fn error_of(change: impl FnOnce(&mut Program)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().join("m");
    save_inference_model(&prefix, &["x"], &["y"], &program(), &scope()).unwrap();
    let path = dir.path().join("m.pdmodel");
    let mut program = Program::from_bytes(&fs::read(&path).unwrap()).unwrap();
    change(&mut program);
    fs::write(&path, program.to_bytes()).unwrap();
    let scope = Scope::new();
    let error = load_inference_model(&prefix, &scope).unwrap_err().to_string();
    assert!(scope.names().is_empty(), "a failed load changes nothing");
    let error = error.strip_prefix(&format!("`{}", prefix.display())).unwrap();
    error.to_owned()
}

fn op<'p>(program: &'p mut Program, kind: &str) -> &'p mut Op {
    program.global_mut().ops.iter_mut().find(|op| op.kind == kind).unwrap()
}

#[test]
fn unknown_ops_and_attributes_are_named() {
    let error = error_of(|program| op(program, "relu").kind = "rellu".to_owned());
    assert!(error.contains("op `rellu`") && error.contains("did you mean `relu`"), "{error}");
    let error = error_of(|program| {
        let relu = op(program, "relu");
        relu.attrs.insert("slope".to_owned(), 0.5f32.into());
    });
    assert!(error.contains("op `relu`") && error.contains("no attribute `slope`"), "{error}");
}

#[test]
fn programs_that_are_not_for_inference_are_refused() {
    let error = error_of(|program| program.global_mut().ops.retain(|op| op.kind != "fetch"));
    assert!(error.contains("no `fetch` ops"), "{error}");
    let error = error_of(|program| {
        op(program, "feed").outputs.insert("Out".to_owned(), vec!["z".to_owned()]);
    });
    assert!(error.contains("which it does not declare") || error.contains("`x`"), "{error}");
}

#[test]
fn parameters_are_compared_with_the_program() {
    let error = error_of(|program| {
        program.global_mut().vars.get_mut("x").unwrap().shape = vec![-1, 4];
        program.global_mut().vars.get_mut("w").unwrap().shape = vec![4, 1];
    });
    let expected = "variable `w` is float32 of shape [4, 1] in the program, but float32 of shape \
                    [2, 1] in the file";
    assert!(error.starts_with(".pdiparams`") && error.ends_with(expected), "{error}");
}

#[test]
fn truncated_files_are_errors_at_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().join("m");
    save_inference_model(&prefix, &["x"], &["y"], &program(), &scope()).unwrap();
    for name in ["m.pdmodel", "m.pdiparams"] {
        let path = dir.path().join(name);
        let bytes = fs::read(&path).unwrap();
        for len in 0..bytes.len() {
            fs::write(&path, &bytes[..len]).unwrap();
            let loaded = Scope::new();
            match load_inference_model(&prefix, &loaded) {
                Err(error) => assert!(error.to_string().contains(name), "{len}: {error}"),
                // The last fields of a program say nothing about the computation.
                Ok(model) => assert!(name == "m.pdmodel" && model.fetches.len() == 1, "{len}"),
            }
        }
        fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn missing_models_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let message = |path: &Path| load_inference_model(path, &Scope::new()).unwrap_err().to_string();
    let error = message(&dir.path().join("none"));
    assert!(error.contains("none.pdmodel") && error.contains("__model__"), "{error}");
    assert!(message(&dir.path().join("none.pdmodel")).contains("cannot read it"));
    let (program, scope) = (program(), scope());
    for name in ["a", "b"] {
        save_inference_model(dir.path().join(name), &["x"], &["y"], &program, &scope).unwrap();
    }
    assert!(message(dir.path()).contains("several models: name one of a, b"));
    fs::remove_file(dir.path().join("a.pdiparams")).unwrap();
    assert!(message(&dir.path().join("a")).contains("a.pdiparams`: cannot read it"));
}

#[test]
fn parameters_in_both_layouts_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let save = |params| {
        let (program, scope) = (program(), scope());
        save_inference_model_dir(dir.path(), &["x"], &["y"], &program, &scope, None, params)
    };
    save(None).unwrap();
    save(Some(PARAMS)).unwrap();
    let loaded = Scope::new();
    let error = load_inference_model(dir.path(), &loaded).unwrap_err().to_string();
    assert!(error.contains("in `__params__` and in a file for each (`w`)"), "{error}");
    assert!(load_inference_model_dir(dir.path(), &loaded, None, None).is_err());
    assert!(loaded.names().is_empty());
    load_inference_model_dir(dir.path(), &loaded, None, Some(PARAMS)).unwrap();
    fs::remove_file(dir.path().join("w")).unwrap();
    load_inference_model(dir.path(), &loaded).unwrap();
}
