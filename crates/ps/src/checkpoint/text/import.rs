//! Reading the text layout, Paddle's own or ours.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bireme_ir::DType;
use flate2::read::MultiGzDecoder;

use super::super::{Holdings, Loaded, Rows, ServerIndex, Sharding, bad};
use super::dense::{dense_file, fill_dense, read_dense};
use super::export::Layout;
use super::{LAYOUT, number, parse_shard_file, table_folder};
use crate::{Error, Result};

/// Rows that are handed to a table at a time.
const ROWS_AT_ONCE: usize = 8 << 10;

/// A file, unpacked if its name says that it is packed.
pub(super) enum Reader {
    Plain(File),
    Packed(Box<MultiGzDecoder<BufReader<File>>>),
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Reader> {
        let file =
            File::open(path).map_err(|error| bad(path, format!("cannot read it: {error}")))?;
        Ok(match path.extension().is_some_and(|end| end == "gz") {
            true => Reader::Packed(Box::new(MultiGzDecoder::new(BufReader::new(file)))),
            false => Reader::Plain(file),
        })
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Reader::Plain(file) => file.read(buffer),
            Reader::Packed(file) => file.read(buffer),
        }
    }
}

/// Loads a server's share of a folder in Paddle's text layout, written by any number of servers.
/// Tables take their rows from the folder of their number. Dense values are read if `layout.json`
/// says which variables they are; Paddle itself does not write it, and its dense values come from
/// the variable files that it writes beside the tables.
///
/// # Errors
/// When files are missing, there twice, damaged, or of another table.
pub fn import_text(dir: &Path, holdings: &dyn Holdings, server: ServerIndex) -> Result<Loaded> {
    import_selected(dir, holdings, server, None)
}

/// As [`import_text`], of one table if one is named.
pub(crate) fn import_selected(
    dir: &Path,
    holdings: &dyn Holdings,
    server: ServerIndex,
    only: Option<&str>,
) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    let mut tables = Vec::new();
    for (id, table) in holdings.tables().into_iter().enumerate() {
        let layout = table.layout();
        if only.is_none_or(|only| only == layout.name) {
            let files = find_shards(&dir.join(table_folder(id)), layout.shards)?;
            tables.push((table, files));
        }
    }
    match (only, read_layout(dir)?) {
        (Some(only), _) if tables.is_empty() => {
            return Err(Error::Request(format!("there is no table `{only}` on this server")));
        }
        (Some(_), _) => {}
        (None, Some(layout)) => {
            loaded.step = layout.step;
            loaded.pieces = import_dense(dir, holdings, &layout)?;
            holdings.set_step(layout.step);
        }
        (None, None) => loaded.notes.push(
            "there is no `layout.json`, so the dense values were not read: load them from the \
             model's variable files"
                .to_owned(),
        ),
    }
    for (table, files) in &tables {
        let layout = table.layout();
        table.clear();
        let mut rows = 0;
        let mine = Sharding::new(layout.shards, server.count).shards_of(server.index);
        for (shard, path) in files.range(mine) {
            rows += import_shard(path, &**table, *shard, &|| holdings.progressed())?;
        }
        table.mark_loaded();
        loaded.rows.insert(layout.name, rows);
    }
    for note in &loaded.notes {
        tracing::warn!("`{}`: {note}", dir.display());
    }
    Ok(loaded)
}

fn read_layout(dir: &Path) -> Result<Option<Layout>> {
    let path = dir.join(LAYOUT);
    if !path.exists() {
        return Ok(None);
    }
    let bytes = fs::read(&path).map_err(|error| bad(&path, format!("cannot read it: {error}")))?;
    let layout: Layout = serde_json::from_slice(&bytes)
        .map_err(|error| bad(&path, format!("it is damaged ({error}): load another save")))?;
    if layout.format != "bireme text" || layout.version != 1 {
        return Err(bad(&path, "it is not of version 1 of this layout: use a newer program"));
    }
    Ok(Some(layout))
}

