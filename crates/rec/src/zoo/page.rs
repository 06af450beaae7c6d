//! `docs/models.md`, written from the models themselves and from the last figures of
//! `bireme bench zoo --json`.

use std::fmt::Write;

use expect_test::expect_file;

use super::{Entry, Hyper, entries};

/// What each hyper parameter means.
const MEANINGS: &[(&str, &str)] = &[
    ("act", "activation of hidden layers"),
    ("attn_layer_sizes", "widths of the layers of attention; each a multiple of `head_num`"),
    (
        "bot_layer_sizes",
        "widths of the layers over the dense features; ends with `sparse_feature_dim`",
    ),
    ("bottom_size", "width of the layer that tasks share"),
    ("cat_count", "categories that there are, 0 included"),
    ("cat_emb_size", "width of a category's embedding"),
    ("cross_num", "layers of crosses"),
    ("ctr_fc_sizes", "widths of the hidden layers for clicks"),
    ("cvr_fc_sizes", "widths of the hidden layers for conversions"),
    ("dense_input_dim", "dense features"),
    ("distributed_embedding", "1: the table makes rows for ids as they come, on parameter servers"),
    ("dnn_use_bn", "whether layers are normalised over the batch"),
    ("dropout_rate", "share of a layer's outputs that training drops"),
    ("embedding_dim", "width of an embedding"),
    ("expert_num", "experts"),
    ("expert_size", "width of an expert"),
    ("fc_acts", "activation of each layer; relu by default"),
    ("fc_layers", "widths of the perceptron: both embeddings together, then hidden layers"),
    ("fc_sizes", "widths of the hidden layers"),
    ("feature_number", "rows of the table: ids that there are, 0 included"),
    ("feature_size", "numbers in a sample"),
    ("gate_num", "tasks; the data has two labels"),
    ("head_num", "heads of the attention"),
    ("is_Stacked", "whether the perceptron is on top of the crosses or beside them"),
    ("is_sparse", "whether gradients name only the rows that a step looked up"),
    ("item_count", "items that there are, 0 included"),
    ("item_emb_size", "width of an item's embedding"),
    ("l2_reg_cross", "L2 penalty on the weights of crosses"),
    ("latent_dim", "width of the embeddings that are multiplied"),
    ("layer_sizes_cin", "vectors in each layer of interactions"),
    ("layer_sizes_dnn", "widths of the hidden layers"),
    ("low_rank", "rank of an expert"),
    ("max_len", "ids of a field; fewer are filled up with 0"),
    ("neg_num", "samples that do not match, for each that does"),
    ("multi_slots", "slots, by their numbers from 1, that have any number of ids in a sample"),
    ("num_experts", "experts in a layer of crosses"),
    ("num_field", "fields; checked against the slots"),
    ("num_items", "items that there are"),
    ("num_users", "users that there are"),
    ("pooling", "`sum` or `mean`: what the rows of several ids in a slot become"),
    ("reg", "L1 penalty on the weights that a step looked up"),
    ("sample_weight", "whether samples have weights in the loss, in a slot of that name"),
    ("scaling", "whether scores are divided by the root of a head's width"),
    ("slice_end", "samples of a batch that count; 0 for all"),
    ("sparse_feature_dim", "width of an embedding"),
    ("sparse_feature_number", "rows of the table: ids that there are, 0 included"),
    ("sparse_inputs_slots", "slots of ids, and one more for the label"),
    ("task_num", "tasks; the data has two labels"),
    ("top_layer_sizes", "widths of the layers over the products; ends with 2"),
    ("tower_size", "width of the hidden layer of a task"),
    ("trigram_d", "numbers in a query or document"),
    ("use_bn", "whether layers are normalised over the batch"),
    ("use_low_rank_mixture", "whether crosses are mixtures of experts or whole matrices"),
    ("use_residual", "whether a layer of attention also passes on its inputs"),
    ("use_wide", "whether there is a linear part"),
    ("with_shuffle_batch", "whether words of other samples of the batch are the random ones"),
];

const HEAD: &str = "\
# Models

Every model of the zoo: written from the code and from measurements, not by hand.
A model is used by name, from a configuration in PaddleRec's layout, without any Python:

```sh
bireme train -m models/rank/deepfm/config.yaml
```

The model is named by `model: NAME` at the top of the file, or else by the folder that the file is in.
Hyper parameters have PaddleRec's names and defaults; a key that a model does not know is reported.
`hyper_parameters.optimizer` and everything under `runner` are the same for all models.

