//! Reads attribute values; `text.rs` lists their spellings.

use super::cursor::Cursor;
use crate::{Attr, Result, Scalar};

const VALUE: &str = "a value such as `3`, `3L`, `0.5`, `True`, `'text'` or `[1, 2]`";
const EMPTY_LIST: &str = "an empty list must say of what: write `ints[]`, `longs[]`, `floats[]`, \
                          `float64s[]`, `strings[]` or `bools[]`";

/// One attribute value.
pub(super) fn attr(cursor: &mut Cursor<'_>) -> Result<Attr> {
    cursor.skip_spaces();
    match cursor.rest().chars().next() {
        Some('\'') => cursor.quoted().map(Attr::String),
        Some('[') => list(cursor),
        Some(c) if c.is_ascii_digit() || c == '-' => cursor.word_as(VALUE, number),
        _ => word(cursor),
    }
}

/// A number whose spelling tells its type.
fn number(word: &str) -> Option<Attr> {
    if let Some(word) = word.strip_suffix('D') {
        real(word).map(Attr::Float64)
    } else if let Some(word) = word.strip_suffix('L') {
        word.parse().ok().map(Attr::Long)
    } else if let Ok(value) = word.parse() {
        Some(Attr::Int(value))
    } else {
        is_real(word).then(|| word.parse().ok()).flatten().filter(fits(word)).map(Attr::Float)
    }
}

/// Whether a parsed float is infinite only where the text says so.
fn fits(word: &str) -> impl Fn(&f32) -> bool {
    let infinite = word.ends_with("inf");
    move |value| value.is_infinite() == infinite
}

fn real(word: &str) -> Option<f64> {
    let value: f64 = word.parse().ok().filter(|_| is_real(word))?;
    (value.is_infinite() == word.ends_with("inf")).then_some(value)
}

/// Whether `word` is spelled as a real number: with a point or exponent, or not finite.
fn is_real(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    matches!(digits, "inf" | "nan")
        || (digits.starts_with(|c: char| c.is_ascii_digit()) && digits.contains(['.', 'e']))
}

/// A value that starts with a word: a truth value, a number that is not finite, or a typed list.
fn word(cursor: &mut Cursor<'_>) -> Result<Attr> {
    for kind in ["ints", "longs", "floats", "float64s", "strings", "bools"] {
        if cursor.eat_word(kind) {
            return empty(cursor, kind);
        }
    }
    if cursor.eat_word("block") {
        cursor.expect("[")?;
        let idx = cursor.number("the number of a block")?;
        cursor.expect("]")?;
        Ok(Attr::Block(idx))
    } else if cursor.eat_word("blocks") {
        let blocks = items(cursor, |cursor| cursor.number("the number of a block"))?;
        Ok(Attr::Blocks(blocks))
    } else if cursor.eat_word("var") {
        cursor.expect("[")?;
        let var = cursor.quoted()?;
        cursor.expect("]")?;
        Ok(Attr::Var(var))
    } else if cursor.eat_word("vars") {
        items(cursor, |cursor| cursor.quoted()).map(Attr::Vars)
    } else if cursor.eat_word("scalar") {
        cursor.expect("(")?;
        let value = scalar(cursor)?;
        cursor.expect(")")?;
        Ok(Attr::Scalar(value))
    } else if cursor.eat_word("scalars") {
        items(cursor, scalar).map(Attr::Scalars)
    } else {
        cursor.word_as(VALUE, |word| match word {
            "True" => Some(Attr::Bool(true)),
            "False" => Some(Attr::Bool(false)),
            word => number(word),
        })
    }
}

fn empty(cursor: &mut Cursor<'_>, kind: &str) -> Result<Attr> {
    cursor.expect("[")?;
    cursor.expect("]")?;
    Ok(match kind {
        "ints" => Attr::Ints(Vec::new()),
        "longs" => Attr::Longs(Vec::new()),
        "floats" => Attr::Floats(Vec::new()),
        "float64s" => Attr::Float64s(Vec::new()),
        "strings" => Attr::Strings(Vec::new()),
        _ => Attr::Bools(Vec::new()),
    })
}

fn items<T>(
    cursor: &mut Cursor<'_>,
    item: impl Fn(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut values = Vec::new();
    cursor.expect("[")?;
    cursor.items("]", |cursor| {
        values.push(item(cursor)?);
        Ok(())
    })?;
    Ok(values)
}

/// A list whose first element tells the type of all.
fn list(cursor: &mut Cursor<'_>) -> Result<Attr> {
    cursor.expect("[")?;
    if cursor.eat("]") {
        return cursor.fail(EMPTY_LIST);
    }
    let mut list = match element(cursor)? {
        Attr::Int(value) => Attr::Ints(vec![value]),
        Attr::Long(value) => Attr::Longs(vec![value]),
        Attr::Float(value) => Attr::Floats(vec![value]),
        Attr::Float64(value) => Attr::Float64s(vec![value]),
        Attr::String(value) => Attr::Strings(vec![value]),
        Attr::Bool(value) => Attr::Bools(vec![value]),
        other => return cursor.fail(format!("a list cannot hold a {}", other.kind())),
    };
    if !cursor.eat(",") {
        cursor.expect("]")?;
        return Ok(list);
    }
    cursor.items("]", |cursor| {
        match (&mut list, element(cursor)?) {
            (Attr::Ints(list), Attr::Int(value)) => list.push(value),
            (Attr::Longs(list), Attr::Long(value)) => list.push(value),
            (Attr::Floats(list), Attr::Float(value)) => list.push(value),
            (Attr::Float64s(list), Attr::Float64(value)) => list.push(value),
            (Attr::Strings(list), Attr::String(value)) => list.push(value),
            (Attr::Bools(list), Attr::Bool(value)) => list.push(value),
            (list, value) => {
                let (list, value) = (list.kind(), value.kind());
                return cursor.fail(format!("a list of {list} cannot hold a {value}"));
            }
        }
        Ok(())
    })?;
    Ok(list)
}

/// An element of a list: no list itself, so that nesting cannot exhaust the stack.
fn element(cursor: &mut Cursor<'_>) -> Result<Attr> {
    cursor.skip_spaces();
    if cursor.rest().starts_with('[') {
        return cursor.fail("a list cannot hold a list");
    }
    attr(cursor)
}

fn scalar(cursor: &mut Cursor<'_>) -> Result<Scalar> {
    const REAL: &str = "a real number such as `0.5`";
    if cursor.eat_word("complex") {
        cursor.expect("(")?;
        let re = cursor.word_as(REAL, real)?;
        cursor.expect(",")?;
        let im = cursor.word_as(REAL, real)?;
        cursor.expect(")")?;
        return Ok(Scalar::Complex(re, im));
    }
    cursor.word_as(
        "a scalar such as `True`, `3`, `0.5` or `complex(0.0, 1.0)`",
        |word| match word {
            "True" => Some(Scalar::Bool(true)),
            "False" => Some(Scalar::Bool(false)),
            word => word.parse().ok().map(Scalar::Long).or_else(|| real(word).map(Scalar::Float64)),
        },
    )
}
