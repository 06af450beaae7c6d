//! Files of columns, from a csv to an evaluation; prediction is tested where the command is.

use std::fs;
use std::path::{Path, PathBuf};

use bireme_fleet::Environment;
use bireme_rec::run::{self, Options};
use bireme_rec::{Config, Log};

use crate::job::Setup;

const DATA: &str = "\
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
";

/// Rows whose label follows from the city and the tags.
fn rows(from: usize, to: usize) -> String {
    let mut text = "city,job,tags,age,income,paid\n".to_owned();
    for at in from..to {
        let draw = at.wrapping_mul(2_654_435_761) >> 7;
        let (city, job) = (draw % 5, draw / 5 % 4);
        let tags = ["", "a", "a|b", "b|c"][draw / 20 % 4];
        let paid = if (city < 2) != (tags.contains('b')) { "yes" } else { "no" };
        let age = if draw % 11 == 0 { String::new() } else { (20 + draw / 7 % 40).to_string() };
        text += &format!("\"city {city}\",job{job},{tags},{age},{},{paid}\n", draw / 3 % 9000);
    }
    text
}

/// A folder with training and test data.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        fs::write(desk.0.path().join("train.csv"), rows(0, 2000)).unwrap();
        fs::write(desk.0.path().join("test.csv"), rows(5000, 5400)).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn config(&self, model: &str, data: &str, options: &[&str]) -> Config {
        let folder = self.0.path().display();
        let text = format!(
            "model: {model}\n{data}runner:\n  train_data_dir: {folder}/train.csv\n  \
             test_data_dir: {folder}/test.csv\n  train_batch_size: 50\n  epochs: 3\n  \
             model_save_path: {folder}/models\n  infer_load_path: {folder}/models\n  \
             infer_start_epoch: 2\n  infer_end_epoch: 3\nhyper_parameters:\n  \
             optimizer: {{class: Adam, learning_rate: 0.02}}\n  sparse_feature_dim: 4\n  \
             fc_sizes: [16]\n"
        );
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        Config::parse(Path::new("config.yaml"), &text, &options).unwrap()
    }
}

fn options() -> Options {
    Options { log: Log::silent(), ..Options::default() }
}

fn train(config: &Config, resume: bool) -> bireme_rec::Result<run::Outcome> {
    run::train(config, &Environment::default(), &Options { resume, ..options() })
}

fn auc(config: &Config) -> f64 {
    run::infer(config, &options()).unwrap()[0].metrics["auc"]
}

#[test]
fn every_reader_learns_from_a_csv() {
    let desk = Desk::new();
    for (model, reader) in
        [("deepfm", "DataLoader"), ("fm", "QueueDataset"), ("wide_deep", "InmemoryDataset")]
    {
        let reader = format!("runner.reader_type={reader}");
        let config = desk.config(model, DATA, &[&reader, "runner.thread_num=2"]);
        train(&config, false).unwrap();
        let auc = auc(&config);
        assert!(auc > 0.9, "{model}, {reader}: {auc}");
    }
}

#[test]
fn what_was_learned_is_kept_and_mistakes_are_named() {
    let desk = Desk::new();
    let of = |more: &[&str]| desk.config("deepfm", DATA, more);
    train(&of(&["runner.epochs=1"]), false).unwrap();
    let learned = fs::read(desk.path("models/data.json")).unwrap();
    assert_eq!(fs::read(desk.path("models/0/data.json")).unwrap(), learned);
    // Other files would teach something else, but training goes on with what it began with.
    fs::write(desk.path("train.csv"), rows(9000, 9500)).unwrap();
    train(&of(&["runner.epochs=2"]), true).unwrap();
    assert_eq!(fs::read(desk.path("models/1/data.json")).unwrap(), learned);
    let refused = |more: &[&str], resume: bool, wanted: &str| {
        let error = train(&of(more), resume).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    };
    refused(&["data.sparse=[city]"], true, "another group `data` (columns of ids: ");
    refused(&["data.label=paid2"], false, "there is no column `paid2`; did you mean `paid`?");
    refused(&["data.positive=[maybe]"], false, "column `paid`: `yes` is no label");
    let error = run::infer(&of(&["data.label=x"]), &options()).unwrap_err().to_string();
    assert!(error.contains("another group `data` (the label)"), "{error}");
    // A training that begins anew learns anew.
    train(&of(&["runner.epochs=1"]), false).unwrap();
    assert_ne!(fs::read(desk.path("models/data.json")).unwrap(), learned);
}

