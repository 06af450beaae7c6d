//! The generator of a random op.

use crate::ops::prelude::*;
use crate::random::Philox;

/// The generator of one op.
#[derive(Clone, Copy)]
pub(in crate::ops) struct Draw {
    philox: Philox,
    fixed: bool,
}

impl Draw {
    /// Keyed by the op's seed, or else the program's, and the name of the output.
    pub(in crate::ops) fn new(op: &OpView<'_>) -> Result<Draw> {
        Draw::named(op, "Out")
    }

    /// The same with the name of the output in slot `slot`.
    pub(in crate::ops) fn named(op: &OpView<'_>, slot: &str) -> Result<Draw> {
        let seed = if op.maybe_attr("seed").is_some() { op.i64("seed")? } else { 0 };
        let key = if seed == 0 { op.seed } else { seed as u64 };
        // A slice of a variable draws what the whole one would draw at its place.
        let whole = op.maybe_attr("init_name").is_some() && !op.string("init_name")?.is_empty();
        let name = if whole { op.string("init_name")? } else { op.output_key(slot) };
        Ok(Draw { philox: Philox::new(key, &name), fixed: seed != 0 })
    }

    /// The position of the first element: not 0 in a slice of a variable.
    pub(super) fn offset(op: &OpView<'_>) -> Result<u64> {
        let offset =
            if op.maybe_attr("init_offset").is_some() { op.i64("init_offset")? } else { 0 };
        Ok(offset as u64)
    }

    /// The numbers of step `step`. An op with a seed of its own repeats them, as in Paddle.
    pub(in crate::ops) fn step(self, step: u64) -> Philox {
        if self.fixed { self.philox } else { self.philox.stream(step) }
    }
}
