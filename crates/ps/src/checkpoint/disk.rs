//! The operations that change the disk, in one place, so that a test can stop after any of them.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::Holdings;

/// The disk, or in tests a disk that stops answering after some operations as if the machine had
/// been switched off.
#[derive(Default)]
pub(super) struct Disk<'a> {
    /// Told of every operation, so that a slow disk is not taken for a stuck one.
    holdings: Option<&'a dyn Holdings>,
    #[cfg(test)]
    left: Option<std::sync::atomic::AtomicUsize>,
}

impl<'a> Disk<'a> {
    /// The disk on which these holdings are saved.
    pub(super) fn of(holdings: &'a dyn Holdings) -> Disk<'a> {
        Disk {
            holdings: Some(holdings),
            #[cfg(test)]
            left: None,
        }
    }

    #[cfg(test)]
    pub(super) fn stopping_after(operations: usize) -> Disk<'a> {
        Disk { left: Some(operations.into()), holdings: None }
    }

    /// Something was written.
    pub(super) fn progressed(&self) {
        if let Some(holdings) = self.holdings {
            holdings.progressed();
        }
    }

    #[cfg(test)]
    fn may(&self) -> io::Result<()> {
        self.progressed();
        use std::sync::atomic::Ordering::SeqCst;
        let Some(left) = &self.left else { return Ok(()) };
        let step = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        step.map(|_| ()).map_err(|_| io::Error::other("the power went out"))
    }

    #[cfg(not(test))]
    #[expect(clippy::unnecessary_wraps, reason = "it fails in tests")]
    fn may(&self) -> io::Result<()> {
        self.progressed();
        Ok(())
    }

    /// Makes a folder and those above it.
    pub(super) fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.may()?;
        fs::create_dir_all(path)
    }

    /// Makes a file, empty if it was there.
    pub(super) fn create(&self, path: &Path) -> io::Result<File> {
        self.may()?;
        File::create(path)
    }

    /// Opens a file to write at its end.
    pub(super) fn append(&self, path: &Path) -> io::Result<File> {
        self.may()?;
        fs::OpenOptions::new().create(true).append(true).open(path)
    }

    /// Returns when what was written to the file is on the disk: a large file is not left to its
    /// end, when it would take long.
    pub(super) fn sync_data(&self, file: &File) -> io::Result<()> {
        self.may()?;
        file.sync_data()
    }

    /// Returns when the file is on the disk.
    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        self.may()?;
        file.sync_all()
    }

    /// Gives a file its name, in place of the file that had it.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.may()?;
        fs::rename(from, to)
    }

    /// Removes a file; that it is not there is fine.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        self.may()?;
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Returns when the names in a folder are on the disk.
    pub(super) fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.may()?;
        File::open(path)?.sync_all()
    }
}
