//! Files that are saved together, and replaced only when all of them are complete.
//!
//! A [`FileSet`] writes its files aside, under hidden names, flushes them to disk, and renames them
//! when the last one is complete. A set that is dropped before that removes all it made, folders
//! included. A folder that does not exist yet appears with all its files at one moment. In one that
//! exists, files are replaced one by one, each as a whole; when one cannot be replaced, those before
//! it are put back (`files/replace.rs`).
//!
//! What is left: a process killed, or a machine that stops, between the first and the last of these
//! renames leaves some files of the new set beside some of the old. Each is complete, and the old
//! ones are still there under their hidden names, `.NAME.PROCESS-NUMBER.tmp`. Only saving into a new
//! folder has no such moment.

mod replace;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// Writes one file as a whole or not at all, and makes its folder if need be.
///
/// # Errors
/// When the folder or the file cannot be written; what was there is then unchanged.
pub fn write_file(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    let Some(name) = path.file_name() else {
        return Err(Error::file(path, "it does not end in a file name"));
    };
    let mut files = FileSet::begin(path.parent().unwrap_or(Path::new("")))?;
    files.write(name, write)?;
    files.commit()
}

/// Files of one folder that are saved together.
pub struct FileSet {
    /// The folder they are for.
    folder: PathBuf,
    /// Where they are written, if `folder` does not exist yet.
    aside: Option<PathBuf>,
    /// Complete files: where they are, and their path inside the folder.
    files: Vec<(PathBuf, PathBuf)>,
    /// Folders made on the way, outermost first.
    made: Vec<PathBuf>,
    committed: bool,
}

impl FileSet {
    /// A set for `folder`, which is made if need be. That files can be written there is tried at
    /// once, before anyone has gone to the trouble of making them.
    ///
    /// # Errors
    /// When the folder cannot be made or written.
    pub fn begin(folder: impl AsRef<Path>) -> Result<FileSet> {
        let folder = match folder.as_ref() {
            here if here.as_os_str().is_empty() => PathBuf::from("."),
            folder => folder.to_owned(),
        };
        let mut set = FileSet {
            folder: folder.clone(),
            aside: None,
            files: Vec::new(),
            made: Vec::new(),
            committed: false,
        };
        let unwritable = |error: std::io::Error| {
            let problem =
                format!("cannot save there: {error}: choose a folder that can be written");
            Error::file(&folder, problem)
        };
        if folder.is_dir() {
            set.try_file().map_err(unwritable)?;
        } else if folder.symlink_metadata().is_ok() {
            return Err(unwritable(std::io::ErrorKind::NotADirectory.into()));
        } else {
            let aside = hidden(&folder);
            set.make_folders(&aside).map_err(unwritable)?;
            set.aside = Some(aside);
        }
        Ok(set)
    }

    /// Writes one file; `name` is its path inside the folder.
    ///
    /// # Errors
    /// When it cannot be written, or `name` leads out of the folder.
    pub fn write(
        &mut self,
        name: impl AsRef<Path>,
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<()> {
        let name = name.as_ref();
        let path = self.folder.join(name);
        check_inside(name).map_err(|problem| Error::file(&path, problem))?;
        let temporary = match &self.aside {
            Some(aside) => aside.join(name),
            None => hidden(&path),
        };
        let parent = temporary.parent().expect("it is inside a folder").to_owned();
        let written = self.make_folders(&parent).and_then(|()| {
            // Listed before it exists, so that it is removed whatever happens.
            self.files.push((temporary.clone(), name.to_owned()));
            write_synced(&temporary, write)
        });
        written.map_err(|error| Error::file(&path, format!("cannot write it: {error}")))
    }

    /// Puts the files in their place.
    ///
    /// # Errors
    /// When a folder stands where a file is to go, or a file cannot be renamed; what was there is
    /// then there again.
    pub fn commit(mut self) -> Result<()> {
        let renamed = match &self.aside {
            Some(aside) if fs::rename(aside, &self.folder).is_ok() => Ok(()),
            // Someone else has made the folder in the meantime.
            Some(_) if self.folder.is_dir() => self.move_files(),
            Some(aside) => fs::rename(aside, &self.folder),
            None => self.move_files(),
        };
        let failed = |error| Error::file(&self.folder, format!("cannot put files there: {error}"));
        renamed.map_err(failed)?;
        self.committed = true;
        if let Some(aside) = &self.aside {
            // Left over only where files were moved out of it.
            let _ = fs::remove_dir_all(aside);
        }
        self.sync_folders();
        Ok(())
    }

    fn move_files(&self) -> std::io::Result<()> {
        let target =
            |(temporary, name): &(PathBuf, PathBuf)| (temporary.clone(), self.folder.join(name));
        replace::files(&self.files.iter().map(target).collect::<Vec<_>>())
    }

    /// Makes `folder` and those around it, and remembers which were missing.
    fn make_folders(&mut self, folder: &Path) -> std::io::Result<()> {
        let missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|path| *path != Path::new("") && !path.is_dir())
            .collect();
        for path in missing.into_iter().rev() {
            match fs::create_dir(path) {
                Ok(()) => self.made.push(path.to_owned()),
                // Made by someone else since we looked; not ours to remove.
                Err(_) if path.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// That a file can be made in the folder.
    fn try_file(&self) -> std::io::Result<()> {
        let path = hidden(&self.folder.join("write"));
        File::create_new(&path)?;
        fs::remove_file(path)
    }

    /// Makes the new names survive a loss of power, where the system can; the files' contents are
    /// on disk already.
    fn sync_folders(&self) {
        for folder in self.changed_folders() {
            if let Ok(folder) = File::open(folder) {
                let _ = folder.sync_all();
            }
        }
    }

    /// Folders that have a new entry.
    fn changed_folders(&self) -> BTreeSet<PathBuf> {
        let files = self.files.iter().map(|(_, name)| self.folder.join(name));
        let folders = self.aside.iter().map(|_| self.folder.clone());
        let entries = files.chain(folders).chain(self.made.iter().cloned());
        let around = entries.filter_map(|path| path.parent().map(Path::to_owned));
        // The folder around `name` is the current one, which opens only as `.`.
        around
            .map(|path| if path.as_os_str().is_empty() { PathBuf::from(".") } else { path })
            .collect()
    }
}

impl Drop for FileSet {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        // Failures are ignored: an error is on its way already, and this is only tidying up.
        for (temporary, _) in &self.files {
            let _ = fs::remove_file(temporary);
        }
        for folder in self.made.iter().rev() {
            // Removes empty folders only, so nothing that others put there is lost.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// That `name` stays inside the folder it is joined to.
pub(super) fn check_inside(name: &Path) -> std::result::Result<(), String> {
    let mut parts = name.components();
    let inside = parts.all(|part| matches!(part, Component::Normal(_)));
    if inside && name.file_name().is_some() {
        return Ok(());
    }
    Err(format!("`{}` is not a name for a file in this folder", name.display()))
}

/// A name beside `path` that nobody else uses.
fn hidden(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{number}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn write_synced(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
    write(&mut out)?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()
}

#[cfg(test)]
mod tests;
