//! Eager mode: runs each op at once, with the kernels that plans use, and keeps a tape of the same
//! gradient rules.
//!
//! A [`Session`] has what a program would have (a seed, a count of steps). [`OpCache`] keeps
//! prepared ops of one type, so that a call looks up, shapes its outputs and runs. A value that the
//! tape has saved is never changed: whoever changes a tensor makes a new value, or first makes sure
//! that nobody shares the old one.
//!
//! A tensor belongs to the host or to a card ([`Held`]). An op runs on the card that one of its inputs belongs to, if
//! the card has a kernel for it, and on the host otherwise, with copies of what it reads; either way its outputs belong
//! to that card.

mod amp;
mod backward;
mod cache;
mod card;
mod collector;
mod gradient;
mod held;
mod on_card;
mod optimizer;
mod prepared;
mod routine;
mod session;
mod table;
mod tape;
mod tensor;

#[cfg(test)]
mod tests;

pub use amp::{AutoCast, CastScope};
pub use cache::{Form, OpCache};
pub use card::EagerCard;
pub use collector::Collector;
pub use held::{Held, HostValue};
pub use optimizer::EagerOptimizer;
pub use prepared::Prepared;
pub use routine::{Lent, Routine};
pub use session::Session;
pub use tape::CustomGradient;
pub use tensor::{EagerTensor, Hook};
