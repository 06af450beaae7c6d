//! Errors of the engine and of servers that a key of the configuration is to blame for.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bireme_data::parse::{Format, Parser};
use bireme_data::source::open;
use bireme_data::{Column, Files, Samples, Slot, Values};

use crate::config::{Config, Value};
use crate::{Error, zoo};

/// How long files are searched for a value.
const SEARCH: Duration = Duration::from_secs(5);

/// What an error means for a configuration: with an id that a table does not have, which key says
/// how many it has.
pub(super) fn with_keys(config: &Config, error: Error) -> Error {
    let message = error.to_string();
    let Some(rows) = rows_of_table(&message) else { return error };
    let keys = keys_of(config, rows);
    if keys.is_empty() {
        return error;
    }
    Error::Settings(format!(
        "{message}: {} {rows}, and must be above every id in the data",
        match &keys[..] {
            [key] => format!("`hyper_parameters.{key}` is"),
            keys => format!("`hyper_parameters.{}` are", keys.join("` and `hyper_parameters.")),
        }
    ))
}

/// The same error, with the line of data that holds the id or label which it is about: the files are
/// read once more for it. Files that go through a command are not.
pub(super) fn with_line(input: Option<&Arc<Files>>, error: Error) -> Error {
    let message = error.to_string();
    let found = value_outside(&message).and_then(|value| find(input?, &message, value));
    match found {
        Some((path, line, slot)) => Error::Settings(format!(
            "{message}; {}:{line} has it, in slot `{slot}`",
            path.display()
        )),
        None => error,
    }
}

/// The id or label that lies outside of something, by the words of those who found it.
fn value_outside(message: &str) -> Option<u64> {
    let (before, _) = message.split_once(" lies outside ")?;
    let at = ["id ", "label "].iter().filter_map(|word| Some(before.rfind(word)? + word.len()));
    let number: i64 = before[at.max()?..].split(' ').next()?.parse().ok()?;
    // Data has 64 bits without a sign.
    Some(number as u64)
}

/// Which slots may hold the value that a message is about: the one that it names; labels, or all
/// others.
fn slots_of(input: &Files, message: &str) -> Vec<bool> {
    let (slots, before) = (input.slots(), message.split(" lies outside ").next());
    let before = before.unwrap_or_default();
    let is_named = |slot: &Slot| before.ends_with(&format!(" of `{}`", slot.name));
    if slots.iter().any(is_named) {
        return slots.iter().map(is_named).collect();
    }
    let is_label = |slot: &Slot| match &input.source().format {
        Format::SlotValue(options) => options.required.contains(&slot.name),
        _ => slot.name.contains("label"),
    };
    let about_label = before.rfind("label ") > before.rfind("id ");
    slots.iter().map(|slot| is_label(slot) == about_label).collect()
}

/// The first line that holds a value: its file, its number and the slot. Gives up after a while:
/// somebody waits for the error.
fn find<'a>(input: &'a Files, message: &str, value: u64) -> Option<(&'a Path, u64, &'a str)> {
    let (started, wanted) = (Instant::now(), slots_of(input, message));
    let source = input.source();
    if source.pipe_command.is_some() {
        return None;
    }
    let slots = input.slots();
    let mut parser = Parser::new(&source.format, slots).ok()?;
    for path in &source.files {
        let mut text = BufReader::new(open(path).ok()?);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if text.read_until(b'\n', &mut line).ok()? == 0 {
                break;
            }
            if number % 256 == 0 && started.elapsed() >= SEARCH {
                return None;
            }
            let mut samples = Samples::of(slots);
            // Lines that were passed over in training are passed over here.
            parser.line(line.trim_ascii_end(), &mut samples).ok();
            let has = |(column, wanted): (&Column, &bool)| match column.values() {
                Values::Ids(ids) => *wanted && ids.contains(&value),
                Values::Floats(_) => false,
            };
            if let Some(slot) = samples.columns().iter().zip(&wanted).position(has) {
                return Some((path, number, &slots[slot].name));
            }
        }
    }
    None
}

/// The rows of a table that an id lies outside of, by the words of those who found it.
fn rows_of_table(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once(" lies outside ")?;
    if let Some((_, last)) = rest.split_once("rows 0 to ") {
        let digits = last.split(|c: char| !c.is_ascii_digit()).next()?;
        return digits.parse::<usize>().ok()?.checked_add(1);
    }
    rest.split_once(" rows")?.0.rsplit(' ').next()?.parse().ok()
}

/// Hyper parameters of the model that have this value.
fn keys_of(config: &Config, value: usize) -> Vec<String> {
    let Some(entry) = zoo::find(&super::model_name(config)) else { return Vec::new() };
    let mut hyper = config.hyper();
    // Asks for all of them; it has been built once, so it can be built again.
    (entry.build)(&mut hyper).ok();
    let asked: Vec<(String, String)> =
        hyper.defaults().map(|(key, default)| (key.to_owned(), default.to_owned())).collect();
    let fits = |(key, default): (String, String)| {
        let is = match hyper.node(&key).map(|node| &node.value) {
            Some(Value::Int(number)) => usize::try_from(*number) == Ok(value),
            Some(_) => false,
            None => default == value.to_string(),
        };
        is.then_some(key)
    };
    asked.into_iter().filter_map(fits).collect()
}

#[cfg(test)]
mod tests {
    use bireme_data::source::Source;

    use super::*;

    #[test]
    fn a_value_outside_names_the_line_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        std::fs::write(&paths[0], "1 1 1 5\n1 1 1 9\n").unwrap();
        std::fs::write(&paths[1], "1 0 1 6\n\n1 1 1 7000\n1 9 1 7\n").unwrap();
        let slots = [Slot::id("label"), Slot::id("C1")];
        let source = Source::new(paths.to_vec(), Format::multi_slot());
        let input = Arc::new(Files::new(source, &slots).unwrap());
        let of = |message: &str| {
            with_line(Some(&input), Error::Settings(message.to_owned())).to_string()
        };
        let message = "op `x`: id 7000 at position 1 of `C1` lies outside the table";
        let place = format!("; {}:3 has it, in slot `C1`", paths[1].display());
        assert_eq!(of(message), format!("{message}{place}"));
        let label = of("label 9 of sample 3 lies outside the 2 classes");
        assert!(label.ends_with(":4 has it, in slot `label`"), "{label}");
        for other in ["id 12 lies outside x", "row 7000 lies outside x", "no id 7000"] {
            assert_eq!(of(other), other);
        }
    }

    #[test]
    fn an_id_outside_a_table_names_the_key_that_sizes_it() {
        let text = "model: dnn\nhyper_parameters: {sparse_feature_number: 6001}\n";
        let config = Config::parse(Path::new("a.yaml"), text, &[]).unwrap();
        let key = "`hyper_parameters.sparse_feature_number` is 6001, and must be above every id";
        for message in [
            "op `lookup_table_v2` (`out`): id 7000 at position 1 of `Ids` lies outside the table, \
             which has 6001 rows",
            "id 7000 at position 1 of `C1` lies outside the table `emb` of 6001 rows",
            "id 7000 in slot 3 lies outside table `emb`, which has rows 0 to 6000",
        ] {
            let error = with_keys(&config, Error::Settings(message.to_owned())).to_string();
            assert!(error.starts_with(message) && error.contains(key), "{error}");
        }
        for other in ["id 7 lies outside table `x`, which has rows 0 to 9", "no 6001 rows"] {
            let error = with_keys(&config, Error::Settings(other.to_owned())).to_string();
            assert_eq!(error, other);
        }
    }
}
