//! Users and items: they meet when their hidden tastes agree, and some of both are popular.

use std::io::{self, Write};

use super::chance;
use super::draws::{Draws, Hidden, Skew, dot};

const USERS: usize = 200;
const ITEMS: usize = 150;

/// Writes samples as MultiSlot lines: user, item, label.
pub(in crate::zoo) fn generate(out: &mut dyn Write, rows: usize, seed: u64) -> io::Result<()> {
    let (users, items) = (Skew::zipf(USERS, 0.5), Skew::zipf(ITEMS, 0.7));
    let tastes = [Hidden::of("tastes of users"), Hidden::of("tastes of items")];
    let popular = Hidden::of("popular items");
    for row in 0..rows {
        let mut draws = Draws::of("ratings", seed, row as u64);
        let (user, item) = (draws.from(&users), draws.from(&items));
        let agree = dot(tastes[0].vector::<3>(user), tastes[1].vector::<3>(item));
        let logit = 1.2 * agree + 0.4 * popular.weight(item) - 0.5;
        let label = u8::from(draws.happens(chance(logit)));
        writeln!(out, "1 {user} 1 {item} 1 {label}")?;
    }
    Ok(())
}
