//! What files are piped through, and how the lines that come out are written.

use std::path::{Path, PathBuf};

use bireme_data::parse::{CriteoOptions, Format, MultiSlotOptions, SlotValueOptions};

use super::data::Reading;
use crate::Result;
use crate::config::Config;
use crate::zoo::Model;

const KEY: &str = "runner.pipe_command";
const NAMES: &str = "runner.slot_names";
const SWITCH: &str = "runner.native_parser";

/// How files are written, and what they are piped through.
///
/// # Errors
/// When the command names a parser that does not exist.
pub(super) fn format(reading: &Reading<'_>) -> Result<(Format, Option<String>)> {
    let Reading { config, model, log, .. } = *reading;
    let options = MultiSlotOptions {
        parse_ins_id: config.switch("runner.parse_ins_id"),
        parse_content: config.switch("runner.parse_content"),
    };
    let multi_slot = Format::MultiSlot(options);
    let command = config.text(KEY);
    let own = match &model.format {
        Format::MultiSlot(_) => multi_slot.clone(),
        other => other.clone(),
    };
    let own = labelled(own, model);
    Ok(match command.trim() {
        "" => (named(config, own)?, None),
        "cat" | "native:multislot" => (multi_slot, None),
        command if command.starts_with("native:") => {
            (labelled(native(config, command, own)?, model), None)
        }
        command if command.starts_with("python") && parses_itself(config, &own) => {
            log.info(&format!(
                "files are parsed directly, as {own} lines, and not through `{command}`: set \
                 `{SWITCH}` to False to run that"
            ));
            (own, None)
        }
        command => (multi_slot, Some(whole_command(config, command))),
    })
}

/// A format whose every line must have the labels of a model: those of its slots that a prediction
/// does not need.
fn labelled(format: Format, model: &Model) -> Format {
    let Format::SlotValue(options) = format else { return format };
    let names = model.slots.iter().map(|slot| &slot.name);
    let required = names.filter(|name| !model.inference_feeds.contains(name)).cloned().collect();
    Format::SlotValue(SlotValueOptions { required, ..options })
}

/// The format of a model, with the names that the configuration has for slots.
fn named(config: &Config, own: Format) -> Result<Format> {
    let tokens = config.texts(NAMES);
    match own {
        own if tokens.is_empty() => Ok(own),
        Format::SlotValue(options) => Ok(Format::SlotValue(SlotValueOptions { tokens, ..options })),
        own => Err(config.refuse(
            NAMES,
            format!(
                "names slots in lines of slot_value, and this model has {own} lines: leave it out, \
                 or set `{KEY}` to native:slot_value"
            ),
        )),
    }
}

/// Whether the format of a model stands for what a Python reader does. A reader of a model whose own
/// format is MultiSlot reads something else, which only it knows.
fn parses_itself(config: &Config, own: &Format) -> bool {
    match config.has(SWITCH) {
        true => config.switch(SWITCH),
        false => !matches!(own, Format::MultiSlot(_)),
    }
}

/// `native:slot_value` and `native:criteo`.
fn native(config: &Config, command: &str, own: Format) -> Result<Format> {
    let named = config.texts(NAMES);
    let tokens = match (named.is_empty(), &own) {
        (false, _) => named,
        (true, Format::SlotValue(options)) => options.tokens.clone(),
        (true, _) => Vec::new(),
    };
    match command {
        "native:slot_value" => {
            Ok(Format::SlotValue(SlotValueOptions { tokens, ..SlotValueOptions::default() }))
        }
        "native:criteo" => Ok(Format::Criteo(CriteoOptions { tokens, ..CriteoOptions::default() })),
        _ => Err(config.refuse(
            KEY,
            format!(
                "is `{command}`, but Bireme parses native:multislot, native:slot_value and \
                 native:criteo itself"
            ),
        )),
    }
}

