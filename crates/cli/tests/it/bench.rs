//! The shape of what `bireme bench` prints; the figures themselves are for an idle machine.

use crate::bireme;

#[test]
fn one_case_prints_one_json_object() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["bench", "engine", "--json", "--case", "mnist_mlp_b64_t1", "--seconds", "0.2"];
    let ran = bireme(folder.path(), &args, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let line: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(line["case"], "mnist_mlp_b64_t1");
    assert_eq!(line["unit"], "samples/s");
    assert!(line["value"].as_f64().unwrap() > 0.0 && line["ratio"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_unknown_case_is_refused_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let ran = bireme(folder.path(), &["bench", "engine", "--case", "mnist"], "");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.starts_with("error: there is no case `mnist`: choose from ctr_dnn_b512_t1"));
}
