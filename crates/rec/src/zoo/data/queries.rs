//! Queries and documents about topics, which have different words for them.

use std::io::{self, Write};

use super::draws::{Draws, Skew};
use super::slot;

/// Trigrams that there are, and how many of them each topic uses in queries and in documents.
const TRIGRAMS: usize = 300;
const OF_TOPIC: usize = 12;
const TOPICS: usize = 40;
/// Trigrams of one query or document, of its topic and others.
const LENGTH: usize = 8;
const STRAY: usize = 3;

/// Writes samples as MultiSlot lines: a query, a document that matches and one that does not.
pub(in crate::zoo) fn generate(out: &mut dyn Write, rows: usize, seed: u64) -> io::Result<()> {
    let skew = Skew::zipf(TOPICS, 0.5);
    for row in 0..rows {
        let mut draws = Draws::of("queries", seed, row as u64);
        let topic = draws.from(&skew);
        let other = (topic + 1 + draws.below(TOPICS - 1)) % TOPICS;
        slot(out, &text(&mut draws, "query", topic))?;
        write!(out, " ")?;
        slot(out, &text(&mut draws, "document", topic))?;
        write!(out, " ")?;
        slot(out, &text(&mut draws, "document", other))?;
        writeln!(out)?;
    }
    Ok(())
}

/// How often each trigram occurs in a text about a topic.
fn text(draws: &mut Draws, kind: &str, topic: usize) -> Vec<u8> {
    let mut counts = vec![0; TRIGRAMS];
    for _ in 0..LENGTH {
        // The words of topics are drawn from the world, not for the sample.
        let word = (topic * OF_TOPIC + draws.below(OF_TOPIC)) as u64;
        counts[Draws::of(kind, 0, word).below(TRIGRAMS)] += 1;
    }
    (0..STRAY).for_each(|_| counts[draws.below(TRIGRAMS)] += 1);
    counts
}
