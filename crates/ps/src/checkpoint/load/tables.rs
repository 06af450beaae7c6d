//! The rows of keyed tables: each server takes those that Paddle's rule gives it.

use std::path::Path;
use std::sync::Arc;

use super::super::manifest::{Manifest, TableEntry, TableFile};
use super::super::tensor_file::{TensorReader, part_name, removed_name};
use super::super::{ColumnKind, Holdings, Rows, SaveMode, ServerIndex, Sharding};
use super::super::{TableLayout, bad};
use super::OpenFiles;
use crate::Result;

/// Where the rows of a table come from.
pub(super) struct TablePlan<'a> {
    table: Arc<dyn Rows>,
    layout: TableLayout,
    /// Saves that have the table, oldest first: place in the manifest, how rows were picked, where
    /// each column here is there, files.
    saves: Vec<Step<'a>>,
}

struct Step<'a> {
    save: usize,
    delta: bool,
    entry: &'a TableEntry,
    columns: Vec<Option<usize>>,
    files: Vec<&'a TableFile>,
}

/// Finds the tables of this server in a checkpoint.
pub(super) fn plan<'a>(
    dir: &Path,
    manifest: &'a Manifest,
    holdings: &dyn Holdings,
    server: ServerIndex,
    only: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Vec<TablePlan<'a>>> {
    let mut plans = Vec::new();
    let here = holdings.tables();
    for table in &here {
        let layout = table.layout();
        if only.is_some_and(|only| only != layout.name) {
            continue;
        }
        let mut saves = Vec::new();
        for (save, about) in manifest.saves.iter().enumerate() {
            let found = about.tables.iter().find(|entry| entry.layout.name == layout.name);
            let Some(entry) = found else { continue };
            let columns = columns_here(&layout, &entry.layout)
                .map_err(|problem| bad(dir, format!("table `{}`: {problem}", layout.name)))?;
            let delta = about.mode == SaveMode::Delta;
            let files = files_for(entry, about.servers, layout.shards, server);
            saves.push(Step { save, delta, entry, columns, files });
        }
        let name = &layout.name;
        let Some(last) = saves.last() else {
            if manifest.saves.iter().all(|save| !save.complete) && only.is_none() {
                continue;
            }
            return Err(bad(dir, format!("it has no table `{name}`: load one of this model")));
        };
        for (column, place) in layout.columns.iter().zip(&last.columns) {
            if place.is_none() {
                let column = &column.name;
                notes.push(format!("table `{name}` comes without `{column}`, which starts afresh"));
            }
        }
        plans.push(TablePlan { table: table.clone(), layout, saves });
    }
    if let (Some(only), []) = (only, plans.as_slice()) {
        return Err(crate::Error::Request(format!("there is no table `{only}` on this server")));
    }
    if only.is_none() {
        let newest = manifest.saves.iter().flat_map(|save| &save.tables);
        let absent = newest.map(|entry| &entry.layout.name);
        let mut absent: Vec<_> =
            absent.filter(|name| here.iter().all(|table| table.layout().name != **name)).collect();
        absent.sort();
        absent.dedup();
        notes.extend(absent.iter().map(|name| format!("table `{name}` is not in this program")));
    }
    Ok(plans)
}

/// For each column of a table here, its place among the saved ones.
fn columns_here(
    here: &TableLayout,
    saved: &TableLayout,
) -> std::result::Result<Vec<Option<usize>>, String> {
    let mut places = Vec::new();
    for column in &here.columns {
        let place = saved.columns.iter().position(|other| other.name == column.name);
        let width = place.map(|place| saved.columns[place].width);
        match width {
            Some(width) if width != column.width => {
                return Err(format!(
                    "column `{}` has {width} numbers a row there and {} in this program: load a \
                     checkpoint of this model",
                    column.name, column.width
                ));
            }
            None if column.kind == ColumnKind::Weight => {
                return Err(format!(
                    "it has no column `{}`: load a checkpoint of this model",
                    column.name
                ));
            }
            _ => places.push(place),
        }
    }
    Ok(places)
}

