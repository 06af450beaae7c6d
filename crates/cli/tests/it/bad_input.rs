//! Wrong arguments, files and lines: one line that says what is wrong, and a failing exit code.

use std::fs;
use std::path::Path;

use crate::{bireme, train_small};

/// Runs a command that must fail with `code` and name every one of `reasons`.
#[track_caller]
fn refused(folder: &Path, args: &[&str], stdin: &str, code: i32, reasons: &[&str]) {
    let ran = bireme(folder, args, stdin);
    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    for reason in reasons {
        assert!(ran.stderr.contains(reason), "`{reason}` in: {}", ran.stderr);
    }
    if code == 1 {
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], reason| refused(folder.path(), args, "", 2, &[reason]);
    refused(&["train", "--sample", "3"], "--samples");
    refused(&["train", "--batch-size", "0"], "must be at least 1");
    refused(&["train", "--learning-rate", "-1"], "must be above 0");
    refused(&["inspect"], "<MODEL>");
    refused(&["inspect", "m", "--text", "--dot"], "cannot be used with");
    refused(&["predict", "m", "--format", "csv"], "json, slot");
    refused(&["train", "--threads", "1000000"], "must be at most 256");
    refused(&["train", "--samples", "99999999999999999999"], "must be at most 100000000");
    refused(&["train", "--epochs", "18446744073709551615"], "must be at most 1000000");
    refused(&["train", "--rows", "18446744073709551615"], "must be at most 100000000");
    refused(&["predict", "m", "--batch-size", "1000000000"], "must be at most 1048576");
    refused(&["bench", "engine", "--seconds", "1e30"], "must be at most 86400");
    refused(&["fly"], "unrecognized subcommand");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing was written");
}

#[test]
fn every_command_has_help() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        &["train"][..],
        &["inspect"],
        &["predict"],
        &["bench", "engine"],
        &["bench", "data"],
        &["data", "head"],
        &["data", "stat"],
        &["data", "convert"],
    ] {
        let ran = bireme(folder.path(), &[command, &["--help"]].concat(), "");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert!(ran.stdout.contains("Usage: bireme"), "{}", ran.stdout);
    }
}

#[test]
fn an_output_folder_that_cannot_be_written_is_refused_before_training() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let args = ["train", "--output", "file/demo"];
    refused(folder.path(), &args, "", 1, &["cannot write to the output folder `file/demo`"]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing was written");
}

#[test]
fn a_missing_model_is_named() {
    let folder = tempfile::tempdir().unwrap();
    refused(folder.path(), &["inspect", "nowhere"], "", 1, &["nowhere"]);
    refused(folder.path(), &["predict", "nowhere"], "", 1, &["nowhere"]);
    fs::create_dir(folder.path().join("empty")).unwrap();
    refused(folder.path(), &["inspect", "empty"], "", 1, &["empty", "__model__"]);
    fs::write(folder.path().join("nothing"), "").unwrap();
    refused(folder.path(), &["inspect", "nothing"], "", 1, &["`nothing`: the file is empty"]);
}

#[test]
fn damaged_models_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    train_small(folder.path());
    let model = folder.path().join("demo/model.pdmodel");
    let params = folder.path().join("demo/model.pdiparams");
    let (whole, values) = (fs::read(&model).unwrap(), fs::read(&params).unwrap());
    fs::write(&params, &values[..values.len() - 3]).unwrap();
    refused(folder.path(), &["predict", "demo/model"], "", 1, &["model.pdiparams"]);
    refused(folder.path(), &["inspect", "demo/model", "--params"], "", 1, &["model.pdiparams"]);
    fs::write(&model, &whole[..whole.len() / 2]).unwrap();
    refused(folder.path(), &["inspect", "demo/model"], "", 1, &["model.pdmodel"]);
    refused(folder.path(), &["predict", "demo/model"], "", 1, &["model.pdmodel"]);
}

