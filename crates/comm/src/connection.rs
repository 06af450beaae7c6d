//! Frames over one stream: writes them whole from any thread, reads them one by one.
//! Frames are counted in both directions, so a doubled frame is skipped and a gap ends the
//! connection; a read that times out in the middle of a frame goes on where it stopped.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::body::{Body, Pool};
use crate::frame::{HEADER, Header, Malformed};
use crate::transport::Stream;

/// Small frames are read through a buffer of this size: one system call for header and body.
const BUFFER: usize = 8192;

/// Why a connection can no longer be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the connection was closed")]
    Closed,
    #[error("{0}")]
    Io(io::Error),
    #[error("it sent {0}")]
    Malformed(Malformed),
    #[error("frames of the connection were lost")]
    Gap,
}

/// One authenticated or new connection.
pub(crate) struct Connection {
    stream: Arc<dyn Stream>,
    /// Sequence number of the next frame to write.
    writer: Mutex<u32>,
    reader: Mutex<FrameReader>,
    /// Bytes read so far.
    received: AtomicU64,
    broken: AtomicBool,
}

impl Connection {
    pub(crate) fn new(stream: Box<dyn Stream>) -> Connection {
        Connection {
            stream: stream.into(),
            writer: Mutex::new(0),
            reader: Mutex::new(FrameReader::new()),
            received: AtomicU64::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// Writes one frame; its sequence number and length are set here.
    pub(crate) fn send(&self, header: Header, parts: &[&[u8]]) -> io::Result<()> {
        self.send_by(header, parts, |slices| self.stream.write(slices))
            .inspect_err(|_| self.shutdown())
    }

    /// Like [`Connection::send`], but after each write timeout `patience` is asked whether to go
    /// on; its refusal is the error. After an error nothing more can be written, but what the peer
    /// wrote can still be read.
    pub(crate) fn send_patiently(
        &self,
        header: Header,
        parts: &[&[u8]],
        mut patience: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        self.send_by(header, parts, |mut slices| {
            while !slices.is_empty() {
                match self.stream.write_some(slices) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(count) => IoSlice::advance_slices(&mut slices, count),
                    Err(error) => match error.kind() {
                        ErrorKind::Interrupted => {}
                        ErrorKind::WouldBlock | ErrorKind::TimedOut => patience()?,
                        _ => return Err(error),
                    },
                }
            }
            Ok(())
        })
    }

    fn send_by(
        &self,
        mut header: Header,
        parts: &[&[u8]],
        write: impl FnOnce(&mut [IoSlice<'_>]) -> io::Result<()>,
    ) -> io::Result<()> {
        header.length = parts.iter().map(|part| part.len() as u64).sum();
        let mut next = lock(&self.writer);
        if self.is_broken() {
            return Err(ErrorKind::NotConnected.into());
        }
        header.sequence = *next;
        *next = next.wrapping_add(1);
        let head = header.encode();
        let mut slices = Vec::with_capacity(parts.len() + 1);
        slices.push(IoSlice::new(&head));
        slices.extend(parts.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)));
        // After a part of a frame nothing that follows could be read.
        write(&mut slices).inspect_err(|_| self.broken.store(true, Ordering::Release))
    }

    /// Writes a frame without a body if that needs no waiting; false if it would. After an error
    /// nothing more can be written, but what the peer wrote can still be read.
    pub(crate) fn try_send(&self, mut header: Header) -> io::Result<bool> {
        let Ok(mut next) = self.writer.try_lock() else { return Ok(false) };
        if self.is_broken() {
            return Err(ErrorKind::NotConnected.into());
        }
        header.sequence = *next;
        let written = self.stream.try_write(&header.encode());
        match &written {
            Ok(true) => *next = next.wrapping_add(1),
            Ok(false) => {}
            Err(_) => self.broken.store(true, Ordering::Release),
        }
        written
    }

    /// The next frame with a body of at most `limit` bytes; none when the read timed out.
    /// One thread at a time reads, others would wait here. After an error there is nothing to
    /// read, but a last frame may be written.
    pub(crate) fn receive(
        &self,
        limit: usize,
        pool: &Arc<Pool>,
    ) -> Result<Option<(Header, Body)>, Broken> {
        let source = Source { stream: &*self.stream, received: &self.received };
        lock(&self.reader).next(source, limit, pool)
    }

    /// Bytes read so far, of frames that are not complete too.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(crate) fn stream(&self) -> &dyn Stream {
        &*self.stream
    }

    /// Ends the connection; threads that read or write it come back with an error.
    pub(crate) fn shutdown(&self) {
        self.broken.store(true, Ordering::Release);
        self.stream.shutdown();
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }
}

/// A lock whose data stays valid when a thread panicked with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where frames come from.
#[derive(Clone, Copy)]
struct Source<'a> {
    stream: &'a dyn Stream,
    /// Counts the bytes.
    received: &'a AtomicU64,
}

struct FrameReader {
    buffer: Box<[u8]>,
    /// Unread bytes of the buffer.
    start: usize,
    end: usize,
    /// The frame being read: its header, its body, and how much of the body is there.
    partial: Option<(Header, Body, usize)>,
    expected: u32,
}

impl FrameReader {
    fn new() -> FrameReader {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        FrameReader { buffer, start: 0, end: 0, partial: None, expected: 0 }
    }