/// The files that may have rows of this server.
fn files_for(
    entry: &TableEntry,
    servers: u32,
    shards: u64,
    server: ServerIndex,
) -> Vec<&TableFile> {
    let mine = Sharding::new(shards, server.count).shards_of(server.index);
    let theirs = Sharding::new(shards, servers);
    let certain = entry.routed && entry.layout.shards == shards;
    let meets = |file: &&TableFile| {
        let range = theirs.shards_of(file.server);
        !certain || (range.start < mine.end && mine.start < range.end)
    };
    entry.files.iter().filter(|file| file.rows + file.removed > 0).filter(meets).collect()
}

impl<'a> TablePlan<'a> {
    pub(super) fn name(&self) -> &str {
        &self.layout.name
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.saves
            .iter()
            .flat_map(|step| step.files.iter().map(|file| (step.save, file.file.as_str())))
    }

    /// Puts this server's rows into the table; returns how many it read.
    pub(super) fn load(&self, open: &mut OpenFiles<'_>, server: ServerIndex) -> Result<u64> {
        let sharding = Sharding::new(self.layout.shards, server.count);
        let mut rows = 0;
        let progressed = open.progressed;
        for step in &self.saves {
            if !step.delta {
                self.table.clear();
                rows = 0;
            }
            for file in step.files.iter().filter(|file| file.removed > 0) {
                let mut keys = open.get(&file.file)?.keys(&removed_name(self.name()))?;
                keys.retain(|key| sharding.server(*key) == server.index);
                self.table.remove(&keys)?;
            }
            for file in &step.files {
                let reader = open.get(&file.file)?;
                for part in 0..file.parts {
                    let keys = reader.keys(&part_name(self.name(), part, "keys"))?;
                    let mine = |row: &usize| sharding.server(keys[*row]) == server.index;
                    let taken: Vec<usize> = (0..keys.len()).filter(mine).collect();
                    if taken.is_empty() {
                        continue;
                    }
                    let blank = |key, record: &mut [f32]| self.table.blank(key, record);
                    let records =
                        assemble(reader, step.entry, &self.layout, part, &keys, &taken, &blank)?;
                    let keys: Vec<u64> = taken.iter().map(|row| keys[*row]).collect();
                    self.table.restore(&keys, &records)?;
                    progressed();
                    rows += keys.len() as u64;
                }
            }
        }
        self.table.mark_loaded();
        Ok(rows)
    }
}

/// The records, as `layout` has them, of some rows of a part. Columns that were not saved are as
/// `blank` makes them.
pub(in super::super) fn assemble(
    reader: &mut TensorReader,
    entry: &TableEntry,
    layout: &TableLayout,
    part: u32,
    keys: &[u64],
    taken: &[usize],
    blank: &dyn Fn(u64, &mut [f32]),
) -> Result<Vec<f32>> {
    let record = layout.record_width();
    let mut columns = Vec::new();
    for column in &layout.columns {
        let saved = entry.layout.columns.iter().any(|saved| saved.name == column.name);
        if saved {
            // Before memory is asked for: a manifest may claim any width.
            let name = part_name(&entry.layout.name, part, &column.name);
            reader.check_column(&name, keys.len(), column.width)?;
        }
        columns.push(saved);
    }
    let mut records = vec![0f32; taken.len() * record];
    if columns.contains(&false) {
        for (row, into) in taken.iter().zip(records.chunks_exact_mut(record)) {
            blank(keys[*row], into);
        }
    }
    let mut first = 0;
    for (column, saved) in layout.columns.iter().zip(columns) {
        let width = column.width;
        if saved {
            let name = part_name(&entry.layout.name, part, &column.name);
            let cells = reader.column(&name, keys.len(), width)?;
            for (row, into) in taken.iter().zip(records.chunks_exact_mut(record)) {
                let from = &cells[row * width..][..width];
                into[first..first + width].copy_from_slice(from);
            }
        }
        first += width;
    }
    Ok(records)
}
