//! Both layouts, and files that do not belong to the program.

use std::fs;

use bireme_ir::DType;

use super::*;

/// Two parameters and a counter; declared in another order than that of their names.
fn program() -> Program {
    let mut program = Program::new();
    let global = program.global_mut();
    global.add_var(Var::parameter("w", DType::F32, [2, 2]));
    global.add_var(Var::parameter("b", DType::F32, [2]));
    global.add_var(Var::tensor("step", DType::I64, [1])).persistable = true;
    global.add_var(Var::tensor("x", DType::F32, [-1, 2]));
    program
}

fn scope() -> Scope {
    let scope = Scope::new();
    scope.set("w", &Tensor::from_slice([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap());
    scope.set("b", &Tensor::from_slice([2], &[5.0f32, 6.0]).unwrap());
    scope.set("step", &Tensor::scalar(7i64));
    scope
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn same(a: &Scope, b: &Scope) -> bool {
    a.names() == b.names() && a.names().iter().all(|var| a.get(var).unwrap() == b.get(var).unwrap())
}

#[test]
fn one_file_each_or_one_for_all() {
    let dir = tempfile::tempdir().unwrap();
    for (folder, filename, expected) in
        [("own", None, vec!["b", "step", "w"]), ("common", Some("all"), vec!["all"])]
    {
        let folder = dir.path().join(folder);
        save_persistables(&folder, &program(), &scope(), filename).unwrap();
        assert_eq!(names(&folder), expected);
        let loaded = Scope::new();
        load_persistables(&folder, &program(), &loaded, filename).unwrap();
        assert!(same(&loaded, &scope()));
    }
    // The common file is the others in the order of their names.
    let own = ["b", "step", "w"].map(|var| fs::read(dir.path().join("own").join(var)).unwrap());
    assert_eq!(fs::read(dir.path().join("common/all")).unwrap(), own.concat());
}

#[test]
fn parameters_alone() {
    let dir = tempfile::tempdir().unwrap();
    save_params(dir.path(), &program(), &scope(), None).unwrap();
    assert_eq!(names(dir.path()), ["b", "w"]);
    let loaded = Scope::new();
    loaded.set("b", &Tensor::zeros(DType::F32, [2]));
    load_params(dir.path(), &program(), &loaded, None).unwrap();
    assert_eq!(loaded.names(), ["b", "w"]);
    assert_eq!(loaded.get("b").unwrap(), scope().get("b").unwrap());
}

#[test]
fn a_variable_without_value_stops_the_save_before_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, scope) = (dir.path().join("new"), scope());
    scope.remove("step");
    let error = save_persistables(&folder, &program(), &scope, None).unwrap_err();
    assert!(matches!(error, Error::NotInitialized { var } if var == "step"));
    assert!(!folder.exists());
}

#[test]
fn an_unwritable_folder_keeps_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let folder = dir.path().join("file/child");
    let error = save_persistables(folder, &program(), &scope(), None).unwrap_err().to_string();
    assert!(error.contains("file/child") && error.contains("cannot save there"), "{error}");
    assert_eq!(names(dir.path()), ["file"]);
}

/// Loads the common file of `dir` and expects an error; nothing must be loaded.
fn error_of(dir: &Path, program: &Program, filename: Option<&str>) -> String {
    let scope = Scope::new();
    let error = load_persistables(dir, program, &scope, filename).unwrap_err().to_string();
    assert!(scope.names().is_empty(), "a failed load changes nothing");
    error
}

#[test]
fn a_truncated_file_is_an_error_at_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    save_persistables(dir.path(), &program(), &scope(), Some("all")).unwrap();
    let path = dir.path().join("all");
    let bytes = fs::read(&path).unwrap();
    for len in 0..bytes.len() {
        fs::write(&path, &bytes[..len]).unwrap();
        let error = error_of(dir.path(), &program(), Some("all"));
        assert!(error.contains("truncated") || error.contains("it ends after"), "{len}: {error}");
    }
    fs::write(&path, [&bytes[..], &[0]].concat()).unwrap();
    let error = error_of(dir.path(), &program(), Some("all"));
    assert!(error.contains("1 bytes follow the last variable"), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    save_persistables(dir.path(), &program(), &scope(), None).unwrap();
    fs::remove_file(dir.path().join("w")).unwrap();
    let error = error_of(dir.path(), &program(), None);
    assert!(error.contains("/w`: cannot read it: No such file"), "{error}");
    assert!(error_of(dir.path(), &program(), Some("all")).contains("/all`: cannot read it"));
}

#[test]
fn shapes_and_types_are_compared_with_the_program() {
    let dir = tempfile::tempdir().unwrap();
    save_persistables(dir.path(), &program(), &scope(), None).unwrap();
    let mut other = program();
    other.global_mut().vars.get_mut("w").unwrap().shape = vec![2, 3];
    let error = error_of(dir.path(), &other, None);
    assert!(
        error.ends_with(
            "variable `w` is float32 of shape [2, 3] in the program, but float32 of shape [2, 2] \
             in the file"
        ),
        "{error}"
    );
    let mut other = program();
    other.global_mut().vars.get_mut("step").unwrap().dtype = DType::I32;
    assert!(error_of(dir.path(), &other, None).contains("is int32 of shape [1] in the program"));
    let mut other = program();
    other.global_mut().vars.get_mut("step").unwrap().shape = Vec::new();
    let loaded = Scope::new();
    load_persistables(dir.path(), &other, &loaded, None).unwrap();
    assert!(loaded.get("step").unwrap().dims().is_empty());
}

#[test]
fn names_of_variables_do_not_lead_out_of_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::new();
    program.global_mut().add_var(Var::parameter("../w", DType::F32, [1]));
    let scope = Scope::new();
    scope.set("../w", &Tensor::scalar(1.0f32));
    let folder = dir.path().join("model");
    assert!(save_persistables(&folder, &program, &scope, None).is_err());
    assert!(names(dir.path()).is_empty());
    fs::create_dir(&folder).unwrap();
    assert!(error_of(&folder, &program, None).contains("is not a name for a file"));
    save_persistables(&folder, &program, &scope, Some("all")).unwrap();
    load_persistables(&folder, &program, &scope, Some("all")).unwrap();
}

#[test]
fn names_with_a_slash_make_folders() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::new();
    program.global_mut().add_var(Var::parameter("tower/w", DType::F32, [1]));
    let scope = Scope::new();
    scope.set("tower/w", &Tensor::scalar(1.0f32));
    save_persistables(dir.path(), &program, &scope, None).unwrap();
    assert!(dir.path().join("tower/w").is_file());
    load_persistables(dir.path(), &program, &scope, None).unwrap();
}

#[test]
fn loading_under_a_reader_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    save_persistables(dir.path(), &program(), &scope(), None).unwrap();
    let target = Scope::new();
    target.set("w", &Tensor::scalar(0.5f32));
    let refused = target.read("w", |_| load_persistables(dir.path(), &program(), &target, None));
    let message = refused.unwrap().unwrap_err().to_string();
    assert!(message.contains("cannot be changed now"), "{message}");
    assert_eq!(
        (target.names(), target.get("w").unwrap()),
        (vec!["w".into()], Tensor::scalar(0.5f32))
    );
    load_persistables(dir.path(), &program(), &target, None).unwrap();
    assert!(same(&target, &scope()));
}
