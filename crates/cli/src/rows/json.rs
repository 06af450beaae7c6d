//! A JSON object a line: feed names to numbers or (nested) lists of numbers.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Column, Rows};

pub(super) fn read(line: &str, rows: &mut Rows) -> Result<()> {
    let value: Value = serde_json::from_str(line).context("not valid JSON")?;
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

fn push(value: &Value, column: &mut Column) -> Result<()> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| push(value, column)),
        // Through the text, so that an id of 64 bits keeps every digit.
        Value::Number(number) => column.push_text(&number.to_string()),
        other => bail!("`{other}` is neither a number nor a list of numbers"),
    }
}
