//! The kernels as they are carried in the program.

/// A file of kernels: its name, its code for compute capability 9.0a, and its PTX for 8.0 and later;
/// both compressed with zstd.
pub(super) type Image = (&'static str, &'static [u8], &'static [u8]);

/// All files of kernels.
pub(super) fn images() -> &'static [Image] {
    &[]
}
