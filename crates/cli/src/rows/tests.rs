//! Good and bad lines.

use bireme_ir::Var;

use super::*;

fn rows() -> Rows {
    let mut program = Program::new();
    let global = program.global_mut();
    global.add_var(Var::tensor("1", DType::I64, [-1, 1]));
    global.add_var(Var::tensor("dense_input", DType::F32, [-1, 2]));
    let mut history = Var::tensor("history", DType::I64, [-1, 1]);
    history.lod_level = 1;
    global.add_var(history);
    Rows::new(&program, &["1", "dense_input", "history"].map(str::to_owned)).unwrap()
}

#[track_caller]
fn refused(line: &str, reason: &str) {
    let mut rows = rows();
    let format = Format::guess(line.as_bytes());
    rows.push("1:5 dense_feature:1 dense_feature:2 history:3", Format::Slot).unwrap();
    let error = format!("{:#}", rows.push(line, format).unwrap_err());
    assert!(error.contains(reason), "{error}");
    assert_eq!(rows.tensors().unwrap()[1].rows(), 1, "the row before is still there");
}

#[test]
fn both_formats_give_the_same_tensors() {
    let mut slot = rows();
    slot.push("click:1 1:7 dense_feature:0.5 dense_feature:-2 history:1 history:2", Format::Slot)
        .unwrap();
    slot.push("1:18446744073709551615 dense_feature:0 dense_feature:1e-3", Format::Slot).unwrap();
    let mut json = rows();
    json.push(r#"{"1": 7, "dense_input": [0.5, -2], "history": [1, 2]}"#, Format::Json).unwrap();
    json.push(
        r#"{"1": [[18446744073709551615]], "dense_input": [0, 0.001], "history": []}"#,
        Format::Json,
    )
    .unwrap();
    assert_eq!(slot.tensors().unwrap(), json.tensors().unwrap());
    let tensors = slot.tensors().unwrap();
    assert_eq!(tensors[0].as_slice::<i64>().unwrap(), [7, -1]);
    assert_eq!(tensors[1].as_slice::<f32>().unwrap(), [0.5, -2.0, 0.0, 0.001]);
    assert_eq!(tensors[2].lod(), &[vec![0, 2, 2]]);
    slot.clear();
    assert_eq!((slot.len(), slot.tensors().unwrap()[0].rows()), (0, 0));
}

#[test]
fn bad_lines_say_what_is_wrong() {
    refused("1:5 dense_feature:1", "feed `dense_input` needs 2 values, but 1 are given");
    refused("1:5", "slot `dense_feature` is missing");
    refused("1:5 7", "`7` is not of the form `slot:value`");
    refused("1:x dense_feature:1 dense_feature:2", "slot `1`: `x` is not a whole number");
    refused("1:5 dense_featur:1", "no feed `dense_featur`");
    refused("", "slot `1` is missing");
    refused("{", "not valid JSON: EOF while parsing an object (column 1)");
    refused(r#"{"1": 5, "dense_input": [1, 2]}"#, "feed `history` is missing");
    refused(r#"{"1": "5"}"#, "feed `1`: `\"5\"` is neither a number nor a list of numbers");
    refused(r#"{"1": 5.5}"#, "feed `1`: `5.5` is not a whole number");
    refused(r#"{"2": 5}"#, "no feed `2`");
}

#[test]
fn a_fixed_batch_is_made_up_with_the_last_row() {
    let mut program = Program::new();
    program.global_mut().add_var(Var::tensor("x", DType::I32, [3, 2]));
    let mut rows = Rows::new(&program, &["x".to_owned()]).unwrap();
    assert_eq!(rows.fixed(), Some(3));
    rows.push("{\"x\": [1, 2]}", Format::Json).unwrap();
    rows.push("{\"x\": [3, 4]}", Format::Json).unwrap();
    assert_eq!(rows.tensors().unwrap()[0].as_slice::<i32>().unwrap(), [1, 2, 3, 4, 3, 4]);
    program.global_mut().add_var(Var::tensor("y", DType::I32, [4, 2]));
    let error = Rows::new(&program, &["x", "y"].map(str::to_owned)).unwrap_err().to_string();
    assert!(error.contains("3 rows in one feed, 4 in another"), "{error}");
}

#[test]
fn the_format_is_guessed_from_the_first_character() {
    assert_eq!(Format::guess(b" {\"x\": 1}"), Format::Json);
    assert_eq!(Format::guess(b"click:0"), Format::Slot);
}

fn declared(dtype: DType, shape: &[i64]) -> Result<Rows> {
    let mut program = Program::new();
    program.global_mut().add_var(Var::tensor("x", dtype, shape));
    Rows::new(&program, &["x".to_owned()])
}

#[test]
fn shapes_that_no_tensor_has_are_refused() {
    let refused = |shape: &[i64], reason: &str| {
        let error = declared(DType::F32, shape).unwrap_err().to_string();
        assert!(error.contains("feed `x`") && error.contains(reason), "{error}");
    };
    refused(&[-1; 10], "10 dimensions: at most 9");
    refused(&[-1, i64::MAX, 4], "a row needs between 1 and");
    refused(&[-1, 1 << 40], "a row needs between 1 and");
    refused(&[-1, 0], "a row needs between 1 and");
    refused(&[0, 2], "takes 0 rows at once");
    refused(&[i64::MAX, 2], "takes 9223372036854775807 rows at once");
    let mut rows = declared(DType::F32, &[1 << 20, -1]).unwrap();
    let long = format!("{{\"x\": [{}]}}", ["0"; 1025].join(","));
    rows.push(&long, Format::Json).unwrap();
    let error = rows.tensors().unwrap_err().to_string();
    assert!(error.contains("1048576 rows with 1025 values each is too large"), "{error}");
}

#[test]
fn integers_that_do_not_fit_are_refused() {
    let push = |dtype, line: &str| {
        let mut rows = declared(dtype, &[-1, 1]).unwrap();
        let pushed = rows.push(line, Format::guess(line.as_bytes()));
        pushed.map(|()| rows.tensors().unwrap()).map_err(|error| format!("{error:#}"))
    };
    let refused = |dtype, line, reason| assert_eq!(push(dtype, line).unwrap_err(), reason);
    refused(
        DType::I32,
        "{\"x\": 4294967297}",
        format!("feed `x`: `4294967297` does not fit {}", DType::I32),
    );
    refused(DType::U8, "x:300", format!("slot `x`: `300` does not fit {}", DType::U8));
    refused(DType::U8, "x:-1", format!("slot `x`: `-1` does not fit {}", DType::U8));
    let wide = "x:18446744073709551616";
    let reason = format!("slot `x`: `18446744073709551616` does not fit {}", DType::I64);
    refused(DType::I64, wide, reason);
    let least = push(DType::I32, "x:-2147483648").unwrap();
    assert_eq!(least[0].as_slice::<i32>().unwrap(), [i32::MIN]);
}

#[test]
fn a_row_can_be_taken_alone() {
    let mut rows = rows();
    for line in
        ["1:1 dense_feature:1 dense_feature:2", "1:2 dense_feature:3 dense_feature:4 history:5"]
    {
        rows.push(line, Format::Slot).unwrap();
    }
    let tensors = rows.single(1).tensors().unwrap();
    assert_eq!(tensors[0].as_slice::<i64>().unwrap(), [2]);
    assert_eq!(tensors[1].as_slice::<f32>().unwrap(), [3.0, 4.0]);
    assert_eq!(tensors[2].lod(), &[vec![0, 1]]);
}
