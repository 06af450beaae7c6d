//! The bytes of a file, uncompressed.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// Bytes that a decoder takes from a file at once.
const COMPRESSED_BLOCK: usize = 1 << 17;
/// How files start that are compressed. No text starts like that.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// How Parquet files start.
const PARQUET: &[u8] = b"PAR1";

/// The text of a file, uncompressed.
///
/// # Errors
/// When it cannot be read.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    Ok(Input::open(path)?.into_read())
}

/// A file that is open.
pub(super) enum Input {
    /// As it is; a process can take it over.
    Plain(File),
    /// Through a decoder.
    Compressed(Box<dyn Read + Send>),
    /// Not text, but a table.
    #[cfg(feature = "parquet")]
    Table(File),
}

impl Input {
    /// Opens a file, and looks whether it is compressed.
    pub(super) fn open(path: &Path) -> io::Result<Input> {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            // A pipe or a device: what has been read is gone, so its first bytes stay unread.
            return Ok(Input::Plain(file));
        }
        let mut start = Vec::new();
        file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut start)?;
        file.rewind()?;
        if start.starts_with(&GZIP) {
            let file = BufReader::with_capacity(COMPRESSED_BLOCK, file);
            return Ok(Input::Compressed(Box::new(MultiGzDecoder::new(file))));
        }
        if start == ZSTD {
            let file = BufReader::with_capacity(COMPRESSED_BLOCK, file);
            return Ok(Input::Compressed(Box::new(zstd::Decoder::with_buffer(file)?)));
        }
        if start == PARQUET {
            #[cfg(feature = "parquet")]
            return Ok(Input::Table(file));
            #[cfg(not(feature = "parquet"))]
            return Err(io::Error::other(
                "it is a Parquet file, which this build does not read: build Bireme with the \
                 feature `parquet`",
            ));
        }
        Ok(Input::Plain(file))
    }

    /// The bytes, as a stream.
    pub(super) fn into_read(self) -> Box<dyn Read + Send> {
        match self {
            Input::Plain(file) => Box::new(file),
            Input::Compressed(reader) => reader,
            #[cfg(feature = "parquet")]
            Input::Table(file) => Box::new(file),
        }
    }
}
