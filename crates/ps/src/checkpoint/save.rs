//! Writing a checkpoint: each server its files, and at the end the manifest.
//!
//! A piece with its states, and some rows of a table, is copied under one hold of its lock and
//! written after it, so that training waits for memory and never for the disk. At most [`CHUNK`]
//! bytes of rows are in memory twice, and a large piece only where it changes meanwhile.

mod finish;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bireme_engine::tensor::Tensor;
use bireme_ir::DType;
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::manifest::FileEntry;
use super::tensor_file::{TensorWriter, part_name, removed_name};
use super::{Holdings, Picks, Piece, Rows, SaveMode, ServerIndex, Sharding, StateKind};
use super::{TableLayout, bad};
use crate::{Error, Result};

pub use finish::finish;
#[cfg(test)]
pub(super) use finish::finish_on;

/// Bytes of rows that are gathered before they are written as a part.
const CHUNK: usize = 64 << 20;

/// Bytes from which on a piece is copied and written in parts of 16 MiB.
pub(super) const LARGE: usize = 256 << 20;

/// What a server wrote; whoever asked gives it to [`finish`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedShard {
    /// The server.
    pub server: ServerIndex,
    /// What was asked for.
    pub mode: SaveMode,
    /// Whether everything was asked for, not one table.
    pub complete: bool,
    /// Updates applied before it began.
    pub step: u64,
    /// Files that are complete and have their names.
    pub files: Vec<FileEntry>,
    /// Dense pieces.
    pub pieces: Vec<SavedPiece>,
    /// Keyed tables.
    pub tables: Vec<SavedTable>,
}

/// A dense piece that a server wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPiece {
    /// The whole variable.
    pub variable: String,
    /// Paddle's name of its type.
    pub dtype: String,
    /// Its whole shape.
    pub shape: Vec<usize>,
    /// The first element of the piece.
    pub start: usize,
    /// Its number of elements.
    pub len: usize,
    /// The file and the tensor in it.
    pub file: String,
    /// The tensor in the file.
    pub tensor: String,
    /// States: name, type, kind, tensor.
    pub states: Vec<(String, String, StateKind, String)>,
}

/// A table that a server wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedTable {
    /// Its number.
    pub id: usize,
    /// What its rows are made of.
    pub layout: TableLayout,
    /// How it picks rows of a delta.
    pub picks: Picks,
    /// The file it is in.
    pub file: String,
    /// Rows written.
    pub rows: u64,
    /// Keys written whose rows went.
    #[serde(default)]
    pub removed: u64,
    /// Parts in the file.
    pub parts: u32,
    /// Whether every key is one that Paddle's rule gives this server.
    pub routed: bool,
}

/// Writes what a server holds into `dir`, while training goes on. The checkpoint that is there
/// stays the valid one until [`finish`]; only [`commit`] after that makes rows count as saved.
///
/// # Errors
/// When a file cannot be written, or the holdings contradict themselves; the save is then
/// [abandoned](abandon).
pub fn save(
    holdings: &dyn Holdings,
    dir: &Path,
    server: ServerIndex,
    mode: SaveMode,
) -> Result<SavedShard> {
    save_on(&Disk::of(holdings), holdings, dir, server, mode, None)
}

/// As [`save`], of one table alone.
///
/// # Errors
/// As [`save`], and when there is no such table.
pub fn save_table(
    holdings: &dyn Holdings,
    dir: &Path,
    server: ServerIndex,
    mode: SaveMode,
    table: &str,
) -> Result<SavedShard> {
    save_on(&Disk::of(holdings), holdings, dir, server, mode, Some(table))
}

/// The last save that this server took part in is part of a checkpoint: the next delta has what
/// changed since.
pub fn commit(holdings: &dyn Holdings) {
    holdings.tables().iter().for_each(|table| table.commit_save());
}

/// The last save that this server took part in came to nothing, if it was not committed: the next
/// delta has what that one had.
pub fn abandon(holdings: &dyn Holdings) {
    holdings.tables().iter().for_each(|table| table.abandon_save());
}

pub(super) fn save_on(
    disk: &Disk<'_>,
    holdings: &dyn Holdings,
    dir: &Path,
    server: ServerIndex,
    mode: SaveMode,
    only: Option<&str>,
) -> Result<SavedShard> {
    // Nobody said that the one before was completed.
    abandon(holdings);
    let saved = write_all(disk, holdings, dir, server, mode, only);
    if saved.is_err() {
        abandon(holdings);
    }
    saved
}

