//! Writing the text layout.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::disk::Disk;
use super::super::{Holdings, Rows, SaveMode, ServerIndex, Sharding, bad};
use super::dense::{DensePiece, write_dense};
use super::{LAYOUT, number, parse_shard_file, shard_file, table_folder};
use crate::{Error, Result};

/// Bytes of lines that are gathered before they are appended to their files: more files than may be
/// open at once are written side by side.
const GATHERED: usize = 64 << 20;

/// What a server wrote as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TextShard {
    /// The server.
    pub server: ServerIndex,
    /// Updates applied before it began.
    pub step: u64,
    /// Whether everything was asked for, not one table.
    pub complete: bool,
    /// The number of the folder of dense values.
    pub(super) dense_table: usize,
    /// Its dense values, in the order of the lines.
    pub(super) dense: Vec<DensePiece>,
    /// Tables: number, name, shards, rows written.
    pub(super) tables: Vec<(usize, String, u64, u64)>,
}

/// `layout.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Layout {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) step: u64,
    /// The number of the folder of dense values.
    pub(super) dense_table: usize,
    /// What each server wrote.
    pub(super) servers: Vec<TextShard>,
}

/// Writes what a server holds as text into `dir`.
///
/// # Errors
/// When a file cannot be written.
pub fn export_text(
    holdings: &dyn Holdings,
    dir: &Path,
    server: ServerIndex,
    mode: SaveMode,
) -> Result<TextShard> {
    export_selected(holdings, dir, server, mode, None)
}

/// As [`export_text`], of one table if one is named.
pub(crate) fn export_selected(
    holdings: &dyn Holdings,
    dir: &Path,
    server: ServerIndex,
    mode: SaveMode,
    only: Option<&str>,
) -> Result<TextShard> {
    super::super::abandon(holdings);
    let written = export(holdings, dir, server, mode, only);
    if written.is_err() {
        super::super::abandon(holdings);
    }
    written
}

fn export(
    holdings: &dyn Holdings,
    dir: &Path,
    server: ServerIndex,
    mode: SaveMode,
    only: Option<&str>,
) -> Result<TextShard> {
    let disk = Disk::of(holdings);
    let step = holdings.step();
    let tables = holdings.tables();
    let dense_table = tables.len();
    let mut dense = Vec::new();
    if only.is_none() {
        let folder = dir.join(table_folder(dense_table));
        dense = write_dense(&disk, holdings, &folder, server)?;
    }
    let mut written = Vec::new();
    for (id, table) in tables.iter().enumerate() {
        let layout = table.layout();
        if only.is_some_and(|only| only != layout.name) {
            continue;
        }
        let folder = dir.join(table_folder(id));
        let rows = write_table(&disk, &**table, &folder, server, mode)?;
        written.push((id, layout.name, layout.shards, rows));
    }
    if let (Some(only), []) = (only, written.as_slice()) {
        return Err(Error::Request(format!("there is no table `{only}` on this server")));
    }
    let complete = only.is_none();
    Ok(TextShard { server, step, complete, dense_table, dense, tables: written })
}

/// Writes `layout.json` when all servers have written their part; one table alone needs none.
///
/// # Errors
/// When a server is missing, or the file cannot be written.
pub fn finish_text(dir: &Path, mut shards: Vec<TextShard>) -> Result<()> {
    shards.sort_by_key(|shard| shard.server.index);
    let count = shards.first().map_or(0, |shard| shard.server.count);
    let there: Vec<u32> = shards.iter().map(|shard| shard.server.index).collect();
    if count == 0 || there != (0..count).collect::<Vec<u32>>() {
        let problem =
            format!("cannot finish the save: of {count} servers only {there:?} took part");
        return Err(Error::Request(problem));
    }
    if shards.iter().any(|shard| !shard.complete) {
        return Ok(());
    }
    let layout = Layout {
        format: "bireme text".to_owned(),
        version: 1,
        step: shards.iter().map(|shard| shard.step).max().unwrap_or(0),
        dense_table: shards[0].dense_table,
        servers: shards,
    };
    let text = serde_json::to_string_pretty(&layout).expect("a layout is plain data");
    let write =
        bireme_engine::io::write_file(dir.join(LAYOUT), |out| out.write_all(text.as_bytes()));
    Ok(write?)
}

