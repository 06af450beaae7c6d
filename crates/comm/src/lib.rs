//! Moves bytes between the processes of a job: frames, RPC, authentication, TLS, and an in-memory
//! transport with faults for tests. The only crate that opens sockets.

mod error;

pub use error::{Error, Result};
