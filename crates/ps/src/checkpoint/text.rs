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

/// The file of a shard of a table.
fn shard_file(server: u32, shard: u64) -> String {
    format!("part-{server:03}-{shard:05}")
}

/// The server and shard of a file's name, without `.gz`.
fn parse_shard_file(name: &str) -> Option<(u32, u64)> {
    let (server, shard) = name.strip_prefix("part-")?.split_once('-')?;
    Some((server.parse().ok()?, shard.parse().ok()?))
}
