//! YAML text to a tree of values, each with its place.
//!
//! Plain scalars mean what they mean to PyYAML, which PaddleRec reads its files with: `yes` and
//! `On` are switches, `012` is octal. One exception: `1e-3`, a text to PyYAML because it has no
//! dot, is a number.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use granit_parser::{Event, Marker, Parser, ScalarStyle};

use super::{Node, Place, Value};
use crate::{Error, Result};

/// Values that a file may have: far more than any configuration, far less than aliases of aliases
/// can make.
const MAX_NODES: usize = 100_000;

/// The tree of a file, and warnings about it.
pub(super) struct Tree {
    /// Keys and values of the whole document.
    pub(super) root: Vec<(String, Node)>,
    pub(super) warnings: Vec<String>,
}

/// Reads a file's text.
///
/// # Errors
/// When it is no YAML, or no map of keys: where and why.
pub(super) fn read(path: &Path, text: &str) -> Result<Tree> {
    let mut builder = Builder {
        path: Arc::new(path.to_owned()),
        anchors: HashMap::new(),
        stack: Vec::new(),
        root: None,
        documents: 0,
        nodes: 0,
        warnings: Vec::new(),
    };
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|error| builder.error(*error.marker(), error.info()))?;
        builder.take(event, span.start)?;
    }
    let Builder { root, warnings, path, .. } = builder;
    match root {
        Some(Node { value: Value::Map(root), .. }) => Ok(Tree { root, warnings }),
        None | Some(Node { value: Value::Null, .. }) => {
            Err(Error::File { path: path.to_path_buf(), problem: "it is empty".to_owned() })
        }
        Some(Node { value, place }) => Err(Error::Config {
            place,
            problem: format!(
                "a configuration is made of keys (`runner:`), not {}",
                value.describe()
            ),
        }),
    }
}

struct Builder {
    path: Arc<PathBuf>,
    /// Complete values by the number of their anchor.
    anchors: HashMap<usize, Node>,
    /// Collections that are not complete yet, the innermost last.
    stack: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    nodes: usize,
    warnings: Vec<String>,
}

struct Open {
    place: Place,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    /// What is there already, the key that waits for its value, and where the keys that are written
    /// here stand: those of `<<` may be written again.
    Map(Vec<(String, Node)>, Option<(String, Place)>, HashMap<String, Place>),
}

impl Builder {
    fn place(&self, at: Marker) -> Place {
        Place::File { path: Arc::clone(&self.path), line: at.line(), column: at.col() + 1 }
    }

    fn error(&self, at: Marker, problem: impl Into<String>) -> Error {
        Error::Config { place: self.place(at), problem: problem.into() }
    }

    fn take(&mut self, event: Event<'_>, at: Marker) -> Result<()> {
        let place = self.place(at);
        let open = |content, anchor| Open { place: place.clone(), anchor, content };
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(self.error(at, "a second document begins here: keep one a file"));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let value = match style {
                    ScalarStyle::Plain if !is_text => resolve(&text),
                    _ => Value::Text(text.into_owned()),
                };
                self.add(Node { value, place }, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.stack.push(open(Content::List(Vec::new()), anchor));
            }
            Event::MappingStart(_, anchor, _) => {
                self.stack.push(open(Content::Map(Vec::new(), None, HashMap::new()), anchor));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Open { place, anchor, content } =
                    self.stack.pop().expect("the parser ends only what it began");
                let value = match content {
                    Content::List(items) => Value::List(items),
                    Content::Map(items, ..) => Value::Map(items),
                };
                self.add(Node { value, place }, anchor)?;
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err(self.error(at, "an alias inside of what it stands for"));
                };
                self.nodes += size(&node);
                self.add(node, 0)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<()> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let problem = format!("more than {MAX_NODES} values: this is no configuration");
            return Err(Error::Config { place: node.place, problem });
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open { content: Content::List(items), .. }) => items.push(node),
            Some(Open { content: Content::Map(items, key, written), .. }) => match key.take() {
                None => *key = Some((name(&node)?, node.place)),
                Some((key, _)) if key == "<<" => merge(items, node),
                Some((key, place)) => {
                    if let Some(first) = written.insert(key.clone(), place.clone()) {
                        return Err(twice(&key, place, &first));
                    }
                    items.retain(|(old, _)| *old != key);
                    items.push((key, node));
                }
            },
        }
        Ok(())
    }
}

/// The error about a key that is written twice: YAML forbids it, and nobody can know which counts.
pub(super) fn twice(key: &str, place: Place, first: &Place) -> Error {
    let first = match first {
        Place::File { line, .. } => format!("line {line}"),
        other => other.to_string(),
    };
    let problem = format!("`{key}` stands here a second time, after {first}: remove one of them");
    Error::Config { place, problem }
}

/// A key as text.
fn name(node: &Node) -> Result<String> {
    match &node.value {
        Value::List(_) | Value::Map(_) => Err(Error::Config {
            place: node.place.clone(),
            problem: format!("a key must be a text, not {}", node.value.describe()),
        }),
        value => Ok(value.to_string()),
    }
}

