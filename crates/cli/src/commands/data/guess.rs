//! `bireme data guess`: a first configuration for a file of columns.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use bireme_data::parse::Format;
use bireme_data::source::{Output, preview};
use bireme_data::table::{Csv, Guess, Header, Layout, Profile, guess};

use crate::commands::Outcome;
use crate::terminal::say;
use crate::units::grouped;

/// Words that get ids of their own; columns with more are hashed.
const VOCABULARY: usize = 10_000;
/// Whole numbers with as few values are words.
const FEW: usize = 12;
/// Names that labels have.
const LABELS: [&str; 8] =
    ["label", "click", "clicked", "is_click", "target", "class", "income", "y"];

/// Write a first configuration for a file of columns
///
/// Reads the first MiB of a csv or tsv file, and says of each column what it seems to be: numbers,
/// words, lists of words, or the label. The YAML trains as it is, and is meant to be looked over.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, plain or compressed with gzip or zstd
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The column of the label [default: one with two values, by its name or its place]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// The model to configure
    #[arg(long, default_value = "deepfm")]
    model: String,
    /// Where to write it [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let name = args.file.display();
    let text = preview(&args.file, None)?;
    if let Ok(format @ (Format::SlotValue(_) | Format::Criteo(_))) = Format::guess(&text) {
        bail!(
            "`{name}` has {format} lines, which click models read without `data`: see `bireme models`"
        );
    }
    let guessed = guess(&text).map_err(|problem| anyhow!("`{name}`: {problem}"))?;
    let Layout::Csv(csv) = &guessed.layout else {
        bail!(
            "`{name}` looks like LibSVM or LibFFM, whose columns have no names that tell anything: \
             write `data` by hand, see docs/training.md"
        );
    };
    let profiles = guessed.profiles(&text).map_err(|problem| anyhow!("`{name}`: {problem}"))?;
    let label = label(&profiles, args.label.as_deref()).with_context(|| format!("`{name}`"))?;
    let yaml = yaml(args, csv, &guessed, &profiles, label);
    match &args.output {
        None => io::stdout().lock().write_all(yaml.as_bytes())?,
        Some(path) => {
            let mut output = Output::create(path)?;
            output.write(yaml.as_bytes())?;
            output.finish()?;
            say(&format!("{}: look it over, then `bireme train -m {0}`", path.display()));
        }
    }
    Ok(Outcome::Done)
}

/// The place of the label.
fn label(profiles: &[Profile], named: Option<&str>) -> Result<usize> {
    let has_two = |profile: &Profile| profile.words.len() == 2 && profile.missing == 0;
    if let Some(named) = named {
        let found = profiles.iter().position(|profile| profile.name == named);
        let at = found.with_context(|| format!("there is no column `{named}`"))?;
        if !has_two(&profiles[at]) {
            bail!(
                "column `{named}` has {} different values, and a label has two",
                profiles[at].words.len()
            );
        }
        return Ok(at);
    }
    let is_label = |profile: &Profile| LABELS.contains(&profile.name.to_lowercase().as_str());
    let places = || (0..profiles.len()).filter(|&at| has_two(&profiles[at]));
    let named = places().find(|&at| is_label(&profiles[at]));
    let at_an_end = || places().find(|&at| at + 1 == profiles.len() || at == 0);
    named.or_else(at_an_end).or_else(|| places().next()).context(
        "no column has two values, so none seems to be the label: name it with `--label`, or add it",
    )
}

/// Words that mean 1, whatever is rarer.
const POSITIVE: [&str; 6] = ["yes", "true", "y", "t", "positive", "1"];

