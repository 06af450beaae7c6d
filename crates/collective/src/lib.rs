//! Collective communication among the ranks of a job: all-reduce, all-gather, broadcast and their
//! kin, over sockets between hosts and shared memory within one.
//!
//! A [`Group`] is what the ranks have in common. Every rank makes the same calls in the same order;
//! each call carries its description, so ranks that disagree learn it instead of mixing their data.
//! A failure of one rank ends the group on all, with the first reason.
//!
//! ```
//! use bireme_collective::{Group, Reduce};
//! let group = Group::alone();
//! let mut data = [1.0f32, 2.0];
//! group.all_reduce(&mut data, Reduce::Sum).unwrap();
//! assert_eq!(data, [1.0, 2.0]);
//! ```

mod call;
mod element;
mod error;
mod group;
mod inbox;
mod route;
mod shared;
mod wire;

pub use element::{Element, Reduce};
pub use error::{Error, Result};
pub use group::{Config, Group, Pending};
