//! The keys of the group `data`, which describes files of columns.

use super::Kind::{Any, Count, Text, Texts};
use super::{Key, key};

/// The table, in the order of the reference page.
pub(super) const KEYS: &[Key] = &[
    key(
        "data.format",
        Text,
        "",
        "Ours: how files of columns are written: `csv`, `tsv`, `libsvm` or `libffm`.",
    ),
    key("data.label", Text, "label", "Ours: the column of the label."),
    key(
        "data.positive",
        Texts,
        "",
        "Ours: labels that mean 1; without them and `data.negative`, labels are 1 and 0 (or -1).",
    ),
    key("data.negative", Texts, "", "Ours: labels that mean 0; any other is an error."),
    key(
        "data.sparse",
        Texts,
        "",
        "Ours: columns whose words become ids, a slot for each; or a group with `hash` or `vocabulary` for each column.",
    ),
    key(
        "data.bins",
        Any,
        "",
        "Ours: a group of columns whose numbers become the ids of ranges: how many ranges, with about as many training samples in each, or the list of the numbers between them.",
    ),
    key(
        "data.multi",
        Any,
        "",
        "Ours: a group of columns that hold any number of words, with the sign between them; in `libsvm` and `libffm` a list of columns.",
    ),
    key(
        "data.dense",
        Texts,
        "",
        "Ours: columns of numbers; or a group with `standard`, `minmax`, `log` or `none` for each column.",
    ),
    key("data.weight", Text, "", "Ours: the column with the weight of a sample in the loss."),
    key(
        "data.header",
        Any,
        "True",
        "Ours: whether the first line of a file names the columns, or their names as a list; with `False` their numbers are their names, from 1.",
    ),
    key("data.separator", Text, "", "Ours: what stands between cells, `,` or a tab by default."),
    key("data.quote", Text, "\"", "Ours: what may stand around a cell; `\"\"` for nothing."),
    key("data.comment", Text, "", "Ours: lines that start with this hold no sample."),
    key(
        "data.missing",
        Texts,
        "[NA, N/A, NaN, nan, null, NULL, ?]",
        "Ours: cells that stand for no number, beside empty ones; in columns of words they are words.",
    ),
    key(
        "data.ids",
        Text,
        "hash",
        "Ours: how words get ids: by `hash`, or by a `vocabulary` of the training data.",
    ),
    key(
        "data.hash_buckets",
        Count,
        "1000000",
        "Ours: ids that the words of all hashed columns have together.",
    ),
    key(
        "data.min_count",
        Count,
        "2",
        "Ours: how often a word of a vocabulary must be in the training data; all others have one id.",
    ),
    key(
        "data.normalize",
        Text,
        "standard",
        "Ours: how the size of numbers is changed: `standard` (mean 0, deviation 1), `minmax` (0 to 1), `log` (the logarithm of one more, then `standard`) or `none`.",
    ),
    key(
        "data.fill",
        Any,
        "mean",
        "Ours: what a missing number is: `mean`, or a number; 0 by default in `libsvm` and `libffm`.",
    ),
];
