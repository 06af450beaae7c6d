//! Recorded work that is replayed at once.
#![expect(unsafe_code, reason = "the driver is called")]

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUstreamCaptureMode};

use super::card::Card;
use super::error::Result;
use super::stream::Stream;

/// What a stream recorded, ready to be replayed. It holds the addresses that were recorded: their memory
/// must live as long as it is replayed (see [`Stream::launch`]).
pub struct Graph {
    card: Arc<Card>,
    exec: CUgraphExec,
}

// SAFETY: the driver's handles may be used from any thread; replays of one graph follow each other.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    /// Replays everything, after the work that the stream has already.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.card.enter()?;
        // SAFETY: both handles live.
        self.card.check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(self.exec, stream.handle()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: the handle is ours; a replay that still runs is not disturbed.
            let _ = unsafe { sys::cuGraphExecDestroy(self.exec) };
        }
    }
}

impl Stream {
    /// Records the work that `record` gives to this stream, and to others that wait for events of it,
    /// instead of doing it. They must be waited for by this stream before `record` ends.
    ///
    /// Nothing may be waited for meanwhile, and memory must be allocated before.
    pub fn capture(&self, record: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let card = self.card();
        card.enter()?;
        // Other threads may do as they like; this one may not wait or allocate.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the handle lives.
        card.check("cuStreamBeginCapture", unsafe {
            sys::cuStreamBeginCapture_v2(self.handle(), mode)
        })?;
        let recording = Recording { stream: self, ended: false };
        let recorded = record();
        let graph = recording.end();
        // What failed in between is the reason; that the recording is spoilt follows from it.
        recorded?;
        let graph = graph?;
        let mut exec: CUgraphExec = ptr::null_mut();
        // SAFETY: the graph was just made, and the driver writes one handle.
        let code = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut exec, graph.handle, 0) };
        card.check("cuGraphInstantiate", code)?;
        Ok(Graph { card: card.clone(), exec })
    }
}

/// A recording in progress: it ends even if the caller panics.
struct Recording<'a> {
    stream: &'a Stream,
    ended: bool,
}

/// The driver's graph, which an executable one is made of.
struct Recorded {
    handle: CUgraph,
}

impl Recording<'_> {
    fn end(mut self) -> Result<Recorded> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Recorded> {
        self.ended = true;
        self.stream.card().enter()?;
        let mut handle: CUgraph = ptr::null_mut();
        // SAFETY: the stream is recording, and the driver writes one handle, or null.
        let code = unsafe { sys::cuStreamEndCapture(self.stream.handle(), &raw mut handle) };
        let recorded = Recorded { handle };
        self.stream.card().check("cuStreamEndCapture", code)?;
        Ok(recorded)
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.finish();
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is ours, and the context was current when it was made.
            let _ = unsafe { sys::cuGraphDestroy(self.handle) };
        }
    }
}
