//! `bireme inspect` of a checkpoint: tables, dense variables, files.
//!
//! Rows are read a part at a time, so a checkpoint may be larger than memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use bireme_fleet::ps::checkpoint::{
    ColumnKind, MANIFEST, Manifest, Picks, RowScan, Save, SaveMode, TableEntry, Variable,
    is_checkpoint, read_manifest, scan_table, verify,
};
use bireme_ir::DType;

use super::super::Outcome;
use crate::table::{Align, Table};
use crate::terminal::printable;
use crate::units::{bytes, grouped, plural};

/// The folder of the checkpoint that `path` means, if it means one.
pub(super) fn find(path: &Path) -> Result<Option<PathBuf>> {
    if is_checkpoint(path) {
        return Ok(Some(path.to_owned()));
    }
    if path.file_name().is_some_and(|name| name == MANIFEST) && path.is_file() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        return Ok(Some(folder.unwrap_or(Path::new(".")).to_owned()));
    }
    let Ok(entries) = fs::read_dir(path) else { return Ok(None) };
    let shard = |name: &str| name.starts_with("server-") && name.ends_with(".safetensors");
    let mut names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    if names.any(|name| shard(name.strip_prefix('.').unwrap_or(&name))) {
        bail!(
            "`{}` has files of servers but no `{MANIFEST}`: a save into it never finished; look at \
             an earlier checkpoint",
            path.display()
        );
    }
    Ok(None)
}

/// Prints what is in a checkpoint.
pub(super) fn run(folder: &Path, check: bool, top: usize) -> Result<Outcome> {
    let manifest = read_manifest(folder)?;
    let mut text = headline(folder, &manifest);
    if manifest.saves.len() > 1 {
        text.push_str(&format!("\nSaves\n{}", saves(&manifest)));
    }
    let newest = newest_tables(&manifest);
    if !newest.is_empty() {
        text.push_str(&format!("\nTables\n{}", tables(folder, &manifest, &newest)));
        if top > 0 {
            for table in newest.values() {
                text.push_str(&top_keys(folder, &manifest, table, top)?);
            }
        }
    }
    let variables: BTreeMap<&str, &Variable> = manifest
        .saves
        .iter()
        .flat_map(|save| save.variables.iter().map(|variable| (variable.name.as_str(), variable)))
        .collect();
    if !variables.is_empty() {
        text.push_str(&format!("\nDense variables\n{}", dense(&variables)));
    }
    let (listed, damaged) = files(folder, &manifest, check);
    text.push_str(&format!("\nFiles\n{listed}"));
    io::stdout().lock().write_all(text.as_bytes())?;
    match damaged.split_first() {
        None => Ok(Outcome::Done),
        Some((first, [])) => bail!("{first}"),
        Some((first, rest)) => bail!("{first}; and {} more", plural(rest.len(), "damaged file")),
    }
}

fn headline(folder: &Path, manifest: &Manifest) -> String {
    let files: Vec<_> = manifest.saves.iter().flat_map(|save| &save.files).collect();
    let size = files.iter().fold(0u64, |all, file| all.saturating_add(file.bytes));
    let servers = manifest.saves.last().map_or(0, |save| save.servers);
    format!(
        "{}: step {}, written {} by {}, {} in {}\n",
        printable(&folder.to_string_lossy()),
        grouped(manifest.step),
        printable(&manifest.written),
        plural(servers as usize, "server"),
        bytes(size),
        plural(files.len(), "file"),
    )
}

fn saves(manifest: &Manifest) -> Table {
    let mut table = Table::new(&[
        ("mode", Align::Left),
        ("step", Align::Right),
        ("written", Align::Left),
        ("servers", Align::Right),
        ("rows", Align::Right),
        ("of", Align::Left),
    ]);
    for save in &manifest.saves {
        let rows = save.tables.iter().fold(0u64, |all, table| all.saturating_add(table.rows));
        let names: Vec<&str> = save.tables.iter().map(|table| table.layout.name.as_str()).collect();
        table.row([
            mode(save).to_owned(),
            grouped(save.step),
            save.written.clone(),
            save.servers.to_string(),
            grouped(rows),
            if save.complete { "everything".to_owned() } else { names.join(", ") },
        ]);
    }
    table
}

fn mode(save: &Save) -> &'static str {
    let everything = |table: &TableEntry| table.picks == Picks::Everything;
    match save.mode {
        SaveMode::Full | SaveMode::FullAging => "full",
        SaveMode::Base => "base",
        SaveMode::Delta if save.tables.iter().any(everything) => "delta (every row)",
        SaveMode::Delta => "delta",
    }
}

/// The newest entry of each table, by number.
fn newest_tables(manifest: &Manifest) -> BTreeMap<usize, &TableEntry> {
    let all = manifest.saves.iter().flat_map(|save| &save.tables);
    all.map(|table| (table.id, table)).collect()
}

fn tables(folder: &Path, manifest: &Manifest, newest: &BTreeMap<usize, &TableEntry>) -> Table {
    let mut shown = Table::new(&[
        ("id", Align::Right),
        ("name", Align::Left),
        ("rows", Align::Right),
        ("size", Align::Right),
        ("width", Align::Right),
        ("shards", Align::Right),
        ("columns", Align::Left),
    ]);
    for (id, table) in newest {
        let layout = &table.layout;
        let column = |column: &bireme_fleet::ps::checkpoint::Column| match column.width {
            1 => column.name.clone(),
            width => format!("{}[{width}]", column.name),
        };
        let columns: Vec<String> = layout.columns.iter().map(column).collect();
        let (rows, exact) = rows_of(folder, manifest, table);
        let size = rows.saturating_mul(8 + 4 * layout.record_width() as u64);
        shown.row([
            id.to_string(),
            layout.name.clone(),
            format!("{}{}", if exact { "" } else { "at most " }, grouped(rows)),
            bytes(size),
            layout.width.to_string(),
            grouped(layout.shards),
            columns.join(" "),
        ]);
    }
    shown
}

