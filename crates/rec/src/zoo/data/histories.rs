//! Histories of items: a user clicks an item when its category is among those that the history
//! shows, and more so when the last items are of it.

use std::io::{self, Write};

use super::draws::{Draws, Hidden, Skew};
use super::{chance, slot};

const CATEGORIES: usize = 10;
const ITEMS_PER_CATEGORY: usize = 25;
/// Lengths of histories.
const LONGEST: usize = 12;
const SHORTEST: usize = 2;

/// Writes samples as MultiSlot lines: items and categories of the history, item, category, label.
pub(in crate::zoo) fn generate(out: &mut dyn Write, rows: usize, seed: u64) -> io::Result<()> {
    let popular = Skew::zipf(ITEMS_PER_CATEGORY, 0.8);
    let liked = Hidden::of("items");
    // Ids begin with 1.
    let item = |draws: &mut Draws, category: usize| {
        1 + category * ITEMS_PER_CATEGORY + draws.from(&popular)
    };
    for row in 0..rows {
        let mut draws = Draws::of("histories", seed, row as u64);
        let interests: Vec<usize> = (0..3).map(|_| draws.below(CATEGORIES)).collect();
        let length = SHORTEST + draws.below(LONGEST - SHORTEST + 1);
        let history: Vec<usize> = (0..length).map(|_| interests[draws.below(3)]).collect();
        let items: Vec<usize> =
            history.iter().map(|category| item(&mut draws, *category)).collect();
        // Half of the items at hand are of a category that interests the user.
        let category =
            if draws.happens(0.5) { interests[draws.below(3)] } else { draws.below(CATEGORIES) };
        let target = item(&mut draws, category);
        let share = history.iter().filter(|past| **past == category).count() as f32 / length as f32;
        let logit = -1.8 + 6.0 * share + 0.4 * liked.weight(target);
        let label = u8::from(draws.happens(chance(logit)));
        slot(out, &items)?;
        write!(out, " ")?;
        slot(out, &history.iter().map(|category| category + 1).collect::<Vec<_>>())?;
        writeln!(out, " 1 {target} 1 {} 1 {label}", category + 1)?;
    }
    Ok(())
}
