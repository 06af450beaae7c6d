//! Census-like rows of numbers with two labels that have much, but not all, in common.

use std::io::{self, Write};

use super::draws::{Draws, Hidden, Skew, dot};
use super::{chance, slot};

/// Groups of features, of which a person has one each.
const GROUPS: usize = 20;
const GROUP: usize = 24;
/// Features that are numbers.
const NUMBERS: usize = 19;
/// Groups that bear on each other, for both labels and for one of them alone.
const COMMON: [(usize, usize); 3] = [(0, 1), (2, 3), (4, 5)];
const OWN: [[(usize, usize); 2]; 2] = [[(6, 7), (0, 2)], [(8, 9), (1, 3)]];

/// Writes samples as MultiSlot lines: 499 features, two labels.
pub(in crate::zoo) fn generate(out: &mut dyn Write, rows: usize, seed: u64) -> io::Result<()> {
    let skew = Skew::zipf(GROUP, 1.4);
    let vectors = Hidden::of("census pairs");
    let vector = |group: usize, feature: usize| vectors.vector::<3>(group * GROUP + feature);
    for row in 0..rows {
        let mut draws = Draws::of("census", seed, row as u64);
        let features: Vec<usize> = (0..GROUPS).map(|_| draws.from(&skew)).collect();
        let numbers: Vec<f32> =
            (0..NUMBERS).map(|_| (draws.uniform() * 100.0).round() / 100.0).collect();
        let pairs = |pairs: &[(usize, usize)]| -> f32 {
            let product = |a: usize, b: usize| dot(vector(a, features[a]), vector(b, features[b]));
            pairs.iter().map(|(a, b)| product(*a, *b)).sum()
        };
        let common = pairs(&COMMON);
        let mut labels = [0; 2];
        for (task, label) in labels.iter_mut().enumerate() {
            let weights = Hidden::of(["income", "marital"][task]);
            let weight =
                |(group, feature): (usize, &usize)| weights.weight(group * GROUP + feature);
            let single: f32 = features.iter().enumerate().map(weight).sum();
            let slope =
                |(at, number): (usize, &f32)| weights.weight(GROUPS * GROUP + at) * (number - 0.5);
            let linear: f32 = numbers.iter().enumerate().map(slope).sum();
            let logit = 0.15 * single + 0.3 * linear + 0.5 * common + 0.4 * pairs(&OWN[task]) - 0.5;
            *label = u8::from(draws.happens(chance(logit)));
        }
        let mut input = vec![0.0; GROUPS * GROUP];
        features.iter().enumerate().for_each(|(group, at)| input[group * GROUP + at] = 1.0);
        slot(out, &[input, numbers].concat())?;
        writeln!(out, " 1 {} 1 {}", labels[0], labels[1])?;
    }
    Ok(())
}
