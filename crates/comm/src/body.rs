//! Received bytes in memory aligned for any array, taken from a pool and returned to it.
//! Memory in the pool has been initialised once; so no request pays for zeroing a large buffer.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that the pool keeps at most.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// Buffers that the pool keeps at most.
const MAX_KEPT: usize = 128;

/// A cache line: the unit of the pool's memory.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// The bytes of a request or a reply, aligned to 64 bytes: `bytemuck::cast_slice` reads arrays in
/// place. Dereferences to `[u8]`.
pub struct Body {
    lines: Box<[Line]>,
    length: usize,
    pool: Option<Arc<Pool>>,
}

impl Body {
    /// A body of its own with a copy of `bytes`; for tests of handlers.
    pub fn copy_of(bytes: &[u8]) -> Body {
        let mut body = Body { lines: lines(bytes.len()), length: bytes.len(), pool: None };
        body.bytes_mut().copy_from_slice(bytes);
        body
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.length]
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({} bytes)", self.length)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.put(std::mem::take(&mut self.lines));
        }
    }
}

/// Buffers between two requests; bounded in number and bytes.
#[derive(Default)]
pub(crate) struct Pool {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Sorted by length.
    buffers: Vec<Box<[Line]>>,
    bytes: usize,
}

impl Pool {
    pub(crate) fn take(self: &Arc<Self>, length: usize) -> Body {
        let wanted = length.div_ceil(64);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.buffers.partition_point(|buffer| buffer.len() < wanted);
        // A far larger buffer is left for a body that needs it.
        let fits = kept.buffers.get(at).is_some_and(|found| found.len() <= 4 * wanted);
        let lines = if fits {
            let found = kept.buffers.remove(at);
            kept.bytes -= found.len() * 64;
            found
        } else {
            drop(kept);
            // An eighth more, so that requests of about the same size share buffers.
            lines(length + length / 8)
        };
        Body { lines, length, pool: Some(self.clone()) }
    }

    /// A body with a copy of these parts, one after the other.
    pub(crate) fn copy(self: &Arc<Self>, parts: &[&[u8]]) -> Body {
        let mut body = self.take(parts.iter().map(|part| part.len()).sum());
        let mut rest = body.bytes_mut();
        for part in parts {
            let (to, after) = rest.split_at_mut(part.len());
            to.copy_from_slice(part);
            rest = after;
        }
        body
    }

    fn put(&self, buffer: Box<[Line]>) {
        let bytes = buffer.len() * 64;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes == 0 || kept.buffers.len() == MAX_KEPT || kept.bytes + bytes > MAX_KEPT_BYTES {
            return;
        }
        let at = kept.buffers.partition_point(|other| other.len() < buffer.len());
        kept.buffers.insert(at, buffer);
        kept.bytes += bytes;
    }
}

fn lines(bytes: usize) -> Box<[Line]> {
    bytemuck::allocation::zeroed_slice_box(bytes.div_ceil(64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_aligned_and_come_back() {
        let pool = Arc::new(Pool::default());
        let mut body = pool.take(1000);
        body.bytes_mut().fill(7);
        let address = body.as_ptr();
        assert_eq!(address.align_offset(64), 0);
        assert_eq!(body.len(), 1000);
        drop(body);
        let again = pool.take(990);
        assert_eq!((again.as_ptr(), again.len()), (address, 990));
        assert_ne!(pool.take(990).as_ptr(), address);
        assert_eq!(&*pool.copy(&[b"ab", b"", b"c"]), b"abc");
    }

    #[test]
    fn a_small_body_leaves_a_large_buffer_alone() {
        let pool = Arc::new(Pool::default());
        drop(pool.take(1 << 20));
        drop(pool.take(10));
        assert_eq!(pool.kept.lock().unwrap().buffers.len(), 2);
        assert!(pool.take(0).is_empty());
    }

    #[test]
    fn a_copy_equals_its_bytes() {
        assert_eq!(&*Body::copy_of(b"abc"), b"abc");
    }
}