    fn next(
        &mut self,
        source: Source<'_>,
        limit: usize,
        pool: &Arc<Pool>,
    ) -> Result<Option<(Header, Body)>, Broken> {
        loop {
            if self.partial.is_none() {
                while self.end - self.start < HEADER {
                    if !self.fill(source)? {
                        return Ok(None);
                    }
                }
                self.begin(limit, pool)?;
            }
            if !self.read_body(source)? {
                return Ok(None);
            }
            let (header, body, _) = self.partial.take().expect("a frame is being read");
            let ahead = header.sequence.wrapping_sub(self.expected);
            if ahead == 0 {
                self.expected = self.expected.wrapping_add(1);
                return Ok(Some((header, body)));
            }
            if ahead < u32::MAX / 2 {
                return Err(Broken::Gap);
            }
        }
    }

    fn begin(&mut self, limit: usize, pool: &Arc<Pool>) -> Result<(), Broken> {
        let bytes = &self.buffer[self.start..self.start + HEADER];
        let bytes = bytes.try_into().expect("a header was read");
        let header = Header::decode(bytes, limit).map_err(Broken::Malformed)?;
        self.start += HEADER;
        let mut body = pool.take(header.length as usize);
        let ready = body.len().min(self.end - self.start);
        body.bytes_mut()[..ready].copy_from_slice(&self.buffer[self.start..self.start + ready]);
        self.start += ready;
        self.partial = Some((header, body, ready));
        Ok(())
    }

    /// Reads the rest of a body straight into its place; false when the read timed out.
    fn read_body(&mut self, source: Source<'_>) -> Result<bool, Broken> {
        let (_, body, filled) = self.partial.as_mut().expect("a frame is being read");
        while *filled < body.len() {
            match read(source, &mut body.bytes_mut()[*filled..])? {
                Some(count) => *filled += count,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn fill(&mut self, source: Source<'_>) -> Result<bool, Broken> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let count = read(source, &mut self.buffer[self.end..])?;
        self.end += count.unwrap_or(0);
        Ok(count.is_some())
    }
}

/// Reads something; none when the stream's read timeout passed.
fn read(source: Source<'_>, buffer: &mut [u8]) -> Result<Option<usize>, Broken> {
    loop {
        match source.stream.read(buffer) {
            Ok(0) => return Err(Broken::Closed),
            Ok(count) => {
                source.received.fetch_add(count as u64, Ordering::Relaxed);
                return Ok(Some(count));
            }
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(None),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => return Err(Broken::Closed),
                _ => return Err(Broken::Io(error)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::frame::Kind;
    use crate::{Memory, Transport};

    /// A connection, and the stream at its other end.
    fn pair() -> (Connection, Box<dyn Stream>) {
        let network = Memory::new(0);
        let bound = network.listen("host:0").unwrap();
        let stream = network.connect(&bound.endpoint, Duration::ZERO).unwrap();
        let other = bound.listeners[0].accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        (Connection::new(stream), other)
    }

    fn frame(sequence: u32, body: &[u8]) -> Vec<u8> {
        let length = body.len() as u64;
        let header = Header { sequence, length, ..Header::new(Kind::Reply) };
        [&header.encode()[..], body].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn frames_survive_any_cutting_into_pieces(
            sizes in prop::collection::vec(prop_oneof![0..50usize, 8_000..20_000usize], 1..8),
            pieces in prop::collection::vec(1..9_000usize, 1..20),
        ) {
            let (connection, other) = pair();
            let pool = Arc::default();
            let body = |step: usize| vec![step as u8 + 1; sizes[step]];
            let bytes: Vec<u8> =
                (0..sizes.len()).flat_map(|step| frame(step as u32, &body(step))).collect();
            let (mut rest, mut received) = (&bytes[..], 0);
            // A timeout between two pieces finds the frame half read.
            for piece in pieces.iter().chain([&usize::MAX]) {
                let (now, later) = rest.split_at(rest.len().min(*piece));
                rest = later;
                other.write(&mut [IoSlice::new(now)]).unwrap();
                while let Some((_, read)) = connection.receive(1 << 20, &pool).unwrap() {
                    prop_assert_eq!(&*read, &body(received)[..]);
                    received += 1;
                }
            }
            prop_assert_eq!(received, sizes.len());
        }
    }

    #[test]
    fn a_double_is_skipped_and_a_gap_is_the_end() {
        let (connection, other) = pair();
        let pool = Arc::default();
        for sequence in [0, 0, 1, 0, 3] {
            other.write(&mut [IoSlice::new(&frame(sequence, b"body"))]).unwrap();
        }
        for expected in [0, 1] {
            let (header, _) = connection.receive(9, &pool).unwrap().unwrap();
            assert_eq!(header.sequence, expected);
        }
        assert!(matches!(connection.receive(9, &pool), Err(Broken::Gap)));
    }

    #[test]
    fn a_ping_is_a_frame_of_the_sequence() {
        let (connection, other) = pair();
        connection.send(Header::new(Kind::Request), &[b"abc"]).unwrap();
        assert!(connection.try_send(Header::new(Kind::Ping)).unwrap());
        connection.send(Header::new(Kind::Request), &[]).unwrap();
        let other = Connection::new(other);
        let kinds = [Kind::Request, Kind::Ping, Kind::Request];
        for kind in kinds {
            assert_eq!(other.receive(9, &Arc::default()).unwrap().unwrap().0.kind, kind);
        }
        connection.shutdown();
        assert!(connection.send(Header::new(Kind::Request), &[]).is_err());
        assert!(matches!(other.receive(9, &Arc::default()), Err(Broken::Closed)));
    }
}
