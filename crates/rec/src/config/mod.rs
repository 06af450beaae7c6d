//! PaddleRec's YAML: first the file as written, with the place of every value, then checked
//! against the table of keys. Only what is checked leaves this module.

mod hyper;
pub mod keys;
mod options;
mod read;
mod show;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use bireme_engine::ir;

pub use hyper::Hyper;
pub(crate) use value::python_float;
pub use value::{Node, Place, Value};

use crate::{Error, Result};
use keys::{Kind, Support};

/// Keys and values in the order of a file.
pub type Keys = Vec<(String, Node)>;

/// The keys of a YAML text, nested as they are written and checked against no table, and warnings
/// about them: for those who have keys of their own.
///
/// # Errors
/// When it is no YAML, or no map of keys; `path` is where it is said to stand.
pub fn parse_keys(path: &Path, text: &str) -> Result<(Keys, Vec<String>)> {
    let read::Tree { root, warnings } = read::read(path, text)?;
    Ok((root, warnings))
}

/// Groups whose keys are the model's, the table's or the data's own.
const OPEN: [&str; 6] = [
    "hyper_parameters.",
    "table_parameters.",
    "data.sparse.",
    "data.dense.",
    "data.multi.",
    "data.bins.",
];

/// A checked configuration: flat keys (`runner.epochs`) with their values.
#[derive(Clone, Debug)]
pub struct Config {
    path: PathBuf,
    values: BTreeMap<String, Node>,
    warnings: Vec<String>,
}

impl Config {
    /// Reads a file, changed by options as they are written after `-o` (`runner.epochs=2`).
    ///
    /// # Errors
    /// When the file cannot be read, is no YAML, or a value has the wrong type; when an option names
    /// no key.
    pub fn load(path: &Path, options: &[String]) -> Result<Config> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
        Config::parse(path, &text, options)
    }

    /// As [`Config::load`], for text that is said to be of a file.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(path: &Path, text: &str, options: &[String]) -> Result<Config> {
        let read::Tree { root, warnings } = read::read(path, text)?;
        let mut values = BTreeMap::new();
        for (key, node) in root {
            flatten(key, node, &mut values)?;
        }
        let mut config = Config { path: path.to_owned(), values, warnings };
        for option in options {
            options::apply(&mut config, option)?;
        }
        config.substitute_workspace();
        config.check()?;
        Ok(config)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the file.
    pub fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// What is odd about it, a sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// All keys, sorted.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.values.iter().map(|(key, node)| (key.as_str(), node))
    }

    /// The value of a key, if it is set.
    pub fn node(&self, key: &str) -> Option<&Node> {
        self.values.get(key).filter(|node| node.value != Value::Null)
    }

    /// Whether a key is set.
    pub fn has(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    /// An error about a key's value.
    pub fn refuse(&self, key: &str, problem: impl std::fmt::Display) -> Error {
        let place = self.node(key).map_or(Place::Program, |node| node.place.clone());
        Error::Config { place, problem: format!("`{key}` {problem}") }
    }

    /// Sets a switch, whatever the file and the options say.
    pub fn set_switch(&mut self, key: &str, value: bool) {
        let node = Node { value: Value::Bool(value), place: Place::Program };
        self.values.insert(key.to_owned(), node);
    }

    /// The value of a count, or its default; 0 where it has none.
    pub fn count(&self, key: &str) -> usize {
        self.value(key, hyper::as_usize).unwrap_or_default()
    }

    /// The value of an integer, or its default.
    pub fn integer(&self, key: &str) -> i64 {
        let integer = |value: &Value| match value {
            Value::Int(number) => Some(*number),
            _ => None,
        };
        self.value(key, integer).unwrap_or_default()
    }

    /// The value of a number, or its default.
    pub fn number(&self, key: &str) -> f64 {
        self.value(key, hyper::as_f64).unwrap_or_default()
    }

    /// The value of a switch, or its default.
    pub fn switch(&self, key: &str) -> bool {
        self.value(key, hyper::as_bool).unwrap_or_default()
    }

    /// The value of a text, or its default; empty where it has none.
    pub fn text(&self, key: &str) -> String {
        self.value(key, hyper::as_text).unwrap_or_default()
    }

    /// The value of a list of texts.
    pub fn texts(&self, key: &str) -> Vec<String> {
        let texts = |value: &Value| match hyper::as_text(value) {
            // `[a, b]` in quotes, or after `-o`, is a list too.
            Some(text) => {
                let inside = text.trim().trim_start_matches('[').trim_end_matches(']');
                let parts = inside.split(',').map(|part| part.trim().trim_matches(['"', '\'']));
                Some(parts.filter(|part| !part.is_empty()).map(str::to_owned).collect())
            }
            None => hyper::list(value, hyper::as_text),
        };
        self.value(key, texts).unwrap_or_default()
    }

    /// The hyper parameters.
    pub fn hyper(&self) -> Hyper {
        Hyper::of_keys(self.values())
    }

    /// The table that PaddleRec shows before training.
    pub fn table(&self) -> String {
        show::table(self.values.iter().map(|(key, node)| (key.as_str(), node.value.to_string())))
    }

    fn value<T>(&self, key: &str, convert: impl Fn(&Value) -> Option<T>) -> Option<T> {
        match self.node(key) {
            Some(node) => convert(&node.value),
            None => convert(&read::resolve(keys::find(key)?.default)),
        }
    }

    /// Puts the workspace in the place of `{workspace}` everywhere.
    fn substitute_workspace(&mut self) {
        let own = self.text("workspace");
        let folder = self.folder().to_string_lossy().into_owned();
        // PaddleRec's own files name the folder from the root of its repository; who starts
        // elsewhere means the folder of the file.
        let workspace = match own.as_str() {
            "" => folder,
            own if Path::new(own).is_dir() => own.to_owned(),
            own if self.folder().ends_with(own) => folder,
            own => own.to_owned(),
        };
        for node in self.values.values_mut() {
            substitute(&mut node.value, &workspace);
        }
    }

    fn check(&mut self) -> Result<()> {
        let mut unused = Vec::new();
        for (name, node) in &self.values {
            let Some(key) = keys::find(name) else {
                if !OPEN.iter().any(|prefix| name.starts_with(prefix)) {
                    self.warnings.push(unknown(name, &node.place));
                }
                continue;
            };
            if !key.kind.fits(&node.value) {
                return Err(wrong_type(name, key.kind, node));
            }
            let is_default = is_default(&node.value, key.default);
            match key.support {
                _ if is_default => {}
                Support::Works => {}
                Support::Python => unused.push(format!("`{name}`")),
                Support::Warned(why) => {
                    self.warnings.push(format!("{}: `{name}` has no effect: {why}", node.place))
                }
                Support::Refused(why) => {
                    let problem = format!("`{name}` is not supported: {why}");
                    return Err(Error::Config { place: node.place.clone(), problem });
                }
            }
        }
        if !unused.is_empty() {
            self.warnings.push(format!(
                "{} name Python code, which this trainer does not run: it reads the files itself, in \
                 the format of the model",
                unused.join(", ")
            ));
        }
        Ok(())
    }
}