Where PaddleRec's own code differs from the paper by an oversight, the paper is built: perceptrons have their activations (`deepfm`, `xdeepfm`), every layer of crosses has weights of its own (`dcn`), the filters of interactions are trained (`xdeepfm`), the last layers have no activation (`dlrm`), the loss is that of a sigmoid (`din`), and towers start with random weights (`share_bottom`).
Weights of dense features start small, as in `xdeepfm`, where PaddleRec has 1 (`fm`, `ffm`, `deepfm`), and all weights of `logistic_regression` at 0, where it has random ones.
The loss that `logistic_regression` shows is the sum over a batch, as in PaddleRec; that of the others is a mean over samples.
Click models read Criteo's slots as they are; fields that PaddleRec numbers by hand (`logistic_regression`, `autoint`) are made of them.

The names under *Data* are what stands in the lines.
A slot_value line has them before colons, in any order: `click:1 dense_feature:0.5 … 1:104733 2:17`; a slot that it leaves out is 0, but the label must be there; a slot that no line has is a warning.
A multislot line has the slots in the order given, each as a count and so many values: `1 104733 2 0.5 0.25`.

";

const FIGURES: &str = "\
## Figures

Each model on its own generated data, which has interactions that no weight of a single feature can express: trained on 30,000 samples three times over with Adam, batches of 256 and one thread, and tested on 15,000 others.
*Logistic regression* is a weight for each id and each number on the same samples, with the best of three learning rates; `logistic_regression` itself has one, as every model.
`bireme bench zoo --json > docs/models.json` measures them; sizes of tables are those that the data needs.
A speed that is missing has not been measured on an idle machine.

| model | metric | test AUC | logistic regression | samples/s | parameters |
|---|---|--:|--:|--:|--:|
";

#[test]
fn the_page_of_models_is_current() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.json");
    let figures = std::fs::read_to_string(file).expect("the figures are there");
    expect_file!["../../../../docs/models.md"].assert_eq(&page(&figures));
}

fn page(figures: &str) -> String {
    let mut page = HEAD.to_owned();
    page.push_str(FIGURES);
    for line in figures.lines().filter(|line| !line.is_empty()) {
        figure(&mut page, &serde_json::from_str(line).expect("a line is an object"));
    }
    for area in ["rank", "multitask", "recall", "match"] {
        for entry in entries().iter().filter(|entry| entry.area == area) {
            describe(&mut page, entry);
        }
    }
    page
}

fn figure(page: &mut String, line: &serde_json::Value) {
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    let metrics = line["metrics"].as_object().expect("metrics by name");
    for (name, value) in metrics {
        let model = line["model"].as_str().unwrap_or_default();
        let plain = number(&line["logistic_regression"][name]);
        // Left out of the file where the machine was busy.
        let speed = line["samples_per_second"].as_f64();
        let speed = speed.map_or_else(String::new, |speed| format!("{speed:.0}"));
        let count = number(&line["parameters"]);
        let row = format!("| `{model}` | `{name}` | {:.4} | {plain:.4} ", number(value));
        writeln!(page, "{row}| {speed} | {count:.0} |").expect("writing to text");
    }
}

/// Names in backticks, not all if there are many.
fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.len() {
        0..=8 => names.join(", "),
        count => [&names[..2], &["…".to_owned()], &names[count - 2..]].concat().join(", "),
    }
}

fn describe(page: &mut String, entry: &Entry) {
    let mut hyper = Hyper::default();
    let model = (entry.build)(&mut hyper).expect("defaults build");
    let Entry { name, area, summary, paper, when, .. } = entry;
    let tokens = model.format.names(&model.slots).expect("a name for each slot");
    let variables: Vec<String> = model.slots.iter().map(|slot| slot.name.clone()).collect();
    let slots = match tokens == variables {
        true => listed(&tokens),
        false => format!("{} (for the variables {})", listed(&tokens), listed(&variables)),
    };
    let text = format!(
        "\n## {name}\n\n{summary}.\n{paper}.\n\n{when}\n\n\
         - Configuration: `models/{area}/{name}/config.yaml`\n\
         - Data: {} lines of {slots}; `bireme data generate {name} --rows 1000 --out DIR` writes some\n\
         - Figure: `bireme bench zoo --model {name}`\n\n\
         | hyper parameter | default | meaning |\n|---|---|---|\n",
        model.format
    );
    page.push_str(&text);
    for (key, default) in hyper.defaults() {
        let meaning = MEANINGS.iter().find(|(known, _)| *known == key);
        let (_, meaning) = meaning.unwrap_or_else(|| panic!("`{key}` needs a meaning"));
        let default = default.trim_matches('"').replace("true", "True").replace("false", "False");
        writeln!(page, "| `{key}` | {default} | {meaning} |").expect("writing to text");
    }
}
