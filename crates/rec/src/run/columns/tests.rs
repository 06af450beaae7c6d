//! What a configuration says of columns.

use std::path::Path;

use super::*;
use crate::run;

fn config(data: &str) -> Config {
    let text = format!("model: deepfm\ndata:\n{data}");
    Config::parse(Path::new("a.yaml"), &text, &[]).unwrap()
}

fn settings_of(data: &str) -> Result<Settings> {
    Ok(settings(&config(data))?.expect("there is a group"))
}

#[test]
fn a_group_describes_columns() {
    let settings = settings_of(
        "  format: csv\n  label: income\n  positive: '>50K'\n  negative: ['<=50K', '<=50K.']\n  \
         sparse: {job: vocabulary, city: hash}\n  bins: {age: 4, hours: [20, 40.5]}\n  \
         multi: {genres: '|'}\n  dense: [gain]\n  weight: w\n  normalize: log\n",
    )
    .unwrap();
    let columns: Vec<&str> = settings.features.iter().map(|f| f.column.as_str()).collect();
    assert_eq!(columns, ["city", "job", "age", "hours", "genres", "gain"]);
    assert_eq!((settings.sparse().count(), settings.dense()), (5, 1));
    assert_eq!(settings.label.positive, [">50K"]);
    assert_eq!(settings.weight.as_deref(), Some("w"));
    assert!(settings.must_learn());
    let plain = settings_of("  format: tsv\n  sparse: [a]\n").unwrap();
    assert!(!plain.must_learn());
    assert!(settings_of("  format: libffm\n  sparse: [0, 1]\n  multi: [2]\n").is_ok());
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    for (data, wanted) in [
        ("  sparse: [a]\n", "`data.sparse` needs `data.format`"),
        ("  format: xml\n  sparse: [a]\n", "a.yaml:3:11: `data.format` is `xml`"),
        ("  format: csv\n", "`data.sparse` names no column"),
        ("  format: csv\n  sparse: [a, a]\n", "names the column `a` twice"),
        ("  format: csv\n  sparse: [label]\n", "names the column `label`, which is the label"),
        ("  format: csv\n  sparse: [a]\n  positive: [y]\n", "needs `data.negative` too"),
        ("  format: csv\n  sparse: [a]\n  ids: words\n", "`data.ids` is `words`"),
        (
            "  format: csv\n  sparse: {a: words}\n",
            "a.yaml:4:15: a column of `data.sparse` is `words`",
        ),
        ("  format: csv\n  bins: {a: 1}\n", "a column of `data.bins` must be a number of ranges"),
        (
            "  format: csv\n  bins: {a: [3, 2]}\n",
            "a column of `data.bins` must be a list that rises",
        ),
        ("  format: csv\n  multi: [a]\n", "must be the sign between ids for each column"),
        ("  format: libsvm\n  sparse: [a]\n  header: True\n", "is about csv and tsv"),
        ("  format: csv\n  sparse: [a]\n  normalize: best\n", "`data.normalize` is `best`"),
    ] {
        let error = settings_of(data).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let text =
        "model: fm\nrunner: {pipe_command: 'native:criteo'}\ndata: {format: csv, sparse: [a]}\n";
    let config = Config::parse(Path::new("a.yaml"), text, &[]).unwrap();
    let error = settings(&config).unwrap_err().to_string();
    assert!(error.contains("leave one out"), "{error}");
}

#[test]
fn sizes_follow_from_the_columns() {
    let build = |model: &str, hyper: &str| {
        let text = format!(
            "model: {model}\nhyper_parameters: {{{hyper}}}\ndata:\n  format: csv\n  sparse: [a, b]\n  \
             multi: {{c: ' '}}\n  hash_buckets: 50\n  weight: w\n"
        );
        let config = Config::parse(Path::new("a.yaml"), &text, &[]).unwrap();
        let settings = settings(&config).unwrap().unwrap();
        let table = Arc::new(Table::new(Learned::without_data(settings)).unwrap());
        run::build_on(&config, Some(&table), &Log::silent())
    };
    let (model, description) = build("deepfm", "").unwrap();
    let names: Vec<&str> = model.slots.iter().map(|slot| slot.name.as_str()).collect();
    assert_eq!(names, ["label", "C1", "C2", "C3", "sample_weight"]);
    assert_eq!(model.slots[3].shape, None);
    let tokens = model.format.names(&model.slots).unwrap();
    assert_eq!(tokens, ["@label", "@ids0", "@ids1", "@ids2", "@weight"]);
    assert_eq!(description.hyper_parameters["sparse_feature_number"], "51");
    assert!(build("autoint", "").is_ok());
    assert!(build("deepfm", "sparse_feature_number: 100").is_ok());
    let error = build("deepfm", "sparse_inputs_slots: 27").unwrap_err().to_string();
    assert!(error.contains("is 27, and the columns of `data` make it 4: leave it out"), "{error}");
    let error = build("din", "").unwrap_err().to_string();
    assert!(error.contains("`din` has slots of its own") && error.contains("wide_deep"), "{error}");
}
