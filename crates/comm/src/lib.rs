//! Moves bytes between the processes of a job: frames, RPC, authentication, TLS, and an in-memory
//! transport with faults for tests. The only crate that opens sockets.
//!
//! A [`Server`] answers requests through a [`Handler`]; a [`Client`] asks, over several connections
//! to one server. Requests that change state are executed once, whatever the network does; a peer
//! that stops is noticed by its missing heartbeats and named in the error.
//!
//! Equals without a server, such as the ranks of a collective group, form a [`Mesh`]: one
//! authenticated channel between each two, messages in order both ways, no answers.
//!
//! The layers, from the bottom: [`frame`] and bodies (bytes) · transports (what carries them) ·
//! connections (frames over a stream) · [`handshake`] (who is there) · server and client
//! (requests), mesh (messages). What requests and answers carry is written by [`wire`].

mod body;
mod client;
mod connection;
mod dial;
mod error;
pub mod frame;
pub mod handshake;
mod identity;
mod mesh;
mod reminder;
mod server;
mod settings;
mod strangers;
mod threads;
mod transport;
pub mod wire;

pub use body::Body;
pub use client::{Client, Pending};
pub use error::{Error, Result};
pub use handshake::random;
pub use identity::{Identity, Lane, Peer, Role};
pub use mesh::{Ended, Mesh, Message, Place, Receiver};
pub use reminder::Reminder;
pub use server::{Handler, Reply, Server};
pub use settings::{Interrupt, Secret, Settings, Tls};
pub use transport::outside_address;
pub use transport::{Bound, Faults, Listener, Memory, Network, Path, Stream, Transport};
