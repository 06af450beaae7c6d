//! Impressions with clicks, and conversions that only follow clicks.

use std::io::{self, Write};

use super::draws::{Draws, Hidden, Skew, dot};
use super::{chance, slot};

/// Fields of a sample.
pub(in crate::zoo) const FIELDS: usize = 23;
/// Ids that each field has room for; fewer are filled up with 0.
pub(in crate::zoo) const IDS_PER_FIELD: usize = 3;
/// Ids of one field.
const IDS: usize = 60;
/// Fields that bear on each other, for clicks and for conversions.
const CLICK: [(usize, usize); 4] = [(0, 1), (2, 3), (4, 5), (1, 2)];
const CONVERSION: [(usize, usize); 4] = [(0, 1), (4, 5), (6, 7), (3, 6)];

/// Writes samples as MultiSlot lines: the ids of each field, click, conversion.
pub(in crate::zoo) fn generate(out: &mut dyn Write, rows: usize, seed: u64) -> io::Result<()> {
    let skew = Skew::zipf(IDS, 1.0);
    let vectors = Hidden::of("conversion pairs");
    let weights = [Hidden::of("click ids"), Hidden::of("conversion ids")];
    for row in 0..rows {
        let mut draws = Draws::of("conversions", seed, row as u64);
        let mut fields = [[0; IDS_PER_FIELD]; FIELDS];
        for (field, ids) in fields.iter_mut().enumerate() {
            // The fields that bear on each other have one id, others up to three.
            let count = if field < 8 { 1 } else { 1 + draws.below(IDS_PER_FIELD) };
            ids[..count].iter_mut().for_each(|id| *id = 1 + field * IDS + draws.from(&skew));
        }
        let score = |pairs: &[(usize, usize)], weights: Hidden| -> f32 {
            let vector = |field: usize| vectors.vector::<3>(fields[field][0]);
            let pairs: f32 = pairs.iter().map(|(a, b)| dot(vector(*a), vector(*b))).sum();
            let ids = fields.as_flattened().iter().filter(|id| **id > 0);
            0.5 * pairs + 0.1 * ids.map(|id| weights.weight(*id)).sum::<f32>()
        };
        let click = draws.happens(chance(score(&CLICK, weights[0]) - 0.4));
        let conversion = click & draws.happens(chance(score(&CONVERSION, weights[1]) - 0.4));
        for ids in &fields {
            slot(out, ids)?;
            write!(out, " ")?;
        }
        writeln!(out, "1 {} 1 {}", u8::from(click), u8::from(conversion))?;
    }
    Ok(())
}
