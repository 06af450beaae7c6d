//! Saving and loading as one request to every server: what the two sides of the protocol call.
//!
//! What a server answers to a request to save are bytes that mean nothing to the protocol; whoever
//! asked hands those of all servers to [`complete_request`].

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{
    Holdings, Loaded, MANIFEST, SaveMode, SavedShard, ServerIndex, TextShard, bad, is_checkpoint,
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
///
/// # Errors
/// When it cannot be read.
pub fn origin(dir: &Path) -> Result<u64> {
    let failed = |path: &Path, error: std::io::Error| bad(path, format!("cannot read it: {error}"));
    let manifest = dir.join(MANIFEST);
    // The manifest has the checksums of all files.
    let told_apart = match is_text(dir) {
        false => std::fs::read(&manifest).map_err(|error| failed(&manifest, error))?,
        true => text::names_and_sizes(dir).map_err(|error| failed(dir, error))?.into_bytes(),
    };
    Ok(1 << 32 | u64::from(crc32c::crc32c(&told_apart)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_told_apart_also_in_the_text_layout() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            origin(dir.path()).unwrap()
        };
        let text = write("000/part-000-00000", "1 2\n");
        let longer = write("000/part-000-00000", "1 2\n3 4\n");
        assert_eq!(write("000/.part-000-00001.tmp", "not complete"), longer);
        let more = write("001/part-000-00000", "1 2\n");
        let manifest = write(MANIFEST, "{}");
        let all = [text, longer, more, manifest];
        assert!(all.iter().enumerate().all(|(at, origin)| !all[..at].contains(origin)), "{all:?}");
        // A manifest that cannot be read is no text layout.
        std::fs::remove_file(dir.path().join(MANIFEST)).unwrap();
        std::fs::remove_dir_all(dir.path().join("000")).unwrap();
        let error = origin(dir.path()).unwrap_err().to_string();
        assert!(error.contains(MANIFEST), "{error}");
    }
}
