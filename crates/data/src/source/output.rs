//! A file that appears when it is whole, compressed if its name says so.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{Error, Result};

/// Bytes that are kept before they are written.
const BLOCK: usize = 1 << 18;

/// Writes a file aside, with gzip or zstd if its name ends in `.gz` or `.zst`; gives it its name in
/// [`Output::finish`], or removes it when it is dropped before.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    aside: PathBuf,
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
        let name = path.file_name().ok_or_else(|| failed(path, &"it is no name of a file"))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let aside = path.with_file_name(hidden);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(path, &error))?;
        }
        let file = File::create(&aside).map_err(|error| failed(path, &error))?;
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
        let renamed = file
            .and_then(|mut file| file.flush())
            .and_then(|()| fs::rename(&self.aside, &self.path));
        renamed.map_err(|error| failed(&self.path, &error))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // It is gone when it has been renamed.
        fs::remove_file(&self.aside).ok();
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

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Output { path: path.to_owned(), problem: error.to_string() }
}
