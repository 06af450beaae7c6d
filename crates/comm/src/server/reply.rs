//! The answer to one request, given exactly once: a reply that is dropped answers with an error.

use std::sync::Arc;

use super::session::Link;
use crate::connection::Connection;
use crate::frame::{Header, Kind};

/// Longest text of a failure, in bytes.
const MAX_PROBLEM: usize = 64 << 10;

/// Where the answer to a request goes; may be kept and used from another thread.
#[must_use = "a reply that is dropped answers with an error"]
pub struct Reply {
    to: Option<To>,
}

struct To {
    connection: Arc<Connection>,
    number: u64,
    /// Where the reply to a `once` request is kept.
    link: Option<Arc<Link>>,
    max_reply: usize,
}

impl Reply {
    pub(super) fn new(connection: &Arc<Connection>, number: u64, max_reply: usize) -> Reply {
        Reply { to: Some(To { connection: connection.clone(), number, link: None, max_reply }) }
    }

    /// Makes it the reply to a `once` request, which the link keeps.
    pub(super) fn keep(&mut self, link: &Arc<Link>) {
        if let Some(to) = &mut self.to {
            to.link = Some(link.clone());
        }
    }

    /// Gives an answer that was given before.
    pub(super) fn repeat(mut self, kind: Kind, bytes: &[u8]) {
        if let Some(to) = self.to.take() {
            to.answer(kind, &[bytes]);
        }
    }

    /// Answers nothing: somebody else does.
    pub(super) fn forget(mut self) {
        self.to = None;
    }

    /// Answers with these bytes, one part after the other; they are written from where they are.
    /// Waits where the client is slow to read, at most for the heartbeat timeout.
    pub fn send(mut self, parts: &[&[u8]]) {
        let Some(to) = self.to.take() else { return };
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > to.max_reply {
            let problem = to.too_large(length);
            to.answer(Kind::Failure, &[problem.as_bytes()]);
        } else {
            to.answer(Kind::Reply, parts);
        }
    }

    /// Answers with bytes that many get: where the reply has to be kept, all share them.
    pub fn send_shared(mut self, bytes: &Arc<Vec<u8>>) {
        let Some(to) = self.to.take() else { return };
        if bytes.len() > to.max_reply {
            let problem = to.too_large(bytes.len());
            to.answer(Kind::Failure, &[problem.as_bytes()]);
        } else {
            to.answer_keeping(Kind::Reply, &[bytes], || bytes.clone());
        }
    }

    /// Answers with an error, which the client's call returns.
    pub fn fail(mut self, problem: &str) {
        if let Some(to) = self.to.take() {
            to.fail(problem);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            to.fail("the request was dropped without an answer");
        }
    }
}

impl To {
    fn fail(&self, problem: &str) {
        let bytes = problem.as_bytes();
        self.answer(Kind::Failure, &[&bytes[..bytes.len().min(MAX_PROBLEM)]]);
    }

    fn too_large(&self, length: usize) -> String {
        format!("the reply has {length} bytes, but a frame at most {}", self.max_reply)
    }

    fn answer(&self, kind: Kind, parts: &[&[u8]]) {
        self.answer_keeping(kind, parts, || Arc::new(parts.concat()));
    }

    /// `keep` gives the bytes to be kept where the client may ask for them again.
    fn answer_keeping(&self, kind: Kind, parts: &[&[u8]], keep: impl FnOnce() -> Arc<Vec<u8>>) {
        let length = parts.iter().map(|part| part.len()).sum();
        let connection = match &self.link {
            None => Some(self.connection.clone()),
            Some(link) => link.finish(self.number, kind, length, keep),
        };
        let header = Header { number: self.number, ..Header::new(kind) };
        // A client that went away asks again over another connection, or is lost.
        if let Some(Err(error)) = connection.map(|to| to.send(header, parts)) {
            tracing::debug!("a reply could not be written: {error}");
        }
    }
}
