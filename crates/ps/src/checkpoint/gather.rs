//! Whole parameters out of a checkpoint, for who has one process and no servers.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use bireme_engine::tensor::Tensor;
use bireme_ir::DType;

use super::load::{OpenFiles, assemble, cover};
use super::manifest::{FileEntry, Manifest, StateEntry, TableEntry, Variable};
use super::tensor_file::{TensorReader, part_name, removed_name};
use super::{ColumnKind, SaveMode, StateKind, TableLayout, bad, read_manifest};
use crate::Result;

/// Compares every file of a checkpoint with its checksum; files that are fine come with `Ok`.
pub fn verify(dir: &Path, manifest: &Manifest) -> Vec<(FileEntry, Result<()>)> {
    let files = manifest.saves.iter().flat_map(|save| &save.files);
    files.map(|file| (file.clone(), TensorReader::verify(dir, file, &|| ()))).collect()
}

/// The dense variables of a checkpoint, their pieces joined.
///
/// # Errors
/// When the checkpoint is damaged.
pub fn gather_dense(dir: &Path) -> Result<BTreeMap<String, Tensor>> {
    let manifest = read_manifest(dir)?;
    let mut gathered = BTreeMap::new();
    let mut open = OpenFiles::new(dir);
    for variable in dense(dir, &manifest)? {
        gathered.insert(variable.name.clone(), join(&mut open, variable, None)?);
    }
    Ok(gathered)
}

/// What the optimizer keeps beside the dense variables, by its own names.
///
/// # Errors
/// When the checkpoint is damaged.
pub fn gather_states(dir: &Path) -> Result<BTreeMap<String, Tensor>> {
    let manifest = read_manifest(dir)?;
    let mut gathered = BTreeMap::new();
    let mut open = OpenFiles::new(dir);
    for variable in dense(dir, &manifest)? {
        for (place, state) in variable.states.iter().enumerate() {
            let tensor = join(&mut open, variable, Some((place, state)))?;
            gathered.insert(state.name.clone(), tensor);
        }
    }
    Ok(gathered)
}

/// The newest of each dense variable, in files that are whole.
fn dense<'a>(dir: &Path, manifest: &'a Manifest) -> Result<Vec<&'a Variable>> {
    let mut newest: BTreeMap<&str, (usize, &Variable)> = BTreeMap::new();
    for (index, save) in manifest.saves.iter().enumerate() {
        newest.extend(save.variables.iter().map(|v| (v.name.as_str(), (index, v))));
    }
    let files: BTreeSet<(usize, &str)> = newest
        .values()
        .flat_map(|(save, variable)| {
            variable.pieces.iter().map(|piece| (*save, piece.file.as_str()))
        })
        .collect();
    verify_files(dir, manifest, files)?;
    Ok(newest.into_values().map(|(_, variable)| variable).collect())
}

fn verify_files(dir: &Path, manifest: &Manifest, files: BTreeSet<(usize, &str)>) -> Result<()> {
    for (save, name) in files {
        let entry = manifest.saves[save].files.iter().find(|file| file.name == name);
        let entry = entry.expect("a manifest lists the files that it names");
        TensorReader::verify(dir, entry, &|| ())?;
    }
    Ok(())
}

/// A whole variable, or one of its states.
fn join(
    open: &mut OpenFiles<'_>,
    variable: &Variable,
    state: Option<(usize, &StateEntry)>,
) -> Result<Tensor> {
    let dtype = match state {
        Some((_, state)) => DType::from_name(&state.dtype).expect("a manifest is checked"),
        None => variable.element(),
    };
    let tensor = |piece: &super::PieceEntry| match state {
        Some((place, _)) => piece.states[place].clone(),
        None => piece.tensor.clone(),
    };
    if let Some((_, StateEntry { kind: StateKind::Whole, .. })) = state {
        let Some(piece) = variable.pieces.first() else { return Ok(Tensor::empty(dtype)) };
        let reader = open.get(&piece.file)?;
        let mut whole = Tensor::zeros(dtype, [reader.elements(&tensor(piece), dtype)?]);
        reader.bytes(&tensor(piece), 0, whole.as_mut_bytes())?;
        return Ok(whole);
    }
    let parts = cover(variable, 0..variable.numel());
    // Memory is asked for only when the files are known to have that much.
    for (piece, range) in &parts {
        let elements = open.get(&piece.file)?.elements(&tensor(piece), dtype)?;
        if elements < range.end - piece.start {
            let problem = format!("tensor `{}` is shorter than the manifest says", piece.tensor);
            return Err(bad(Path::new(&piece.file), problem));
        }
    }
    let mut whole = Tensor::zeros(dtype, variable.shape.as_slice());
    let size = dtype.size();
    for (piece, range) in parts {
        let bytes = &mut whole.as_mut_bytes()[range.start * size..range.end * size];
        let offset = (range.start - piece.start) * size;
        open.get(&piece.file)?.bytes(&tensor(piece), offset, bytes)?;
    }
    Ok(whole)
}

/// Some rows of a table in a checkpoint.
#[derive(Debug)]
pub struct RowScan<'a> {
    /// What a record is made of.
    pub layout: &'a TableLayout,
    /// Their keys.
    pub keys: &'a [u64],
    /// Their records, one after another.
    pub records: &'a [f32],
}

