//! Saving and loading as one request to every server: what the two sides of the protocol call.
//!
//! What a server answers to a request to save are bytes that mean nothing to the protocol; whoever
//! asked hands those of all servers to [`complete_request`].

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{
    Holdings, Loaded, MANIFEST, SaveMode, SavedShard, ServerIndex, TextShard, is_checkpoint,
};
use super::{finish, finish_text, load, load_table, save, save_table, text};
use crate::{Error, Result};

/// How a save is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A checkpoint: safetensors with a manifest.
    Checkpoint,
    /// Paddle's text layout.
    Text,
}

/// What a server answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written {
    Checkpoint(SavedShard),
    Text(TextShard),
}

/// On a server: writes its share into `dir`, everything or one table. Returns its answer.
///
/// # Errors
/// When it cannot be written, or there is no such table.
pub fn save_request(
    holdings: &dyn Holdings,
    dir: &Path,
    server: ServerIndex,
    mode: SaveMode,
    table: Option<&str>,
    form: Form,
) -> Result<Vec<u8>> {
    let written = match (form, table) {
        (Form::Checkpoint, None) => Written::Checkpoint(save(holdings, dir, server, mode)?),
        (Form::Checkpoint, Some(table)) => {
            Written::Checkpoint(save_table(holdings, dir, server, mode, table)?)
        }
        (Form::Text, table) => {
            Written::Text(text::export_selected(holdings, dir, server, mode, table)?)
        }
    };
    Ok(serde_json::to_vec(&written).expect("an answer is plain data"))
}

/// On the one who asked: completes the save when all servers have answered.
///
/// # Errors
/// When an answer makes no sense or one is missing, when files cannot be seen from here, or when
/// the manifest cannot be written. Servers should then be told to [`super::abandon`] the save, and
/// to [`super::commit`] it otherwise.
pub fn complete_request(dir: &Path, answers: &[Vec<u8>]) -> Result<()> {
    let (mut shards, mut texts) = (Vec::new(), Vec::new());
    for answer in answers {
        let written = serde_json::from_slice(answer)
            .map_err(|error| Error::Request(format!("a server's answer is damaged: {error}")))?;
        match written {
            Written::Checkpoint(shard) => shards.push(shard),
            Written::Text(shard) => texts.push(shard),
        }
    }
    match (shards.is_empty(), texts.is_empty()) {
        (false, false) => {
            Err(Error::Request("servers were asked for different layouts".to_owned()))
        }
        (true, false) => finish_text(dir, texts),
        _ => finish(dir, shards),
    }
}

/// On a server: loads its share of `dir`, which holds a checkpoint or Paddle's text layout.
///
/// # Errors
/// As [`load`] and [`super::import_text`].
pub fn load_request(
    dir: &Path,
    holdings: &dyn Holdings,
    server: ServerIndex,
    table: Option<&str>,
) -> Result<Loaded> {
    if is_text(dir) {
        return text::import_selected(dir, holdings, server, table);
    }
    match table {
        None => load(dir, holdings, server),
        Some(table) => load_table(dir, holdings, server, table),
    }
}

/// Whether `dir` holds Paddle's text layout, and no checkpoint.
pub fn is_text(dir: &Path) -> bool {
    !is_checkpoint(dir) && dir.join("000").is_dir()
}

/// A number of the checkpoint in `dir` that is the same for all who load it, from wherever they see
/// it, and another one for any other; never 0.
pub fn origin(dir: &Path) -> u64 {
    // The manifest has the checksums of all files. Paddle's text layout has none.
    let manifest = std::fs::read(dir.join(MANIFEST)).unwrap_or_default();
    1 << 32 | u64::from(crc32c::crc32c(&manifest))
}
