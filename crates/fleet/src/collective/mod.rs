//! Collective training: the group of this process's job, and what the engine asks of it.
//!
//! [`connect_group`] makes the group that the environment describes, [`connect_ranks`] one that a
//! program names; [`Rings`] answers the ops of a program with it. How cards exchange, the ranks decide together
//! ([`Rings::agree`]).

pub(crate) mod cards;
mod connect;
mod rings;

pub use cards::Road;
pub use connect::{
    Ranks, broadcast_program, connect_group, connect_ranks, is_collective, ranks_of,
};
pub use rings::Rings;
