//! `hyper_parameters.*` as models read them: typed, with defaults, and remembered, so that a key
//! which nobody asked for can be reported.

use std::collections::BTreeMap;
use std::fmt::Debug;

use super::read::resolve;
use super::{Node, Place, Value};
use crate::{Error, Result};

/// The prefix of all keys here.
const PREFIX: &str = "hyper_parameters.";

/// The hyper parameters of a model, by their names without `hyper_parameters.`.
#[derive(Clone, Debug, Default)]
pub struct Hyper {
    values: BTreeMap<String, Node>,
    /// What follows from the data, where the configuration says nothing.
    followed: BTreeMap<String, Node>,
    /// What was asked for, whether it was there or not, with what it is by default.
    asked: BTreeMap<String, String>,
}

impl Hyper {
    /// Those of a configuration's flat keys (`hyper_parameters.fc_sizes`).
    pub fn of_keys<'a>(keys: impl IntoIterator<Item = (&'a str, &'a Node)>) -> Hyper {
        let values = keys
            .into_iter()
            .filter_map(|(key, node)| Some((key.strip_prefix(PREFIX)?.to_owned(), node.clone())));
        Hyper { values: values.collect(), ..Hyper::default() }
    }

    /// These values: for programs and tests.
    pub fn of<'a>(values: impl IntoIterator<Item = (&'a str, Value)>) -> Hyper {
        let node = |value| Node { value, place: Place::Program };
        let values = values.into_iter().map(|(key, value)| (key.to_owned(), node(value)));
        Hyper { values: values.collect(), ..Hyper::default() }
    }

    /// Has the data say what a count is.
    ///
    /// # Errors
    /// When the configuration says another.
    pub(crate) fn follow(&mut self, key: &str, count: i64) -> Result<()> {
        self.follow_if(key, Value::Int(count), |here| *here == Value::Int(count))
    }

    /// Has the data say what a count is at least.
    ///
    /// # Errors
    /// When the configuration says less.
    pub(crate) fn follow_at_least(&mut self, key: &str, count: i64) -> Result<()> {
        let is_enough = |here: &Value| matches!(here, Value::Int(here) if *here >= count);
        self.follow_if(key, Value::Int(count), is_enough)
    }

    /// Has the data say what a list of counts is.
    ///
    /// # Errors
    /// When the configuration says another.
    pub(crate) fn follow_list(&mut self, key: &str, counts: &[i64]) -> Result<()> {
        let node = |count: &i64| Node { value: Value::Int(*count), place: Place::Program };
        let list = Value::List(counts.iter().map(node).collect());
        let text = list.to_string();
        self.follow_if(key, list, |here| here.to_string() == text)
    }

    /// Has the data say what a switch is.
    ///
    /// # Errors
    /// When the configuration says another.
    pub(crate) fn follow_switch(&mut self, key: &str, value: bool) -> Result<()> {
        self.follow_if(key, Value::Bool(value), |here| *here == Value::Bool(value))
    }

    fn follow_if(&mut self, key: &str, value: Value, fits: impl Fn(&Value) -> bool) -> Result<()> {
        let here = self.values.get(key).map(|node| &node.value);
        match here.filter(|here| **here != Value::Null) {
            Some(here) if !fits(here) => {
                let problem =
                    format!("is {here}, and the columns of `data` make it {value}: leave it out");
                Err(self.refuse(key, problem))
            }
            Some(_) => Ok(()),
            None => {
                self.followed.insert(key.to_owned(), Node { value, place: Place::Program });
                Ok(())
            }
        }
    }

    /// Keys that are there and were never asked for, with their places.
    pub fn unasked(&self) -> impl Iterator<Item = (&str, &Place)> {
        let values = self.values.iter().filter(|(key, _)| !self.asked.contains_key(*key));
        values.map(|(key, node)| (key.as_str(), &node.place))
    }

    /// Keys that were asked for.
    pub fn asked(&self) -> impl Iterator<Item = &str> {
        self.asked.keys().map(String::as_str)
    }

    /// Keys that were asked for, with their defaults as text.
    pub fn defaults(&self) -> impl Iterator<Item = (&str, &str)> {
        self.asked.iter().map(|(key, default)| (key.as_str(), default.as_str()))
    }

    /// Keys that were asked for, with what they are: as it stands there, or by default.
    pub(crate) fn in_use(&self) -> BTreeMap<String, String> {
        let value = |(key, default): (&String, &String)| {
            let text = match self.value(key).map(|node| &node.value) {
                Some(value) => value.to_string(),
                // Written as a configuration would have it.
                None => resolve(default.trim_matches('"')).to_string(),
            };
            (key.clone(), text)
        };
        self.asked.iter().map(value).collect()
    }

    /// What stands there, if anything but `null`.
    pub fn node(&mut self, key: &str) -> Option<&Node> {
        if !self.asked.contains_key(key) {
            self.asked.insert(key.to_owned(), String::new());
        }
        self.value(key)
    }

    /// What stands there, or follows from the data.
    fn value(&self, key: &str) -> Option<&Node> {
        let here = self.values.get(key).filter(|node| node.value != Value::Null);
        here.or_else(|| self.followed.get(key))
    }

    /// A count or size: a whole number of at least 0.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn get_usize(&mut self, key: &str, default: usize) -> Result<usize> {
        self.typed(key, "a whole number of at least 0", default, as_usize)
    }

    /// A size that may not be 0.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn get_size(&mut self, key: &str, default: usize) -> Result<usize> {
        let positive = |value: &Value| as_usize(value).filter(|size| *size > 0);
        self.typed(key, "a whole number of at least 1", default, positive)
    }

    /// A number.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn get_f32(&mut self, key: &str, default: f32) -> Result<f32> {
        self.typed(key, "a number", default, |value| as_f64(value).map(|number| number as f32))
    }

    /// A switch.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn get_bool(&mut self, key: &str, default: bool) -> Result<bool> {
        self.typed(key, "`True` or `False`", default, as_bool)
    }

    /// A text.
    ///
    /// # Errors
    /// When a list or a group stands there.
    pub fn get_text(&mut self, key: &str, default: &str) -> Result<String> {
        self.typed(key, "a text", default.to_owned(), as_text)
    }

    /// A list of sizes, none of them 0.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn get_sizes(&mut self, key: &str, default: &[usize]) -> Result<Vec<usize>> {
        let positive = |item: &Value| as_usize(item).filter(|size| *size > 0);
        self.typed_list(key, "a whole number of at least 1", default, positive)
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn get_f32s(&mut self, key: &str, default: &[f32]) -> Result<Vec<f32>> {
        let number = |item: &Value| as_f64(item).map(|number| number as f32);
        self.typed_list(key, "a number", default, number)
    }

    /// An error about what stands at `key`, for a model that refuses it.
    pub fn refuse(&self, key: &str, problem: impl std::fmt::Display) -> Error {
        let place = self.values.get(key).map_or(Place::Program, |node| node.place.clone());
        Error::Config { place, problem: format!("`{PREFIX}{key}` {problem}") }
    }

    fn typed<T: Debug>(
        &mut self,
        key: &str,
        wanted: &str,
        default: T,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<T> {
        self.asked.insert(key.to_owned(), format!("{default:?}"));
        let Some(node) = self.node(key) else { return Ok(default) };
        convert(&node.value).ok_or_else(|| Error::Config {
            place: node.place.clone(),
            problem: format!("`{PREFIX}{key}` must be {wanted}, not {}", node.value.describe()),
        })
    }

    /// A list, whose first element that is wrong is named with its place.
    fn typed_list<T: Debug + Clone>(
        &mut self,
        key: &str,
        wanted: &str,
        default: &[T],
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>> {
        if let Some(Node { value: Value::List(items), place }) = self.node(key)
            && let Some(at) = items.iter().position(|item| convert(&item.value).is_none())
        {
            let place = match place {
                // Places inside of an option are those of a text that nobody has written.
                Place::Option(_) | Place::Program => place,
                Place::File { .. } => &items[at].place,
            };
            let problem = format!(
                "element {} of `{PREFIX}{key}` must be {wanted}, not {}",
                at + 1,
                items[at].value.describe()
            );
            return Err(Error::Config { place: place.clone(), problem });
        }
        let all = |value: &Value| list(value, &convert);
        self.typed(key, &format!("a list, each element {wanted}"), default.to_vec(), all)
    }
}

pub(super) fn as_usize(value: &Value) -> Option<usize> {
    match value {
        Value::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    }
}

pub(super) fn as_f64(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

pub(super) fn as_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        _ => None,
    }
}

