//! A JSON object a line: feed names to numbers or (nested) lists of numbers.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::{Column, Rows};

pub(super) fn read(line: &str, rows: &mut Rows) -> Result<()> {
    let value: Value = serde_json::from_str(line).map_err(|error| invalid(&error))?;
    let Value::Object(fields) = value else { bail!("not a JSON object") };
    for (name, value) in &fields {
        let Some(column) = rows.column(name) else { return Err(rows.unknown(name)) };
        push(value, column).with_context(|| format!("feed `{name}`"))?;
    }
    let missing = rows.columns.iter().find(|column| !fields.contains_key(&column.name));
    match missing {
        Some(column) => bail!("feed `{}` is missing", column.name),
        None => Ok(()),
    }
}

/// The parser counts lines of its own, which would contradict the number of the line that we name.
fn invalid(error: &serde_json::Error) -> anyhow::Error {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let place = format!(" at line {line} column {column}");
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    anyhow!("not valid JSON: {reason} (column {column})")
}

fn push(value: &Value, column: &mut Column) -> Result<()> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| push(value, column)),
        // Through the text, so that an id of 64 bits keeps every digit.
        Value::Number(number) => column.push_text(&number.to_string()),
        other => bail!("`{other}` is neither a number nor a list of numbers"),
    }
}
