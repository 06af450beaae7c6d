//! NCCL: cards of several ranks that exchange among themselves, without the host.
//!
//! Its calls wait for no one, but the work that they give to a stream waits for the other ranks. Who finds out that one
//! of them is gone aborts the communicator from another thread; the work then ends, with values of no use.
#![expect(unsafe_code, reason = "NCCL is called")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::card::Card;
use super::error::{Error, Result};
use super::event::{Event, Timing};
use super::libraries;
use super::stream::Stream;

/// Bytes of a group's name.
const NAME_BYTES: usize = 128;
/// How long a call of another thread may take to end before it is aborted in the middle.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks while ranks meet.
const LOOK: Duration = Duration::from_millis(20);

/// NCCL's results.
const SUCCESS: c_int = 0;
const IN_PROGRESS: c_int = 7;

type Handle = *mut c_void;
type Code = c_int;

#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; NAME_BYTES]);

/// What names a group of ranks that is about to meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupName(pub [u8; NAME_BYTES]);

/// How values of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Their sum.
    Sum = 0,
    /// Their product.
    Prod = 1,
    /// The largest.
    Max = 2,
    /// The smallest.
    Min = 3,
    /// Their mean, of floats.
    Mean = 4,
}

/// One thing that ranks do together. Addresses are of the card's memory; counts are of elements, whose type is NCCL's
/// number for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchanged {
    /// Every rank gets the reduction of all.
    AllReduce(Reduce),
    /// This rank gets the reduction of all.
    Reduce(Reduce, usize),
    /// Every rank gets its part of what this rank has; the count is that of one part.
    Scatter(usize),
    /// Every rank gets what this rank has.
    Broadcast(usize),
    /// Every rank gets the parts of all; the count is that of one part.
    AllGather,
    /// Every rank gets its part of the reduction of all; the count is that of one part.
    ReduceScatter(Reduce),
    /// Part `i` goes to rank `i`; the count is that of one part.
    AllToAll,
    /// Goes to this rank.
    Send(usize),
    /// Comes from this rank.
    Receive(usize),
}

/// NCCL's functions that this crate calls.
struct Functions {
    version: unsafe extern "C" fn(*mut c_int) -> Code,
    unique_id: unsafe extern "C" fn(*mut UniqueId) -> Code,
    init: unsafe extern "C" fn(*mut Handle, c_int, UniqueId, c_int) -> Code,
    destroy: unsafe extern "C" fn(Handle) -> Code,
    abort: unsafe extern "C" fn(Handle) -> Code,
    async_error: unsafe extern "C" fn(Handle, *mut Code) -> Code,
    text: unsafe extern "C" fn(Code) -> *const c_char,
    last_error: unsafe extern "C" fn(Handle) -> *const c_char,
    all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Handle,
        *mut c_void,
    ) -> Code,
    reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        c_int,
        Handle,
        *mut c_void,
    ) -> Code,
    broadcast: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Handle,
        *mut c_void,
    ) -> Code,
    all_gather:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, Handle, *mut c_void) -> Code,
    reduce_scatter: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Handle,
        *mut c_void,
    ) -> Code,
    send: unsafe extern "C" fn(*const c_void, usize, c_int, c_int, Handle, *mut c_void) -> Code,
    receive: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> Code,
    group_start: unsafe extern "C" fn() -> Code,
    group_end: unsafe extern "C" fn() -> Code,
}

/// The functions, or what is missing.
fn functions() -> Result<&'static Functions> {
    static FOUND: OnceLock<Result<Functions>> = OnceLock::new();
    FOUND.get_or_init(look_up).as_ref().map_err(Clone::clone)
}

