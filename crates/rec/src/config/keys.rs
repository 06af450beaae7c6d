//! Every key of a configuration: its type, its default, what it does. `docs/yaml.md` is made from
//! this table.

mod data;
mod optimizer;

use super::{Value, hyper};

/// What may stand at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `True` or `False`.
    Switch,
    /// A whole number of at least 0.
    Count,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A list of numbers.
    Numbers,
    /// A text; a number is taken as its digits.
    Text,
    /// A list of texts, or one text.
    Texts,
    /// Anything.
    Any,
}

/// What this version does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// What it says.
    Works,
    /// Nothing, and a warning says so and why, unless the value is the default.
    Warned(&'static str),
    /// Nothing when training from YAML, since it is about Python code; one note names all of these.
    Python,
    /// A value other than the default is an error.
    Refused(&'static str),
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// With dots between its parts.
    pub name: &'static str,
    /// What may stand there.
    pub kind: Kind,
    /// As written in YAML; empty for nothing.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// What this version does with it.
    pub support: Support,
}

impl Kind {
    /// What is expected, in words.
    pub fn expected(self) -> &'static str {
        match self {
            Kind::Switch => "`True` or `False`",
            Kind::Count => "a whole number of at least 0",
            Kind::Integer => "a whole number",
            Kind::Number => "a number",
            Kind::Numbers => "a list of numbers",
            Kind::Text => "a text",
            Kind::Texts => "a list of texts",
            Kind::Any => "a value",
        }
    }

    /// A name for tables.
    fn short(self) -> &'static str {
        match self {
            Kind::Switch => "switch",
            Kind::Count => "count",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Numbers => "list of numbers",
            Kind::Text => "text",
            Kind::Texts => "list of texts",
            Kind::Any => "any",
        }
    }

    /// Whether a value may stand there.
    pub fn fits(self, value: &Value) -> bool {
        match self {
            _ if *value == Value::Null => true,
            Kind::Switch => hyper::as_bool(value).is_some(),
            Kind::Count => hyper::as_usize(value).is_some(),
            Kind::Integer => matches!(value, Value::Int(_)),
            Kind::Number => hyper::as_f64(value).is_some(),
            Kind::Numbers => hyper::list(value, hyper::as_f64).is_some(),
            Kind::Text => hyper::as_text(value).is_some(),
            Kind::Texts => {
                hyper::as_text(value).is_some() || hyper::list(value, hyper::as_text).is_some()
            }
            Kind::Any => true,
        }
    }
}