/// Writes a file for each shard of this server; returns the number of rows.
fn write_table(
    disk: &Disk<'_>,
    table: &dyn Rows,
    folder: &Path,
    server: ServerIndex,
    mode: SaveMode,
) -> Result<u64> {
    let layout = table.layout();
    let record = layout.record_width();
    let sharding = Sharding::new(layout.shards, server.count);
    let mine = sharding.shards_of(server.index);
    let mut files = ShardFiles::begin(disk, folder, server.index, mine.clone())?;
    let mut rows = 0;
    let mut numbers = Vec::new();
    for part in 0..table.parts() {
        table.read_part(part, mode, &mut |keys, records| {
            for (key, record) in keys.iter().zip(records.chunks_exact(record)) {
                let shard = sharding.shard(*key);
                if !mine.contains(&shard) {
                    return Err(Error::Config(format!(
                        "key {key} of table `{}` belongs to server {}: Paddle's layout cannot say \
                         that server {} has it",
                        layout.name,
                        sharding.server(*key),
                        server.index
                    )));
                }
                numbers.clear();
                table.write_text(record, &mut numbers);
                files.line(shard, *key, &numbers);
                rows += 1;
            }
            Ok(())
        })?;
        files.flush_if_large()?;
    }
    files.finish()?;
    Ok(rows)
}

/// The files of a server's shards, written aside.
struct ShardFiles<'a> {
    disk: &'a Disk<'a>,
    folder: &'a Path,
    server: u32,
    shards: std::ops::Range<u64>,
    lines: BTreeMap<u64, String>,
    gathered: usize,
}

impl<'a> ShardFiles<'a> {
    fn begin(
        disk: &'a Disk<'a>,
        folder: &'a Path,
        server: u32,
        shards: std::ops::Range<u64>,
    ) -> Result<ShardFiles<'a>> {
        let made = disk.make_folder(folder);
        made.map_err(|error| bad(folder, format!("cannot make the folder: {error}")))?;
        let files =
            ShardFiles { disk, folder, server, shards, lines: BTreeMap::new(), gathered: 0 };
        // A save that was cut off may have left halves of files.
        for shard in files.shards.clone() {
            let aside = files.aside(shard);
            disk.create(&aside).map_err(|error| cannot_write(&aside, &error))?;
        }
        Ok(files)
    }

    fn aside(&self, shard: u64) -> PathBuf {
        self.folder.join(format!(".{}.tmp", shard_file(self.server, shard)))
    }

    fn line(&mut self, shard: u64, key: u64, numbers: &[f32]) {
        let lines = self.lines.entry(shard).or_default();
        let before = lines.len();
        lines.push_str(&key.to_string());
        for number in numbers {
            lines.push(' ');
            number::push(lines, *number);
        }
        lines.push('\n');
        self.gathered += lines.len() - before;
    }

    fn flush_if_large(&mut self) -> Result<()> {
        if self.gathered >= GATHERED { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        for (shard, lines) in std::mem::take(&mut self.lines) {
            let path = self.aside(shard);
            let written = self.disk.append(&path).and_then(|mut f| f.write_all(lines.as_bytes()));
            written.map_err(|error| cannot_write(&path, &error))?;
        }
        self.gathered = 0;
        Ok(())
    }

    /// Gives the files their names, and removes those that earlier saves have left of these shards.
    fn finish(mut self) -> Result<()> {
        self.flush()?;
        for shard in self.shards.clone() {
            let (from, to) = (self.aside(shard), self.folder.join(shard_file(self.server, shard)));
            let named = self
                .disk
                .append(&from)
                .and_then(|file| self.disk.sync(&file))
                .and_then(|()| self.disk.rename(&from, &to));
            named.map_err(|error| cannot_write(&to, &error))?;
        }
        let unreadable = |error| bad(self.folder, format!("cannot list the folder: {error}"));
        for entry in fs::read_dir(self.folder).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
            let packed = name.strip_suffix(".gz");
            let Some((server, shard)) = parse_shard_file(packed.unwrap_or(&name)) else { continue };
            let old = self.shards.contains(&shard) && (server != self.server || packed.is_some());
            if old {
                self.disk.remove(&self.folder.join(&name)).map_err(unreadable)?;
            }
        }
        self.disk.sync_folder(self.folder).map_err(unreadable)
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    bad(path, format!("cannot write it: {error}"))
}