impl RowScan<'_> {
    /// The numbers of a kind of each row, in order.
    pub fn of_kind(&self, kind: ColumnKind) -> impl Iterator<Item = (u64, Vec<f32>)> {
        let record = self.layout.record_width().max(1);
        let rows = self.keys.iter().zip(self.records.chunks_exact(record));
        rows.map(move |(key, record)| {
            let mut first = 0;
            let mut numbers = Vec::new();
            for column in &self.layout.columns {
                if column.kind == kind {
                    numbers.extend_from_slice(&record[first..first + column.width]);
                }
                first += column.width;
            }
            (*key, numbers)
        })
    }
}

/// Shows every row of a table once, as the newest save that has it says. Files are not compared
/// with their checksums; [`verify`] does that.
///
/// # Errors
/// When there is no such table, or a file is damaged, or `look` fails.
pub fn scan_table(
    dir: &Path,
    manifest: &Manifest,
    table: &str,
    look: &mut dyn FnMut(&RowScan<'_>) -> Result<()>,
) -> Result<()> {
    let saves = manifest.saves.iter();
    let mut steps: Vec<(SaveMode, &TableEntry)> = saves
        .flat_map(|save| save.tables.iter().map(|entry| (save.mode, entry)))
        .filter(|(_, entry)| entry.layout.name == table)
        .collect();
    if steps.is_empty() {
        return Err(bad(dir, format!("it has no table `{table}`")));
    }
    let begin = steps.iter().rposition(|(mode, _)| *mode != SaveMode::Delta).unwrap_or(0);
    let steps = steps.split_off(begin);
    let mut seen: HashSet<u64> = HashSet::new();
    for (nth, (_, entry)) in steps.iter().enumerate().rev() {
        for file in &entry.files {
            // One file at a time, closed again: tables may have many.
            let mut reader = TensorReader::open(&dir.join(&file.file))?;
            for part in 0..file.parts {
                let keys = reader.keys(&part_name(table, part, "keys"))?;
                let taken: Vec<usize> =
                    (0..keys.len()).filter(|row| !seen.contains(&keys[*row])).collect();
                if nth > 0 {
                    seen.extend(&keys);
                }
                let layout = &entry.layout;
                let records =
                    assemble(&mut reader, entry, layout, part, &keys, &taken, &|_, _| ())?;
                let keys: Vec<u64> = taken.iter().map(|row| keys[*row]).collect();
                look(&RowScan { layout, keys: &keys, records: &records })?;
            }
        }
        // What this save says is gone is in older ones alone.
        for file in entry.files.iter().filter(|file| nth > 0 && file.removed > 0) {
            let mut reader = TensorReader::open(&dir.join(&file.file))?;
            seen.extend(reader.keys(&removed_name(table))?);
        }
    }
    Ok(())
}

/// A keyed table as a tensor of `rows` rows, row `k` that of key `k`. Rows that the table does not
/// have are as `fill` leaves them, zeros to begin with.
///
/// # Errors
/// When the checkpoint is damaged, has no such table, or has a key that is not below `rows`.
pub fn gather_table(
    dir: &Path,
    table: &str,
    rows: usize,
    fill: &dyn Fn(u64, &mut [f32]),
) -> Result<Tensor> {
    let manifest = read_manifest(dir)?;
    let found = manifest
        .saves
        .iter()
        .enumerate()
        .flat_map(|(index, save)| save.tables.iter().map(move |entry| (index, entry)));
    let found: Vec<(usize, &TableEntry)> =
        found.filter(|(_, entry)| entry.layout.name == table).collect();
    let Some((_, newest)) = found.last() else {
        return Err(bad(dir, format!("it has no table `{table}`")));
    };
    let weights = newest.layout.columns.iter().filter(|column| column.kind == ColumnKind::Weight);
    let width: usize = weights.map(|column| column.width).sum();
    let files = found
        .iter()
        .flat_map(|(save, entry)| entry.files.iter().map(|file| (*save, file.file.as_str())));
    verify_files(dir, &manifest, files.collect())?;
    if rows.checked_mul(width).and_then(|numbers| numbers.checked_mul(4)).is_none() || width == 0 {
        return Err(bad(dir, format!("table `{table}` cannot have {rows} rows")));
    }
    let mut whole = Tensor::zeros(DType::F32, [rows, width]);
    let numbers = whole.as_mut_slice::<f32>().expect("it was made of this type");
    for (key, row) in numbers.chunks_exact_mut(width).enumerate() {
        fill(key as u64, row);
    }
    scan_table(dir, &manifest, table, &mut |scan| {
        for (key, row) in scan.of_kind(ColumnKind::Weight) {
            let place = usize::try_from(key).ok().filter(|key| *key < rows);
            let Some(place) = place.filter(|_| row.len() == width) else {
                let problem = format!(
                    "table `{table}` has key {key}, which is no row of {rows}: keep it as a table, \
                     or declare more rows"
                );
                return Err(bad(dir, problem));
            };
            numbers[place * width..][..width].copy_from_slice(&row);
        }
        Ok(())
    })?;
    Ok(whole)
}