const fn key(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Key {
    Key { name, kind, default, help, support: Support::Works }
}

const fn warned(key: Key, why: &'static str) -> Key {
    Key { support: Support::Warned(why), ..key }
}

const fn refused(key: Key, why: &'static str) -> Key {
    Key { support: Support::Refused(why), ..key }
}

const fn python(key: Key) -> Key {
    Key { support: Support::Python, ..key }
}

use Kind::{Count, Integer, Number, Switch, Text, Texts};

const NO_DEVICE: &str = "this version trains on CPUs and NVIDIA GPUs";
const NO_HDFS: &str = "this version reads local files: mount or copy the data";

/// All but those of the data and of the optimizer.
const KEYS: &[Key] = &[
    key("model", Text, "", "Ours: the zoo model; without it, the name of the folder of the file."),
    key(
        "workspace",
        Text,
        "",
        "What `{workspace}` stands for; without it, the folder of the file.",
    ),
    key(
        "last_epoch",
        Integer,
        "-1",
        "The last epoch that was trained: training begins with the next.",
    ),
    // Data.
    key("runner.train_data_dir", Text, "", "Folder, file or pattern of the training data."),
    key("runner.test_data_dir", Text, "", "Folder, file or pattern of the data of `infer`."),
    key(
        "runner.valid_data_dir",
        Text,
        "",
        "Ours: folder, file or pattern of data that is not trained on; after each epoch the model is tried on it, by all trainers together.",
    ),
    key("runner.train_batch_size", Count, "1", "Samples in a step of one trainer."),
    key(
        "runner.infer_batch_size",
        Count,
        "",
        "Samples in a step of `infer`; without it, as in training.",
    ),
    key(
        "runner.reader_type",
        Text,
        "",
        "`QueueDataset`, `InmemoryDataset`, `DataLoader` or `RecDataset`; the default is `QueueDataset` with servers and `DataLoader` without.",
    ),
    key("runner.infer_reader_type", Text, "", "The same for `infer`."),
    key(
        "runner.shuffle",
        Text,
        "",
        "Ours: `none`; `files`, another order of the files every epoch; `buffer`, and of as many samples as `shuffle_buffer` says; `memory`, of all samples, which are read once and held in memory, and spread over the trainers where there are several. `runner.seed` decides the order. By default `memory` for `InmemoryDataset` (but with `gpubox`) and `none` for the other readers.",
    ),
    key(
        "runner.shuffle_buffer",
        Count,
        "65536",
        "Ours: with `shuffle: buffer`, samples that each reading thread mixes.",
    ),
    key(
        "runner.pipe_command",
        Text,
        "",
        "A command that turns a file on its standard input into MultiSlot lines; without it, files are parsed directly. Ours: `native:multislot`, `native:slot_value` and `native:criteo` parse such lines directly.",
    ),
    python(key(
        "runner.train_reader_path",
        Text,
        "",
        "The Python module that reads training data.",
    )),
    python(key(
        "runner.infer_reader_path",
        Text,
        "",
        "The Python module that reads data of `infer`.",
    )),
    python(key(
        "runner.batch_generator",
        Switch,
        "False",
        "Whether the Python reader makes whole batches.",
    )),
    python(key(
        "runner.user_define_reader",
        Switch,
        "False",
        "Whether the Python reader makes its own file list.",
    )),
    key(
        "runner.native_parser",
        Switch,
        "True",
        "Ours: whether files of slot:value lines are parsed directly where `pipe_command` is a Python reader for them; models with another format run it.",
    ),
    key(
        "runner.num_workers",
        Count,
        "0",
        "Threads that read files, beside those that train; 0 for one a training thread, or, of samples that are held in memory, one a processor, 16 at most.",
    ),
    key(
        "runner.split_file_list",
        Switch,
        "False",
        "Whether trainers share the files among themselves, because each has all of them; where there are fewer files than trainers, they share their lines. `bireme train --workers` sets it where the file does not.",
    ),
    key(
        "runner.share_files",
        Switch,
        "False",
        "Ours, async and geo: whether trainers draw their files one after the other, so that a slow one does not hold the others; who gets which file is not repeatable.",
    ),
    key(
        "runner.slot_names",
        Texts,
        "",
        "Ours: what lines of slot_value or criteo call each slot, in the order of the model's slots; by default PaddleRec's names.",
    ),
    key(
        "runner.parse_ins_id",
        Switch,
        "False",
        "Whether each MultiSlot line begins with the id of its instance.",
    ),
    key(
        "runner.parse_content",
        Switch,
        "False",
        "Whether each MultiSlot line has a content after the id.",
    ),
    warned(
        key(
            "runner.dataset_debug",
            Switch,
            "False",
            "Whether the time spent on reading and training is shown after each epoch.",
        ),
        "the event log has it: `bireme report`",
    ),
    key(
        "runner.skip_bad_lines",
        Count,
        "0",
        "Ours: lines that may be wrong before training stops.",
    ),
    key(
        "runner.example_count_method",
        Text,
        "example",
        "What `ips` counts with servers: `example`, or `word`, for which the files are read once before training.",
    ),
    refused(key("runner.fs_name", Text, "", "Name of a Hadoop file system."), NO_HDFS),
    refused(key("runner.fs_ugi", Text, "", "User and password of a Hadoop file system."), NO_HDFS),
    refused(key("runner.fs_client.uri", Text, "", "Address of a Hadoop file system."), NO_HDFS),
    refused(key("runner.fs_client.user", Text, "", "User of a Hadoop file system."), NO_HDFS),
    refused(key("runner.fs_client.passwd", Text, "", "Password of a Hadoop file system."), NO_HDFS),
    refused(key("runner.fs_client.hadoop_bin", Text, "", "The Hadoop command."), NO_HDFS),
    // Training.
    key("runner.epochs", Count, "1", "Times to go through the data."),
    key("runner.print_interval", Count, "100", "Batches between two lines of the log."),
    key("runner.seed", Count, "12345", "Seed of the initial values, of dropout and of shuffles."),
    key(
        "runner.thread_num",
        Count,
        "1",
        "Training threads of a trainer (`CPU_NUM`). In sync, hybrid and collective training each batch is split over them; else `parallel` says.",
    ),
    key(
        "runner.parallel",
        Text,
        "threads",
        "Ours: `threads`, several batches are trained at a time, four at most, each by as many of the threads; or `batch`, one batch is split over all threads, and the result is the same every time.",
    ),
    key(
        "runner.sync_mode",
        Text,
        "async",
        "With servers: `sync`, `async`, `geo`, or ours: `half_async`, `hybrid`. With servers or without: `gpubox`.",
    ),
    key("runner.geo_step", Count, "400", "Geo: batches between two exchanges."),
    key(
        "runner.staleness",
        Count,
        "0",
        "Ours: in hybrid mode, how many of its own steps a trainer may lack; 0 for the default.",
    ),
    key(
        "runner.use_fleet",
        Switch,
        "False",
        "Whether ranks that a launcher started train together without servers.",
    ),
    key(
        "runner.early_stop.metric",
        Text,
        "",
        "Ours: what says which epoch is the best on `valid_data_dir`: `loss`, or a metric that is computed; the model's first by default. `best` in `model_save_path` names the epoch.",
    ),
    key(
        "runner.early_stop.patience",
        Count,
        "3",
        "Ours: where a key of `early_stop` is set, epochs without a better one after which training ends.",
    ),
    key(
        "runner.early_stop.min_delta",
        Number,
        "0.0",
        "Ours: by how much an epoch must be better to count as better.",
    ),
    key(
        "runner.metrics",
        Texts,
        "",
        "Ours: metrics beside the model's own, in training, validation and `infer`: `logloss`, `accuracy`, `rmse`, `mae`, `pcoc` (predicted clicks over clicks); and, in validation and `infer`, of groups of samples: `gauc` (the AUC of each group, weighted by samples), `hr@10`, `ndcg@10`.",
    ),
    key(
        "runner.metric_group",
        Text,
        "",
        "Ours: the slot whose values make the groups of `gauc`, `hr@k` and `ndcg@k`: a user, a session.",
    ),
    key(
        "runner.use_auc",
        Switch,
        "False",
        "Whether the AUC over all trainers is shown after each epoch.",
    ),
    key("runner.auc_num", Count, "1", "How many of the model's AUCs are begun anew each epoch."),
    key(
        "runner.precision",
        Text,
        "",
        "Ours: `bf16` is short for `use_amp` with `bfloat16`, on CPUs and GPUs; `float32` trains without mixed precision, whatever `use_amp` says.",
    ),
    key(
        "runner.use_amp",
        Switch,
        "False",
        "Whether to train with mixed precision: products with 16 bits, everything else with 32.",
    ),
    key(
        "runner.amp_level",
        Text,
        "O1",
        "With `use_amp`: `O1`, or `O2` to keep the parameters of layers in 16 bits, with master copies.",
    ),
    key(
        "runner.amp_dtype",
        Text,
        "float16",
        "Ours: with `use_amp`, `float16` or `bfloat16`, which needs no scaled loss and works with servers.",
    ),
    key(
        "runner.scale_loss",
        Number,
        "32768.0",
        "With `use_amp` and `float16`: the first factor of the loss, which follows what happens.",
    ),
    warned(
        key("runner.model_mode", Text, "", "`train` or `infer`, for models that differ in both."),
        "the command says which",
    ),
    key(
        "runner.use_gpu",
        Switch,
        "False",
        "Whether trainers use an NVIDIA GPU: the one that the launcher chose for the process (`FLAGS_selected_gpus`), else the first of `runner.selected_gpus`, unless `--device gpu:1` names another. One thread then gives it batches, which `runner.num_workers` threads read; servers take no GPU.",
    ),
    key(
        "runner.selected_gpus",
        Texts,
        "",
        "Numbers of the GPUs to train on, as `0,1`: a process alone takes the first, and trainers that `bireme train --servers` starts share them.",
    ),
    key(
        "runner.allow_tf32",
        Switch,
        "False",
        "Ours: whether products of 32-bit floats on a GPU round their factors to 10 bits of fraction, which is faster (`FLAGS_allow_tf32`).",
    ),
    warned(key("runner.use_xpu", Switch, "False", "Whether to train on XPUs."), NO_DEVICE),
    warned(key("runner.use_npu", Switch, "False", "Whether to train on NPUs."), NO_DEVICE),
    warned(
        key("runner.use_visual", Switch, "False", "Whether to write logs for VisualDL."),
        "`bireme report` shows the curves of every run",
    ),
    warned(
        key("runner.local_sparse", Texts, "", "Tables that heter trainers keep themselves."),
        "servers keep all tables",
    ),
    warned(
        key("runner.remote_sparse", Texts, "", "Tables that servers keep for heter trainers."),
        "servers keep all tables",
    ),
    refused(
        key(
            "runner.with_coordinator",
            Switch,
            "False",
            "Whether a coordinator of federated learning takes part.",
        ),
        "federated learning is not part of Bireme",
    ),
    // Saving.
    key(
        "runner.model_save_path",
        Text,
        "output_model",
        "Folder of the models, one folder an epoch.",
    ),
    key(
        "runner.model_init_path",
        Text,
        "",
        "A saved model (`output_model/3`) that training begins with: `rec_static` with the state of the optimizer, else `rec_inference`; with servers also what servers saved.",
    ),
    key("runner.warmup_model_path", Text, "", "The same; it comes first where both are set."),
    key(
        "runner.use_inference",
        Switch,
        "False",
        "Whether a model for prediction is saved too. It always is, as `rec_inference`.",
    ),
    key(
        "runner.save_inference_feed_varnames",
        Texts,
        "",
        "What that model is fed; by default what the zoo model needs.",
    ),
    key(
        "runner.save_inference_fetch_varnames",
        Texts,
        "",
        "What it computes; by default the zoo model's prediction.",
    ),
    key(
        "runner.save_epochs",
        Count,
        "1",
        "Ours: epochs between two saves of the model and a checkpoint; the last epoch is always saved. 0 for the last alone, only for prediction and without a checkpoint.",
    ),
    key(
        "runner.checkpoint_interval",
        Count,
        "0",
        "Ours: batches of a trainer between two checkpoints that `--resume` goes on from; 0 for one an epoch.",
    ),
    key(
        "runner.checkpoint_path",
        Text,
        "",
        "Ours: their folder; `checkpoints` in `model_save_path` by default.",
    ),
    key(
        "runner.run_path",
        Text,
        "",
        "Ours: the folder of the event log that `bireme report` shows; `run` in `model_save_path` by default.",
    ),
    warned(
        key("runner.need_dump", Switch, "False", "Whether variables are dumped while training."),
        "dumps are written by `Executor.train_from_dataset`",
    ),
    warned(
        key("runner.dump_fields", Texts, "", "Variables to dump."),
        "dumps are written by `Executor.train_from_dataset`",
    ),
    warned(
        key("runner.dump_fields_path", Text, "", "Folder of the dumps."),
        "dumps are written by `Executor.train_from_dataset`",
    ),
    warned(
        key("runner.dump_param", Texts, "", "Parameters to dump."),
        "dumps are written by `Executor.train_from_dataset`",
    ),
    warned(
        key("runner.use_save_data", Switch, "False", "Whether fetched data is saved too."),
        "only models are saved",
    ),
    warned(
        key("runner.use_out_vec", Switch, "False", "Whether a table is written as text."),
        "`bireme inspect` shows tables of a saved model",
    ),
    warned(
        key("runner.emb_weight_name", Text, "", "Which table."),
        "`bireme inspect` shows tables of a saved model",
    ),
    warned(
        key("runner.out_vec_path", Text, "", "Where to."),
        "`bireme inspect` shows tables of a saved model",
    ),
    // Inference.
    key("runner.infer_load_path", Text, "output_model", "Folder of the models that `infer` tries."),
    key(
        "runner.infer_start_epoch",
        Count,
        "0",
        "The first epoch of `infer`. Where neither this nor the next key is set and training has named a best epoch, that one is tried.",
    ),
    key("runner.infer_end_epoch", Count, "1", "The epoch before which `infer` ends."),
    // Streaming.
    key(
        "runner.start_day",
        Count,
        "",
        "Streaming: the first day, `20190720`; its presence makes training a stream.",
    ),
    key("runner.end_day", Count, "", "Streaming: the last day."),
    key("runner.split_interval", Count, "5", "Streaming: minutes of data in one folder."),
    key(
        "runner.split_per_pass",
        Count,
        "1",
        "Streaming: folders in one pass; those that make no whole pass at the end of a day are left out.",
    ),
    key("runner.checkpoint_per_pass", Count, "6", "Streaming: passes between two checkpoints."),
    key(
        "runner.save_delta_frequency",
        Count,
        "6",
        "Streaming: passes between two saves of what changed.",
    ),
    key(
        "runner.save_first_base",
        Switch,
        "False",
        "Streaming: whether a base model is saved before the first day.",
    ),
    key(
        "runner.data_donefile",
        Text,
        "",
        "Streaming: a file that appears in a folder when its data is complete.",
    ),
    key("runner.data_sleep_second", Count, "10", "Streaming: seconds between two looks for data."),
    warned(
        key("runner.infer_data_dir", Text, "", "Streaming: data whose predictions are dumped."),
        "dumps are written by `Executor.train_from_dataset`, and a pass is evaluated on the next one",
    ),
    key(
        "runner.prefetch",
        Switch,
        "False",
        "Streaming: whether the next pass is read while this one is trained.",
    ),
    key("runner.preload_thread_num", Count, "12", "Streaming: threads that read the next pass."),
    warned(
        key("runner.shuffle_thread_num", Count, "12", "Streaming: threads that shuffle."),
        "a shuffle takes as many as it needs",
    ),
    key("runner.train_thread_num", Count, "12", "Streaming: threads that train."),
    key("runner.infer_thread_num", Count, "12", "Streaming: threads that evaluate."),
    warned(
        key(
            "runner.need_train_dump",
            Switch,
            "False",
            "Streaming: whether training dumps variables.",
        ),
        "dumps are written by `Executor.train_from_dataset`",
    ),
    warned(
        key(
            "runner.need_infer_dump",
            Switch,
            "False",
            "Streaming: whether evaluation dumps variables.",
        ),
        "dumps are written by `Executor.train_from_dataset`",
    ),
    warned(
        key("runner.train_dump_fields_dir", Text, "", "Streaming: folder of those dumps."),
        "dumps are written by `Executor.train_from_dataset`",
    ),
    warned(
        key("runner.infer_dump_fields_dir", Text, "", "Streaming: folder of those dumps."),
        "dumps are written by `Executor.train_from_dataset`",
    ),
    warned(
        key(
            "runner.need_prune",
            Switch,
            "False",
            "Streaming: whether the saved program is pruned.",
        ),
        "it always is",
    ),
    key(
        "tune.metric",
        Text,
        "",
        "Ours: by which metric of the validation `bireme tune` compares trials; that of `early_stop` by default.",
    ),
    warned(
        key(
            "hyper_parameters.adam_d2sum",
            Switch,
            "True",
            "Whether tables use Adam's D2Sum rule in place of Adam.",
        ),
        "tables are trained by the optimizer itself",
    ),
];

/// All keys, those of the groups with files of their own first.
pub fn all() -> impl Iterator<Item = &'static Key> {
    data::KEYS.iter().chain(KEYS).chain(optimizer::KEYS)
}

