//! What cards of several processes exchange among themselves, without the host: NCCL behind a trait.
//!
//! Calls are work for the card like a kernel's: they return before it is done, come in turn with what the card was
//! given before, and are recorded where a step is. Every rank makes the same ones in the same order.

use std::time::Duration;

use bireme_ir::DType;

use super::Address;
use crate::Result;
use crate::collective::Reduction;

/// One rank's card among those of a group.
pub trait Exchange: Send + Sync {
    /// Whether elements of this type can be exchanged and reduced.
    fn takes(&self, dtype: DType) -> bool;

    /// Every rank gets the reduction of all, with the same bits; `from` and `to` may be the same.
    ///
    /// # Errors
    /// When the card takes no more work, or the group has been given up; so for all that follow.
    fn all_reduce(&self, from: Address, to: Address, of: Elements, how: Reduction) -> Result<()>;

    /// Every rank gets the mean of all, of floats; otherwise as [`Exchange::all_reduce`].
    fn average(&self, from: Address, to: Address, of: Elements) -> Result<()>;

    /// Rank `root` gets the reduction of all; `to` counts only there.
    fn reduce(
        &self,
        from: Address,
        to: Address,
        of: Elements,
        how: Reduction,
        root: usize,
    ) -> Result<()>;

    /// Every rank gets its part of what rank `root` has at `from`; `of` is one part.
    fn scatter(&self, from: Address, to: Address, of: Elements, root: usize) -> Result<()>;

    /// Every rank gets what rank `root` has at `from`.
    fn broadcast(&self, from: Address, to: Address, of: Elements, root: usize) -> Result<()>;

    /// Every rank gets the parts of all, in the order of ranks; `of` is one part.
    fn all_gather(&self, from: Address, to: Address, of: Elements) -> Result<()>;

    /// Every rank gets its part of the reduction of all; `of` is one part.
    fn reduce_scatter(
        &self,
        from: Address,
        to: Address,
        of: Elements,
        how: Reduction,
    ) -> Result<()>;

    /// Part `i` goes to rank `i`; the parts that come are in the order of ranks. `of` is one part.
    fn all_to_all(&self, from: Address, to: Address, of: Elements) -> Result<()>;

    /// Sends to rank `to`, which receives.
    fn send(&self, from: Address, of: Elements, to: usize) -> Result<()>;

    /// Receives what rank `from` sends.
    fn receive(&self, to: Address, of: Elements, from: usize) -> Result<()>;

    /// Whether exchanges that the card was given so long ago are not done.
    fn is_stuck(&self, limit: Duration) -> bool;

    /// What went wrong among the cards since they met.
    fn problem(&self) -> Option<String>;

    /// Gives the group up: what waits for other ranks ends, and all later calls fail, for this reason. It may be called
    /// from any thread, and again.
    fn abort(&self, why: &str);
}

/// Elements in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// Their type.
    pub dtype: DType,
    /// How many there are.
    pub count: usize,
}

impl Elements {
    /// Their size.
    pub fn bytes(self) -> usize {
        self.count * self.dtype.size()
    }
}
