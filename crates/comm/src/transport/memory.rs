//! A network inside one process: queues instead of sockets, with faults drawn from a seed.
//! The fate of a frame depends on the seed, the connection's number, the direction and the frame's
//! number alone, so a run can be repeated.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use super::{Bound, Listener, Stream, Transport};
use crate::connection::lock;
use crate::{Error, Result};

/// Bytes that wait in one direction before a writer waits too.
const CAPACITY: usize = 4 << 20;

/// How often frames meet with an accident: probabilities between 0 and 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The frame does not arrive.
    pub drop: f64,
    /// The frame, and so all that follow it, arrive later.
    pub delay: f64,
    /// Longest delay.
    pub max_delay: Duration,
    /// The frame arrives twice.
    pub duplicate: f64,
    /// Half of the frame arrives, then the connection ends.
    pub cut: f64,
}

/// A network in memory; clones share it.
#[derive(Clone)]
pub struct Memory {
    wires: Arc<Wires>,
}

struct Wires {
    seed: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults: Faults,
    doors: HashMap<String, Arc<Door>>,
    streams: Vec<(String, Weak<End>)>,
    connections: u64,
    next_port: u16,
}

impl Memory {
    /// A network whose faults follow from `seed`; without any at first.
    pub fn new(seed: u64) -> Memory {
        Memory { wires: Arc::new(Wires { seed, state: Mutex::default() }) }
    }

    /// Sets the faults of connections made from now on.
    pub fn faults(self, faults: Faults) -> Memory {
        self.set_faults(faults);
        self
    }

    /// Like [`Memory::faults`], on a network in use.
    pub fn set_faults(&self, faults: Faults) {
        lock(&self.wires.state).faults = faults;
    }

    /// Ends all connections to an endpoint; new ones can be made.
    pub fn cut(&self, endpoint: &str) {
        let mut state = lock(&self.wires.state);
        state.streams.retain(|(to, end)| match end.upgrade() {
            Some(end) if to == endpoint => {
                end.shutdown();
                false
            }
            end => end.is_some(),
        });
    }

    /// What a restart of the process at an endpoint looks like: its connections end and nobody
    /// listens, until another server starts there.
    pub fn restart(&self, endpoint: &str) {
        let door = lock(&self.wires.state).doors.remove(endpoint);
        if let Some(door) = door {
            door.close();
        }
        self.cut(endpoint);
    }
}

impl Transport for Memory {
    fn listen(&self, endpoint: &str) -> Result<Bound> {
        let mut state = lock(&self.wires.state);
        let endpoint = match endpoint.strip_suffix(":0") {
            Some(host) => {
                state.next_port += 1;
                format!("{host}:{}", state.next_port)
            }
            None => endpoint.to_string(),
        };
        if state.doors.contains_key(&endpoint) {
            let what = format!("cannot listen on `{endpoint}`");
            return Err(Error::Io { what, source: ErrorKind::AddrInUse.into() });
        }
        let door = Arc::new(Door {
            wires: Arc::downgrade(&self.wires),
            endpoint: endpoint.clone(),
            waiting: Mutex::new(VecDeque::new()),
            arrived: Condvar::new(),
            closed: AtomicBool::new(false),
        });
        state.doors.insert(endpoint.clone(), door.clone());
        Ok(Bound { endpoint, listeners: vec![Box::new(door)] })
    }

    fn connect(&self, endpoint: &str, _timeout: Duration) -> Result<Box<dyn Stream>> {
        let mut state = lock(&self.wires.state);
        let Some(door) = state.doors.get(endpoint).cloned() else {
            let what = format!("cannot reach `{endpoint}`");
            return Err(Error::Io { what, source: ErrorKind::ConnectionRefused.into() });
        };
        state.connections += 1;
        let number = state.connections;
        let pipe = |direction: u64| {
            let seed = mix(self.wires.seed ^ mix(number * 2 + direction));
            Arc::new(Pipe {
                queue: Mutex::default(),
                changed: Condvar::new(),
                faults: state.faults,
                seed,
            })
        };
        let (there, back) = (pipe(0), pipe(1));
        let end = |to: &Arc<Pipe>, from: &Arc<Pipe>, address: String| {
            let (to, from) = (to.clone(), from.clone());
            Arc::new(End { to, from, timeouts: Mutex::default(), address })
        };
        let near = end(&there, &back, endpoint.to_string());
        let far = end(&back, &there, format!("memory connection {number}"));
        state.streams.retain(|(_, end)| end.strong_count() > 0);
        state.streams.push((endpoint.to_string(), Arc::downgrade(&near)));
        drop(state);
        lock(&door.waiting).push_back(far);
        door.arrived.notify_one();
        Ok(Box::new(near))
    }
}

