//! Messages among equals: one authenticated channel between each two processes of a group.
//!
//! Every rank listens at its own endpoint and connects to the ranks below it. A thread per channel
//! reads, so that two ranks can write to each other at the same time; one more thread sends
//! heartbeats and notices peers that are silent. There are no retries: a channel that breaks ends
//! the peer, and its [`Receiver`] is told why.

mod channel;
mod door;
mod forming;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::body::Pool;
use crate::connection::lock;
use crate::dial::Dialer;
use crate::reminder::Reminder;
use crate::strangers::Strangers;
use crate::threads::Threads;
use crate::transport::{Bound, Listener};
use crate::{Body, Error, Identity, Result, Role, Settings, Transport};
use channel::Channel;

/// Between two questions whether the user wants to stop.
const INTERRUPT: Duration = Duration::from_millis(100);

/// Who a process is among its equals, and where all of them are.
#[derive(Debug, Clone)]
pub struct Place {
    /// What the processes are in the job; for messages, and proven by the job's secret.
    pub role: Role,
    /// Number of this process among the endpoints.
    pub rank: usize,
    /// Where each rank listens, in the order of the ranks.
    pub endpoints: Vec<String>,
    /// What tells this group from others at the same endpoints; processes of another one wait
    /// until their own group is there.
    pub session: u64,
}

/// One message of a peer; the meaning of its numbers is the business of the two.
#[derive(Debug)]
pub struct Message {
    /// What it is.
    pub method: u16,
    /// Where it belongs.
    pub number: u64,
    /// What else there is to say about it.
    pub note: u64,
    /// Its bytes, aligned to 64.
    pub body: Body,
}

/// Why no more messages come from a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It closed its mesh on purpose.
    Left,
    /// It called [`Mesh::abort`] with this text.
    Aborted(String),
    /// The connection broke or the peer was silent for too long.
    Lost(String),
}

/// What is done with messages; called by the thread that reads the channel.
pub trait Receiver: Send + Sync + 'static {
    /// Takes a message. While this waits, nothing more is read from that peer, and the peer's
    /// writes wait in turn.
    fn message(&self, from: usize, message: Message);

    /// A peer is gone; called once for it.
    fn ended(&self, from: usize, why: Ended);
}

/// The channels of one process to all others of its group; closes them when dropped.
pub struct Mesh {
    state: Arc<State>,
}

/// What the threads of a mesh share.
struct State {
    place: Place,
    settings: Settings,
    dialer: Dialer,
    receiver: Arc<dyn Receiver>,
    pool: Arc<Pool>,
    threads: Arc<Threads>,
    listeners: OnceLock<Vec<Arc<dyn Listener>>>,
    /// By rank; the own one stays empty.
    channels: Vec<OnceLock<Arc<Channel>>>,
    strangers: Strangers,
    forming: Mutex<Forming>,
    changed: Condvar,
    closing: AtomicBool,
    start: Instant,
    /// Bytes written to all channels, headers and heartbeats included.
    sent: AtomicU64,
}

/// What happens while the group forms.
#[derive(Default)]
struct Forming {
    /// The last connection that was refused, and why.
    refused: Option<String>,
    /// The first rank that came and went again, and why.
    gone: Option<(usize, String)>,
}

impl Mesh {
    /// Meets all other ranks; returns when there is a channel to each, at the latest after the
    /// deadline of the settings.
    pub fn connect(
        place: Place,
        settings: Settings,
        transport: &Arc<dyn Transport>,
        receiver: Arc<dyn Receiver>,
    ) -> Result<Mesh> {
        Mesh::connect_at(None, place, settings, transport, receiver)
    }

    /// As [`Mesh::connect`], for a rank that listens at its endpoint already: so nobody else can
    /// take a port that the system chose while the others are told of it.
    pub fn connect_at(
        bound: Option<Bound>,
        place: Place,
        settings: Settings,
        transport: &Arc<dyn Transport>,
        receiver: Arc<dyn Receiver>,
    ) -> Result<Mesh> {
        settings.check()?;
        if place.rank >= place.endpoints.len() {
            let problem = format!("is {}, but there are {}", place.rank, place.endpoints.len());
            return Err(Error::Settings { setting: "rank", problem });
        }
        let dialer = Dialer::new(transport.clone(), &settings)?;
        let channels = place.endpoints.iter().map(|_| OnceLock::new()).collect();
        let strangers = Strangers::new(settings.max_handshakes);
        let state = Arc::new(State {
            place,
            settings,
            dialer,
            receiver,
            pool: Arc::default(),
            threads: Arc::default(),
            listeners: OnceLock::new(),
            channels,
            strangers,
            forming: Mutex::default(),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            start: Instant::now(),
            sent: AtomicU64::new(0),
        });
        let mesh = Mesh { state };
        match mesh.state.form(bound) {
            Ok(()) => Ok(mesh),
            Err(error) => {
                mesh.abort(&error.to_string());
                Err(error)
            }
        }
    }

    /// Writes a message; `parts` together are its body. Waits while the peer takes nothing, at
    /// most for the deadline, as long as the peer is alive.
    pub fn send(
        &self,
        to: usize,
        method: u16,
        number: u64,
        note: u64,
        parts: &[&[u8]],
    ) -> Result<()> {
        self.state.channel(to)?.send(&self.state, method, number, note, parts)
    }