/// A command with its script found beside the configuration, and with the arguments that PaddleRec
/// gives it: the configuration, and the folder of its helpers.
fn whole_command(config: &Config, command: &str) -> String {
    let found = |word: &str| {
        let beside = config.folder().join(word);
        match word.ends_with(".py") && !Path::new(word).exists() && beside.exists() {
            true => quoted(&beside),
            false => word.to_owned(),
        }
    };
    let words: Vec<String> = command.split(' ').map(found).collect();
    let yaml = std::path::absolute(config.path()).unwrap_or_else(|_| config.path().into());
    format!("{} {} {}", words.join(" "), quoted(&yaml), quoted(&helpers(&yaml)))
}

/// `tools/utils` of the PaddleRec that the configuration is part of, or of this folder.
fn helpers(yaml: &Path) -> PathBuf {
    let inside = |folder: &Path| folder.join("tools").join("utils");
    let of_checkout = yaml.ancestors().skip(1).map(inside).find(|folder| folder.is_dir());
    of_checkout.unwrap_or_else(|| inside(&std::env::current_dir().unwrap_or_default()))
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    bireme_fleet::shell::quoted(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::data::Purpose;
    use crate::{Log, run, zoo};

    fn of(model: &str, runner: &str) -> Result<(Format, Option<String>)> {
        let text = format!("model: {model}\nrunner: {{{runner}}}\n");
        let config = Config::parse(Path::new("/nowhere/a b.yaml"), &text, &[]).unwrap();
        let (model, _) = run::build(&config, &Log::silent()).unwrap();
        let reading = Reading {
            config: &config,
            model: &model,
            purpose: Purpose::Train,
            skip_bad_lines: None,
            threads: 1,
            named: std::sync::Arc::default(),
            lines: None,
            partial: false,
            with_servers: false,
            interrupt: None,
            log: &Log::silent(),
        };
        format(&reading)
    }

    #[test]
    fn a_python_reader_runs_where_the_model_does_not_know_its_format() {
        assert!(zoo::find("din").is_some());
        let reader = "pipe_command: \"python reader.py\"";
        let (format, command) = of("din", reader).unwrap();
        let command = command.unwrap();
        assert!(command.starts_with("python reader.py '/nowhere/a b.yaml' "), "{command}");
        assert!(matches!(format, Format::MultiSlot(_)));
        let (format, command) = of("dnn", reader).unwrap();
        assert!(command.is_none() && matches!(format, Format::SlotValue(_)));
        let (_, command) = of("dnn", &format!("{reader}, native_parser: False")).unwrap();
        assert!(command.is_some());
        let (_, command) = of("din", &format!("{reader}, native_parser: True")).unwrap();
        assert!(command.is_none());
        let (_, command) = of("dnn", "pipe_command: \"awk -f reader.awk\"").unwrap();
        assert!(command.is_some());
    }

    #[test]
    fn parsers_of_our_own_have_names() {
        let (format, _) = of("dnn", "pipe_command: \"native:criteo\"").unwrap();
        assert!(matches!(format, Format::Criteo(options) if options.tokens[0] == "click"));
        let (format, _) =
            of("din", "pipe_command: \"native:slot_value\", slot_names: [a, b]").unwrap();
        assert!(matches!(format, Format::SlotValue(options) if options.tokens == ["a", "b"]));
        let names: Vec<String> = (0..28).map(|slot| format!("\"s{slot}\"")).collect();
        let (format, _) = of("dnn", &format!("slot_names: [{}]", names.join(", "))).unwrap();
        let Format::SlotValue(options) = format else { panic!("slot_value") };
        assert_eq!(
            (options.tokens[0].as_str(), &options.required[..]),
            ("s0", &["label".into()][..])
        );
        let error = of("din", "slot_names: [a, b]").unwrap_err().to_string();
        assert!(error.contains("this model has multislot lines"), "{error}");
        let error = of("dnn", "pipe_command: \"native:csv\"").unwrap_err().to_string();
        assert!(error.contains("native:slot_value"), "{error}");
    }
}
