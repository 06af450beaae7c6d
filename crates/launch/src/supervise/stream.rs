//! Worker 0's log, passed on to the user as it grows.
//!
//! The process writes to its file, not to us: it never waits for a slow terminal, and its last
//! words are on disk even when the launcher is killed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::fs::inotify;

use super::process::Log;
use super::screen::Screen;

/// A line longer than this is passed on in pieces.
const LONGEST: usize = 64 * 1024;

/// A log that is read while it is written.
pub(super) struct Stream {
    file: File,
    prefix: String,
    /// The last line, as far as it is there.
    line: Vec<u8>,
    /// Whether the cursor went back to its beginning.
    returned: bool,
    /// Tells of changes; where the system has none left, the log is looked at now and then.
    changes: Option<OwnedFd>,
}

impl Stream {
    /// Follows a log from where its process begins.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn open(log: &Log, prefix: &str) -> Result<Stream> {
        let mut file = File::open(&log.path)
            .with_context(|| format!("cannot read the log `{}`", log.path.display()))?;
        file.seek(SeekFrom::Start(log.start))?;
        let changes = || -> rustix::io::Result<OwnedFd> {
            let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
            let changes = inotify::init(flags)?;
            inotify::add_watch(&changes, &log.path, inotify::WatchFlags::MODIFY)?;
            Ok(changes)
        };
        let (prefix, line, changes) = (prefix.to_owned(), Vec::new(), changes().ok());
        Ok(Stream { file, prefix, line, returned: false, changes })
    }

    /// Readable when the log has changed; `None` if nobody tells.
    pub(super) fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.changes.as_ref().map(AsFd::as_fd)
    }

    /// Passes on what is new, whole lines of it.
    pub(super) fn pump(&mut self, screen: &Screen) {
        if let Some(changes) = &self.changes {
            let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
            let mut reader = inotify::Reader::new(changes, &mut buffer);
            while reader.next().is_ok() {}
        }
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = self.file.read(&mut buffer) {
            let mut out = Vec::with_capacity(count + self.prefix.len() * 16);
            buffer[..count].iter().for_each(|byte| self.take(*byte, &mut out));
            if !out.is_empty() {
                screen.pass_on(&out);
            }
        }
    }

    /// Passes on the rest, a line without an end too.
    pub(super) fn finish(&mut self, screen: &Screen) {
        self.pump(screen);
        if !self.line.is_empty() {
            let mut out = Vec::new();
            self.flush(&mut out);
            screen.pass_on(&out);
        }
    }

    fn take(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'\n' => self.flush(out),
            b'\r' => self.returned = true,
            byte => {
                // A progress bar that draws itself anew: its last state is the line.
                if std::mem::take(&mut self.returned) {
                    self.line.clear();
                }
                self.line.push(byte);
                if self.line.len() >= LONGEST {
                    self.flush(out);
                }
            }
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix.as_bytes());
        out.append(&mut self.line);
        out.push(b'\n');
        self.returned = false;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::supervise::Level;

    #[test]
    fn whole_lines_are_passed_on_with_a_prefix() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"before\n").unwrap();
        let log = Log { path: file.path().to_owned(), start: 7 };
        let screen = Screen::captured(Level::Info);
        let mut stream = Stream::open(&log, "[worker 0] ").unwrap();
        assert!(stream.changes().is_some());
        file.write_all(b"one\ntwo and").unwrap();
        stream.pump(&screen);
        assert_eq!(screen.seen().0, "[worker 0] one\n");
        file.write_all(b" a half\n10%\r20%\r\nlast").unwrap();
        stream.finish(&screen);
        let expected =
            "[worker 0] one\n[worker 0] two and a half\n[worker 0] 20%\n[worker 0] last\n";
        assert_eq!(screen.seen().0, expected);
    }
}