pub(super) fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Text(_) | Value::Int(_) | Value::Float(_) => Some(value.to_string()),
        _ => None,
    }
}

pub(super) fn list<T>(value: &Value, convert: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    match value {
        Value::List(items) => items.iter().map(|item| convert(&item.value)).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_typed_and_questions_remembered() {
        let mut hyper = Hyper::of([("a", Value::Int(3)), ("b", Value::Text("x".into()))]);
        assert_eq!(hyper.get_usize("a", 1).unwrap(), 3);
        assert_eq!(hyper.get_usize("c", 7).unwrap(), 7);
        assert_eq!(hyper.unasked().map(|(key, _)| key).collect::<Vec<_>>(), ["b"]);
        let error = hyper.get_f32("b", 0.0).unwrap_err().to_string();
        let wanted = "`hyper_parameters.b` must be a number, not the text \"x\"";
        assert_eq!(error, format!("the configuration: {wanted}"));
    }

    #[test]
    fn the_element_of_a_list_that_is_wrong_is_named() {
        let text = "hyper_parameters:\n  fc_sizes: [512, x]\n  rates: [1, 0.5]\n  depth: 3\n";
        let parse = |options: &[String]| {
            super::super::Config::parse(std::path::Path::new("a.yaml"), text, options)
                .unwrap()
                .hyper()
        };
        let mut hyper = parse(&[]);
        let error = hyper.get_sizes("fc_sizes", &[1]).unwrap_err().to_string();
        let wanted =
            "element 2 of `hyper_parameters.fc_sizes` must be a whole number of at least 1";
        assert_eq!(error, format!("a.yaml:2:19: {wanted}, not the text \"x\""));
        assert_eq!(hyper.get_f32s("rates", &[]).unwrap(), [1.0, 0.5]);
        let error = hyper.get_sizes("rates", &[1]).unwrap_err().to_string();
        assert!(error.starts_with("a.yaml:3:14: element 2 of"), "{error}");
        let error = hyper.get_f32s("depth", &[]).unwrap_err().to_string();
        assert!(
            error.contains("must be a list, each element a number, not the number 3"),
            "{error}"
        );
        let option = "hyper_parameters.fc_sizes=[512, y]".to_owned();
        let error = parse(&[option]).get_sizes("fc_sizes", &[1]).unwrap_err().to_string();
        assert!(error.starts_with("-o hyper_parameters.fc_sizes=[512, y]: element 2"), "{error}");
    }
}