    /// Tells all peers that this process gives the group up, and why; then closes.
    pub fn abort(&self, why: &str) {
        self.state.each_channel(|channel| channel.tell_abort(why));
        self.state.close();
    }

    /// Whether a peer is still there; costs one load.
    pub fn is_there(&self, rank: usize) -> bool {
        self.state.channels[rank].get().is_some_and(|channel| !channel.is_over())
    }

    /// Role, rank and endpoint of a peer, for messages.
    pub fn name(&self, rank: usize) -> String {
        self.state.name(rank)
    }

    /// Bytes written to all channels so far, headers and heartbeats included.
    pub fn bytes_sent(&self) -> u64 {
        self.state.sent.load(Ordering::Relaxed)
    }

    /// Tells all peers that this process leaves, waits until those that are alive have read all that
    /// was sent to them, at most for the deadline, and closes.
    pub fn close(&self) {
        if !self.state.closing.load(Ordering::Acquire) {
            self.state.say_goodbye();
        }
        self.state.close();
        if !self.state.threads.join(self.state.settings.heartbeat_timeout) {
            tracing::warn!("a message is still being handled after {} left", self.state.me());
        }
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    fn identity(&self, rank: usize) -> Identity {
        Identity::new(self.place.role, rank as u32)
    }

    fn me(&self) -> Identity {
        self.identity(self.place.rank)
    }

    fn name(&self, rank: usize) -> String {
        let endpoint = self.place.endpoints.get(rank).map_or("?", String::as_str);
        format!("{} ({endpoint})", self.identity(rank))
    }

    fn channel(&self, rank: usize) -> Result<&Arc<Channel>> {
        self.channels
            .get(rank)
            .and_then(OnceLock::get)
            .ok_or_else(|| Error::Closed { peer: self.name(rank) })
    }

    fn each_channel(&self, mut visit: impl FnMut(&Arc<Channel>)) {
        self.channels.iter().filter_map(OnceLock::get).for_each(&mut visit);
    }

    fn is_interrupted(&self) -> bool {
        self.settings.interrupt.as_ref().is_some_and(|interrupt| interrupt.is_wanted())
    }

    /// How long a write waits before it looks around.
    fn tick(&self) -> Duration {
        let longest = if self.settings.interrupt.is_some() { INTERRUPT } else { INTERRUPT * 5 };
        longest.min(self.settings.deadline / 8).max(Duration::from_millis(5))
    }

    fn stop_listening(&self) {
        for listener in self.listeners.get().into_iter().flatten() {
            listener.close();
        }
    }

    /// Agrees on the end with all peers: whoever closes a connection takes from the other side what
    /// that side has not read yet, and a slow link may have many seconds of messages on it.
    fn say_goodbye(&self) {
        let mut reminder = Reminder::new(Instant::now());
        let end = Instant::now() + self.settings.deadline;
        self.each_channel(|channel| channel.tell_goodbye(self, end));
        loop {
            let awaited = |rank: &usize| {
                self.channels[*rank].get().is_some_and(|channel| channel.is_awaited())
            };
            let Some(rank) = (0..self.channels.len()).find(awaited) else { return };
            let left = end.saturating_duration_since(Instant::now());
            // Asked without the lock: it may wait for another thread.
            if left.is_zero() || self.is_interrupted() {
                let (me, peer) = (self.me(), self.name(rank));
                return tracing::warn!("{me} leaves before {peer} has read everything");
            }
            if reminder.is_due() {
                let (me, peer) = (self.me(), self.name(rank));
                tracing::warn!("{me} is done and waits until {peer} has read everything");
            }
            let forming = lock(&self.forming);
            if awaited(&rank) {
                drop(self.changed.wait_timeout(forming, left.min(INTERRUPT)));
            }
        }
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.stop_listening();
        self.each_channel(|channel| channel.shutdown());
        self.strangers.close();
        self.changed.notify_all();
    }

    /// Waits, or until something changes.
    fn pause(&self, time: Duration) {
        let guard = lock(&self.forming);
        if !self.closing.load(Ordering::Acquire) {
            drop(self.changed.wait_timeout(guard, time));
        }
    }
}

/// Sends heartbeats and notices peers that are silent, until the mesh closes.
fn keep(state: &State) {
    let timeout = state.settings.heartbeat_timeout;
    let interval = state.settings.heartbeat.min(timeout / 4).max(Duration::from_millis(1));
    let mut next = Instant::now();
    while !state.closing.load(Ordering::Acquire) {
        let now = Instant::now();
        if now < next {
            state.pause(next - now);
            continue;
        }
        // A machine that slept has heard of nobody; that is nobody's fault.
        let slept = now.duration_since(next) > timeout / 2;
        next = now + interval;
        state.strangers.drop_older_than(state.settings.handshake);
        state.each_channel(|channel| {
            if slept {
                channel.heard(state);
            }
            channel.beat(state);
            let silence = channel.silence(state);
            if silence > timeout {
                let silence = silence.as_secs_f64();
                channel.finish(state, Ended::Lost(format!("no heartbeat for {silence:.1} s")));
            }
        });
    }
}
