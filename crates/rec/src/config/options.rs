//! `-o key=value`: values from the command line, with the types of those they replace.

use super::{Config, Kind, Node, OPEN, Place, Value, keys, nearest, read};
use crate::{Error, Result};

/// Changes one value.
///
/// # Errors
/// When the text is no `key=value`, the value does not have the type of the one that is there, or
/// there is no such key.
pub(super) fn apply(config: &mut Config, option: &str) -> Result<()> {
    let place = Place::Option(option.trim().to_owned());
    let wrong = |problem: String| Error::Config { place: place.clone(), problem };
    let Some((key, text)) = option.trim().split_once('=') else {
        return Err(wrong("an option is written `key=value`".to_owned()));
    };
    let (key, text) = (key.trim(), text.trim());
    let known = keys::find(key);
    let existing = config.values.get(key).map(|node| &node.value).filter(|v| **v != Value::Null);
    let is_open = OPEN.iter().any(|prefix| key.starts_with(prefix));
    if existing.is_none() && known.is_none() && !is_open {
        let near =
            nearest(key).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(wrong(format!("there is no key `{key}`{near}")));
    }
    let kind = match (known.map(|key| key.kind), existing) {
        // One text in the file may become a list.
        (Some(Kind::Texts), _) => Kind::Texts,
        (_, Some(existing)) => of_value(existing),
        (known, None) => known.unwrap_or(Kind::Any),
    };
    let expected = |kind: Kind| wrong(format!("`{key}` must be {}, not `{text}`", kind.expected()));
    let value = match kind {
        Kind::Switch => {
            let is_true = text.eq_ignore_ascii_case("true");
            if !is_true && !text.eq_ignore_ascii_case("false") {
                config.warnings.push(format!("-o {option}: only `true` is true, so this is false"));
            }
            Value::Bool(is_true)
        }
        Kind::Count | Kind::Integer => match read::resolve(text) {
            value @ Value::Int(_) => value,
            _ => return Err(expected(Kind::Integer)),
        },
        // An integer in the file may stand where any number may.
        Kind::Number => match read::resolve(text) {
            Value::Int(number) => Value::Float(number as f64),
            value @ Value::Float(_) => value,
            _ => return Err(expected(kind)),
        },
        Kind::Text => Value::Text(text.to_owned()),
        Kind::Numbers | Kind::Texts | Kind::Any => yaml(config, text).map_err(wrong)?,
    };
    config.values.insert(key.to_owned(), Node { value, place });
    Ok(())
}

/// The kind of a value that is there.
fn of_value(value: &Value) -> Kind {
    match value {
        Value::Bool(_) => Kind::Switch,
        Value::Int(_) => Kind::Integer,
        Value::Float(_) => Kind::Number,
        Value::Text(_) => Kind::Text,
        Value::Null | Value::List(_) | Value::Map(_) => Kind::Any,
    }
}

/// A value as it would stand in the file.
fn yaml(config: &Config, text: &str) -> std::result::Result<Value, String> {
    let tree = read::read(&config.path, &format!("value: {text}\n"));
    match tree {
        Ok(read::Tree { mut root, .. }) if root.len() == 1 => Ok(root.remove(0).1.value),
        _ => Err(format!("`{text}` is no value")),
    }
}