fn look_up() -> Result<Functions> {
    let library = libraries::exchange()?;
    /// The address of a function, as what it is.
    ///
    /// # Safety
    /// `F` is the type of that function of NCCL.
    unsafe fn find<F>(library: &libloading::Library, name: &'static str) -> Result<F> {
        // SAFETY: the address is only asked for.
        let found = unsafe { library.get::<*const c_void>(name.as_bytes()) };
        let address = found.map(|symbol| *symbol).map_err(|_| Error::Call {
            function: name,
            code: 0,
            text: "`libnccl` has no such function: the library is too old".to_owned(),
        })?;
        // SAFETY: a function's address, of the type that the caller vouches for.
        Ok(unsafe { transmute_copy::<*const c_void, F>(&address) })
    }
    // SAFETY: the types are those of `nccl.h`.
    unsafe {
        Ok(Functions {
            version: find(library, "ncclGetVersion")?,
            unique_id: find(library, "ncclGetUniqueId")?,
            init: find(library, "ncclCommInitRank")?,
            destroy: find(library, "ncclCommDestroy")?,
            abort: find(library, "ncclCommAbort")?,
            async_error: find(library, "ncclCommGetAsyncError")?,
            text: find(library, "ncclGetErrorString")?,
            last_error: find(library, "ncclGetLastError")?,
            all_reduce: find(library, "ncclAllReduce")?,
            reduce: find(library, "ncclReduce")?,
            broadcast: find(library, "ncclBroadcast")?,
            all_gather: find(library, "ncclAllGather")?,
            reduce_scatter: find(library, "ncclReduceScatter")?,
            send: find(library, "ncclSend")?,
            receive: find(library, "ncclRecv")?,
            group_start: find(library, "ncclGroupStart")?,
            group_end: find(library, "ncclGroupEnd")?,
        })
    }
}

impl Functions {
    fn check(&self, function: &'static str, code: Code) -> Result<()> {
        match code {
            SUCCESS | IN_PROGRESS => Ok(()),
            code => Err(Error::Call { function, code, text: self.explain(code) }),
        }
    }

    fn explain(&self, code: Code) -> String {
        // SAFETY: both give strings of the library's own, or null.
        let [what, why] = unsafe { [(self.text)(code), (self.last_error)(ptr::null_mut())] };
        let words = |text: *const c_char| match text.is_null() {
            true => String::new(),
            // SAFETY: a string that ends with a zero.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned(),
        };
        match (words(what), words(why)) {
            (what, why) if why.is_empty() => what,
            (what, why) => format!("{what}: {why}"),
        }
    }
}

/// One rank of a group of cards.
pub struct Communicator {
    functions: &'static Functions,
    card: Arc<Card>,
    handle: Handle,
    rank: usize,
    size: usize,
    /// Why it has been given up.
    reason: Mutex<Option<String>>,
    is_aborted: AtomicBool,
    /// Held by calls; who aborts waits a while for them.
    calls: RwLock<()>,
    given: Mutex<Given>,
}

/// Work that a stream was given.
#[derive(Default)]
struct Given {
    /// A mark behind the oldest that may not be done, and when that was given.
    mark: Option<(Event, Instant)>,
    /// Whether more was given since, on this stream.
    more: Option<Arc<Stream>>,
}

// SAFETY: NCCL's handles may be used from any thread; who ends one waits for calls, see `calls`.
unsafe impl Send for Communicator {}
// SAFETY: as above.
unsafe impl Sync for Communicator {}

/// A handle on its way from the thread that made it.
struct Made(Handle);

// SAFETY: as above.
unsafe impl Send for Made {}

impl Communicator {
    /// The version of the library, as 22703 for 2.27.3.
    pub fn version() -> Result<i32> {
        let functions = functions()?;
        let mut version = 0;
        // SAFETY: one number is written.
        functions.check("ncclGetVersion", unsafe { (functions.version)(&raw mut version) })?;
        Ok(version)
    }

    /// A name for a group, which all its ranks are told.
    pub fn name_group() -> Result<GroupName> {
        let functions = functions()?;
        let mut id = UniqueId([0; NAME_BYTES]);
        // SAFETY: so many bytes are written.
        functions.check("ncclGetUniqueId", unsafe { (functions.unique_id)(&raw mut id) })?;
        Ok(GroupName(id.0))
    }

