//! Orders that depend on a seed and on nothing else.

use bireme_engine::random::Philox;

/// Brings `items` into an order that `seed`, `purpose` and `stream` decide.
pub(crate) fn shuffle<T>(items: &mut [T], seed: u64, purpose: &str, stream: u64) {
    let numbers = Philox::new(seed, purpose).stream(stream);
    for last in (1..items.len()).rev() {
        items.swap(last, below(&numbers, last as u64, last + 1));
    }
}

/// Number `index` of a stream, below `bound`.
pub(crate) fn below(numbers: &Philox, index: u64, bound: usize) -> usize {
    // Multiplying is as fair as the remainder, and quicker.
    ((u128::from(numbers.u64(index)) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_order() {
        let shuffled = |seed, stream| {
            let mut items: Vec<u32> = (0..100).collect();
            shuffle(&mut items, seed, "test", stream);
            items
        };
        assert_eq!(shuffled(1, 0), shuffled(1, 0));
        assert_ne!(shuffled(1, 0), shuffled(2, 0));
        assert_ne!(shuffled(1, 0), shuffled(1, 1));
        let mut sorted = shuffled(3, 0);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        // Every place is reached by every item about as often.
        let firsts: std::collections::HashSet<u32> =
            (0..2000).map(|seed| shuffled(seed, 0)[0]).collect();
        assert_eq!(firsts.len(), 100);
    }
}
