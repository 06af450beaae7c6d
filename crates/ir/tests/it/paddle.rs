//! A training program that real Paddle 2.6.2 saved (`tools/paddle_program.py` made it).

use bireme_ir::{Attr, FetchStyle, Program};
use expect_test::expect_file;

const MODEL: &[u8] = include_bytes!("../assets/fit_a_line.pdmodel");

#[test]
fn reads_as_this_text() {
    let program = Program::from_bytes(MODEL).unwrap();
    expect_file!["../assets/fit_a_line.txt"].assert_eq(&program.to_string());
}

#[test]
fn survives_both_forms() {
    let program = Program::from_bytes(MODEL).unwrap();
    assert_eq!(Program::from_bytes(&program.to_bytes()).unwrap(), program);
    assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
}

#[test]
fn knows_the_line_of_the_script() {
    let program = Program::from_bytes(MODEL).unwrap();
    let mul = program.global().ops.iter().find(|op| op.kind == "mul").unwrap();
    assert_eq!(mul.site.as_deref(), Some("tools/paddle_program.py:23"));
    assert!(!mul.attrs.contains_key("op_callstack"));
}

#[test]
fn cuts_down_for_inference() {
    let program = Program::from_bytes(MODEL).unwrap();
    let saved =
        program.inference_program(&["x", "ids"], &["fc_1.tmp_1"], FetchStyle::Scaled).unwrap();
    let ops: Vec<&str> = saved.global().ops.iter().map(|op| op.kind.as_str()).collect();
    assert_eq!(
        ops,
        [
            "feed",
            "feed",
            "lookup_table_v2",
            "reduce_sum",
            "mul",
            "elementwise_add",
            "relu",
            "dropout",
            "concat",
            "mul",
            "elementwise_add",
            "scale",
            "fetch"
        ]
    );
    let dropout = saved.global().ops.iter().find(|op| op.kind == "dropout").unwrap();
    assert_eq!(dropout.attrs["is_test"], Attr::Bool(true));
    assert!(saved.global().var("y").is_none());
}