fn write_all(
    disk: &Disk<'_>,
    holdings: &dyn Holdings,
    dir: &Path,
    server: ServerIndex,
    mode: SaveMode,
    only: Option<&str>,
) -> Result<SavedShard> {
    let tables: Vec<_> = holdings.tables().into_iter().enumerate().collect();
    let chosen: Vec<_> = match only {
        None => tables,
        Some(name) => tables.into_iter().filter(|(_, table)| table.layout().name == name).collect(),
    };
    if let (Some(name), []) = (only, chosen.as_slice()) {
        return Err(Error::Request(format!("there is no table `{name}` on this server")));
    }
    disk.make_folder(dir).map_err(|error| bad(dir, format!("cannot make the folder: {error}")))?;
    let stem = new_stem(disk, dir, server)?;
    let mut saved = SavedShard {
        server,
        mode,
        complete: only.is_none(),
        step: holdings.step(),
        files: Vec::new(),
        pieces: Vec::new(),
        tables: Vec::new(),
    };
    if only.is_none() {
        let name = format!("{stem}.safetensors");
        write_pieces(disk, holdings, dir, name, &mut saved)?;
    }
    for (id, table) in chosen {
        let name = format!("{stem}-table-{id:03}.safetensors");
        write_table(disk, &*table, id, dir, name, &mut saved)?;
    }
    let synced = disk.sync_folder(dir);
    synced.map_err(|error| bad(dir, format!("cannot flush it to disk: {error}")))?;
    Ok(saved)
}

/// The beginning of the names of this save's files, `server-000-of-002-000007`: the last number is
/// one above all of this server that are there, so that no file of an earlier save is touched. What a save of this
/// server left behind when it was cut off is removed.
fn new_stem(disk: &Disk<'_>, dir: &Path, server: ServerIndex) -> Result<String> {
    let unreadable = |error| bad(dir, format!("cannot list the folder: {error}"));
    let mine = format!("server-{:03}-of-", server.index);
    let mut newest = 0u64;
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        let half = name.strip_prefix('.').filter(|name| name.ends_with(".tmp"));
        if half.is_some_and(|name| name.starts_with(&mine)) {
            disk.remove(&dir.join(&name)).map_err(unreadable)?;
        }
        if name.starts_with(&mine) {
            newest = newest.max(generation(&name).unwrap_or(0));
        }
    }
    Ok(format!("{mine}{:03}-{:06}", server.count, newest + 1))
}

/// The number of the save that a file with this name is of, if it is a server's.
fn generation(name: &str) -> Option<u64> {
    let name = name.strip_suffix(".safetensors")?.strip_prefix("server-")?;
    let mut words = name.split('-');
    let (_, of, _) = (words.next()?, words.next()?, words.next()?);
    if of != "of" {
        return None;
    }
    words.next()?.parse().ok()
}

/// Element sizes, largest first: tensors are written in this order, which keeps them aligned.
const SIZES: [usize; 4] = [8, 4, 2, 1];

fn write_pieces(
    disk: &Disk<'_>,
    holdings: &dyn Holdings,
    dir: &Path,
    name: String,
    saved: &mut SavedShard,
) -> Result<()> {
    let pieces = holdings.pieces();
    check_names(&pieces)?;
    let tensors = |piece: &Piece| {
        let states = piece.states.iter().map(|state| state_name(piece, &state.variable));
        std::iter::once(piece.name.clone()).chain(states).collect::<Vec<_>>()
    };
    let all = pieces.iter().flat_map(&tensors);
    let room = all.map(|name| TensorWriter::room_for(&name, bireme_engine::tensor::MAX_RANK)).sum();
    let mut file = TensorWriter::begin(disk, dir, name.clone(), room)?;
    let largest = |piece: &Piece| {
        let states = piece.states.iter().map(|state| state.dtype.size());
        states.chain([piece.dtype.size()]).max()
    };
    let mut waiting: Vec<(String, Tensor)> = Vec::new();
    for size in SIZES {
        for piece in pieces.iter().filter(|piece| largest(piece) == Some(size)) {
            if piece.len.saturating_mul(piece.dtype.size()) > LARGE {
                write_in_parts(holdings, piece, &tensors(piece), &mut file, &mut waiting)?;
            } else {
                let values = copy_piece(holdings, piece)?;
                waiting.extend(tensors(piece).into_iter().zip(values));
            }
            write_sized(&mut file, &mut waiting, size)?;
            saved.pieces.push(describe(piece, &name));
        }
        write_sized(&mut file, &mut waiting, size)?;
    }
    saved.files.push(file.finish(saved.server.index)?);
    Ok(())
}

