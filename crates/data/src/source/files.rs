//! Which files folders and patterns stand for.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The files that paths, folders and patterns (`day=*/part-*.gz`) stand for.
///
/// Files keep the order of the arguments; those of a folder, with its subfolders, and of a pattern
/// are sorted by name. Names that start with a dot are left out, as a shell does.
///
/// # Errors
/// When something does not exist, or a folder or pattern stands for no file.
pub fn expand<P: AsRef<Path>>(patterns: &[P]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        let (pattern, before) = (pattern.as_ref(), files.len());
        // A file may be called `a[1]`.
        if pattern.exists() {
            add(pattern, &mut files)?;
        } else {
            for path in matches(pattern)? {
                add(&path, &mut files)?;
            }
        }
        if files.len() == before {
            return Err(problem(pattern, "it holds no files"));
        }
    }
    Ok(files)
}

/// What a pattern matches, sorted.
fn matches(pattern: &Path) -> Result<Vec<PathBuf>> {
    let text = pattern.to_str().filter(|text| text.contains(['*', '?', '[']));
    let Some(text) = text else {
        return Err(problem(pattern, "there is no such file or folder"));
    };
    let options = glob::MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let paths = glob::glob_with(text, options)
        .map_err(|error| problem(pattern, &format!("the pattern is wrong: {}", error.msg)))?;
    let mut found = Vec::new();
    for path in paths {
        found.push(path.map_err(|error| problem(error.path(), &error.error().to_string()))?);
    }
    match found.is_empty() {
        true => Err(problem(pattern, "no file matches the pattern")),
        false => Ok(found),
    }
}

fn add(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let failed = |error: std::io::Error| problem(path, &error.to_string());
    let entries = fs::read_dir(path).map_err(failed)?;
    let mut entries = entries.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            add(&entry.path(), files)?;
        }
    }
    Ok(())
}

fn problem(path: &Path, problem: &str) -> Error {
    Error::File { path: path.to_owned(), problem: problem.to_owned() }
}