/// Whether a value means the same as nothing.
fn is_default(value: &Value, default: &str) -> bool {
    let empty = match value {
        Value::Null => true,
        Value::Text(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        _ => false,
    };
    empty || *value == read::resolve(default) || value.to_string() == default
}

fn wrong_type(name: &str, kind: Kind, node: &Node) -> Error {
    let problem = format!("`{name}` must be {}, not {}", kind.expected(), node.value.describe());
    Error::Config { place: node.place.clone(), problem }
}

/// The warning about a key that nobody knows.
fn unknown(name: &str, place: &Place) -> String {
    if name.starts_with("runner.valid") {
        return format!(
            "{place}: `{name}` is not a key of PaddleRec and is ignored: `bireme infer` evaluates \
             models on `runner.test_data_dir`, after training"
        );
    }
    let near = nearest(name).map_or_else(
        || ": it is ignored".to_owned(),
        |near| format!(" and is ignored: did you mean `{near}`?"),
    );
    format!("{place}: `{name}` is not a key of PaddleRec{near}")
}

/// The known key that is spelled most like `name`: of the same group, unless there is no such group.
fn nearest(name: &str) -> Option<String> {
    fn split(name: &str) -> (&str, &str) {
        name.rsplit_once('.').unwrap_or(("", name))
    }
    let (group, own) = split(name);
    let of_group = keys::all().map(|key| split(key.name)).filter(|key| key.0 == group);
    match ir::nearest(own, of_group.map(|key| key.1)).into_iter().next() {
        Some(near) if group.is_empty() => Some(near),
        Some(near) => Some(format!("{group}.{near}")),
        None => ir::nearest(name, keys::all().map(|key| key.name)).into_iter().next(),
    }
}

/// Nested keys as flat ones, with dots.
fn flatten(key: String, node: Node, out: &mut BTreeMap<String, Node>) -> Result<()> {
    match node.value {
        Value::Map(items) if !items.is_empty() => items
            .into_iter()
            .try_for_each(|(name, node)| flatten(format!("{key}.{name}"), node, out)),
        value => match out.entry(key) {
            // `runner.epochs: 1` beside `runner: {epochs: 2}`.
            Entry::Occupied(first) => Err(read::twice(first.key(), node.place, &first.get().place)),
            Entry::Vacant(vacant) => {
                vacant.insert(Node { value, place: node.place });
                Ok(())
            }
        },
    }
}

fn substitute(value: &mut Value, workspace: &str) {
    match value {
        Value::Text(text) if text.contains("{workspace}") => {
            *text = text.replace("{workspace}", workspace);
        }
        Value::List(items) => {
            items.iter_mut().for_each(|item| substitute(&mut item.value, workspace))
        }
        _ => {}
    }
}
