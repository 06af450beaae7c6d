//! Paddle's text layout: `TTT/part-SSS-FFFFF` for the shards of a table, a line for each row, and
//! `TTT/part-SSS` for dense values, a line for each element.
//!
//! Numbers are written so that they read back exactly; files with Paddle's six digits, and those
//! compressed with gzip, are read too. What the lines cannot say (which variables the dense values
//! are) is in `layout.json` beside them.

mod dense;
mod export;
mod import;
mod number;

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::path::Path;

pub use export::{TextShard, export_text, finish_text};
pub use import::import_text;

pub(super) use export::export_selected;
pub(super) use import::import_selected;

/// The file beside the tables' folders.
const LAYOUT: &str = "layout.json";

/// The folder of a table.
fn table_folder(id: usize) -> String {
    format!("{id:03}")
}

/// The files in the folders of the tables, a line each in the order of their names, with their sizes:
/// the layout has no checksums. Hidden ones are the file system's, or not complete.
pub(super) fn names_and_sizes(dir: &Path) -> std::io::Result<String> {
    let is_hidden = |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
    let mut lines = BTreeSet::new();
    for folder in std::fs::read_dir(dir)? {
        let folder = folder?;
        if !folder.file_type()?.is_dir() || is_hidden(&folder) {
            continue;
        }
        for file in std::fs::read_dir(folder.path())? {
            let file = file?;
            if is_hidden(&file) {
                continue;
            }
            let (folder, name) = (folder.file_name(), file.file_name());
            let size = file.metadata()?.len();
            lines.insert(format!("{} {} {size}\n", folder.display(), name.display()));
        }
    }
    Ok(lines.into_iter().collect())
}

/// The file of a shard of a table.
fn shard_file(server: u32, shard: u64) -> String {
    format!("part-{server:03}-{shard:05}")
}

/// The server and shard of a file's name, without `.gz`.
fn parse_shard_file(name: &str) -> Option<(u32, u64)> {
    let (server, shard) = name.strip_prefix("part-")?.split_once('-')?;
    Some((server.parse().ok()?, shard.parse().ok()?))
}
