//! IDX files, plain or gzipped: MNIST's images and labels.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;

/// Pixels of one image.
pub(crate) const PIXELS: usize = 28 * 28;

/// The most bytes that a file may hold, unpacked; MNIST's largest has 47 million.
const MAX_BYTES: u64 = 256 << 20;

/// One part of MNIST.
pub(crate) struct Images {
    /// [`PIXELS`] numbers an image, from 0 (black) to 1.
    pub(crate) pixels: Vec<f32>,
    /// The digit on each image.
    pub(crate) labels: Vec<i64>,
}

impl Images {
    /// Reads the images and labels whose file names start with `part`: `train` or `t10k`.
    pub(crate) fn read(folder: &Path, part: &str) -> Result<Images> {
        let [images, labels] = file_names(part).map(|name| find(folder, &name));
        let pixels = read(&images, &[28, 28])?;
        let labels = read(&labels, &[])?;
        ensure!(
            pixels.len() == labels.len() * PIXELS,
            "`{part}` has {} images, but {} labels",
            pixels.len() / PIXELS,
            labels.len()
        );
        ensure!(labels.iter().all(|label| *label < 10), "`{part}` has a label above 9");
        let scaled = |pixel: &u8| f32::from(*pixel) / 255.0;
        Ok(Images {
            pixels: pixels.iter().map(scaled).collect(),
            labels: labels.iter().map(|label| i64::from(*label)).collect(),
        })
    }

    /// Whether `folder` holds all four files.
    pub(crate) fn are_in(folder: &Path) -> bool {
        let mut names = ["train", "t10k"].into_iter().flat_map(file_names);
        names.all(|name| find(folder, &name).is_file())
    }

    /// The number of images.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }
}

/// The files of `part`: images, labels.
fn file_names(part: &str) -> [String; 2] {
    [format!("{part}-images-idx3-ubyte"), format!("{part}-labels-idx1-ubyte")]
}

/// The file `name` if it is there, or else its gzipped form.
fn find(folder: &Path, name: &str) -> PathBuf {
    let plain = folder.join(name);
    if plain.is_file() { plain } else { folder.join(format!("{name}.gz")) }
}

/// The bytes of an IDX file whose entries have the dimensions `entry`.
fn read(path: &Path, entry: &[u32]) -> Result<Vec<u8>> {
    let shown = || format!("cannot read `{}`", path.display());
    let file = File::open(path).with_context(shown)?;
    let unpacked: Box<dyn Read> = match path.extension() {
        Some(ending) if ending == "gz" => Box::new(GzDecoder::new(file)),
        _ => Box::new(file),
    };
    let bytes = bounded(unpacked, MAX_BYTES).with_context(shown)?;
    parse(&bytes, entry).with_context(shown)
}

/// All that `source` holds, unless that is more than `most` bytes: a small gzipped file can unpack
/// to any size.
fn bounded(source: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= most, "it holds more than {most} bytes");
    Ok(bytes)
}

/// Checks the header: two zeros, type 8 (bytes), the number of dimensions, and the dimensions.
fn parse(bytes: &[u8], entry: &[u32]) -> Result<Vec<u8>> {
    let rank = entry.len() + 1;
    let Some((header, data)) = bytes.split_at_checked(4 + 4 * rank) else {
        bail!("the file ends inside its header");
    };
    ensure!(header[..4] == [0, 0, 8, rank as u8], "not an IDX file of bytes in {rank} dimensions");
    let dims: Vec<u32> = header[4..].as_chunks().0.iter().map(|b| u32::from_be_bytes(*b)).collect();
    ensure!(dims[1..] == *entry, "the entries have dimensions {:?}, not {entry:?}", &dims[1..]);
    let expected: u64 = dims.iter().map(|dim| u64::from(*dim)).product();
    ensure!(
        data.len() as u64 == expected,
        "the header promises {expected} bytes, but {} follow",
        data.len()
    );
    Ok(data.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_long_as_its_header_says() {
        let labels = [0, 0, 8, 1, 0, 0, 0, 2, 7, 9];
        assert_eq!(parse(&labels, &[]).unwrap(), [7, 9]);
        let refused = |bytes: &[u8], entry: &[u32], reason: &str| {
            let error = parse(bytes, entry).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        };
        refused(&labels[..9], &[], "promises 2 bytes, but 1 follow");
        refused(&labels[..6], &[], "ends inside its header");
        refused(&labels, &[28, 28], "ends inside its header");
        refused(&[1; 12], &[], "not an IDX file");
    }

    #[test]
    fn an_endless_file_is_not_read_to_its_end() {
        let error = bounded(std::io::repeat(0), 1000).unwrap_err().to_string();
        assert!(error.contains("more than 1000 bytes"), "{error}");
        assert_eq!(bounded(&[1u8, 2][..], 2).unwrap(), [1, 2]);
    }

    #[test]
    fn all_four_files_are_needed() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["train", "t10k"].into_iter().flat_map(file_names);
        for (index, name) in names.enumerate() {
            assert!(!Images::are_in(folder.path()));
            let ending = if index % 2 == 0 { "" } else { ".gz" };
            std::fs::write(folder.path().join(name + ending), "").unwrap();
        }
        assert!(Images::are_in(folder.path()));
    }
}