/// What a column becomes, and why.
enum Becomes {
    Sparse { rule: &'static str, why: String },
    Multi { sign: char, why: String },
    Dense { rule: &'static str, why: String },
    Nothing { why: &'static str },
}

fn becomes(profile: &Profile) -> Becomes {
    let (distinct, held) = (profile.words.len(), profile.cells - profile.missing);
    let missing = match profile.missing {
        0 => String::new(),
        missing => format!(", {} missing", grouped(missing)),
    };
    let name = profile.name.as_str();
    let is_name = name.eq_ignore_ascii_case("id")
        || ["_id", "_ID", "Id", "ID"].iter().any(|end| name.ends_with(end));
    let words = || format!("{} words{missing}", grouped(distinct as u64));
    let rule = if distinct > VOCABULARY { "hash" } else { "vocabulary" };
    if distinct < 2 {
        return Becomes::Nothing { why: "all rows have the same" };
    }
    let unique = held >= 50 && distinct as u64 * 20 >= held * 19;
    if profile.is_numeric() {
        let is_code = profile.whole == profile.numbers && (distinct <= FEW || is_name);
        let why = format!("{} to {}{missing}", profile.least, profile.largest);
        return match is_code {
            true if unique => Becomes::Nothing { why: "every row has another" },
            true => Becomes::Sparse { rule, why: words() },
            // Many small numbers and a few large ones.
            false if profile.least >= 0.0 && profile.largest > 10.0 * profile.mean => {
                Becomes::Dense { rule: "log", why }
            }
            false => Becomes::Dense { rule: "standard", why },
        };
    }
    if let Some(sign) = profile.list_sign() {
        return Becomes::Multi { sign, why: format!("lists{missing}") };
    }
    match unique {
        true => Becomes::Nothing { why: "every row has another" },
        false => Becomes::Sparse { rule, why: words() },
    }
}

/// A text as YAML has it between quotes, which is as JSON has it.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

fn yaml(args: &Args, csv: &Csv, guessed: &Guess, profiles: &[Profile], label: usize) -> String {
    let (file, rows) = (args.file.display().to_string(), profiles[label].cells);
    let mut yaml = format!(
        "# Guessed from the first {} rows of {file}: look it over.\n\nmodel: {}\n\ndata:\n",
        grouped(rows),
        args.model
    );
    let mut add = |line: String| yaml.push_str(&format!("  {line}\n"));
    add(format!("format: {}", if csv.separator == '\t' { "tsv" } else { "csv" }));
    if !matches!(csv.separator, ',' | '\t') {
        add(format!("separator: {}", quoted(&csv.separator.to_string())));
    }
    match csv.header {
        Header::Line => {}
        _ => add("header: False          # columns have their numbers as names, from 1".to_owned()),
    }
    if let Some(comment) = &csv.comment {
        add(format!("comment: {}", quoted(comment)));
    }
    add(format!("label: {}", quoted(&guessed.names[label])));
    label_words(&profiles[label], &mut add);
    let others = profiles.iter().enumerate().filter(|(at, _)| *at != label);
    let columns: Vec<(&Profile, Becomes)> =
        others.map(|(_, profile)| (profile, becomes(profile))).collect();
    groups(&columns, &mut add);
    add("min_count: 2            # rarer words share an id".to_owned());
    let file = quoted(&file);
    write!(
        yaml,
        "\nrunner:\n  train_data_dir: {file}\n  test_data_dir: {file}   # name data that is not trained \
         on: `bireme data split`\n  train_batch_size: 256\n  epochs: 3\n  use_auc: True\n  \
         print_interval: 100\n  model_save_path: \"output_model\"\n  infer_load_path: \"output_model\"\n  \
         infer_start_epoch: 2\n  infer_end_epoch: 3\n\nhyper_parameters:\n  optimizer:\n    class: Adam\n    \
         learning_rate: 0.001\n"
    )
    .expect("writing to text");
    yaml
}

/// Which words of the label mean 1 and 0, unless they are numbers that say so.
fn label_words(profile: &Profile, add: &mut impl FnMut(String)) {
    let mut words: Vec<(&String, &u64)> = profile.words.iter().collect();
    let is_known = |word: &String| POSITIVE.contains(&word.to_lowercase().as_str());
    words.sort_by_key(|(word, count)| (!is_known(word), **count, (*word).clone()));
    let plain = |word: &String| matches!(word.as_str(), "0" | "1" | "-1");
    if let [(positive, count), (negative, _)] = words[..]
        && !(plain(positive) && plain(negative))
    {
        let share = 100.0 * *count as f64 / profile.cells as f64;
        add(format!("positive: [{}]   # {share:.1}% of the rows", quoted(positive)));
        add(format!("negative: [{}]", quoted(negative)));
    }
}

/// The groups of columns.
fn groups(columns: &[(&Profile, Becomes)], add: &mut impl FnMut(String)) {
    let mut group = |title: &str, line: &dyn Fn(&Becomes) -> Option<(String, String)>| {
        let lines = columns.iter().filter_map(|(profile, becomes)| {
            let (value, why) = line(becomes)?;
            Some(format!("  {}: {value}   # {why}", quoted(&profile.name)))
        });
        let lines: Vec<String> = lines.collect();
        if !lines.is_empty() {
            add(format!("{title}:"));
            lines.into_iter().for_each(&mut *add);
        }
    };
    group("sparse", &|becomes| match becomes {
        Becomes::Sparse { rule, why } => Some(((*rule).to_owned(), why.clone())),
        _ => None,
    });
    group("multi", &|becomes| match becomes {
        Becomes::Multi { sign, why } => Some((quoted(&sign.to_string()), why.clone())),
        _ => None,
    });
    group("dense", &|becomes| match becomes {
        Becomes::Dense { rule, why } => Some(((*rule).to_owned(), why.clone())),
        _ => None,
    });
    let has_ids = columns
        .iter()
        .any(|(_, becomes)| matches!(becomes, Becomes::Sparse { .. } | Becomes::Multi { .. }));
    let first_number = columns.iter().find(|(_, b)| matches!(b, Becomes::Dense { .. }));
    if let (false, Some((profile, _))) = (has_ids, first_number) {
        add("bins:                   # models need ids".to_owned());
        add(format!("  {}: 10", quoted(&profile.name)));
    }
    if columns.iter().any(|(_, becomes)| matches!(becomes, Becomes::Multi { .. })) {
        add("ids: vocabulary         # of the lists".to_owned());
    }
    for (profile, becomes) in columns {
        if let Becomes::Nothing { why } = becomes {
            add(format!("# left out: {} ({why})", quoted(&profile.name)));
        }
    }
}
