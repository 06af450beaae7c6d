//! The arguments that say which files are read and how.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use bireme_data::parse::{BadLines, CriteoOptions, Format, criteo_slots};
use bireme_data::source::{Source, expand, preview};
use bireme_data::{Kind, Slot};
use bireme_rec::run::columns;
use bireme_rec::{Config, Log};

use crate::terminal::say;
use crate::units::{grouped, plural};

/// Slots that a text may stand for at most.
const MAX_SLOTS: usize = 1 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct Input {
    /// Files, folders or patterns; plain or compressed with gzip or zstd; `-` is standard input,
    /// for which `--format` and `--slots` must be said
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// A configuration whose group `data` describes the columns of the files
    #[arg(long = "config_yaml", alias = "config-yaml", short = 'm', value_name = "FILE",
          conflicts_with_all = ["format", "slots", "pipe_command"])]
    config: Option<PathBuf>,
    /// How lines are written [default: what the first lines look like]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Name>,
    /// Slots to read, in the order of MultiSlot lines: `click:id,1-26,dense_feature:float13` has one
    /// id, any number of ids for each of `1` to `26`, and 13 numbers; `:float` is any number of
    /// numbers [default: what the first MiB of lines holds]
    #[arg(long, value_name = "SLOTS", value_parser = slots)]
    slots: Option<Slots>,
    /// Shell command that every file goes through before it is parsed
    #[arg(long, value_name = "COMMAND", alias = "pipe_command")]
    pipe_command: Option<String>,
    /// Bad lines to pass over before one is an error
    #[arg(long, value_name = "LINES", default_value_t = 0, alias = "skip_bad_lines")]
    skip_bad_lines: u64,
    /// Ids that the words of raw Criteo lines are spread over
    #[arg(long, value_name = "IDS", default_value_t = 1_000_001,
          value_parser = clap::value_parser!(u64).range(1..))]
    hash_space: u64,
}

/// A format by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Name {
    /// For each slot a count and its values: `1 0 3 1926 8 17`
    #[value(name = "multislot")]
    MultiSlot,
    /// PaddleRec's tokens: `click:0 dense_feature:0.1 1:1926`
    SlotValue,
    /// Raw Criteo lines: a label, 13 numbers and 26 words with tabs between them
    Criteo,
}

/// A list that clap takes as one value.
#[derive(Clone, Debug)]
struct Slots(Vec<Slot>);

/// Files whose format and slots are known.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) source: Source,
    pub(super) slots: Vec<Slot>,
}

impl Name {
    /// The format with its defaults.
    pub(super) fn format(self) -> Format {
        match self {
            Name::MultiSlot => Format::multi_slot(),
            Name::SlotValue => Format::slot_value(),
            Name::Criteo => Format::criteo(),
        }
    }
}

impl Input {
    /// Finds the files, and what they hold.
    pub(super) fn find(&self) -> Result<Data> {
        let named = |path: &PathBuf| match path.as_os_str() == "-" {
            true => PathBuf::from("/dev/stdin"),
            false => path.clone(),
        };
        let files = expand(&self.files.iter().map(named).collect::<Vec<_>>())?;
        if let Some(config) = &self.config {
            return self.of_columns(config, files);
        }
        let command = self.pipe_command.as_deref();
        let first = files.first().context("there are no files")?;
        let known = match self.format {
            Some(Name::Criteo) => true,
            Some(_) => self.slots.is_some(),
            None => false,
        };
        let text = if known { Vec::new() } else { look(first, command)? };
        let wrong = |problem: String, flag: &str| {
            anyhow!("`{}`: {problem}; say it with `{flag}`", first.display())
        };
        let format = match self.format {
            Some(name) => name.format(),
            None => Format::guess(&text).map_err(|problem| wrong(problem, "--format"))?,
        };
        let slots = match (&self.slots, &format) {
            (Some(slots), format) => {
                if let Format::SlotValue(_) = format {
                    warn_of_strangers(&slots.0, format, &text, first);
                }
                slots.0.clone()
            }
            (None, Format::Criteo(_)) => criteo_slots(),
            (None, format) => {
                format.guess_slots(&text).map_err(|problem| wrong(problem, "--slots"))?
            }
        };
        let format = match format {
            Format::Criteo(options) => {
                Format::Criteo(CriteoOptions { hash_space: self.hash_space, ..options })
            }
            other => other,
        };
        let mut source = Source::new(files, format);
        source.pipe_command = self.pipe_command.clone();
        source.bad_lines = Arc::new(BadLines::tolerate(self.skip_bad_lines));
        Ok(Data { source, slots })
    }
}

impl Input {
    /// Files of columns, as a configuration describes them.
    fn of_columns(&self, config: &Path, files: Vec<PathBuf>) -> Result<Data> {
        let name = config.display().to_string();
        let config = Config::load(config, &[])?;
        let table = columns::table(&config, &files, &Log::stderr())?
            .with_context(|| format!("`{name}` has no group `data`, which describes columns"))?;
        let (slots, format) = columns::slots(&table);
        let mut source = Source::new(files, format);
        source.bad_lines = Arc::new(BadLines::tolerate(self.skip_bad_lines));
        Ok(Data { source, slots })
    }
}