/// Writes those of the tensors whose elements have this size.
fn write_sized(
    file: &mut TensorWriter<'_>,
    waiting: &mut Vec<(String, Tensor)>,
    size: usize,
) -> Result<()> {
    for (name, tensor) in waiting.extract_if(.., |(_, tensor)| tensor.dtype().size() == size) {
        file.tensor(&name, tensor.dtype(), &tensor.dims(), tensor.as_bytes())?;
    }
    Ok(())
}

fn state_name(piece: &Piece, state: &str) -> String {
    format!("{}/{state}", piece.name)
}

fn check_names(pieces: &[Piece]) -> Result<()> {
    let mut names = BTreeSet::new();
    for piece in pieces {
        let states = piece.states.iter().map(|state| state_name(piece, &state.variable));
        for name in states.chain([piece.name.clone()]) {
            if !names.insert(name.clone()) {
                let problem = format!("two values of this server are called `{name}`");
                return Err(Error::Config(problem));
            }
        }
    }
    Ok(())
}

/// A piece and its states at one instant.
fn copy_piece(holdings: &dyn Holdings, piece: &Piece) -> Result<Vec<Tensor>> {
    let mut copies = Vec::new();
    holdings.read_piece(&piece.name, &mut |values| {
        check_values(piece, values)?;
        copies.extend(values.iter().map(|value| copy(value)));
        Ok(())
    })?;
    Ok(copies)
}

/// Writes a piece and its states of the same element size as they are shown: a row-sliced table may
/// be too large to be in memory twice. States of other sizes are few numbers and wait.
pub(super) fn write_in_parts(
    holdings: &dyn Holdings,
    piece: &Piece,
    names: &[String],
    file: &mut TensorWriter<'_>,
    waiting: &mut Vec<(String, Tensor)>,
) -> Result<()> {
    let size = piece.dtype.size();
    holdings.read_piece(&piece.name, &mut |values| check_values(piece, values))?;
    holdings.read_piece_in_parts(&piece.name, &mut |part| {
        let name = &names[part.value];
        if part.dtype.size() == size {
            if part.start == 0 {
                file.begin_tensor(name, part.dtype, &part.dims);
            }
            return file.put(part.bytes);
        }
        if part.start == 0 {
            waiting.push((name.clone(), Tensor::zeros(part.dtype, part.dims)));
        }
        let (_, tensor) = waiting.last_mut().expect("pushed at its start");
        let to = &mut tensor.as_mut_bytes()[part.start..part.start + part.bytes.len()];
        to.copy_from_slice(part.bytes);
        Ok(())
    })
}

fn copy(value: &Tensor) -> Tensor {
    let mut copy = Tensor::empty(value.dtype());
    copy.copy_from(value);
    copy
}

fn check_values(piece: &Piece, values: &[&Tensor]) -> Result<()> {
    if values.len() != piece.states.len() + 1 {
        let problem = format!("`{}` has not the states that it should have", piece.name);
        return Err(Error::Config(problem));
    }
    let wanted = piece.states.iter().map(|state| (state.dtype, state.kind));
    let mut wanted = std::iter::once((piece.dtype, StateKind::Elementwise)).chain(wanted);
    let all = values.iter().zip(wanted.by_ref());
    all.into_iter().try_for_each(|(value, (dtype, kind))| check_value(piece, value, dtype, kind))
}

/// Whether a value has the type and the number of elements that were promised.
pub(super) fn check_value(
    piece: &Piece,
    value: &Tensor,
    dtype: DType,
    kind: StateKind,
) -> Result<()> {
    let fits = value.dtype() == dtype
        && (kind == StateKind::Whole || value.numel() == piece.len)
        && value.dims().len() <= bireme_engine::tensor::MAX_RANK;
    if fits {
        return Ok(());
    }
    Err(Error::Config(format!(
        "`{}` holds {} elements of {}, where {} of {dtype} are expected: has the server's startup \
         program run?",
        piece.name,
        value.numel(),
        value.dtype(),
        piece.len
    )))
}

