//! The end of a save: the manifest, and the removal of what it no longer names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::super::disk::Disk;
use super::super::manifest::{self, PieceEntry, Save, StateEntry, TableEntry, TableFile, Variable};
use super::super::{SaveMode, bad, is_checkpoint, read_manifest};
use super::{SavedPiece, SavedShard, generation};
use crate::{Error, Result};

/// Makes what the servers wrote the checkpoint of `dir`. A full save takes the place of all before
/// it, a delta is added to them, and one of a single table takes the place of that table.
///
/// # Errors
/// When a server is missing or contradicts the others, when a file cannot be seen from here, or
/// when the manifest cannot be written. The checkpoint that was there is then still valid.
pub fn finish(dir: &Path, shards: Vec<SavedShard>) -> Result<()> {
    finish_on(&Disk::default(), dir, shards)
}

pub(crate) fn finish_on(disk: &Disk<'_>, dir: &Path, shards: Vec<SavedShard>) -> Result<()> {
    check_together(&shards)?;
    check_visible(dir, &shards)?;
    let new = merge(&shards)?;
    let starts_anew = new.complete && new.mode != SaveMode::Delta;
    let mut saves = Vec::new();
    if !starts_anew && is_checkpoint(dir) {
        saves = read_manifest(dir)?.saves;
        saves.iter_mut().for_each(|old| supersede(old, &new));
        saves.retain(|old| !old.variables.is_empty() || !old.tables.is_empty());
    }
    saves.push(new);
    let named: BTreeSet<String> =
        saves.iter().flat_map(|save| &save.files).map(|file| file.name.clone()).collect();
    manifest::write(disk, dir, saves)?;
    remove_unnamed(disk, dir, &named);
    Ok(())
}

/// All servers, each once, all of one mind.
fn check_together(shards: &[SavedShard]) -> Result<()> {
    let wrong = |what: String| Err(Error::Request(format!("cannot finish the save: {what}")));
    let Some(first) = shards.first() else {
        return wrong("no server took part".to_owned());
    };
    for index in 0..first.server.count {
        match shards.iter().filter(|shard| shard.server.index == index).count() {
            1 => {}
            0 => return wrong(format!("server {index} has not saved its part")),
            times => return wrong(format!("server {index} has saved {times} times")),
        }
    }
    let same = |shard: &&SavedShard| {
        (shard.server.count, shard.mode, shard.complete)
            != (first.server.count, first.mode, first.complete)
    };
    if let Some(other) = shards.iter().find(same) {
        let (index, first) = (other.server.index, first.server.index);
        return wrong(format!("server {index} was asked for something else than server {first}"));
    }
    Ok(())
}

/// A folder that servers and trainer do not share would make a checkpoint nobody can load.
fn check_visible(dir: &Path, shards: &[SavedShard]) -> Result<()> {
    for file in shards.iter().flat_map(|shard| &shard.files) {
        let path = dir.join(&file.name);
        let seen = fs::metadata(&path).map(|about| about.len());
        if !manifest::is_plain_name(&file.name) || seen.ok() != Some(file.bytes) {
            let problem = format!(
                "server {} wrote it, but it cannot be seen from here: save into a folder that all \
                 servers and the first trainer share",
                file.server
            );
            return Err(bad(&path, problem));
        }
    }
    Ok(())
}

/// Joins what the servers wrote.
fn merge(shards: &[SavedShard]) -> Result<Save> {
    let first = shards.first().expect("checked to be there");
    let mut variables: BTreeMap<&str, Variable> = BTreeMap::new();
    let mut tables: BTreeMap<usize, TableEntry> = BTreeMap::new();
    for shard in shards {
        for piece in &shard.pieces {
            add_piece(&mut variables, piece, shard.server.index)?;
        }
        for table in &shard.tables {
            let entry = tables.entry(table.id).or_insert_with(|| TableEntry {
                id: table.id,
                layout: table.layout.clone(),
                rows: 0,
                picks: table.picks,
                routed: true,
                files: Vec::new(),
            });
            if (&entry.layout.name, &entry.layout.columns, entry.layout.shards)
                != (&table.layout.name, &table.layout.columns, table.layout.shards)
            {
                let problem = format!("the servers disagree on table `{}`", table.layout.name);
                return Err(Error::Request(problem));
            }
            entry.rows += table.rows;
            entry.routed &= table.routed;
            let (server, file) = (shard.server.index, table.file.clone());
            let (rows, removed, parts) = (table.rows, table.removed, table.parts);
            entry.files.push(TableFile { server, file, rows, removed, parts });
        }
    }
    Ok(Save {
        mode: first.mode,
        complete: first.complete,
        step: shards.iter().map(|shard| shard.step).max().unwrap_or(0),
        written: now(),
        servers: first.server.count,
        files: shards.iter().flat_map(|shard| shard.files.iter().cloned()).collect(),
        variables: variables.into_values().collect(),
        tables: tables.into_values().collect(),
    })
}

