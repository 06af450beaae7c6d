//! The kernels as they are carried in the program: what `cargo xtask kernels` made of `kernels/`.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::OnceLock;

use flate2::read::ZlibDecoder;

/// A file of kernels, compressed.
struct Image {
    name: &'static str,
    /// Code for compute capability 9.0a.
    cubin: &'static [u8],
    /// For 8.0 and later.
    ptx: &'static [u8],
}

macro_rules! image {
    ($name:literal) => {
        Image {
            name: $name,
            cubin: include_bytes!(concat!($name, ".cubin.z")),
            ptx: include_bytes!(concat!($name, ".ptx.z")),
        }
    };
}

/// Every file of `kernels/`.
const IMAGES: &[Image] = include!("../../compiled/images");

/// Which file has which kernel, and which of them wait for the one before them.
const INDEX: &str = include_str!("../../compiled/index");

/// Stands for a file on the emulated card, which has the kernels itself.
pub(super) const EMULATED: &str = "emulated";

/// The file that has a kernel.
pub(super) fn file_of(kernel: &str) -> Option<&'static str> {
    entry(kernel).map(|entry| entry.split_once(' ').map_or(entry, |(file, _)| file))
}

/// Whether a kernel waits by itself until the one before it is done, in code for compute capability 9.0.
pub(super) fn waits(kernel: &str) -> bool {
    entry(kernel).is_some_and(|entry| entry.ends_with(" waits"))
}

/// What the index says of a kernel.
fn entry(kernel: &str) -> Option<&'static str> {
    static ENTRIES: OnceLock<HashMap<&str, &str>> = OnceLock::new();
    let entries =
        ENTRIES.get_or_init(|| INDEX.lines().filter_map(|line| line.split_once(' ')).collect());
    entries.get(kernel).copied()
}

/// The image of a file: its code, or its PTX.
pub(super) fn image(file: &str, is_code: bool) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    if file == EMULATED {
        return Ok(unpacked);
    }
    let image = IMAGES.iter().find(|image| image.name == file);
    let image = image.ok_or_else(|| io::Error::other("not in this program"))?;
    let packed = if is_code { image.cubin } else { image.ptx };
    ZlibDecoder::new(packed).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_can_be_unpacked() {
        assert_eq!(
            (file_of("check_finite_f32"), waits("check_finite_f32")),
            (Some("check"), false)
        );
        assert_eq!((file_of("outer_f32"), waits("outer_f32")), (Some("products"), true));
        for image_of in IMAGES {
            assert!(image(image_of.name, true).is_ok_and(|code| code.starts_with(b"\x7fELF")));
            let ptx = image(image_of.name, false).expect("it was packed by the compiler");
            assert!(String::from_utf8_lossy(&ptx).contains(".target sm_80"), "{}", image_of.name);
        }
    }
}
