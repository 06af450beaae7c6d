//! For tests: whole clusters in one process, models small enough to train in a second, and the
//! local run that every cluster must equal.
//!
//! [`cluster`] puts the crates together as `fleet` does, but over a network in memory, so that a
//! test needs no port and its faults follow from a seed. The tests of clusters are in `tests/it`.

pub mod cluster;
pub mod local;
pub mod models;
pub mod ranks;

use std::collections::BTreeMap;

/// Parameters by name.
pub type Params = BTreeMap<String, Vec<f32>>;

/// The largest difference between two sets of parameters.
///
/// # Panics
/// When they are not of the same parameters.
pub fn difference(a: &Params, b: &Params) -> f32 {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    let pairs = a.iter().flat_map(|(name, a)| {
        assert_eq!(a.len(), b[name].len(), "`{name}`");
        a.iter().zip(&b[name])
    });
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
