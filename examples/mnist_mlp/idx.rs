//! IDX files, plain or gzipped: MNIST's images and labels.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;

/// Pixels of one image.
pub(crate) const PIXELS: usize = 28 * 28;

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
        let pixels = read(folder, &format!("{part}-images-idx3-ubyte"), &[28, 28])?;
        let labels = read(folder, &format!("{part}-labels-idx1-ubyte"), &[])?;
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

    /// The number of images.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }
}

/// The bytes of an IDX file whose entries have the dimensions `entry`.
fn read(folder: &Path, name: &str, entry: &[u32]) -> Result<Vec<u8>> {
    let plain = folder.join(name);
    let zipped = folder.join(format!("{name}.gz"));
    let path = if plain.is_file() { &plain } else { &zipped };
    let shown = || format!("cannot read `{}`", path.display());
    let mut bytes = Vec::new();
    let mut file = File::open(path).with_context(shown)?;
    if path == &plain {
        file.read_to_end(&mut bytes).with_context(shown)?;
    } else {
        GzDecoder::new(file).read_to_end(&mut bytes).with_context(shown)?;
    }
    parse(&bytes, entry).with_context(shown)
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
}