#[test]
fn libffm_lines_and_hashed_words_train_too() {
    let desk = Desk::new();
    let line = |row: &str| {
        let cells: Vec<&str> = row.split(',').collect();
        let tags = cells[2].split('|').filter(|tag| !tag.is_empty());
        let tags: String = tags.map(|tag| format!(" 1:{tag}:1")).collect();
        let city = cells[0].replace(['"', ' '], "");
        format!("{} 0:{city}:1{tags} 2:0:{}\n", u8::from(cells[5] == "yes"), cells[4])
    };
    for name in ["train.csv", "test.csv"] {
        let text = fs::read_to_string(desk.path(name)).unwrap();
        fs::write(desk.path(name), text.lines().skip(1).map(line).collect::<String>()).unwrap();
    }
    let data = "data: {format: libffm, sparse: [0], multi: [1], dense: [2], hash_buckets: 1000}\n";
    let config = desk.config("deepfm", data, &[]);
    train(&config, false).unwrap();
    let auc = auc(&config);
    assert!(auc > 0.9, "{auc}");
}

#[test]
fn servers_and_trainers_learn_once() {
    let keys = "  epochs: 3\n  train_batch_size: 20\n  sync_mode: sync\n  split_file_list: True\n  \
                infer_start_epoch: 2\n  infer_end_epoch: 3\n";
    let setup = Setup::new(0, 0, keys);
    setup.edit("model: dnn\n", &format!("model: deepfm\n{DATA}"));
    setup.edit("  sparse_feature_number: 6001\n", "");
    for part in 0..2 {
        let path = setup.folder().join(format!("data/part-{part}"));
        fs::write(path, rows(1000 * part, 1000 * (part + 1))).unwrap();
    }
    let mut processes = setup.start_cluster(2, false);
    for process in &mut processes[..2] {
        process.finish();
    }
    let learned = |process: &crate::job::Process| {
        process.said().iter().filter(|line| line.contains("learns the columns of 2 files")).count()
    };
    assert_eq!(processes.iter().map(learned).sum::<usize>(), 1);
    let auc = auc(&Config::load(&setup.config(), &[]).unwrap());
    assert!(auc > 0.8, "{auc}");
}

#[test]
#[ignore = "needs the files of UCI Adult: BIREME_DATA names the folder that holds `adult`"]
fn adult_is_trained_from_its_raw_files() {
    let data = PathBuf::from(std::env::var_os("BIREME_DATA").expect("BIREME_DATA is set"));
    let folder = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/adult/config.yaml");
    for model in ["wide_deep", "logistic_regression", "deepfm", "dcn_v2"] {
        let of = |key: &str, value: &Path| format!("{key}={}", value.display());
        let models = folder.path().join(model);
        let mut options = vec![
            format!("model={model}"),
            of("runner.train_data_dir", &data.join("adult/adult.data*")),
            of("runner.test_data_dir", &data.join("adult/adult.test*")),
            of("runner.model_save_path", &models),
            of("runner.infer_load_path", &models),
        ];
        if model == "dcn_v2" {
            options.push("hyper_parameters.low_rank=32".to_owned());
        }
        let config = Config::load(&example, &options).unwrap();
        train(&config, false).unwrap();
        let auc = auc(&config);
        assert!(auc > 0.90, "{model}: {auc}");
        println!("{model}: test AUC {auc:.4}");
    }
}