/// `<<: *defaults`: keys of another map that this one does not have.
fn merge(items: &mut Vec<(String, Node)>, node: Node) {
    let maps = match node.value {
        Value::List(maps) => maps,
        _ => vec![node],
    };
    for map in maps {
        let Value::Map(more) = map.value else { continue };
        for (key, node) in more {
            if !items.iter().any(|(old, _)| *old == key) {
                items.push((key, node));
            }
        }
    }
}

fn size(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(size).sum::<usize>(),
        Value::Map(items) => items.iter().map(|(_, node)| size(node)).sum(),
        _ => 0,
    }
}

/// What a plain scalar means.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Value::Bool(true);
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    if let Some(number) = whole_number(text) {
        return Value::Int(number);
    }
    match real_number(text) {
        Some(number) => Value::Float(number),
        None => Value::Text(text.to_owned()),
    }
}

fn whole_number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = digits.replace('_', "");
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x', rest @ ..] if !rest.is_empty() => (&digits[2..], 16),
        [b'0', b'b', rest @ ..] if !rest.is_empty() => (&digits[2..], 2),
        [b'0', b'o', rest @ ..] if !rest.is_empty() => (&digits[2..], 8),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits.as_str(), 10),
    };
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

fn real_number(text: &str) -> Option<f64> {
    match text.trim_start_matches(['-', '+']) {
        ".inf" | ".Inf" | ".INF" => {
            return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        ".nan" | ".NaN" | ".NAN" => return Some(f64::NAN),
        _ => {}
    }
    let plain = |c: char| c.is_ascii_digit() || "+-.eE_".contains(c);
    if !text.chars().all(plain) || !text.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    // `20_190_720` is whole; an octal number that is none (`019`) stays a text.
    if !text.contains(['.', 'e', 'E']) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        let tree = read(Path::new("a.yaml"), &format!("key: {text}\n")).unwrap();
        tree.root[0].1.value.clone()
    }

    #[test]
    fn scalars_mean_what_they_mean_to_pyyaml() {
        for (text, expected) in [
            ("True", Value::Bool(true)),
            ("off", Value::Bool(false)),
            ("12", Value::Int(12)),
            ("-1_000", Value::Int(-1000)),
            ("0x1F", Value::Int(31)),
            ("012", Value::Int(10)),
            ("0", Value::Int(0)),
            ("0.001", Value::Float(0.001)),
            ("1e-3", Value::Float(0.001)),
            (".5", Value::Float(0.5)),
            ("~", Value::Null),
            ("\"12\"", Value::Text("12".into())),
            ("1.2.3", Value::Text("1.2.3".into())),
            ("019", Value::Text("019".into())),
            ("127.0.0.1:80", Value::Text("127.0.0.1:80".into())),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
        assert!(matches!(value("9223372036854775808"), Value::Text(_)));
    }

    #[test]
    fn places_are_those_of_an_editor() {
        let text = "runner:\n  epochs: 3\n  fc: [1, x]\n";
        let tree = read(Path::new("a.yaml"), text).unwrap();
        let Value::Map(runner) = &tree.root[0].1.value else { panic!("a map") };
        assert_eq!(runner[0].1.place.to_string(), "a.yaml:2:11");
        let Value::List(items) = &runner[1].1.value else { panic!("a list") };
        assert_eq!(items[1].place.to_string(), "a.yaml:3:11");
    }

    #[test]
    fn aliases_are_copies_and_bombs_are_refused() {
        let tree = read(Path::new("a"), "a: &x {b: 1}\nc: {<<: *x, d: *x}\n").unwrap();
        assert_eq!(tree.root[1].1.value.to_string(), "{'b': 1, 'd': {'b': 1}}");
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb += &format!("a{level}: &a{level} [{before}]\n");
        }
        let error = read(Path::new("a"), &bomb).err().unwrap().to_string();
        assert!(error.contains("no configuration"), "{error}");
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        let wrong = |text| read(Path::new("a.yaml"), text).err().unwrap().to_string();
        assert!(wrong("runner:\n  a: [1, 2\n").starts_with("a.yaml:"), "{}", wrong("a: [1"));
        assert!(wrong("a: 1\n---\nb: 2\n").contains("a.yaml:2:1: a second document"));
        assert!(wrong("- a\n- b\n").contains("a.yaml:1:1: a configuration is made of keys"));
        assert_eq!(wrong("# nothing\n"), "`a.yaml`: it is empty");
        assert_eq!(
            wrong("a: 1\nb: 2\na: 3\n"),
            "a.yaml:3:1: `a` stands here a second time, after line 1: remove one of them"
        );
        assert!(wrong("r:\n  a: 1\n  b: {c: 1, c: 2}\n").starts_with("a.yaml:3:13: `c` stands"));
        let merged = read(Path::new("a"), "x: &x {a: 1, b: 2}\ny: {<<: *x, a: 3}\n").unwrap();
        assert_eq!(merged.root[1].1.value.to_string(), "{'b': 2, 'a': 3}");
    }
}