/// The rows of a table. With deltas a key may be in several saves, and must be looked for.
fn rows_of(folder: &Path, manifest: &Manifest, table: &TableEntry) -> (u64, bool) {
    let name = &table.layout.name;
    let all = manifest.saves.iter().flat_map(|save| &save.tables);
    let rows: Vec<u64> =
        all.filter(|other| other.layout.name == *name).map(|other| other.rows).collect();
    if let [rows] = rows.as_slice() {
        return (*rows, true);
    }
    let mut count = 0;
    let scanned = scan_table(folder, manifest, name, &mut |scan| {
        count += scan.keys.len() as u64;
        Ok(())
    });
    match scanned {
        Ok(()) => (count, true),
        Err(_) => (rows.iter().fold(0, |all, rows| all.saturating_add(*rows)), false),
    }
}

/// What makes a key matter: a number that orders by size.
#[derive(PartialEq)]
struct Weight(f32);

impl Eq for Weight {}

impl PartialOrd for Weight {
    fn partial_cmp(&self, other: &Weight) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Weight {
    fn cmp(&self, other: &Weight) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The keys that were shown most, or where that is not counted those with the largest weights.
fn top_keys(folder: &Path, manifest: &Manifest, table: &TableEntry, top: usize) -> Result<String> {
    let name = &table.layout.name;
    let counted = table.layout.columns.iter().any(|column| column.kind == ColumnKind::Show);
    let kind = if counted { ColumnKind::Show } else { ColumnKind::Weight };
    // The smallest is on top of the heap, and the first to go; among equals the larger key.
    let mut best: BinaryHeap<Reverse<(Weight, Reverse<u64>)>> = BinaryHeap::new();
    scan_table(folder, manifest, name, &mut |scan: &RowScan<'_>| {
        for (key, numbers) in scan.of_kind(kind) {
            let weight = match counted {
                true => numbers.iter().sum(),
                false => numbers.iter().map(|x| x * x).sum::<f32>().sqrt(),
            };
            best.push(Reverse((Weight(weight), Reverse(key))));
            if best.len() > top {
                best.pop();
            }
        }
        Ok(())
    })?;
    if best.is_empty() {
        return Ok(String::new());
    }
    let title = if counted { "shows" } else { "norm" };
    let mut shown = Table::new(&[("key", Align::Right), (title, Align::Right)]);
    for Reverse((weight, Reverse(key))) in best.into_sorted_vec() {
        let number = if counted { format!("{}", weight.0) } else { format!("{:.6}", weight.0) };
        shown.row([key.to_string(), number]);
    }
    let by = if counted { "shown most" } else { "with the largest weights" };
    Ok(format!("\nKeys of `{}` {by}\n{shown}", printable(name)))
}

fn dense(variables: &BTreeMap<&str, &Variable>) -> Table {
    let mut table = Table::new(&[
        ("name", Align::Left),
        ("type", Align::Left),
        ("shape", Align::Left),
        ("size", Align::Right),
        ("pieces on servers", Align::Left),
        ("states", Align::Left),
    ]);
    for variable in variables.values() {
        let element = DType::from_name(&variable.dtype).map_or(0, DType::size) as u64;
        let places: Vec<String> =
            variable.pieces.iter().map(|piece| piece.server.to_string()).collect();
        let states: Vec<&str> = variable.states.iter().map(|state| state.name.as_str()).collect();
        table.row([
            variable.name.clone(),
            variable.dtype.clone(),
            format!("{:?}", variable.shape),
            bytes((variable.numel() as u64).saturating_mul(element)),
            places.join(" "),
            states.join(" "),
        ]);
    }
    table
}

/// The files, and what is wrong with some of them.
fn files(folder: &Path, manifest: &Manifest, check: bool) -> (Table, Vec<String>) {
    let mut table = Table::new(&[
        ("name", Align::Left),
        ("server", Align::Right),
        ("size", Align::Right),
        ("crc32c", Align::Left),
        ("state", Align::Left),
    ]);
    let mut damaged = Vec::new();
    let checked = check.then(|| verify(folder, manifest));
    let all = manifest.saves.iter().flat_map(|save| &save.files).cloned();
    let all: Vec<_> = match checked {
        Some(checked) => checked.into_iter().map(|(file, state)| (file, Some(state))).collect(),
        None => all.map(|file| (file, None)).collect(),
    };
    for (file, state) in all {
        let size = fs::metadata(folder.join(&file.name)).map(|about| about.len());
        let state = match (state, size) {
            (Some(Ok(())), _) => "verified",
            (Some(Err(error)), _) => {
                damaged.push(error.to_string());
                "damaged"
            }
            (None, Err(_)) => "missing",
            (None, Ok(size)) if size != file.bytes => "wrong size",
            (None, Ok(_)) => "not verified (--verify)",
        };
        table.row([
            file.name.clone(),
            file.server.to_string(),
            bytes(file.bytes),
            file.crc32c.clone(),
            state.to_owned(),
        ]);
    }
    (table, damaged)
}