fn describe(piece: &Piece, file: &str) -> SavedPiece {
    let states = piece.states.iter().map(|state| {
        let tensor = state_name(piece, &state.variable);
        (state.variable.clone(), state.dtype.name().to_owned(), state.kind, tensor)
    });
    SavedPiece {
        variable: piece.variable.clone(),
        dtype: piece.dtype.name().to_owned(),
        shape: piece.shape.clone(),
        start: piece.start,
        len: piece.len,
        file: file.to_owned(),
        tensor: piece.name.clone(),
        states: states.collect(),
    }
}

fn write_table(
    disk: &Disk<'_>,
    table: &dyn Rows,
    id: usize,
    dir: &Path,
    name: String,
    saved: &mut SavedShard,
) -> Result<()> {
    let layout = table.layout();
    if layout.record_width() == 0 {
        return Err(Error::Config(format!("rows of table `{}` have no columns", layout.name)));
    }
    let (removed, removed_name) = (table.take_removed(saved.mode), removed_name(&layout.name));
    // A part for each chunk, and as many again for rows that come in the meantime; if even that is
    // not enough, the last part is larger.
    let expected = (table.len().saturating_mul(row_bytes(&layout)) / CHUNK + 1) * 2;
    let of_part = room_of_part(&layout);
    let room = expected * of_part + TensorWriter::room_for(&removed_name, 1);
    let mut file = TensorWriter::begin(disk, dir, name.clone(), room)?;
    let sharding = Sharding::new(layout.shards, saved.server.count);
    let is_mine = |key: &u64| sharding.server(*key) == saved.server.index;
    let mut routed = removed.iter().all(is_mine);
    if !removed.is_empty() {
        file.keys(&removed_name, &removed)?;
    }
    let (keys, records) = (Vec::new(), Vec::new());
    let mut out = RowsOut { file, layout, of_part, keys, records, rows: 0, parts: 0 };
    for part in 0..table.parts() {
        table.read_part(part, saved.mode, &mut |keys, records| {
            routed &= keys.iter().all(is_mine);
            out.add(keys, records)
        })?;
    }
    if !out.keys.is_empty() || out.parts == 0 {
        out.write(out.keys.len())?;
    }
    let RowsOut { file, layout, rows, parts, .. } = out;
    saved.files.push(file.finish(saved.server.index)?);
    let (picks, removed) = (table.picks(), removed.len() as u64);
    saved.tables.push(SavedTable { id, layout, picks, file: name, rows, removed, parts, routed });
    Ok(())
}

fn row_bytes(layout: &TableLayout) -> usize {
    8 + 4 * layout.record_width()
}

/// What a part takes of a file's header.
fn room_of_part(layout: &TableLayout) -> usize {
    let columns = layout.columns.iter().map(|column| column.name.as_str()).chain(["keys"]);
    columns.map(|column| TensorWriter::room_for(&part_name(&layout.name, 0, column), 2)).sum()
}

/// Rows of a table on their way into its file, which gets them a chunk at a time.
struct RowsOut<'a> {
    file: TensorWriter<'a>,
    layout: TableLayout,
    of_part: usize,
    keys: Vec<u64>,
    records: Vec<f32>,
    /// Rows and parts that are in the file.
    rows: u64,
    parts: u32,
}

impl RowsOut<'_> {
    fn add(&mut self, keys: &[u64], records: &[f32]) -> Result<()> {
        if records.len() != keys.len() * self.layout.record_width() {
            let name = &self.layout.name;
            return Err(Error::Config(format!("table `{name}` shows half rows")));
        }
        self.keys.extend_from_slice(keys);
        self.records.extend_from_slice(records);
        // An even number of rows keeps the keys of the next part aligned.
        let now = self.keys.len() & !1;
        let is_chunk = now * row_bytes(&self.layout) >= CHUNK;
        if is_chunk && self.file.room_left() >= self.of_part * 2 {
            self.write(now)?;
        }
        Ok(())
    }

    /// Writes the first rows as a part.
    fn write(&mut self, rows: usize) -> Result<()> {
        let numbers = rows * self.layout.record_width();
        let (keys, records) = (&self.keys[..rows], &self.records[..numbers]);
        self.file.rows(&self.layout, self.parts, keys, records)?;
        self.keys.drain(..rows);
        self.records.drain(..numbers);
        self.rows += rows as u64;
        self.parts += 1;
        Ok(())
    }
}
