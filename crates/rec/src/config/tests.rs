//! Configurations as people write them.

use expect_test::expect;

use super::*;

const DNN: &str = "\
workspace: \"models/rank/dnn\"
runner:
  train_data_dir: \"{workspace}/data/sample_data/train\"
  train_batch_size: 2
  epochs: 3
  use_gpu: False
  sync_mode: \"async\"
hyper_parameters:
  optimizer:
    class: Adam
    learning_rate: 0.001
  fc_sizes: [512, 256]
";

fn parse(text: &str, options: &[&str]) -> Result<Config> {
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    Config::parse(Path::new("/nowhere/models/rank/dnn/config.yaml"), text, &options)
}

#[test]
fn keys_become_flat_and_the_workspace_is_put_in() {
    let config = parse(DNN, &[]).unwrap();
    assert_eq!(config.count("runner.epochs"), 3);
    assert_eq!(config.count("runner.geo_step"), 400);
    assert_eq!(config.number("hyper_parameters.optimizer.learning_rate"), 0.001);
    let data = "/nowhere/models/rank/dnn/data/sample_data/train";
    assert_eq!(config.text("runner.train_data_dir"), data);
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    assert_eq!(config.hyper().get_sizes("fc_sizes", &[]).unwrap(), [512, 256]);
}

#[test]
fn options_have_the_type_of_what_is_there() {
    let options = ["runner.epochs=5", "runner.use_gpu=True", "hyper_parameters.fc_sizes=[8, 4]"];
    let config = parse(DNN, &options).unwrap();
    assert_eq!(config.count("runner.epochs"), 5);
    assert!(config.switch("runner.use_gpu"));
    assert_eq!(config.hyper().get_sizes("fc_sizes", &[]).unwrap(), [8, 4]);
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    let other = parse(DNN, &["runner.use_visual=True"]).unwrap();
    assert!(
        other.warnings()[0]
            .contains("-o runner.use_visual=True: `runner.use_visual` has no effect")
    );
    let no = parse(DNN, &["runner.use_gpu=1"]).unwrap();
    assert!(!no.switch("runner.use_gpu") && no.warnings().len() == 1);
    let error = |option| parse(DNN, &[option]).unwrap_err().to_string();
    assert_eq!(
        error("runner.epochs=many"),
        "-o runner.epochs=many: `runner.epochs` must be a whole number, not `many`"
    );
    assert_eq!(
        error("runner.epoch=2"),
        "-o runner.epoch=2: there is no key `runner.epoch`; did you mean `runner.epochs`?"
    );
    assert_eq!(error("epochs"), "-o epochs: an option is written `key=value`");
}

#[test]
fn lists_of_texts_may_be_empty_one_text_or_written_as_text() {
    let key = "runner.save_inference_feed_varnames";
    let texts = |line: &str, options: &[&str]| {
        let yaml = format!("runner:\n  epochs: 1\n  {line}\n");
        parse(&yaml, options).unwrap().texts(key)
    };
    for line in ["", "save_inference_feed_varnames: []", "save_inference_feed_varnames: \"[]\""] {
        assert_eq!(texts(line, &[]), [""; 0], "{line}");
    }
    assert_eq!(texts("save_inference_feed_varnames:", &[]), [""; 0]);
    let one = "save_inference_feed_varnames: a";
    assert_eq!(texts(one, &[]), ["a"]);
    assert_eq!(texts(one, &["runner.save_inference_feed_varnames=[]"]), [""; 0]);
    assert_eq!(texts(one, &["runner.save_inference_feed_varnames=[b, c]"]), ["b", "c"]);
    assert_eq!(texts("save_inference_feed_varnames: 'a, b'", &[]), ["a", "b"]);
}

#[test]
fn mistakes_are_shown_with_line_and_column() {
    let error = parse(&DNN.replace("epochs: 3", "epochs: three"), &[]).unwrap_err();
    expect![[r#"/nowhere/models/rank/dnn/config.yaml:5:11: `runner.epochs` must be a whole number of at least 0, not the text "three""#]]
        .assert_eq(&error.to_string());
    let odd = parse(&DNN.replace("train_batch_size", "train_batchsize"), &[]).unwrap();
    expect!["/nowhere/models/rank/dnn/config.yaml:4:20: `runner.train_batchsize` is not a key of PaddleRec and is ignored: did you mean `runner.train_batch_size`?"]
        .assert_eq(&odd.warnings()[0]);
    let refused = parse(&DNN.replace("epochs: 3", "fs_name: hdfs"), &[]).unwrap_err();
    assert!(refused.to_string().contains("`runner.fs_name` is not supported: this version reads"));
    let python = parse(&DNN.replace("epochs: 3", "train_reader_path: reader"), &[]).unwrap();
    assert!(python.warnings()[0].starts_with("`runner.train_reader_path` name Python code"));
}

#[test]
fn the_table_is_paddlerecs() {
    let config = parse("runner:\n  epochs: 3\n  train_data_dir: abcdefghijklmnopqrstuvwxyz/abcdefghijklmnopqrstuvwxyz\nhyper_parameters:\n  optimizer:\n    learning_rate: 0.00001\n", &[]).unwrap();
    expect![[r#"
        a table
            +=======================================================================================+
            |                PaddleRec Benchmark Envs                      Value                    |
            +---------------------------------------------------------------------------------------+
            |hyper_parameters.optimizer.learning_rate                      1e-05                    |
            |                           runner.epochs                        3                      |
            |                   runner.train_data_dir  ... mnopqrstuvwxyz/abcdefghijklmnopqrstuvwxyz|
            +=======================================================================================+
    "#]]
    .assert_eq(&format!("a table\n{}", config.table()));
}

/// The bounded form of the fuzz target `yaml_config`.
#[test]
fn any_text_is_a_configuration_or_an_error_with_a_place() {
    const PIECES: [&str; 16] = [
        ":", " ", "\n", "- ", "  - x\n", "\t", "[", "{", "\"", "&a", "*a", "!!int", "|\n", "é",
        "1e999", "~",
    ];
    let mut state = 7_u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) as usize % end
    };
    for _ in 0..3000 {
        let mut text: Vec<char> = DNN.chars().collect();
        for _ in 0..=below(4) {
            let at = below(text.len());
            let end = (at + below(12)).min(text.len());
            text.splice(at..end, PIECES[below(PIECES.len())].chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = parse(&text, &["runner.epochs=2"]) {
            assert!(!error.to_string().is_empty(), "{text}");
        }
    }
}
