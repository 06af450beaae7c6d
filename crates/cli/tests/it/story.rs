//! Train, then do what the command says to do next.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::{bireme, finish, train_small};

#[test]
fn train_saves_a_model_and_its_advice_works_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let ran = train_small(folder.path());
    assert!(ran.stdout.contains("AUC") && ran.stdout.contains("best possible"), "{}", ran.stdout);
    assert!(ran.stderr.contains("samples/s"), "{}", ran.stderr);
    let (_, advice) = ran.stderr.split_once("Next:\n").unwrap();
    assert_eq!(advice.lines().count(), 4, "{advice}");
    for line in advice.lines() {
        let ran = finish(Command::new("sh").args(["-c", line]).current_dir(&folder), "");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{line}");
        if line.contains(" predict ") {
            assert_eq!(ran.stdout.lines().count(), 100, "{}", ran.stdout);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_model() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    assert_eq!(train_small(one.path()).stdout, train_small(two.path()).stdout);
    for file in ["model.pdmodel", "model.pdiparams", "sample.txt"] {
        let [one, two] = [&one, &two].map(|f| fs::read(f.path().join("demo").join(file)).unwrap());
        assert!(one == two, "{file} differs");
    }
}

#[test]
fn threads_that_share_parameters_train_too() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["train", "--samples", "2000", "--rows", "500", "--parallel", "threads", "--quiet"];
    let ran = bireme(folder.path(), &[&args[..], &["--threads", "2", "--local"]].concat(), "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.contains("bireme-demo/model"), "{}", ran.stdout);
}

#[test]
fn precision_changes_products_where_the_processor_has_faster_ones() {
    let train = |precision: &str| {
        let folder = tempfile::tempdir().unwrap();
        let args = ["train", "--samples", "2000", "--rows", "500", "--local", "--quiet"];
        let args = [&args[..], &["--precision", precision]].concat();
        let ran = bireme(folder.path(), &args, "");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        fs::read(folder.path().join("bireme-demo/model.pdiparams")).unwrap()
    };
    let (whole, half) = (train("float32"), train("bf16"));
    // Parameters are of 32 bits in both.
    assert_eq!(whole.len(), half.len());
    assert_eq!(whole != half, bireme_engine::gemm::half_kernel().is_some());
}

#[test]
fn inspect_shows_each_view() {
    let folder = tempfile::tempdir().unwrap();
    train_small(folder.path());
    let view = |flags: &[&str]| {
        let ran = bireme(folder.path(), &[&["inspect", "demo/model"], flags].concat(), "");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        ran.stdout
    };
    let summary = view(&[]);
    for part in ["Feeds", "dense_input", "Fetches", "SparseFeatFactors", "[2000, 9]", "total"] {
        assert!(summary.contains(part), "{part} in {summary}");
    }
    let by_folder = bireme(folder.path(), &["inspect", "demo"], "");
    assert_eq!((by_folder.code, by_folder.stdout), (Some(0), summary));
    assert!(view(&["--dot"]).starts_with("digraph"));
    let statistics = view(&["--params"]);
    assert!(statistics.contains("non-finite") && !statistics.contains("NaN"), "{statistics}");
    // What it prints is itself a program that it can inspect.
    let text = view(&["--text"]);
    fs::write(folder.path().join("program.txt"), &text).unwrap();
    let again = bireme(folder.path(), &["inspect", "program.txt", "--text"], "");
    assert_eq!((again.code, again.stdout), (Some(0), text));
}

#[test]
fn predict_reads_both_formats() {
    let folder = tempfile::tempdir().unwrap();
    train_small(folder.path());
    let sample = fs::read_to_string(folder.path().join("demo/sample.txt")).unwrap();
    let args = ["predict", "demo/model", "--batch-size", "7"];
    let slot = bireme(folder.path(), &args, &sample);
    assert_eq!((slot.code, slot.stderr.as_str()), (Some(0), ""));
    let json: String = sample.lines().map(|line| slot_to_json(line) + "\n").collect();
    let from_json = bireme(folder.path(), &args, &json);
    assert_eq!(from_json.stdout, slot.stdout);
    let first = slot.stdout.lines().next().unwrap();
    let parsed: serde_json::Value = serde_json::from_str(first).unwrap();
    let (_, values) = parsed.as_object().unwrap().iter().next().unwrap();
    let sum: f64 = values.as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{first}");
}

fn slot_to_json(line: &str) -> String {
    let pairs = || line.split(' ').map(|pair| pair.split_once(':').unwrap());
    let dense: Vec<&str> = pairs().filter(|p| p.0 == "dense_feature").map(|p| p.1).collect();
    let ids = pairs().filter(|p| p.0.parse::<u32>().is_ok());
    let ids: Vec<String> = ids.map(|(slot, id)| format!("\"{slot}\": {id}")).collect();
    format!("{{\"dense_input\": [{}], {}}}", dense.join(", "), ids.join(", "))
}

#[cfg(unix)]
#[test]
fn ctrl_c_and_sigterm_end_training_in_order() {
    let folder = tempfile::tempdir().unwrap();
    train_small(folder.path());
    let finished = fs::read(folder.path().join("demo/model.pdiparams")).unwrap();
    for (flags, signal, code) in [
        (&["--local"][..], "-INT", 130),
        (&["--local"], "-TERM", 143),
        (&["--servers", "2"], "-INT", 130),
        (&["--mode", "async", "--workers", "1"], "-TERM", 143),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bireme"))
            .args(["train", "--samples", "2000", "--epochs", "100000", "--rows", "2000"])
            .args(["--output", "demo"])
            .args(flags)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        // From here on all its trainers train, and have something to save.
        stderr.find(|line| line.contains("samples/s")).unwrap();
        let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let rest: Vec<String> = stderr.collect();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{flags:?}: {rest:?}");
        assert!(rest.iter().any(|line| line.starts_with("interrupted")), "{flags:?}: {rest:?}");
        let kept = fs::read(folder.path().join("demo/model.pdiparams")).unwrap();
        assert!(kept == finished, "the finished model is as before");
        let unfinished = "interrupted; `--resume` goes on from demo/unfinished/checkpoints/";
        let number = rest.iter().find_map(|line| line.strip_prefix(unfinished));
        let number = number.unwrap_or_else(|| panic!("{flags:?}: {rest:?}"));
        let unfinished = folder.path().join("demo/unfinished");
        let state = fs::read(unfinished.join("checkpoints").join(number).join("state.json"));
        let state: serde_json::Value = serde_json::from_slice(&state.unwrap()).unwrap();
        let epochs = (state["trainers"][0]["epoch"].as_u64().unwrap() + 1).to_string();
        let train = ["train", "--samples", "2000", "--rows", "2000", "--output", "demo"];
        let more = [&train[..], flags, &["--resume", "--epochs", &epochs]].concat();
        let ran = bireme(folder.path(), &more, "");
        assert_eq!(ran.code, Some(0), "{flags:?}: {}", ran.stderr);
        assert!(!unfinished.exists(), "{flags:?}");
        fs::write(folder.path().join("demo/model.pdiparams"), &finished).unwrap();
    }
}

#[test]
fn names_cannot_send_commands_to_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let text = "{ // block 0\n    persist param 'w\\u{1b}[2J' : \
                LOD_TENSOR.shape(2, 3).dtype(float32).stop_gradient(False)\n}\n";
    fs::write(folder.path().join("program.txt"), text).unwrap();
    for view in [&[][..], &["--text"], &["--dot"]] {
        let ran = bireme(folder.path(), &[&["inspect", "program.txt"], view].concat(), "");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert!(!ran.stdout.contains('\u{1b}'), "{:?}", ran.stdout);
    }
    let summary = bireme(folder.path(), &["inspect", "program.txt"], "").stdout;
    assert!(summary.contains("w\\u{1b}[2J"), "{summary}");
}
