//! Text about topics, as pairs of near words and words that are drawn at random.

use std::io::{self, Write};

use super::draws::{Draws, Skew};
use super::slot;

/// Random words beside each pair.
pub(in crate::zoo) const NEGATIVES: usize = 5;
const TOPICS: usize = 25;
const WORDS_PER_TOPIC: usize = 32;
/// Words of no topic: articles and the like.
const COMMON: usize = 200;
const SENTENCE: usize = 12;
/// How far from a word its company is; each time as far or less.
const WINDOW: usize = 5;
/// How many of a sentence's words are of its topic.
const OF_TOPIC: f32 = 0.7;

/// Writes samples as MultiSlot lines: a word, one near it, and random ones.
pub(in crate::zoo) fn generate(out: &mut dyn Write, rows: usize, seed: u64) -> io::Result<()> {
    let (topical, common) = (Skew::zipf(WORDS_PER_TOPIC, 0.8), Skew::zipf(COMMON, 1.0));
    let negatives = negatives();
    let mut written = 0;
    for sentence in 0.. {
        let mut draws = Draws::of("words", seed, sentence);
        let topic = draws.below(TOPICS);
        let words: Vec<usize> = (0..SENTENCE)
            .map(|_| match draws.happens(OF_TOPIC) {
                true => COMMON + topic * WORDS_PER_TOPIC + draws.from(&topical),
                false => draws.from(&common),
            })
            .collect();
        for at in 0..SENTENCE {
            let reach = 1 + draws.below(WINDOW);
            let near = at.saturating_sub(reach)..(at + reach + 1).min(SENTENCE);
            for other in near.filter(|other| *other != at) {
                if written == rows {
                    return Ok(());
                }
                let far: Vec<usize> = (0..NEGATIVES).map(|_| draws.from(&negatives)).collect();
                write!(out, "1 {} 1 {} ", words[at], words[other])?;
                slot(out, &far)?;
                writeln!(out)?;
                written += 1;
            }
        }
    }
    Ok(())
}

/// Mikolov's: by the frequency of words to the power of 3/4.
fn negatives() -> Skew {
    let law = |words: usize, exponent: f32| -> Vec<f32> {
        let weights: Vec<f32> = (1..=words).map(|rank| (rank as f32).powf(-exponent)).collect();
        let total: f32 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    };
    let common = law(COMMON, 1.0).into_iter().map(|share| share * (1.0 - OF_TOPIC));
    let topical =
        law(WORDS_PER_TOPIC, 0.8).into_iter().map(|share| share * OF_TOPIC / TOPICS as f32);
    let topical: Vec<f32> = topical.collect();
    let all = common.chain((0..TOPICS).flat_map(|_| topical.clone()));
    Skew::of(all.map(|share| share.powf(0.75)))
}
