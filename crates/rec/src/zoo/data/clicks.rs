//! Criteo-like clicks: skewed ids in 26 slots, 13 dense features; a click depends on each of them a
//! little, and more on which ids come together.

use std::io::{self, Write};

use super::chance;
use super::draws::{Draws, Hidden, Skew, dot};

const SLOTS: usize = 26;
const DENSE: usize = 13;
/// How many ids each slot has; 0 is left for no id, so that all are below 100 000.
const IDS: [usize; SLOTS] = [
    20, 20, 16, 16, 24, 24, 12, 30, 10, 10, 100, 300, 500, 27, 40, 1000, 10, 56, 200, 4, 2000, 18,
    15, 800, 105, 140,
];
/// Slots whose ids bear on each other.
const PAIRS: [(usize, usize); 6] = [(0, 1), (2, 3), (4, 5), (0, 7), (6, 8), (3, 9)];
/// Length of the hidden vectors.
const LENGTH: usize = 3;
/// How much single ids, pairs, and dense features count; and the intercept.
const WEIGHT: f32 = 0.14;
const PAIR_WEIGHT: f32 = 0.55;
const DENSE_WEIGHT: f32 = 0.5;
const INTERCEPT: f32 = -1.1;

/// Writes samples as `slot:value` lines.
pub(in crate::zoo) fn generate(out: &mut dyn Write, rows: usize, seed: u64) -> io::Result<()> {
    let skews: Vec<Skew> = IDS.iter().map(|ids| Skew::zipf(*ids, 1.05)).collect();
    for row in 0..rows {
        let mut draws = Draws::of("clicks", seed, row as u64);
        let values: Vec<usize> = skews.iter().map(|skew| draws.from(skew)).collect();
        let ids = numbered(&values);
        // Rounded before the click is drawn, so that the file tells all there is to know.
        let round = |share: f32| (share * share * 1000.0).round() / 1000.0;
        let dense: Vec<f32> = (0..DENSE).map(|_| round(draws.uniform())).collect();
        let click = draws.happens(chance(logit(&ids, &dense)));
        write!(out, "click:{}", u8::from(click))?;
        dense.iter().try_for_each(|feature| write!(out, " dense_feature:{feature}"))?;
        ids.iter().enumerate().try_for_each(|(slot, id)| write!(out, " {}:{id}", slot + 1))?;
        writeln!(out)?;
    }
    Ok(())
}

/// Ids that no two slots share: each slot's begin where those of the slot before end.
fn numbered(values: &[usize]) -> Vec<usize> {
    let mut first = 1;
    let number = |(value, ids): (&usize, usize)| {
        first += ids;
        first - ids + value
    };
    values.iter().zip(IDS).map(number).collect()
}

fn logit(ids: &[usize], dense: &[f32]) -> f32 {
    let (weights, vectors) = (Hidden::of("clicks of ids"), Hidden::of("clicks of pairs"));
    let vector = |slot: usize| vectors.vector::<LENGTH>(ids[slot]);
    let single: f32 = ids.iter().map(|id| weights.weight(*id)).sum();
    let pairs: f32 = PAIRS.iter().map(|(a, b)| dot(vector(*a), vector(*b))).sum();
    let slopes = Hidden::of("clicks of dense features");
    let slope = |at: usize| slopes.weight(at) * if at.is_multiple_of(2) { 1.0 } else { 0.2 };
    let linear: f32 = dense.iter().enumerate().map(|(at, value)| slope(at) * (value - 0.33)).sum();
    INTERCEPT + WEIGHT * single + PAIR_WEIGHT * pairs + DENSE_WEIGHT * linear
}