struct Door {
    wires: Weak<Wires>,
    endpoint: String,
    waiting: Mutex<VecDeque<Arc<End>>>,
    arrived: Condvar,
    closed: AtomicBool,
}

impl Listener for Arc<Door> {
    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        let mut waiting = lock(&self.waiting);
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(ErrorKind::NotConnected.into());
            }
            if let Some(end) = waiting.pop_front() {
                return Ok(Box::new(end));
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(|poison| poison.into_inner());
        }
    }

    fn close(&self) {
        {
            let mut waiting = lock(&self.waiting);
            self.closed.store(true, Ordering::Release);
            waiting.drain(..).for_each(|end| end.shutdown());
            self.arrived.notify_all();
        }
        if let Some(wires) = self.wires.upgrade() {
            let mut state = lock(&wires.state);
            // After a restart another server may listen here.
            if state.doors.get(&self.endpoint).is_some_and(|door| Arc::ptr_eq(door, self)) {
                state.doors.remove(&self.endpoint);
            }
        }
    }
}

/// One direction of a connection.
struct Pipe {
    queue: Mutex<Queue>,
    changed: Condvar,
    faults: Faults,
    seed: u64,
}

#[derive(Default)]
struct Queue {
    /// Bytes, how many of them are read, and when they may be.
    chunks: VecDeque<(Vec<u8>, usize, Instant)>,
    bytes: usize,
    frames: u64,
    closed: bool,
}

impl Pipe {
    fn write(&self, bytes: Vec<u8>, timeout: Option<Duration>) -> io::Result<()> {
        let start = Instant::now();
        let mut queue = lock(&self.queue);
        while queue.bytes > CAPACITY && !queue.closed {
            let left = left(start, timeout)?;
            queue = wait(&self.changed, queue, left);
        }
        if queue.closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let frame = queue.frames;
        queue.frames += 1;
        let chance = |kind: u64| unit(mix(self.seed ^ mix(frame * 8 + kind)));
        if chance(0) < self.faults.drop {
            return Ok(());
        }
        let mut ready = Instant::now();
        if chance(1) < self.faults.delay {
            ready += self.faults.max_delay.mul_f64(chance(2));
        }
        if let Some((_, _, last)) = queue.chunks.back() {
            ready = ready.max(*last);
        }
        let cut = chance(3) < self.faults.cut;
        let bytes = if cut { bytes[..bytes.len() / 2].to_vec() } else { bytes };
        let copies = if !cut && chance(4) < self.faults.duplicate { 2 } else { 1 };
        for _ in 0..copies {
            queue.bytes += bytes.len();
            queue.chunks.push_back((bytes.clone(), 0, ready));
        }
        queue.closed |= cut;
        self.changed.notify_all();
        Ok(())
    }

    fn read(&self, buffer: &mut [u8], timeout: Option<Duration>) -> io::Result<usize> {
        let start = Instant::now();
        let mut queue = lock(&self.queue);
        loop {
            let mut soon = None;
            let closed = queue.closed;
            match queue.chunks.front_mut() {
                Some((bytes, read, ready)) => {
                    let now = Instant::now();
                    if *ready <= now {
                        let count = buffer.len().min(bytes.len() - *read);
                        buffer[..count].copy_from_slice(&bytes[*read..*read + count]);
                        *read += count;
                        if *read == bytes.len() {
                            queue.chunks.pop_front();
                        }
                        queue.bytes -= count;
                        self.changed.notify_all();
                        if count > 0 {
                            return Ok(count);
                        }
                        continue;
                    }
                    soon = Some(*ready - now);
                }
                None if closed => return Ok(0),
                None => {}
            }
            // Only now: bytes that are there are read however late it is.
            let patience = left(start, timeout)?;
            queue = wait(&self.changed, queue, soon.into_iter().chain(patience).min());
        }
    }

    fn close(&self, discard: bool) {
        let mut queue = lock(&self.queue);
        queue.closed = true;
        if discard {
            queue.chunks.clear();
        }
        self.changed.notify_all();
    }
}