/// The key of this name.
pub fn find(name: &str) -> Option<&'static Key> {
    all().find(|key| key.name == name)
}

/// The reference page.
pub fn reference() -> String {
    let mut text = String::from(
        "# Keys of a configuration\n\n\
         <!-- Made from `crates/rec/src/config/keys.rs`: `UPDATE_EXPECT=1 cargo test -p bireme-rec` -->\n\n\
         `bireme train -m config.yaml` reads PaddleRec's YAML as it is.\n\
         A value of the wrong type is an error with line and column; an unknown key is a warning with the nearest known one.\n\
         `-o key=value` changes a value, with the type of the one that is there; for a list write YAML (`-o 'hyper_parameters.fc_sizes=[64, 32]'`).\n\
         An unknown key after `-o` is an error.\n\
         Other keys of `hyper_parameters` belong to the model: [models.md](models.md).\n",
    );
    for (title, prefix) in [
        ("Top level", ""),
        ("`data`", "data."),
        ("`runner`", "runner."),
        ("`hyper_parameters`", "hyper_parameters."),
        ("`tune`", "tune."),
    ] {
        let inside = |key: &&Key| match prefix {
            "" => !key.name.contains('.'),
            _ => key.name.starts_with(prefix),
        };
        text += &format!("\n## {title}\n\n| key | type | default | meaning |\n|---|---|---|---|\n");
        for key in all().filter(inside) {
            let default = match key.default {
                "" => String::new(),
                default => format!("`{default}`"),
            };
            let support = match key.support {
                Support::Works => String::new(),
                Support::Warned(why) => format!(" **No effect** ({why}); a warning says so."),
                Support::Python => {
                    " For Python trainers; a note says that it is not used.".to_owned()
                }
                Support::Refused(why) => format!(" **Refused**: {why}."),
            };
            let name = key.name.strip_prefix(prefix).unwrap_or(key.name);
            text += &format!(
                "| `{name}` | {} | {default} | {}{support} |\n",
                key.kind.short(),
                key.help
            );
        }
    }
    text += "\nThe other keys of `tune` are keys of the configuration with the range of each: \
        `hyper_parameters.optimizer.learning_rate: {log: [1e-4, 1e-2]}`, `{uniform: [0.0, 0.5]}`, \
        `{int: [4, 16]}`, or `{choice: [[64, 32], [128, 64]]}`; [training.md](training.md#searching) \
        says how they are tried.\n";
    text + "\n## `table_parameters`\n\n\
        Settings of the accessor of a table, by the table's name: `table_parameters.embedding.accessor.embedx_dim`.\n\
        They are handed to the servers as they are written; what is not written of an accessor is as Paddle fills it in (no row is admitted late or forgotten).\n\
        `table_parameters.embedding.shard_num` is the number of parts by which the keys of all tables are spread over servers and files, 1000 by default; other keys of a table have no effect, and a warning says so.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read::resolve;

    #[test]
    fn defaults_have_their_types() {
        for key in all() {
            assert!(key.kind.fits(&resolve(key.default)), "{}", key.name);
            assert!(key.help.ends_with('.'), "{}", key.name);
        }
    }

    #[test]
    fn the_reference_is_up_to_date() {
        expect_test::expect_file!["../../../../docs/yaml.md"].assert_eq(&reference());
    }
}
