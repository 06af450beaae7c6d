//! A file that appears when it is whole, compressed if its name says so. What is no file (a pipe, a
//! terminal, a device) is written as it is and never replaced.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{Error, Result};

/// Bytes that are kept before they are written.
const BLOCK: usize = 1 << 18;

/// Writes a file aside, with gzip or zstd if its name ends in `.gz` or `.zst`; gives it its name in
/// [`Output::finish`], or removes it when it is dropped before. Pipes and devices are written at
/// once.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    /// Where a file is until it is whole.
    aside: Option<PathBuf>,
    to: Option<To>,
}

enum To {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl Output {
    /// Starts a file, in a folder that is made where it is missing.
    ///
    /// # Errors
    /// When the folder or the file cannot be made.
    pub fn create(path: &Path) -> Result<Output> {
        let existing = fs::metadata(path);
        if existing.as_ref().is_ok_and(fs::Metadata::is_dir) {
            return Err(failed(path, &"it is a folder"));
        }
        // Renaming a file to `/dev/stdout` would take that away from everybody.
        let special = existing.is_ok_and(|found| !found.is_file())
            || ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
        let aside = match special {
            true => None,
            false => Some(aside(path)?),
        };
        let opened = match &aside {
            Some(aside) => File::create(aside),
            // Standard output may be a file that has something already.
            None => OpenOptions::new().append(true).open(path),
        };
        let file = opened.map_err(|error| failed(path, &error))?;
        let mut output = Output { path: path.to_owned(), aside, to: None };
        let file = BufWriter::with_capacity(BLOCK, file);
        output.to = Some(match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => To::Gzip(GzEncoder::new(file, Compression::default())),
            Some("zst") => {
                To::Zstd(zstd::Encoder::new(file, 0).map_err(|error| failed(path, &error))?)
            }
            _ => To::Plain(file),
        });
        Ok(output)
    }

    /// Writes further bytes.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match &mut self.to {
            Some(To::Plain(to)) => to.write_all(bytes),
            Some(To::Gzip(to)) => to.write_all(bytes),
            Some(To::Zstd(to)) => to.write_all(bytes),
            None => Err(io::Error::other("it has ended")),
        };
        written.map_err(|error| failed(&self.path, &error))
    }

    /// Ends the file and gives it its name.
    ///
    /// # Errors
    /// When it cannot be written or renamed.
    pub fn finish(mut self) -> Result<()> {
        let file = match self.to.take() {
            Some(To::Plain(to)) => Ok(to),
            Some(To::Gzip(to)) => to.finish(),
            Some(To::Zstd(to)) => to.finish(),
            None => Err(io::Error::other("it has ended")),
        };
        let flushed = file.and_then(|mut file| file.flush());
        let renamed = flushed.and_then(|()| match &self.aside {
            Some(aside) => fs::rename(aside, &self.path),
            None => Ok(()),
        });
        renamed.map_err(|error| failed(&self.path, &error))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(aside) = &self.aside {
            // It is gone when it has been renamed.
            fs::remove_file(aside).ok();
        }
    }
}

impl std::fmt::Debug for To {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            To::Plain(_) => "Plain",
            To::Gzip(_) => "Gzip",
            To::Zstd(_) => "Zstd",
        })
    }
}

/// Where a file is written until it is whole, in a folder that is made where it is missing.
fn aside(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| failed(path, &"it is no name of a file"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.part", std::process::id()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed(path, &error))?;
    }
    Ok(path.with_file_name(hidden))
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Output { path: path.to_owned(), problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_written_and_not_replaced() {
        let mut output = Output::create(Path::new("/dev/null")).unwrap();
        assert!(output.aside.is_none());
        output.write(b"1 1\n").unwrap();
        output.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let folder = tempfile::tempdir().unwrap();
        let error = Output::create(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("it is a folder"), "{error}");
    }
}
