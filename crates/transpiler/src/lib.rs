//! Splits one program into the programs of its roles: trainers, parameter servers, collective
//! trainers. Pure: programs and a placement in, programs out; no tensor, file or socket.

mod error;

pub use error::{Error, Result};