/// What is left of a timeout; an error when nothing is.
fn left(start: Instant, timeout: Option<Duration>) -> io::Result<Option<Duration>> {
    let Some(timeout) = timeout else { return Ok(None) };
    match timeout.checked_sub(start.elapsed()) {
        Some(left) if !left.is_zero() => Ok(Some(left)),
        _ => Err(ErrorKind::TimedOut.into()),
    }
}

fn wait<'a>(
    changed: &Condvar,
    queue: std::sync::MutexGuard<'a, Queue>,
    timeout: Option<Duration>,
) -> std::sync::MutexGuard<'a, Queue> {
    match timeout {
        Some(timeout) => {
            changed.wait_timeout(queue, timeout).unwrap_or_else(|poison| poison.into_inner()).0
        }
        None => changed.wait(queue).unwrap_or_else(|poison| poison.into_inner()),
    }
}

/// One side of a connection.
struct End {
    to: Arc<Pipe>,
    from: Arc<Pipe>,
    /// Of reads and of writes.
    timeouts: Mutex<(Option<Duration>, Option<Duration>)>,
    address: String,
}

impl End {
    fn shutdown(&self) {
        // What was written arrives, as on a socket; what was not read does not.
        self.to.close(false);
        self.from.close(true);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl Stream for Arc<End> {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let timeout = lock(&self.timeouts).0;
        self.from.read(buffer, timeout)
    }

    fn write(&self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let bytes = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let timeout = lock(&self.timeouts).1;
        self.to.write(bytes, timeout)
    }

    fn try_write(&self, frame: &[u8]) -> io::Result<bool> {
        match self.to.write(frame.to_vec(), Some(Duration::ZERO)) {
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(false),
            result => result.map(|()| true),
        }
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        lock(&self.timeouts).0 = timeout;
        Ok(())
    }

    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        lock(&self.timeouts).1 = timeout;
        Ok(())
    }

    fn shutdown(&self) {
        End::shutdown(self);
    }

    fn address(&self) -> String {
        self.address.clone()
    }
}

/// SplitMix64: scatters a number over all 64 bits.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A number between 0 and 1, 1 excluded.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::result::Result;

    use super::*;

    /// What arrives of 200 frames of two bytes, and whether the connection ended.
    fn fate(seed: u64, faults: Faults) -> (Vec<u8>, bool) {
        let network = Memory::new(seed).faults(faults);
        let bound = network.listen("host:0").unwrap();
        let near = network.connect(&bound.endpoint, Duration::ZERO).unwrap();
        let far = bound.listeners[0].accept().unwrap();
        far.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let writes = (0..200u8).map(|frame| near.write(&mut [IoSlice::new(&[frame, frame])]));
        let ended = writes.filter(Result::is_err).count() > 0;
        let (mut bytes, mut buffer) = (Vec::new(), [0; 512]);
        while let Ok(count @ 1..) = far.read(&mut buffer) {
            bytes.extend(&buffer[..count]);
        }
        (bytes, ended)
    }

    #[test]
    fn the_seed_decides() {
        let lossy = Faults { drop: 0.1, duplicate: 0.1, ..Faults::default() };
        let (bytes, ended) = fate(1, lossy);
        assert_eq!(fate(1, lossy), (bytes.clone(), ended));
        assert_ne!(fate(2, lossy).0, bytes);
        let mut frames = bytes.clone();
        frames.dedup();
        assert!(!ended && (150..200).contains(&frames.len()) && bytes.len() > 2 * frames.len());
    }

    #[test]
    fn no_faults_lose_nothing_and_a_cut_ends_all() {
        let (bytes, ended) = fate(1, Faults::default());
        assert!(bytes.len() == 400 && !ended);
        let (bytes, ended) = fate(1, Faults { cut: 0.05, ..Faults::default() });
        assert!(ended && bytes.len() % 2 == 1, "half of the last frame arrives");
    }

    #[test]
    fn an_endpoint_has_one_listener_until_it_restarts() {
        let network = Memory::new(0);
        let first = network.listen("host:7").unwrap();
        assert!(network.listen("host:7").is_err());
        network.restart("host:7");
        assert!(first.listeners[0].accept().is_err());
        assert!(network.connect("host:7", Duration::ZERO).is_err());
        let second = network.listen("host:7").unwrap();
        // The first one's end must not take the second one's place away.
        first.listeners[0].close();
        assert!(network.connect("host:7", Duration::ZERO).is_ok());
        second.listeners[0].close();
        assert!(network.connect("host:7", Duration::ZERO).is_err());
    }
}
