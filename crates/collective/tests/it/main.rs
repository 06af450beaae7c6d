//! Groups of threads as ranks, over memory, sockets and shared memory.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod calls;
mod faults;
mod processes;
mod ranks;