impl Data {
    /// Tells on stderr which lines were passed over.
    pub(super) fn report_bad_lines(&self) {
        let (count, first) = (self.source.bad_lines.count(), self.source.bad_lines.first());
        if count == 0 {
            return;
        }
        let lines = if count == 1 { "line was" } else { "lines were" };
        say(&format!("warning: {} bad {lines} skipped:", grouped(count)));
        for bad in &first {
            let problem = bad.problem.lines().next().unwrap_or("");
            say(&format!("  {}:{}: {problem}", bad.path.display(), bad.line));
        }
        if count > first.len() as u64 {
            say(&format!("  and {} more", grouped(count - first.len() as u64)));
        }
    }
}

/// The first lines of a file, to find out what they hold.
fn look(path: &Path, command: Option<&str>) -> Result<Vec<u8>> {
    let name = path.display();
    // What is read to find out is gone then.
    if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        bail!(
            "`{name}` can be read only once: say `--format` and `--slots`, or write it to a file"
        );
    }
    let text = preview(path, command)?;
    match text.trim_ascii().is_empty() {
        true => bail!("`{name}` holds no lines"),
        false => Ok(text),
    }
}

/// Says which slots the first lines do not have: a typing error would give zeros.
fn warn_of_strangers(slots: &[Slot], format: &Format, text: &[u8], path: &Path) {
    let Ok(seen) = format.guess_slots(text) else { return };
    for slot in slots {
        if seen.iter().all(|seen| seen.name != slot.name) {
            let (name, path) = (&slot.name, path.display());
            say(&format!("warning: the first lines of `{path}` do not name the slot `{name}`"));
        }
    }
}

/// The type of a slot's values, as people read it.
pub(super) fn kind(slot: &Slot) -> String {
    match (slot.kind, slot.width()) {
        (Kind::Ids, Some(1)) => "id".to_owned(),
        (Kind::Ids, Some(width)) => plural(width, "id"),
        (Kind::Ids, None) => "ids".to_owned(),
        (Kind::Floats, Some(1)) => "float".to_owned(),
        (Kind::Floats, Some(width)) => plural(width, "float"),
        (Kind::Floats, None) => "floats".to_owned(),
    }
}

/// Parses `click:id,1-26,dense_feature:float13`.
fn slots(text: &str) -> std::result::Result<Slots, String> {
    let mut slots: Vec<Slot> = Vec::new();
    for part in text.split(',') {
        let (names, kind) = part.split_once(':').unwrap_or((part, "ids"));
        let (kind, shape) = kind_of(kind).ok_or_else(|| {
            format!("`{kind}` is not `id`, `ids`, `float` or `float` and a count")
        })?;
        for name in names_of(names)? {
            if slots.iter().any(|slot| slot.name == name) {
                return Err(format!("the slot `{name}` is there twice"));
            }
            slots.push(Slot { name, kind, shape: shape.clone(), batched: false });
        }
    }
    Ok(Slots(slots))
}

fn kind_of(text: &str) -> Option<(Kind, Option<Vec<usize>>)> {
    let floats = text.strip_prefix("float");
    match (text, floats) {
        ("id", _) => Some((Kind::Ids, Some(vec![1]))),
        ("ids", _) => Some((Kind::Ids, None)),
        ("float" | "floats", _) => Some((Kind::Floats, None)),
        (_, Some(count)) => {
            let count = count.parse().ok().filter(|count| (1..=MAX_SLOTS).contains(count))?;
            Some((Kind::Floats, Some(vec![count])))
        }
        _ => None,
    }
}

/// One name, or the numbers of a range.
fn names_of(text: &str) -> std::result::Result<Vec<String>, String> {
    if text.is_empty() {
        return Err("a slot has no name".to_owned());
    }
    let ends = text.split_once('-').map(|(first, last)| (first.parse(), last.parse()));
    match ends {
        Some((Ok::<usize, _>(first), Ok::<usize, _>(last))) => {
            if last < first || last - first >= MAX_SLOTS {
                return Err(format!("`{text}` is not a range of slots"));
            }
            Ok((first..=last).map(|slot| slot.to_string()).collect())
        }
        _ => Ok(vec![text.to_owned()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_named_one_by_one_or_as_a_range() {
        let Slots(found) = slots("click:id,1-3,dense:float13,s:float").unwrap();
        let names: Vec<_> = found.iter().map(|slot| (slot.name.as_str(), kind(slot))).collect();
        let ids = |name| (name, "ids".to_owned());
        let expected = [
            ("click", "id".to_owned()),
            ids("1"),
            ids("2"),
            ids("3"),
            ("dense", "13 floats".to_owned()),
            ("s", "floats".to_owned()),
        ];
        assert_eq!(names, expected);
        for wrong in ["", "a,,b", "a,a", "3-1", "a:int", "a:float0", "1-99999999"] {
            assert!(slots(wrong).is_err(), "{wrong}");
        }
    }
}
