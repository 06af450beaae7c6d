//! Values of a YAML file, each with the place where it stands.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where something stands: a file with line and column, or the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    File {
        /// Which one.
        path: Arc<PathBuf>,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// In the argument `-o`, as written.
    Option(String),
    /// Nowhere: a program has set it.
    Program,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Place::Option(text) => write!(f, "-o {text}"),
            Place::Program => f.write_str("the configuration"),
        }
    }
}

/// A value without its place.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// `True`, `false`, `yes`, …
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values, in the order of the file.
    Map(Vec<(String, Node)>),
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it stands.
    pub place: Place,
}

impl Value {
    /// What it is, in words: `the text "abc"`.
    pub fn describe(&self) -> String {
        match self {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("the switch `{}`", self_text(*value)),
            Value::Int(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::Text(text) => format!("the text \"{text}\""),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a group of keys".to_owned(),
        }
    }
}

fn self_text(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// As Python prints it, which is how PaddleRec shows a configuration.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("None"),
            Value::Bool(value) => f.write_str(self_text(*value)),
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => f.write_str(&python_float(*value)),
            Value::Text(text) => f.write_str(text),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(|item| quoted(&item.value)).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Value::Map(items) => {
                let pair =
                    |(key, item): &(String, Node)| format!("'{key}': {}", quoted(&item.value));
                let items: Vec<String> = items.iter().map(pair).collect();
                write!(f, "{{{}}}", items.join(", "))
            }
        }
    }
}

fn quoted(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}

/// Python's `repr` of a float: the shortest digits that mean it, with an exponent where it is
/// below 1e-4 or from 1e16 on.
pub(crate) fn python_float(value: f64) -> String {
    if !value.is_finite() {
        return match value {
            _ if value.is_nan() => "nan".to_owned(),
            _ if value > 0.0 => "inf".to_owned(),
            _ => "-inf".to_owned(),
        };
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, number) = match exponent.strip_prefix('-') {
            Some(number) => ('-', number),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{number:0>2}");
    }
    match value == value.trunc() {
        true => format!("{value:.1}"),
        false => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_look_as_in_python() {
        let node = |value| Node { value, place: Place::Program };
        let list = Value::List(vec![node(Value::Int(1)), node(Value::Text("a".into()))]);
        assert_eq!(list.to_string(), "[1, 'a']");
        // python3 -c "print(0.001, 1e-05, 2.0, 1e+16, 123456789.5)"
        let floats = [0.001, 1e-5, 2.0, 1e16, 123_456_789.5].map(python_float);
        assert_eq!(floats, ["0.001", "1e-05", "2.0", "1e+16", "123456789.5"]);
        assert_eq!(Value::Bool(true).to_string(), "True");
    }
}