    /// Joins a group. This waits for its other ranks, as long as `goes_on` gives no error; it is asked again and again.
    pub fn join<E>(
        card: &Arc<Card>,
        name: GroupName,
        rank: usize,
        size: usize,
        goes_on: &dyn Fn() -> std::result::Result<(), E>,
    ) -> std::result::Result<Result<Communicator>, E> {
        let functions = match functions() {
            Ok(functions) => functions,
            Err(error) => return Ok(Err(error)),
        };
        let (sender, receiver) = channel();
        let own = Arc::clone(card);
        // NCCL has no way to end this but the other ranks, so it waits on a thread that can be left behind.
        let waits = move || {
            let mut handle: Handle = ptr::null_mut();
            let made = own.enter().and_then(|()| {
                // SAFETY: the context is current on this thread, and one handle is written.
                let code = unsafe {
                    (functions.init)(
                        &raw mut handle,
                        size as c_int,
                        UniqueId(name.0),
                        rank as c_int,
                    )
                };
                functions.check("ncclCommInitRank", code)
            });
            let _ = sender.send(made.map(|()| Made(handle)));
        };
        if let Err(error) = thread::Builder::new().name("nccl".to_owned()).spawn(waits) {
            let text = error.to_string();
            return Ok(Err(Error::Call { function: "ncclCommInitRank", code: 0, text }));
        }
        let made = loop {
            match receiver.recv_timeout(LOOK) {
                Ok(made) => break made,
                Err(RecvTimeoutError::Timeout) => goes_on()?,
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "the thread that joins has ended".to_owned();
                    break Err(Error::Call { function: "ncclCommInitRank", code: 0, text });
                }
            }
        };
        Ok(made.map(|Made(handle)| Communicator {
            functions,
            card: Arc::clone(card),
            handle,
            rank,
            size,
            reason: Mutex::new(None),
            is_aborted: AtomicBool::new(false),
            calls: RwLock::new(()),
            given: Mutex::default(),
        }))
    }

    /// Says that a stream was just given exchanges of this group, by themselves or in a graph.
    pub(crate) fn note(&self, stream: &Arc<Stream>) -> Result<()> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        match given.mark {
            Some(_) => given.more = Some(Arc::clone(stream)),
            None => given.mark = Some((marked(stream)?, Instant::now())),
        }
        Ok(())
    }

    /// Whether exchanges that were given so long ago are not done.
    pub(crate) fn is_stuck(&self, limit: Duration) -> bool {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((event, since)) = &given.mark else { return false };
        // A card that answers no more is found out by who works with it.
        if !event.is_done().unwrap_or(true) {
            return since.elapsed() > limit;
        }
        let more = given.more.take().and_then(|stream| marked(&stream).ok());
        given.mark = more.map(|event| (event, Instant::now()));
        false
    }

    /// Gives work to a stream. `to` and `from` are addresses, `count` and `kind` as [`Exchanged`] says; the memory must
    /// stay as kernels' does (see [`Stream::launch`]).
    pub(crate) fn run(
        &self,
        stream: &Stream,
        what: &Exchanged,
        (from, to): (u64, u64),
        count: usize,
        kind: (i32, usize),
    ) -> Result<()> {
        let _call = self.calls.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = self.reason().clone() {
            return Err(Error::GivenUp { problem });
        }
        self.card.enter()?;
        let (nccl, handle, (kind, bytes)) = (self.functions, self.handle, kind);
        let (from, to, stream) =
            (from as *const c_void, to as *mut c_void, stream.handle().cast::<c_void>());
        // SAFETY: the handles live; who gave the addresses keeps their memory.
        unsafe {
            match what {
                Exchanged::AllReduce(how) => {
                    let how = *how as c_int;
                    let code = (nccl.all_reduce)(from, to, count, kind, how, handle, stream);
                    nccl.check("ncclAllReduce", code)
                }
                Exchanged::Broadcast(root) => {
                    let root = *root as c_int;
                    let code = (nccl.broadcast)(from, to, count, kind, root, handle, stream);
                    nccl.check("ncclBroadcast", code)
                }
                Exchanged::Reduce(how, root) => {
                    let (how, root) = (*how as c_int, *root as c_int);
                    let code = (nccl.reduce)(from, to, count, kind, how, root, handle, stream);
                    nccl.check("ncclReduce", code)
                }
                Exchanged::Scatter(root) => {
                    let all = 0..if *root == self.rank { self.size } else { 0 };
                    let part = |rank: usize| from.byte_add(rank * count * bytes);
                    let sent = all.map(|rank| (rank, part(rank)));
                    self.messages(sent, [(*root, to)].into_iter(), (count, kind), stream)
                }
                Exchanged::AllGather => {
                    let code = (nccl.all_gather)(from, to, count, kind, handle, stream);
                    nccl.check("ncclAllGather", code)
                }
                Exchanged::ReduceScatter(how) => {
                    let how = *how as c_int;
                    let code = (nccl.reduce_scatter)(from, to, count, kind, how, handle, stream);
                    nccl.check("ncclReduceScatter", code)
                }
                Exchanged::Send(peer) => {
                    let code = (nccl.send)(from, count, kind, *peer as c_int, handle, stream);
                    nccl.check("ncclSend", code)
                }
                Exchanged::Receive(peer) => {
                    let code = (nccl.receive)(to, count, kind, *peer as c_int, handle, stream);
                    nccl.check("ncclRecv", code)
                }
                Exchanged::AllToAll => {
                    let part = |rank: usize| rank * count * bytes;
                    let sent = (0..self.size).map(|rank| (rank, from.byte_add(part(rank))));
                    let come = (0..self.size).map(|rank| (rank, to.byte_add(part(rank))));
                    self.messages(sent, come, (count, kind), stream)
                }
            }
        }
    }

    /// Messages to ranks and from them, all at once.
    ///
    /// # Safety
    /// As [`Communicator::run`], whose call this is a part of.
    unsafe fn messages(
        &self,
        sent: impl Iterator<Item = (usize, *const c_void)>,
        come: impl Iterator<Item = (usize, *mut c_void)>,
        (count, kind): (usize, i32),
        stream: *mut c_void,
    ) -> Result<()> {
        let (nccl, handle) = (self.functions, self.handle);
        // SAFETY: the caller's promise.
        unsafe {
            nccl.check("ncclGroupStart", (nccl.group_start)())?;
            let mut given = Ok(());
            for (rank, from) in sent {
                let code = (nccl.send)(from, count, kind, rank as c_int, handle, stream);
                given = given.and(nccl.check("ncclSend", code));
            }
            for (rank, to) in come {
                let code = (nccl.receive)(to, count, kind, rank as c_int, handle, stream);
                given = given.and(nccl.check("ncclRecv", code));
            }
            given.and(nccl.check("ncclGroupEnd", (nccl.group_end)()))
        }
    }

    /// What went wrong since the ranks met.
    pub fn problem(&self) -> Option<String> {
        if let Some(problem) = self.reason().clone() {
            return Some(problem);
        }
        let _call = self.calls.try_read().ok()?;
        if self.is_aborted.load(Ordering::Acquire) {
            return self.reason().clone();
        }
        let mut code = SUCCESS;
        // SAFETY: the handle lives, and one number is written.
        let asked = unsafe { (self.functions.async_error)(self.handle, &raw mut code) };
        let found = self.functions.check("NCCL", asked).and(self.functions.check("NCCL", code));
        found.err().map(|error| error.to_string())
    }

    /// Gives the group up: work that waits for other ranks ends, and all later calls fail, for this reason.
    pub fn abort(&self, why: &str) {
        self.reason().get_or_insert_with(|| why.to_owned());
        if self.is_aborted.swap(true, Ordering::AcqRel) {
            return;
        }
        // A call that is about to end shall not lose its handle; one that waits for a rank that is gone must.
        let start = Instant::now();
        let mut alone = self.calls.try_write();
        while matches!(alone, Err(TryLockError::WouldBlock)) && start.elapsed() < PATIENCE {
            thread::sleep(LOOK);
            alone = self.calls.try_write();
        }
        if self.card.enter().is_ok() {
            // SAFETY: the handle is ours, and this happens once.
            let _ = unsafe { (self.functions.abort)(self.handle) };
        }
    }

    fn reason(&self) -> MutexGuard<'_, Option<String>> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A mark behind what a stream was given.
fn marked(stream: &Stream) -> Result<Event> {
    let event = Event::new(stream.card(), Timing::Off)?;
    stream.record(&event)?;
    Ok(event)
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.is_aborted.load(Ordering::Acquire) && self.card.enter().is_ok() {
            // SAFETY: the handle is ours; graphs that recorded calls of it hold this, and are gone.
            let _ = unsafe { (self.functions.destroy)(self.handle) };
        }
    }
}