fn add_piece<'a>(
    variables: &mut BTreeMap<&'a str, Variable>,
    piece: &'a SavedPiece,
    server: u32,
) -> Result<()> {
    let states: Vec<StateEntry> = piece
        .states
        .iter()
        .map(|(name, dtype, kind, _)| StateEntry {
            name: name.clone(),
            dtype: dtype.clone(),
            kind: *kind,
        })
        .collect();
    let variable = variables.entry(&piece.variable).or_insert_with(|| Variable {
        name: piece.variable.clone(),
        dtype: piece.dtype.clone(),
        shape: piece.shape.clone(),
        states: states.clone(),
        pieces: Vec::new(),
    });
    if (&variable.dtype, &variable.shape, &variable.states) != (&piece.dtype, &piece.shape, &states)
    {
        let problem = format!("the servers disagree on variable `{}`", piece.variable);
        return Err(Error::Request(problem));
    }
    variable.pieces.push(PieceEntry {
        server,
        file: piece.file.clone(),
        tensor: piece.tensor.clone(),
        start: piece.start,
        len: piece.len,
        states: piece.states.iter().map(|(_, _, _, tensor)| tensor.clone()).collect(),
    });
    Ok(())
}

/// Takes out of an older save what the new one replaces.
fn supersede(old: &mut Save, new: &Save) {
    if new.complete {
        old.variables.clear();
    }
    let replaced = |name: &str| {
        new.mode != SaveMode::Delta && new.tables.iter().any(|table| table.layout.name == name)
    };
    old.tables.retain(|table| !replaced(&table.layout.name));
    let pieces = old.variables.iter().flat_map(|variable| &variable.pieces);
    let used: BTreeSet<&str> = pieces
        .map(|piece| piece.file.as_str())
        .chain(old.tables.iter().flat_map(|table| &table.files).map(|file| file.file.as_str()))
        .collect();
    old.files.retain(|file| used.contains(file.name.as_str()));
}

/// Removes files of earlier saves. The checkpoint is complete without that, so a failure is only
/// logged.
fn remove_unnamed(disk: &Disk<'_>, dir: &Path, named: &BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // What a save of any server left behind that was cut off: those of this one are complete.
        let half = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
        if generation(half.unwrap_or(&name)).is_some()
            && !named.contains(&name)
            && let Err(error) = disk.remove(&dir.join(&name))
        {
            tracing::warn!("cannot remove `{name}` of an earlier checkpoint: {error}");
        }
    }
}

/// The time in UTC as `2024-02-29T12:34:56Z`.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    time_text(since.map_or(0, |since| since.as_secs()))
}

/// Days since 1970 to a date by the proleptic Gregorian calendar: years are counted from March, so
/// that the leap day is the last of its year.
fn time_text(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + carry;
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_saves_left_half_written_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let half = [
            ".server-003-of-004-000001.safetensors.tmp",
            ".server-000-of-002-000007-table-001.safetensors.tmp",
            "server-000-of-002-000006.safetensors",
        ];
        let kept = [".notes.tmp", "server-000-of-002-000007.safetensors", "manifest.json"];
        for name in half.iter().chain(&kept) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let named = BTreeSet::from(["server-000-of-002-000007.safetensors".to_owned()]);
        remove_unnamed(&Disk::default(), folder.path(), &named);
        assert!(half.iter().all(|name| !folder.path().join(name).exists()));
        assert!(kept.iter().all(|name| folder.path().join(name).exists()));
    }

    #[test]
    fn times_are_read_as_dates() {
        // date -u -d @N +%FT%TZ
        let times = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_210_096, "2024-02-29T12:34:56Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, text) in times {
            assert_eq!(time_text(seconds), text);
        }
    }
}