fn import_dense(dir: &Path, holdings: &dyn Holdings, layout: &Layout) -> Result<usize> {
    let pieces: Vec<_> =
        holdings.pieces().into_iter().filter(|piece| piece.dtype == DType::F32).collect();
    let all = || layout.servers.iter().flat_map(|shard| &shard.dense);
    for piece in &pieces {
        let name = &piece.variable;
        let Some(saved) = all().find(|saved| saved.variable == *name) else {
            return Err(bad(dir, format!("it has no variable `{name}`: load one of this model")));
        };
        if saved.shape != piece.shape {
            let problem = format!(
                "variable `{name}` is {:?} there and {:?} in this program: load one of this model",
                saved.shape, piece.shape
            );
            return Err(bad(dir, problem));
        }
    }
    let folder = dir.join(table_folder(layout.dense_table));
    let mut overlaps = Vec::new();
    for shard in &layout.servers {
        let path = dense_file(&folder, shard.server.index);
        overlaps.extend(read_dense(&path, &shard.dense, &pieces)?);
    }
    for piece in &pieces {
        let mut reached = piece.start;
        let mut parts: Vec<_> = overlaps.iter().filter(|o| o.piece.name == piece.name).collect();
        parts.sort_by_key(|overlap| overlap.start);
        for part in parts.iter().filter(|part| part.values.len() == part.len()) {
            if part.start <= reached {
                reached = reached.max(part.start + part.values.len());
            }
        }
        if reached < piece.start + piece.len {
            let name = &piece.variable;
            return Err(bad(dir, format!("elements of `{name}` from {reached} on are missing")));
        }
    }
    fill_dense(holdings, &overlaps)?;
    Ok(pieces.len())
}

/// The files of a table's shards.
fn find_shards(folder: &Path, shards: u64) -> Result<BTreeMap<u64, PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            bad(folder, "there is no such folder: is it a save of this model in Paddle's layout?")
        }
        _ => bad(folder, format!("cannot list the folder: {error}")),
    })?;
    let mut files: BTreeMap<u64, PathBuf> = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|error| bad(folder, format!("cannot list it: {error}")))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        let Some((_, shard)) = parse_shard_file(plain) else {
            let problem = "it is no file of a table's shard (`part-SSS-FFFFF`): is the folder \
                           that of dense values?";
            return Err(bad(&entry.path(), problem));
        };
        if shard >= shards {
            let problem = format!("it is shard {shard}, the table has {shards} (`shard_num`)");
            return Err(bad(&entry.path(), problem));
        }
        if let Some(other) = files.insert(shard, entry.path()) {
            let other = other.display();
            return Err(bad(
                &entry.path(),
                format!("shard {shard} is in `{other}` too: remove one"),
            ));
        }
    }
    if files.len() as u64 != shards {
        let problem = format!(
            "it has files of {} shards, the table has {shards} (`shard_num`): files are missing, \
             or it was saved with another `shard_num`",
            files.len()
        );
        return Err(bad(folder, problem));
    }
    Ok(files)
}

fn import_shard(path: &Path, table: &dyn Rows, shard: u64, progressed: &dyn Fn()) -> Result<u64> {
    let layout = table.layout();
    let record = layout.record_width();
    let mut lines = BufReader::with_capacity(1 << 18, Reader::open(path)?);
    let (mut keys, mut records) = (Vec::new(), Vec::new());
    let mut rows = 0;
    let mut line = String::new();
    for number in 1usize.. {
        line.clear();
        let read = lines.read_line(&mut line);
        if read.map_err(|error| bad(path, format!("line {number}: cannot read it: {error}")))? == 0
        {
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        let start = records.len();
        records.resize(start + record, 0.0);
        let key = parse_row(&line, table, &mut records[start..]);
        let key = key.map_err(|problem| bad(path, format!("line {number}: {problem}")))?;
        if key % layout.shards.max(1) != shard {
            let problem = format!("line {number}: key {key} does not belong to shard {shard}");
            return Err(bad(path, problem));
        }
        keys.push(key);
        rows += 1;
        if keys.len() == ROWS_AT_ONCE {
            table.restore(&keys, &records)?;
            progressed();
            keys.clear();
            records.clear();
        }
    }
    table.restore(&keys, &records)?;
    Ok(rows)
}

fn parse_row(line: &str, table: &dyn Rows, record: &mut [f32]) -> std::result::Result<u64, String> {
    let mut words = line.split_ascii_whitespace();
    let word = words.next().unwrap_or_default();
    let key = word.parse().map_err(|_| format!("`{}` is not a key", word.escape_debug()))?;
    table.blank(key, record);
    table.read_text(&number::parse(&mut words)?, record)?;
    Ok(key)
}
