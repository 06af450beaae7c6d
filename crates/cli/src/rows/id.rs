//! What names a sample: a column, a slot or a field of its line, as it stands there.

use anyhow::{Context, Result, bail};
use bireme_data::parse::Format;
use bireme_data::table::TextColumn;

pub(crate) enum Id {
    /// A column of a table.
    Column(Box<TextColumn>),
    /// The token of this name, with its colon.
    Token(String),
    /// The field of a JSON object.
    Field(String),
}

impl Id {
    /// The name `column` in lines of a format.
    ///
    /// # Errors
    /// When nothing in such lines has a name.
    pub(crate) fn of_lines(format: &Format, column: &str) -> Result<Id> {
        match format {
            Format::Table(options) => {
                let settings = &options.table.learned().settings;
                let column = TextColumn::new(settings, column).map_err(anyhow::Error::msg)?;
                Ok(Id::Column(Box::new(column)))
            }
            Format::SlotValue(_) => Ok(Id::Token(format!("{column}:"))),
            Format::MultiSlot(_) | Format::Criteo(_) => {
                bail!(
                    "nothing in {format} lines has a name, so none is `{column}`: leave `--id` out"
                )
            }
        }
    }

    /// Takes the names of columns.
    ///
    /// # Errors
    /// When this one is not among them.
    pub(crate) fn begin(&mut self, header: &[u8]) -> Result<()> {
        match self {
            Id::Column(column) => column.begin(header).map_err(anyhow::Error::msg),
            Id::Token(_) | Id::Field(_) => Ok(()),
        }
    }

    /// The name of the sample in a line.
    ///
    /// # Errors
    /// When it has none.
    pub(crate) fn of(&mut self, line: &[u8]) -> Result<String> {
        let text = String::from_utf8_lossy(line);
        match self {
            Id::Column(column) => column.of(line).map_err(anyhow::Error::msg),
            Id::Token(name) => {
                let mut found = text.split_ascii_whitespace();
                let found = found.find_map(|token| token.strip_prefix(name.as_str()));
                let found = found.map(str::to_owned);
                found.with_context(|| format!("there is no `{name}`, which `--id` asks for"))
            }
            Id::Field(name) => {
                let value: serde_json::Value = serde_json::from_str(&text)?;
                match value.get(name.as_str()) {
                    Some(serde_json::Value::String(text)) => Ok(text.clone()),
                    Some(value) => Ok(value.to_string()),
                    None => bail!("there is no field `{name}`, which `--id` asks for"),
                }
            }
        }
    }

    /// The line without it: a field that is no feed of the model.
    ///
    /// # Errors
    /// When the line is no JSON.
    pub(crate) fn without(&self, line: &str) -> Result<String> {
        let Id::Field(name) = self else { return Ok(line.to_owned()) };
        let mut value: serde_json::Value = serde_json::from_str(line)?;
        if let Some(fields) = value.as_object_mut() {
            fields.remove(name.as_str());
        }
        Ok(value.to_string())
    }
}
