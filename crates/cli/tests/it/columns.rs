//! Files of columns: from a csv to predictions, as `docs/columns.md` tells it.

use std::fs;
use std::path::Path;

use crate::{Ran, bireme};

const CONFIG: &str = "\
model: deepfm
data:
  format: csv
  label: paid
  positive: [\"yes\"]
  negative: [\"no\"]
  ids: vocabulary
  sparse: [city, job]
  multi: {tags: \"|\"}
  bins: {age: 4}
  dense: {age: standard, income: log}
runner:
  train_data_dir: train.csv
  test_data_dir: test.csv
  train_batch_size: 50
  epochs: 3
  use_auc: True
  model_save_path: models
  infer_load_path: models
  infer_start_epoch: 2
  infer_end_epoch: 3
hyper_parameters:
  optimizer: {class: Adam, learning_rate: 0.02}
  sparse_feature_dim: 4
  fc_sizes: [16]
";

/// Rows whose label follows from the city and the tags.
fn rows(from: usize, to: usize) -> String {
    let mut text = "id,city,job,tags,age,income,paid\n".to_owned();
    for at in from..to {
        let draw = at.wrapping_mul(2_654_435_761) >> 7;
        let (city, job) = (draw % 5, draw / 5 % 4);
        let tags = ["", "a", "a|b", "b|c"][draw / 20 % 4];
        let paid = if (city < 2) != (tags.contains('b')) { "yes" } else { "no" };
        let age = if draw % 11 == 0 { String::new() } else { (20 + draw / 7 % 40).to_string() };
        let income = draw / 3 % 9000;
        text += &format!("r{at},\"city {city}\",job{job},{tags},{age},{income},{paid}\n");
    }
    text
}

fn desk() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.yaml"), CONFIG).unwrap();
    fs::write(folder.path().join("train.csv"), rows(0, 2000)).unwrap();
    fs::write(folder.path().join("test.csv"), rows(5000, 5400)).unwrap();
    folder
}

#[track_caller]
fn run(folder: &Path, line: &str, stdin: &str) -> Ran {
    let ran = bireme(folder, &line.split_whitespace().collect::<Vec<_>>(), stdin);
    assert_eq!(ran.code, Some(0), "{line}: {}", ran.stderr);
    ran
}

/// The AUC that `infer` printed.
fn auc(ran: &Ran) -> f64 {
    let (_, rest) = ran.stdout.split_once("auc ").unwrap();
    rest.split(',').next().unwrap().trim().parse().unwrap()
}

/// A line without its label, which stands last.
fn without_label(text: &str) -> String {
    text.lines().map(|line| line.rsplit_once(',').unwrap().0.to_owned() + "\n").collect()
}

#[test]
fn a_csv_is_trained_evaluated_and_predicted() {
    let folder = desk();
    let folder = folder.path();
    let ran = run(folder, "train -m config.yaml", "");
    assert!(ran.stderr.contains("learned from 2000 samples"), "{}", ran.stderr);
    let ran = run(folder, "infer -m config.yaml", "");
    assert!(auc(&ran) > 0.95, "{}", ran.stdout);

    let test = fs::read_to_string(folder.join("test.csv")).unwrap();
    let predicted = run(folder, "predict models --id id --tsv test.csv", "");
    let lines: Vec<&str> = predicted.stdout.lines().collect();
    assert_eq!(lines.len(), 400);
    assert!(lines[0].starts_with("r5000\t0."), "{}", lines[0]);
    // Without labels, from standard input, and in another order of columns: the same.
    let unlabelled = without_label(&test);
    let again = run(folder, "predict models --id id --tsv", &unlabelled);
    assert_eq!(again.stdout, predicted.stdout);
    let moved: String = unlabelled
        .lines()
        .map(|line| {
            let (id, rest) = line.split_once(',').unwrap();
            format!("{rest},{id}\n")
        })
        .collect();
    assert_eq!(run(folder, "predict models --id id --tsv", &moved).stdout, predicted.stdout);
    let json = run(folder, "predict models/2 test.csv --id id --json", "");
    assert!(json.stdout.starts_with("{\"id\":\"r5000\",\""), "{}", json.stdout);
    // Prediction and evaluation agree on how good the model is.
    let scored = test.lines().skip(1).zip(&lines);
    let scored: Vec<(bool, f64)> = scored
        .map(|(line, score)| {
            (line.ends_with("yes"), score.split('\t').nth(1).unwrap().parse().unwrap())
        })
        .collect();
    let pairs = scored.iter().filter(|(yes, _)| *yes).flat_map(|(_, yes)| {
        scored.iter().filter(|(no, _)| !*no).map(move |(_, no)| f64::from(u8::from(yes > no)))
    });
    let pairs: Vec<f64> = pairs.collect();
    let own = pairs.iter().sum::<f64>() / pairs.len() as f64;
    assert!((own - auc(&ran)).abs() < 0.01, "{own} {}", ran.stdout);

    for (line, stdin, wanted) in [
        ("predict models", "city,job\nx,y\n", "line 1: there is no column `age`"),
        (
            "predict models",
            "id,city,job,tags,age,income\nr,c,j,,old,1\n",
            "line 2: column `age`: `old`",
        ),
        ("predict models --id nr", &test, "there is no column `nr`"),
    ] {
        let ran = bireme(folder, &line.split_whitespace().collect::<Vec<_>>(), stdin);
        assert!(ran.code == Some(1) && ran.stderr.contains(wanted), "{line}: {}", ran.stderr);
    }
}

#[test]
fn what_was_learned_is_kept_and_mistakes_are_named() {
    let folder = desk();
    let folder = folder.path();
    run(folder, "train -m config.yaml -o runner.epochs=1", "");
    let learned = fs::read(folder.join("models/data.json")).unwrap();
    assert_eq!(fs::read(folder.join("models/0/data.json")).unwrap(), learned);
    // Other files would teach something else, but training goes on with what it began with.
    fs::write(folder.join("train.csv"), rows(9000, 9500)).unwrap();
    let ran = run(folder, "train -m config.yaml --resume -o runner.epochs=2", "");
    assert!(ran.stderr.contains("goes on from checkpoint"), "{}", ran.stderr);
    assert_eq!(fs::read(folder.join("models/1/data.json")).unwrap(), learned);
    let refused = |line: &str, wanted: &str| {
        let ran = bireme(folder, &line.split_whitespace().collect::<Vec<_>>(), "");
        assert!(ran.code == Some(1) && ran.stderr.contains(wanted), "{line}: {}", ran.stderr);
    };
    refused(
        "train -m config.yaml --resume -o runner.epochs=3 data.sparse=[city]",
        "it was learned with another group `data` (columns of ids: ",
    );
    refused("infer -m config.yaml -o data.normalize=none data.label=x", "another group `data`");
    refused(
        "train -m config.yaml -o data.label=paid2",
        "there is no column `paid2`; did you mean `paid`?",
    );
    refused("train -m config.yaml -o data.positive=[maybe]", "column `paid`: `yes` is no label");
    let ran = run(folder, "train -m config.yaml -o runner.epochs=1", "");
    assert!(ran.stderr.contains("learned from 500 samples"), "{}", ran.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn servers_and_trainers_learn_once() {
    let folder = desk();
    let folder = folder.path();
    run(folder, "train -m config.yaml --servers 1 --workers 2 --mode sync", "");
    let ran = run(folder, "infer -m config.yaml", "");
    assert!(auc(&ran) > 0.9, "{}", ran.stdout);
    assert!(folder.join("models/2/data.json").is_file());
}

#[test]
fn readers_and_formats_of_columns_train_too() {
    let folder = desk();
    let folder = folder.path();
    for reader in ["QueueDataset", "InmemoryDataset"] {
        let line =
            format!("train -m config.yaml -o runner.reader_type={reader} runner.thread_num=2");
        run(folder, &line, "");
        let ran = run(folder, "infer -m config.yaml", "");
        assert!(auc(&ran) > 0.9, "{reader}: {}", ran.stdout);
    }
    let libffm: String = rows(0, 2000)
        .lines()
        .skip(1)
        .map(|row| {
            let cells: Vec<&str> = row.split(',').collect();
            let label = u8::from(cells[6] == "yes");
            let tags = cells[3].split('|').filter(|tag| !tag.is_empty());
            let tags: String = tags.map(|tag| format!(" 1:{tag}:1")).collect();
            format!("{label} 0:{}:1{tags} 2:0:{}\n", cells[1].replace(['"', ' '], ""), cells[5])
        })
        .collect();
    fs::write(folder.join("train.ffm"), libffm).unwrap();
    let config = CONFIG.split("data:\n").next().unwrap().to_owned()
        + "data: {format: libffm, sparse: [0], multi: [1], dense: [2], hash_buckets: 1000}\nrunner:"
        + CONFIG.split("runner:").nth(1).unwrap();
    fs::write(
        folder.join("ffm.yaml"),
        config.replace("train.csv", "train.ffm").replace("test.csv", "train.ffm"),
    )
    .unwrap();
    run(folder, "train -m ffm.yaml -o runner.model_save_path=ffm", "");
    let ran = run(folder, "infer -m ffm.yaml -o runner.infer_load_path=ffm", "");
    assert!(auc(&ran) > 0.9, "{}", ran.stdout);
    let unlabelled: String = fs::read_to_string(folder.join("train.ffm"))
        .unwrap()
        .lines()
        .take(3)
        .map(|line| line[2..].to_owned() + "\n")
        .collect();
    let ran = run(folder, "predict ffm --tsv", &unlabelled);
    assert_eq!(ran.stdout.lines().count(), 3);
}

#[test]
fn a_guessed_configuration_trains_as_it_is() {
    let folder = desk();
    let folder = folder.path();
    let ran = run(folder, "data guess train.csv -o guessed.yaml", "");
    assert!(ran.stderr.contains("look it over"), "{}", ran.stderr);
    let guessed = fs::read_to_string(folder.join("guessed.yaml")).unwrap();
    for wanted in [
        "  label: \"paid\"\n",
        "  positive: [\"yes\"]",
        "    \"city\": vocabulary   # 5 words\n",
        "    \"tags\": \"|\"   # lists",
        "    \"age\": standard",
        "    \"income\": ",
        "  # left out: \"id\" (every row has another)\n",
    ] {
        assert!(guessed.contains(wanted), "{wanted}\n{guessed}");
    }
    run(folder, "train -m guessed.yaml -o runner.train_batch_size=50", "");
    run(folder, "infer -m guessed.yaml", "");
    let ran = bireme(folder, &["data", "guess", "config.yaml"], "");
    assert!(
        ran.code == Some(1) && ran.stderr.contains("looks like no line of a table"),
        "{}",
        ran.stderr
    );
    let ran = bireme(folder, &["data", "guess", "train.csv", "--label", "city"], "");
    assert!(ran.stderr.contains("column `city` has 5 different values"), "{}", ran.stderr);
}

#[test]
fn lines_are_split_shuffled_counted_and_converted() {
    let folder = desk();
    let folder = folder.path();
    run(folder, "data split train.csv --parts a=0.75,b=0.25 -o parts", "");
    let [a, b] = ["a", "b"]
        .map(|part| fs::read_to_string(folder.join(format!("parts/{part}/train.csv"))).unwrap());
    let header = "id,city,job,tags,age,income,paid\n";
    assert!(a.starts_with(header) && b.starts_with(header));
    assert_eq!(a.lines().count() + b.lines().count(), 2002);
    assert!((1400..1600).contains(&a.lines().count()), "{}", a.lines().count());
    run(folder, "data shuffle parts/a parts/b -o mixed.csv --seed 3", "");
    let mixed = fs::read_to_string(folder.join("mixed.csv")).unwrap();
    assert!(mixed.starts_with(header));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_ne!(mixed, rows(0, 2000));
    assert_eq!(sorted(&mixed), sorted(&rows(0, 2000)));

    run(folder, "data convert -m config.yaml train.csv --to slot_value -o train.txt", "");
    let text = fs::read_to_string(folder.join("train.txt")).unwrap();
    assert_eq!(text.lines().count(), 2000);
    assert!(text.starts_with("click:") && text.contains(" dense_feature:"), "{}", &text[..80]);
    let ran = run(folder, "data stats -m config.yaml train.csv", "");
    assert!(ran.stdout.contains("samples    2,000"), "{}", ran.stdout);
}
