//! Replaces several files, or none.
//!
//! The old files keep a second, hidden name until the last new one is in its place, and are put
//! back when that fails.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::hidden;

/// Renames the first path of each pair to the second.
///
/// # Errors
/// When one of them cannot be renamed; the second paths then are what they were.
pub(super) fn files(moves: &[(PathBuf, PathBuf)]) -> io::Result<()> {
    for (_, path) in moves {
        check_target(path)?;
    }
    let mut undo = Undo { backups: Vec::new(), replaced: 0 };
    for (_, path) in moves {
        undo.back_up(path)?;
    }
    for (from, path) in moves {
        fs::rename(from, path).map_err(|error| named(path, error))?;
        undo.replaced += 1;
    }
    undo.forget();
    Ok(())
}

/// That a file can go to `path`: its folder is there, and no folder is in its place.
fn check_target(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("it is inside a folder"))?;
    match path.symlink_metadata() {
        Ok(there) if there.is_dir() => Err(named(path, io::ErrorKind::IsADirectory.into())),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(named(path, error)),
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    let name = path.file_name().unwrap_or_default().display();
    io::Error::new(error.kind(), format!("`{name}`: {error}"))
}

/// Puts the old files back, unless it is told to forget them.
struct Undo {
    /// The path of each file, and the second name of what is there; `None` for nothing.
    backups: Vec<(PathBuf, Option<PathBuf>)>,
    /// How many of them have been replaced.
    replaced: usize,
}

impl Undo {
    fn back_up(&mut self, path: &Path) -> io::Result<()> {
        let backup = match path.symlink_metadata() {
            Err(_) => None,
            Ok(_) => {
                let backup = hidden(path);
                // Some file systems have no second names.
                fs::hard_link(path, &backup)
                    .or_else(|_| fs::copy(path, &backup).map(drop))
                    .map_err(|error| named(path, error))?;
                Some(backup)
            }
        };
        self.backups.push((path.to_owned(), backup));
        Ok(())
    }

    fn forget(mut self) {
        self.replaced = 0;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // Failures are ignored: an error is on its way already, and nothing better can be done.
        for (path, backup) in self.backups.iter().take(self.replaced).rev() {
            let _ = match backup {
                Some(backup) => fs::rename(backup, path),
                None => fs::remove_file(path),
            };
        }
        // The rest has two names still.
        for (_, backup) in self.backups.iter().skip(self.replaced) {
            let _ = backup.as_ref().map(fs::remove_file);
        }
    }
}
