//! Eager training among several processes: reductions of whole tensors, and the gradients of a
//! model that every process has ([`Reducer`]).
//!
//! What a collective op means for the element types that the wire does not know is decided here,
//! in [`tensors`].

mod buckets;
mod on_cards;
mod reducer;
mod rows;
mod synchronize;
pub mod tensors;

pub use buckets::Limits;
pub use on_cards::OnCards;
pub use reducer::{Parameter, Reducer};
pub use synchronize::synchronize;
