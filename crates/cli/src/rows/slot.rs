//! PaddleRec's slot text: `name:value` pairs between blanks, a name as often as it has values.

use anyhow::{Context, Result, bail};

use super::Rows;

/// The feeds of the label and of the dense features in PaddleRec's click models.
const LABEL_FEED: &str = "label";
const DENSE_FEED: &str = "dense_input";
/// What PaddleRec's text calls the label; read over, since a prediction does not need it.
const LABEL: &str = "click";
/// What PaddleRec's text calls the dense features.
const DENSE: &str = "dense_feature";

pub(super) fn read(line: &str, rows: &mut Rows) -> Result<()> {
    for pair in line.split_ascii_whitespace() {
        let (slot, value) = pair
            .split_once(':')
            .with_context(|| format!("`{pair}` is not of the form `slot:value`"))?;
        let feed = match slot {
            LABEL => LABEL_FEED,
            DENSE => DENSE_FEED,
            other => other,
        };
        match rows.column(feed) {
            Some(column) => {
                column.push_text(value).with_context(|| format!("slot `{slot}`"))?;
            }
            None if feed == LABEL_FEED => {}
            None => return Err(rows.unknown(slot)),
        }
    }
    // A sequence may be empty; any other feed without values is a line cut short.
    let absent =
        rows.columns.iter().find(|column| !column.ragged && column.len() == column.start());
    match absent {
        Some(column) if column.name == DENSE_FEED => bail!("slot `{DENSE}` is missing"),
        Some(column) => bail!("slot `{}` is missing", column.name),
        None => Ok(()),
    }
}
