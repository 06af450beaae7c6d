//! The shape of what `bireme bench` prints; the figures themselves are for an idle machine.

use std::process::Command;

use crate::{bireme, finish};

#[test]
fn one_case_prints_one_json_object() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["bench", "engine", "--json", "--case", "mnist_mlp_b64_t1", "--seconds", "0.2"];
    let ran = bireme(folder.path(), &args, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let line: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(line["case"], "mnist_mlp_b64_t1");
    assert_eq!(line["unit"], "samples/s");
    if cfg!(target_os = "linux") {
        assert!(line["peak_mib"].as_f64().unwrap() > 1.0, "{line}");
    }
    for figure in ["value", "ratio", "peak_gflops", "products_peak_ratio", "peak_ratio"] {
        assert!(line[figure].as_f64().unwrap() > 0.0, "{line}");
    }
}

#[test]
fn products_are_shown_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["bench", "engine", "--json", "--case", "products", "--seconds", "0.5"];
    let ran = bireme(folder.path(), &args, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let lines = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let of = |name: &str| lines.iter().find(|line| line["case"] == name).unwrap();
    for name in [
        "product_forward_2048x512x247",
        "product_weight_247x512x128",
        "product_input_2048x429x512",
        "product_weight_784x128x64",
    ] {
        for figure in ["value", "library", "ratio", "peak_gflops", "peak_ratio"] {
            assert!(of(name)[figure].as_f64().unwrap() > 0.0, "{name}");
        }
    }
}

#[test]
fn the_table_has_a_line_for_each_case() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["bench", "engine", "--case", "mnist_mlp_b64_t1", "--seconds", "0.1"];
    let ran = bireme(folder.path(), &args, "");
    let first: Vec<&str> = ran.stdout.lines().map(|l| l.split(' ').next().unwrap()).collect();
    assert_eq!(first, ["case", "mnist_mlp_b64_t1"], "{}", ran.stdout);
}

#[test]
fn an_unknown_case_is_refused_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let ran = bireme(folder.path(), &["bench", "engine", "--case", "nope"], "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("ctr_dnn_b512_t1, ctr_dnn_b2048_t1"), "{}", ran.stderr);
}

#[test]
fn an_eager_call_costs_more_than_its_kernel() {
    let folder = tempfile::tempdir().unwrap();
    // Other work of the machine can hit the kernel alone, but not every time.
    let costs_more = || {
        let ran = bireme(folder.path(), &["bench", "eager", "--json", "--seconds", "0.2"], "");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let lines = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<serde_json::Value> = lines.collect();
        let cases: Vec<_> = lines.iter().map(|line| line["case"].as_str().unwrap()).collect();
        assert_eq!(cases, ["add_2_kernel", "add_2_call", "add_2_recorded"]);
        lines[1]["value"].as_f64().unwrap() > lines[0]["value"].as_f64().unwrap()
    };
    assert!((0..10).any(|_| costs_more()));
}

#[test]
fn a_request_to_a_server_is_compared_with_the_call_of_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let cases = ["--case", "push_13312x9_uds", "--case", "pull_13312x9_tcp"];
    let args = [&["bench", "ps", "--json", "--seconds", "0.1"][..], &cases].concat();
    let ran = bireme(folder.path(), &args, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let lines = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    assert_eq!(lines.len(), 2);
    for (line, case) in lines.iter().zip(["push_13312x9_uds", "pull_13312x9_tcp"]) {
        assert_eq!((line["case"].as_str(), line["unit"].as_str()), (Some(case), Some("us")));
        assert!(line["value"].as_f64().unwrap() > 0.0 && line["ratio"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn ranks_are_processes_that_reduce_and_count_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let cases = ["--case", "allreduce_4k_r2", "--case", "wire_1m_r4"];
    let args = ["bench", "collective", "--json", "--alone", "--seconds", "0.1"];
    let ran = bireme(folder.path(), &[&args[..], &cases].concat(), "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let lines: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |at: usize, key: &str| lines[at][key].clone();
    assert_eq!((of(0, "case"), of(0, "unit")), ("allreduce_4k_r2".into(), "us".into()));
    assert!(of(0, "value").as_f64().unwrap() > 0.0 && of(0, "ratio").is_null());
    assert_eq!((of(1, "case"), of(1, "unit")), ("wire_1m_r4".into(), "MB".into()));
    let ratio = of(1, "ratio").as_f64().unwrap();
    assert!((1.0..1.05).contains(&ratio), "{ratio}");
}

#[test]
fn every_parser_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let ran = bireme(folder.path(), &["bench", "data", "--json", "--seconds", "0.1"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let lines: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cases: Vec<_> = lines.iter().map(|line| line["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["parse_slot_value", "parse_multislot", "parse_criteo", "parse_csv"]);
    for line in lines {
        assert_eq!(line["unit"], "GB/s");
        assert!(line["value"].as_f64().unwrap() > 0.0 && line["ratio"].as_f64().unwrap() > 0.0);
    }
}

/// Every case runs on the emulated card; its figures mean nothing there.
#[test]
fn all_cases_of_cards_run() {
    let Some(libraries) = bireme_emulator::DIR else { return };
    let folder = tempfile::tempdir().unwrap();
    let listed = bireme(folder.path(), &["bench", "gpu", "--list"], "");
    let names: Vec<&str> = listed.stdout.lines().collect();
    assert!(names.len() > 30 && names.contains(&"table_find_d8"), "{names:?}");
    let args = ["bench", "gpu", "--json", "--scale", "small", "--seconds", "0.01"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_bireme"));
    command.args(args).current_dir(folder.path()).env("BIREME_CUDA_LIBRARIES", libraries);
    let ran = finish(&mut command, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let lines: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for name in names {
        let own = lines.iter().filter(|line| {
            let case = line["case"].as_str().unwrap();
            case.split('/').next() == Some(name)
        });
        let own: Vec<_> = own.collect();
        assert!(!own.is_empty(), "no line of `{name}`");
        for line in own {
            let value = line["value"].as_f64().unwrap();
            assert!(value.is_finite() && line["unit"].is_string(), "{line}");
            let kinds = ["kernel_", "table_", "parts_", "box_", "collective_nccl_"];
            let has_ratio = kinds.iter().any(|kind| name.starts_with(kind));
            assert_eq!(line["ratio"].is_number(), has_ratio, "{line}");
        }
    }
}

#[test]
fn a_case_of_cards_that_there_is_not_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ran = bireme(folder.path(), &["bench", "gpu", "--case", "nope"], "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("`--list` names them"), "{}", ran.stderr);
}
