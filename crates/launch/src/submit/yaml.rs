//! YAML as far as manifests need it: trees of maps, lists and scalars, printed in their order.

use std::fmt::Write;

/// A node of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Yaml {
    Text(String),
    Number(i64),
    Bool(bool),
    List(Vec<Yaml>),
    /// In the order of printing.
    Map(Vec<(String, Yaml)>),
}

/// A map from `key => value` pairs.
macro_rules! map {
    ($($key:expr => $value:expr),* $(,)?) => {
        $crate::submit::yaml::Yaml::Map(
            vec![$(($key.to_string(), $crate::submit::yaml::Yaml::from($value))),*],
        )
    };
}
pub(super) use map;

impl Yaml {
    /// Adds an entry to a map.
    pub(super) fn with(mut self, key: &str, value: impl Into<Yaml>) -> Yaml {
        if let Yaml::Map(entries) = &mut self {
            entries.push((key.to_owned(), value.into()));
        }
        self
    }

    /// Adds an entry to a map if there is something to add.
    pub(super) fn with_some(self, key: &str, value: Option<impl Into<Yaml>>) -> Yaml {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// The document, ended by a line break.
    pub(super) fn print(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out
    }

    fn is_leaf(&self) -> bool {
        match self {
            Yaml::List(items) => items.is_empty(),
            Yaml::Map(entries) => entries.is_empty(),
            _ => true,
        }
    }

    fn leaf(&self) -> String {
        match self {
            Yaml::Text(text) => scalar(text),
            Yaml::Number(number) => number.to_string(),
            Yaml::Bool(flag) => flag.to_string(),
            Yaml::List(_) => "[]".to_owned(),
            Yaml::Map(_) => "{}".to_owned(),
        }
    }

    fn write(&self, out: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        match self {
            Yaml::Map(entries) if !entries.is_empty() => {
                for (key, value) in entries {
                    let _ = write!(out, "{indent}{}:", scalar(key));
                    value.write_after(out, depth);
                }
            }
            Yaml::List(items) if !items.is_empty() => {
                for item in items {
                    if item.is_leaf() {
                        let _ = writeln!(out, "{indent}- {}", item.leaf());
                        continue;
                    }
                    // The first line of the item stands behind its dash.
                    let mut nested = String::new();
                    item.write(&mut nested, depth + 1);
                    let _ = write!(out, "{indent}- {}", nested.trim_start());
                }
            }
            leaf => {
                let _ = writeln!(out, "{indent}{}", leaf.leaf());
            }
        }
    }

    fn write_after(&self, out: &mut String, depth: usize) {
        if self.is_leaf() {
            let _ = writeln!(out, " {}", self.leaf());
        } else {
            out.push('\n');
            self.write(out, depth + 1);
        }
    }
}

/// A text as a scalar that reads back as that text and as nothing else.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    // What starts with a letter and has only these characters is no number in any YAML.
    let safe = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(plain)
        && !reserved.contains(&text.to_ascii_lowercase().as_str());
    match safe {
        true => text.to_owned(),
        // The escapes of JSON are those of YAML's double quotes.
        false => serde_json::Value::from(text).to_string(),
    }
}

impl From<&str> for Yaml {
    fn from(text: &str) -> Yaml {
        Yaml::Text(text.to_owned())
    }
}

impl From<&String> for Yaml {
    fn from(text: &String) -> Yaml {
        Yaml::Text(text.clone())
    }
}

impl From<String> for Yaml {
    fn from(text: String) -> Yaml {
        Yaml::Text(text)
    }
}

impl From<u32> for Yaml {
    fn from(number: u32) -> Yaml {
        Yaml::Number(number.into())
    }
}

impl From<bool> for Yaml {
    fn from(flag: bool) -> Yaml {
        Yaml::Bool(flag)
    }
}

impl From<Vec<Yaml>> for Yaml {
    fn from(items: Vec<Yaml>) -> Yaml {
        Yaml::List(items)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn trees_are_printed_in_order_and_texts_stay_texts() {
        let tree = map! {
            "kind" => "Job",
            "count" => 3_u32,
            "texts" => ["1", "yes", "1e3", "-", "a: b", "", "0.0.0.0", "a\nb", "x-1.y:6174"]
                .map(Yaml::from).to_vec(),
            "items" => vec![map! { "name" => "a", "value" => map! { "x" => true } }],
            "none" => map! {},
        };
        expect![[r#"
            kind: Job
            count: 3
            texts:
              - "1"
              - "yes"
              - "1e3"
              - "-"
              - "a: b"
              - ""
              - "0.0.0.0"
              - "a\nb"
              - "x-1.y:6174"
            items:
              - name: a
                value:
                  x: true
            none: {}
        "#]]
        .assert_eq(&tree.print());
    }
}
