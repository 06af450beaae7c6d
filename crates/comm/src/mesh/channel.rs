//! One channel of a mesh: writes from any thread, reads on a thread of its own.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Ended, Message, State};
use crate::connection::{Connection, lock};
use crate::frame::{HEADER, Header, Kind};
use crate::{Error, Result};

/// Longest text of an abort.
const LONGEST_REASON: usize = 4096;

/// The connection to one peer.
pub(super) struct Channel {
    rank: usize,
    connection: Arc<Connection>,
    /// Milliseconds from the start of the mesh to the last frame.
    heard: AtomicU64,
    /// The receiver takes its time with a message; silence is our own fault.
    busy: AtomicBool,
    over: AtomicBool,
    /// We said goodbye, and the answer has not come.
    awaited: AtomicBool,
    /// Bytes of the connection when the keeper looked last: a large message on a slow link is a
    /// sign of life long before it is complete.
    seen: AtomicU64,
}

impl Channel {
    pub(super) fn new(state: &State, rank: usize, connection: Arc<Connection>) -> Channel {
        let channel = Channel {
            rank,
            connection,
            heard: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            over: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            seen: AtomicU64::new(0),
        };
        channel.heard(state);
        channel
    }

    pub(super) fn send(
        &self,
        state: &State,
        method: u16,
        number: u64,
        note: u64,
        parts: &[&[u8]],
    ) -> Result<()> {
        let start = Instant::now();
        let header = Header { method, number, acknowledged: note, ..Header::new(Kind::Request) };
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > state.settings.max_frame {
            let limit = state.settings.max_frame;
            let problem = format!("a message of {length} bytes, but one has at most {limit}");
            return Err(Error::Protocol { peer: state.me().to_string(), problem });
        }
        let mut problem = None;
        let written = self.connection.send_patiently(header, parts, || {
            let peer = state.name(self.rank);
            let request = "a message to be taken".to_string();
            if state.is_interrupted() {
                problem = Some(Error::Interrupted { peer, request });
            } else if start.elapsed() > state.settings.deadline {
                let after = state.settings.deadline;
                problem = Some(Error::Deadline { peer, request, after });
            } else if !self.is_over() {
                return Ok(());
            }
            Err(ErrorKind::TimedOut.into())
        });
        state.sent.fetch_add((HEADER + length) as u64, Ordering::Relaxed);
        written.map_err(|error| {
            if problem.is_some() {
                self.connection.shutdown();
            }
            problem.unwrap_or_else(|| Error::Lost {
                peer: state.name(self.rank),
                problem: match error.kind() {
                    ErrorKind::BrokenPipe
                    | ErrorKind::ConnectionReset
                    | ErrorKind::NotConnected
                    | ErrorKind::TimedOut => "the connection was closed".to_string(),
                    _ => error.to_string(),
                },
            })
        })
    }

    /// Reads until the channel ends.
    pub(super) fn read(&self, state: &State) {
        let limit = state.settings.max_frame;
        let why = loop {
            let (header, body) = match self.connection.receive(limit, &state.pool) {
                Ok(Some(frame)) => frame,
                Ok(None) => continue,
                Err(broken) => break Ended::Lost(broken.to_string()),
            };
            self.heard(state);
            match header.kind {
                Kind::Request => {
                    let Header { method, number, acknowledged: note, .. } = header;
                    self.busy.store(true, Ordering::Relaxed);
                    state.receiver.message(self.rank, Message { method, number, note, body });
                    self.heard(state);
                    self.busy.store(false, Ordering::Relaxed);
                }
                Kind::Heartbeat => {}
                Kind::Goodbye => {
                    // The answer to ours, or a peer that waits for one.
                    if !self.awaited.load(Ordering::Acquire) {
                        let end = Instant::now() + state.settings.deadline;
                        let _ = self.write_goodbye(state, end);
                    }
                    break Ended::Left;
                }
                Kind::Failure => {
                    let text = &body[..body.len().min(LONGEST_REASON)];
                    break Ended::Aborted(String::from_utf8_lossy(text).into_owned());
                }
                kind => break Ended::Lost(format!("it sent a frame of kind {kind:?}")),
            }
        };
        self.finish(state, why);
    }

    /// Ends the channel; the first reason counts.
    pub(super) fn finish(&self, state: &State, why: Ended) {
        self.awaited.store(false, Ordering::Release);
        if !self.over.swap(true, Ordering::AcqRel) {
            // Whoever left may still read our answer.
            if why != Ended::Left {
                self.connection.shutdown();
            }
            if !state.closing.load(Ordering::Acquire) {
                let text = match &why {
                    Ended::Left => "it left",
                    Ended::Aborted(text) | Ended::Lost(text) => text,
                };
                let mut forming = lock(&state.forming);
                forming.gone.get_or_insert_with(|| (self.rank, text.to_string()));
            }
            state.receiver.ended(self.rank, why);
        }
        drop(lock(&state.forming));
        state.changed.notify_all();
    }

    pub(super) fn beat(&self, state: &State) {
        // A peer that takes none is noticed by the thread that reads, after its last words.
        let sent = !self.is_over()
            && self.connection.try_send(Header::new(Kind::Heartbeat)).is_ok_and(|sent| sent);
        if sent {
            state.sent.fetch_add(HEADER as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn tell_abort(&self, why: &str) {
        if self.is_over() {
            return;
        }
        let mut end = why.len().min(LONGEST_REASON);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        // A peer that takes nothing learns it from the end of the connection.
        let _ = self.tell(Kind::Failure, &why.as_bytes()[..end]);
    }

    /// Writes last words, for which nobody waits longer than for one write.
    fn tell(&self, kind: Kind, text: &[u8]) -> std::io::Result<()> {
        let refuse = || Err(ErrorKind::TimedOut.into());
        self.connection.send_patiently(Header::new(kind), &[text], refuse)
    }

    /// Tells the peer that no more messages come; its answer says that it has read them all.
    pub(super) fn tell_goodbye(&self, state: &State, end: Instant) {
        if self.is_over() {
            return;
        }
        self.awaited.store(true, Ordering::Release);
        if self.write_goodbye(state, end).is_err() {
            self.awaited.store(false, Ordering::Release);
        }
    }

    /// Writes a goodbye behind everything that the peer has not taken yet.
    fn write_goodbye(&self, state: &State, end: Instant) -> std::io::Result<()> {
        self.connection.send_patiently(Header::new(Kind::Goodbye), &[], || {
            let is_hopeless = self.is_over()
                || state.closing.load(Ordering::Acquire)
                || state.is_interrupted()
                || Instant::now() >= end;
            if is_hopeless { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
        })
    }

    /// Whether the answer to our goodbye may still come.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Acquire) && !self.is_over()
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(super) fn shutdown(&self) {
        self.connection.shutdown();
    }

    pub(super) fn heard(&self, state: &State) {
        self.heard.store(state.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    pub(super) fn silence(&self, state: &State) -> Duration {
        if self.is_over() || self.busy.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let received = self.connection.received();
        if self.seen.swap(received, Ordering::Relaxed) != received {
            self.heard(state);
        }
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        state.start.elapsed().saturating_sub(heard)
    }
}
