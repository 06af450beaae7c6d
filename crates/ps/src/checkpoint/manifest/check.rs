//! What must hold of a manifest before anything is read by it.

use std::collections::{BTreeMap, BTreeSet};

use bireme_engine::tensor::MAX_RANK;
use bireme_ir::DType;

use super::{Manifest, Save, TableEntry, Variable};

type Check = Result<(), String>;

const FIRST: &str = "{\n  \"crc32c\": \"";

/// `text`, a JSON object, with a checksum of the rest as its first line.
pub(super) fn with_checksum(text: &str) -> String {
    let rest = text.strip_prefix("{\n").expect("it is a pretty-printed object");
    format!("{FIRST}{:08x}\",\n{rest}\n", crc32c::crc32c(format!("{rest}\n").as_bytes()))
}

/// A manifest without the line was changed by hand on purpose, and is taken as it is.
pub(super) fn checksum(text: &str) -> Check {
    let Some((sum, rest)) = text.strip_prefix(FIRST).and_then(|text| text.split_once("\",\n"))
    else {
        return Ok(());
    };
    if sum == format!("{:08x}", crc32c::crc32c(rest.as_bytes())) {
        return Ok(());
    }
    Err("it is damaged or was changed (its checksum does not fit): load an earlier checkpoint, or \
         remove the line `crc32c` if you changed it on purpose"
        .to_owned())
}

pub(super) fn check(manifest: &Manifest) -> Check {
    if manifest.saves.is_empty() {
        return Err("it lists no save".to_owned());
    }
    manifest.saves.iter().try_for_each(check_save)
}

fn check_save(save: &Save) -> Check {
    if save.servers == 0 {
        return Err("a save of 0 servers".to_owned());
    }
    let mut files = BTreeSet::new();
    for file in &save.files {
        if !is_plain_name(&file.name) {
            return Err(format!("`{}` is not the name of a file", file.name.escape_debug()));
        }
        if !files.insert(file.name.as_str()) {
            return Err(format!("file `{}` is listed twice", file.name));
        }
        if file.crc32c.len() != 8 || u32::from_str_radix(&file.crc32c, 16).is_err() {
            return Err(format!("file `{}` has no proper checksum", file.name));
        }
    }
    let mut names = BTreeSet::new();
    for variable in &save.variables {
        let name = &variable.name;
        if !names.insert(name) {
            return Err(format!("variable `{name}` is listed twice"));
        }
        check_variable(variable, &files).map_err(|what| format!("variable `{name}`: {what}"))?;
    }
    let mut names = BTreeSet::new();
    for table in &save.tables {
        let name = &table.layout.name;
        if !names.insert(name) {
            return Err(format!("table `{name}` is listed twice"));
        }
        check_table(table, &files).map_err(|what| format!("table `{name}`: {what}"))?;
    }
    Ok(())
}

fn check_variable(variable: &Variable, files: &BTreeSet<&str>) -> Check {
    for dtype in variable.states.iter().map(|state| &state.dtype).chain([&variable.dtype]) {
        DType::from_name(dtype).ok_or_else(|| format!("`{dtype}` is no type"))?;
    }
    if variable.shape.len() > MAX_RANK {
        return Err(format!("it has {} dimensions", variable.shape.len()));
    }
    let elements = variable.shape.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
    let elements = elements.filter(|all| all.checked_mul(8).is_some());
    let elements = elements.ok_or("its shape is too large")?;
    let mut covered: BTreeMap<usize, usize> = BTreeMap::new();
    for piece in &variable.pieces {
        let end = piece.start.checked_add(piece.len).filter(|end| *end <= elements);
        let end = end.ok_or_else(|| format!("piece `{}` lies outside of it", piece.tensor))?;
        if piece.states.len() != variable.states.len() {
            return Err(format!("piece `{}` has other states", piece.tensor));
        }
        if !files.contains(piece.file.as_str()) {
            return Err(format!("`{}` is not listed as a file", piece.file));
        }
        let longest = covered.entry(piece.start).or_default();
        *longest = end.max(*longest);
    }
    let mut reached = 0;
    for (start, end) in covered {
        if start > reached {
            break;
        }
        reached = end.max(reached);
    }
    if reached < elements {
        return Err(format!("elements from {reached} on are in no piece"));
    }
    Ok(())
}

fn check_table(table: &TableEntry, files: &BTreeSet<&str>) -> Check {
    let mut names = BTreeSet::new();
    let mut width = 0usize;
    for column in &table.layout.columns {
        if column.name == "keys" || !names.insert(&column.name) {
            return Err(format!("column `{}` is listed twice", column.name));
        }
        width = width.checked_add(column.width).ok_or("it is too wide")?;
    }
    if table.layout.shards == 0 || width == 0 || width > 1 << 24 {
        return Err("its rows have no proper size".to_owned());
    }
    let unlisted = table.files.iter().find(|file| !files.contains(file.file.as_str()));
    if let Some(file) = unlisted {
        return Err(format!("`{}` is not listed as a file", file.file));
    }
    let rows = table.files.iter().try_fold(0u64, |all, file| all.checked_add(file.rows));
    if rows != Some(table.rows) {
        return Err("its rows are not those of its files".to_owned());
    }
    Ok(())
}

/// Whether this is the name of a file in the folder itself, not a way out of it.
pub(in super::super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}
