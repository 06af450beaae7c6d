//! `manifest.json`: which files make up a checkpoint, and what is in them.
//!
//! Nothing in it is believed before it is checked: names are plain names of the same folder, pieces
//! lie inside their variables and cover them, and the first line is a checksum of the rest.

mod check;

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use bireme_ir::DType;
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::{Picks, SaveMode, StateKind, TableLayout, bad};
use crate::Result;

pub(super) use check::is_plain_name;

/// The file that makes a folder a checkpoint.
pub const MANIFEST: &str = "manifest.json";

/// The version of the format that this program writes, and the newest that it reads.
const VERSION: u32 = 1;

/// No manifest is larger; a file that is was not written by us.
const MAX_BYTES: u64 = 256 << 20;

/// What a checkpoint is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `bireme checkpoint`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Updates that are in the newest save.
    pub step: u64,
    /// When the newest save was finished, in UTC.
    pub written: String,
    /// The saves to apply, oldest first: a full one, then deltas.
    pub saves: Vec<Save>,
}

/// What all servers wrote at one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Save {
    /// Which rows of the tables it has. Dense variables are whole in every save.
    pub mode: SaveMode,
    /// Whether it was asked for everything, not for one table.
    pub complete: bool,
    /// Updates applied when it was made.
    pub step: u64,
    /// When it was finished, in UTC.
    pub written: String,
    /// Servers that wrote it.
    pub servers: u32,
    /// Its files.
    pub files: Vec<FileEntry>,
    /// Dense variables, row-sliced tables among them.
    pub variables: Vec<Variable>,
    /// Keyed tables.
    pub tables: Vec<TableEntry>,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name in the checkpoint's folder.
    pub name: String,
    /// The server that wrote it.
    pub server: u32,
    /// Its size.
    pub bytes: u64,
    /// CRC-32C of all its bytes, eight hexadecimal digits.
    pub crc32c: String,
}

/// A dense variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name in the program.
    pub name: String,
    /// Paddle's name of its type: `float32`.
    pub dtype: String,
    /// Its whole shape.
    pub shape: Vec<usize>,
    /// What the optimizer keeps beside it.
    pub states: Vec<StateEntry>,
    /// Its pieces; they cover it, and may overlap only where servers hold copies.
    pub pieces: Vec<PieceEntry>,
}

impl Variable {
    /// The type of its elements; the manifest was checked when it was read.
    pub(super) fn element(&self) -> DType {
        DType::from_name(&self.dtype).expect("a manifest is checked when it is read")
    }

    /// Its number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A state of a dense variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateEntry {
    /// Its name in the program.
    pub name: String,
    /// Paddle's name of its type.
    pub dtype: String,
    /// Which elements it has.
    pub kind: StateKind,
}

/// Where a piece of a dense variable is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceEntry {
    /// The server that held it.
    pub server: u32,
    /// The file it is in.
    pub file: String,
    /// The name of its tensor there.
    pub tensor: String,
    /// Its first element within the variable.
    pub start: usize,
    /// Its number of elements.
    pub len: usize,
    /// The tensors of its states, in the variable's order.
    pub states: Vec<String>,
}

/// A keyed table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Its number in Paddle's text layout.
    pub id: usize,
    /// Its name, columns and settings.
    #[serde(flatten)]
    pub layout: TableLayout,
    /// Rows in this save.
    pub rows: u64,
    /// How the rows of a delta were picked.
    pub picks: Picks,
    /// Whether every row lies on the server that Paddle's rule gives it.
    pub routed: bool,
    /// Its files, one for each server.
    pub files: Vec<TableFile>,
}

/// The rows of a table that one server had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFile {
    /// The server.
    pub server: u32,
    /// The file.
    pub file: String,
    /// How many rows.
    pub rows: u64,
    /// How many keys whose rows went since the save before, in the tensor `<table>/removed`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub removed: u64,
    /// The file has tensors `<table>/part-00000/…` up to this number of parts.
    pub parts: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Whether there is a checkpoint in a folder.
pub fn is_checkpoint(dir: &Path) -> bool {
    dir.join(MANIFEST).is_file()
}

/// Reads what is in a checkpoint.
///
/// # Errors
/// When there is none, or its manifest is damaged or of a newer version.
pub fn read_manifest(dir: &Path) -> Result<Manifest> {
    let path = dir.join(MANIFEST);
    let bytes = match fs::metadata(&path) {
        Ok(about) if about.len() > MAX_BYTES => {
            return Err(bad(&path, "it is too large for a manifest: is it the right folder?"));
        }
        _ => fs::read(&path),
    };
    let bytes = bytes.map_err(|error| match error.kind() {
        ErrorKind::NotFound if !dir.exists() => bad(dir, "there is no such folder"),
        ErrorKind::NotFound => {
            let problem = "there is no `manifest.json` in it: it is no checkpoint, or a save into \
                           it never finished; load an earlier one";
            bad(dir, problem)
        }
        _ => bad(&path, format!("cannot read it: {error}")),
    })?;
    parse(&bytes).map_err(|problem| bad(&path, problem))
}

impl Manifest {
    /// Reads the contents of a manifest; any bytes are one or an error.
    ///
    /// # Errors
    /// When it is damaged or of a newer version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Manifest> {
        parse(bytes).map_err(|problem| bad(Path::new(MANIFEST), problem))
    }
}

fn parse(bytes: &[u8]) -> std::result::Result<Manifest, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| "it is damaged (not text): load an earlier checkpoint".to_owned())?;
    check::checksum(text)?;
    let head: Head = serde_json::from_str(text)
        .map_err(|error| format!("it is damaged ({error}): load an earlier checkpoint"))?;
    if head.format != "bireme checkpoint" {
        return Err("it is not the manifest of a checkpoint: is it the right folder?".to_owned());
    }
    if head.version > VERSION {
        let version = head.version;
        return Err(format!(
            "it has version {version} of the format, this program reads versions up to {VERSION}: \
             use a newer one"
        ));
    }
    let manifest: Manifest = serde_json::from_str(text)
        .map_err(|error| format!("it is damaged ({error}): load an earlier checkpoint"))?;
    check::check(&manifest)
        .map_err(|problem| format!("it is damaged: {problem}: load an earlier checkpoint"))?;
    Ok(manifest)
}

/// What every version of a manifest has.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

/// Puts a manifest in its place, at one instant.
pub(super) fn write(disk: &Disk<'_>, dir: &Path, saves: Vec<Save>) -> Result<()> {
    let newest = saves.last().expect("a checkpoint has a save");
    let (step, written) = (newest.step, newest.written.clone());
    let format = "bireme checkpoint".to_owned();
    let manifest = Manifest { format, version: VERSION, step, written, saves };
    let text = serde_json::to_string_pretty(&manifest).expect("a manifest is plain data");
    let text = check::with_checksum(&text);
    let path = dir.join(MANIFEST);
    let aside = dir.join(".manifest.json.tmp");
    let written = (|| {
        let mut file = disk.create(&aside)?;
        file.write_all(text.as_bytes())?;
        disk.sync(&file)?;
        disk.rename(&aside, &path)?;
        disk.sync_folder(dir)
    })();
    written.map_err(|error| bad(&path, format!("cannot write it: {error}")))
}
