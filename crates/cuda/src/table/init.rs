//! The first values of rows.

use bireme_engine::random::{Philox, RowInit};
use bytemuck::{Pod, Zeroable};

use super::error::{Error, Result};
use super::plan::RowShape;

/// The first values of a row, which follow from its key: those that a dense parameter of the same name and seed has
/// in the row whose number is the key.
#[derive(Clone, Debug, PartialEq)]
pub struct Init {
    /// How weights are drawn.
    pub weights: RowInit,
    /// The seed.
    pub seed: u64,
    /// The name that they are drawn under.
    pub name: String,
    /// The first value of each accumulator; zero for those that are not named.
    pub states: Vec<f32>,
}

impl Init {
    /// Rows of zeros.
    pub fn zeros() -> Init {
        Init { weights: RowInit::Constant(0.0), seed: 0, name: String::new(), states: Vec::new() }
    }

    /// What a kernel makes rows with, and whether it is the one that draws normal numbers.
    pub(super) fn raw(&self, shape: RowShape) -> Result<(RawFirst, bool)> {
        if self.states.len() > shape.states {
            let (given, has) = (self.states.len(), shape.states);
            let problem = format!("first values of {given} accumulators for rows that have {has}");
            return Err(Error::Argument { call: "find_or_insert", problem });
        }
        let (kind, a, b) = match self.weights {
            RowInit::Constant(value) => (0, f64::from(value), 0.0),
            RowInit::Uniform { min, max } => (1, f64::from(min), f64::from(max - min)),
            RowInit::Gaussian { mean, std } => (2, mean, std),
            RowInit::TruncatedGaussian { mean, std } => (3, mean, std),
        };
        let [low, high] = Philox::new(self.seed, &self.name).key();
        let draw = u64::from(low) | u64::from(high) << 32;
        let mut states = [0.0; 4];
        states[..self.states.len()].copy_from_slice(&self.states);
        let width = shape.width as u32;
        Ok((RawFirst { draw, kind, width, a, b, states }, kind >= 2))
    }
}

/// As `First` of `kernels/table.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct RawFirst {
    draw: u64,
    kind: u32,
    width: u32,
    a: f64,
    b: f64,
    states: [f32; 4],
}
