//! The generator of a random op.

use crate::Result;
use crate::op::OpView;
use crate::random::Philox;

/// The generator of one op.
#[derive(Clone, Copy)]
pub(super) struct Draw {
    philox: Philox,
    fixed: bool,
}

impl Draw {
    /// Keyed by the op's seed, or else the program's, and the name of the output.
    pub(super) fn new(op: &OpView<'_>) -> Result<Draw> {
        let seed = if op.maybe_attr("seed").is_some() { op.i64("seed")? } else { 0 };
        let key = if seed == 0 { op.seed } else { seed as u64 };
        Ok(Draw { philox: Philox::new(key, op.output_name("Out")), fixed: seed != 0 })
    }

    /// The numbers of step `step`. An op with a seed of its own repeats them, as in Paddle.
    pub(super) fn step(self, step: u64) -> Philox {
        if self.fixed { self.philox } else { self.philox.stream(step) }
    }
}