#[test]
fn a_bad_line_is_named_after_the_lines_before_it_are_predicted() {
    let folder = tempfile::tempdir().unwrap();
    train_small(folder.path());
    let sample = fs::read_to_string(folder.path().join("demo/sample.txt")).unwrap();
    let good: Vec<&str> = sample.lines().take(3).collect();
    let broken = good[0].replace(" 26:", " 26:x");
    let stdin = format!("{}\n{broken}\n{}\n", good.join("\n"), good[0]);
    let ran = bireme(folder.path(), &["predict", "demo/model"], &stdin);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 3));
    assert!(ran.stderr.starts_with("error: stdin, line 4: slot `26`: `x"), "{}", ran.stderr);

    let predict = ["predict", "demo/model"];
    let (short, _) = good[0].rsplit_once(' ').unwrap();
    refused(folder.path(), &predict, short, 1, &["line 1", "needs 13 values, but 12 are given"]);
    refused(folder.path(), &predict, "{\"1\": 2}", 1, &["line 1", "is missing"]);
    let outside = good[0].replace(" 26:", " 26:9999");
    refused(folder.path(), &predict, &outside, 1, &["line 1", "9999"]);
    refused(folder.path(), &predict, "\n\n{]", 1, &["line 3: not valid JSON", "(column 2)"]);

    // An id that the table does not have is noticed only when the batch runs.
    let stdin = format!("{}\n\n{outside}\n{}\n \n", good.join("\n"), good[0]);
    let ran = bireme(folder.path(), &predict, &stdin);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 3));
    assert!(ran.stderr.starts_with("error: stdin, line 5: "), "{}", ran.stderr);
    let blank_at_the_end = format!("{}\n\n", good.join("\r\n"));
    let ran = bireme(folder.path(), &predict, &blank_at_the_end);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 3), "{}", ran.stderr);
    let mut binary = good.join("\n").into_bytes();
    binary.extend(b"\n\xff\n");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bireme"));
    let ran = crate::finish(command.args(predict).current_dir(&folder), &binary);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 3));
    assert!(ran.stderr.starts_with("error: stdin, line 4: not UTF-8 text"), "{}", ran.stderr);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    train_small(folder.path());
    let bireme = env!("CARGO_BIN_EXE_bireme");
    let line = format!("'{bireme}' inspect demo/model --text | head -n 1");
    let mut shell = std::process::Command::new("sh");
    let ran = crate::finish(shell.args(["-c", &line]).current_dir(&folder), "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn training_that_diverges_names_the_op_when_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["train", "--samples", "3000", "--rows", "500", "--learning-rate", "1e30"];
    for (flags, start) in [(&["--local"][..], "error: step "), (&[], "error: worker ")] {
        let flags = [flags, &["--check-finite", "--quiet"]].concat();
        let checked = bireme(folder.path(), &[&args[..], &flags].concat(), "");
        assert_eq!(checked.code, Some(1), "{}", checked.stderr);
        assert!(checked.stderr.contains(start), "{}", checked.stderr);
        // Of two workers either may be the first, so it may be told by its log.
        assert!(checked.stderr.contains("error: step "), "{}", checked.stderr);
        assert!(checked.stderr.contains("produced"), "{}", checked.stderr);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "no empty folder is left");
    }
    // Without the flag, the first op that cannot go on says so.
    let unchecked = bireme(folder.path(), &args, "");
    assert_eq!(unchecked.code, Some(1), "{}", unchecked.stderr);
    assert!(unchecked.stderr.contains("prediction NaN"), "{}", unchecked.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_cannot_be_written_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let bireme = env!("CARGO_BIN_EXE_bireme");
    let train = format!("'{bireme}' train --samples 1000 --rows 500 --threads 1");
    let run = |line: String| {
        let mut shell = std::process::Command::new("sh");
        crate::finish(shell.args(["-c", &line]).current_dir(&folder), "")
    };
    let full = run(format!("{train} --quiet > /dev/full"));
    assert_eq!(full.code, Some(1), "{}", full.stderr);
    let reason = "error: cannot write to standard output: No space left";
    assert!(full.stderr.starts_with(reason), "{}", full.stderr);
    let silent = run(format!("{train} 2> /dev/full"));
    assert_eq!(silent.code, Some(0), "advice that nobody can read is no error");
}

#[test]
fn a_table_that_does_not_fit_into_memory_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let samples = bireme(folder.path(), &["data", "generate", "dnn", "--rows", "10"], "");
    fs::write(folder.path().join("samples"), samples.stdout).unwrap();
    let config = "model: dnn\nrunner: {train_data_dir: samples, train_batch_size: 5}\n\
                  hyper_parameters: {sparse_feature_number: 100000000000000}\n";
    fs::write(folder.path().join("config.yaml"), config).unwrap();
    let ran = bireme(folder.path(), &["train", "-m", "config.yaml"], "");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("\nerror: out of memory"), "{}", ran.stderr);
}
