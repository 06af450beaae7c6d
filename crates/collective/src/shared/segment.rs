//! A piece of memory that several processes map. It has no name in any file system: the others find
//! it through the process that made it, and it is gone when the last of them is.
#![expect(unsafe_code, reason = "memory is mapped here")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Bytes in front of what the ranks use: the mark.
const HEAD: usize = 4096;

/// Mapped memory.
pub(crate) struct Segment {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is plain memory that belongs to no thread; who may touch which part when is decided by
// the phases of the calls.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// A segment, and what keeps it open until the others have mapped it.
pub(crate) struct Made {
    pub(crate) segment: Segment,
    file: OwnedFd,
}

impl Made {
    /// Where another process of this host finds it.
    pub(crate) fn place(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

impl Segment {
    /// Makes a segment of this many zero bytes, marked so that it cannot be mistaken.
    pub(crate) fn make(length: usize, mark: u64) -> io::Result<Made> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("bireme", flags)?;
        rustix::fs::ftruncate(&file, (HEAD + length) as u64)?;
        // Nobody can cut it under our feet.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let segment = Segment::map(&file, length)?;
        // SAFETY: the head is mapped and nobody else knows of it yet.
        unsafe { segment.start.cast::<u64>().write(mark) };
        Ok(Made { segment, file })
    }

    /// Maps the segment of another process if it has this length and mark.
    pub(crate) fn open(place: &str, length: usize, mark: u64) -> io::Result<Segment> {
        let file = rustix::fs::open(place, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        if rustix::fs::fstat(&file)?.st_size as u64 != (HEAD + length) as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let segment = Segment::map(&file, length)?;
        // SAFETY: the head is mapped, and was written before its place was told.
        if unsafe { segment.start.cast::<u64>().read() } != mark {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(segment)
    }

    fn map(file: &OwnedFd, length: usize) -> io::Result<Segment> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let length = HEAD + length;
        // SAFETY: a new mapping of a file that nobody can shorten.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Segment { start, length })
    }

    /// The address of `length` bytes from `at`, which must be inside.
    pub(crate) fn pointer(&self, at: usize, length: usize) -> *mut u8 {
        assert!(HEAD + at + length <= self.length, "a place inside of the segment");
        // SAFETY: inside of the mapping, as was just checked.
        unsafe { self.start.as_ptr().add(HEAD + at) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing that points into it outlives this.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_mapping_sees_what_was_written() {
        let made = Segment::make(100, 7).unwrap();
        let other = Segment::open(&made.place(), 100, 7).unwrap();
        // SAFETY: nobody else touches the segment.
        unsafe {
            made.segment.pointer(99, 1).write(5);
            assert_eq!(other.pointer(99, 1).read(), 5);
        }
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let made = Segment::make(100, 7).unwrap();
        assert!(Segment::open(&made.place(), 100, 8).is_err());
        assert!(Segment::open(&made.place(), 101, 7).is_err());
        assert!(Segment::open("/proc/self/fd/1000000", 100, 7).is_err());
        let place = made.place();
        drop(made);
        assert!(Segment::open(&place, 100, 7).is_err());
    }
}
