//! Clients and servers together, over real sockets and over memory.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod calls;
mod faults;
mod mesh;
mod processes;
mod speed;
mod strangers;
mod tls;
