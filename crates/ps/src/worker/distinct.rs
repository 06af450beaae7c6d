//! Numbers the distinct keys of a list in order of first appearance. The hash table is reused from
//! call to call, so that a step allocates nothing once it has seen a batch of its size.

/// A slot that holds no key.
const EMPTY: u32 = u32::MAX;

/// A reusable set of keys, each with a number.
#[derive(Default)]
pub(crate) struct Distinct {
    /// Open addressing with linear probing: positions in `keys`. A power of two, at least twice as
    /// long as there are keys, so that a probe ends soon. The keys are not repeated in it: four
    /// bytes a slot keep the table of a batch in the second-level cache.
    slots: Vec<u32>,
    /// How far a hash is shifted to become a slot.
    shift: u32,
    keys: Vec<u64>,
}

impl Distinct {
    /// Forgets all keys and makes room for `expected` of them.
    pub(crate) fn reset(&mut self, expected: usize) {
        self.keys.clear();
        let wanted = (expected.max(8) * 2).next_power_of_two();
        if self.slots.len() < wanted || self.slots.len() > wanted * 8 {
            self.slots = vec![EMPTY; wanted];
        } else {
            self.slots.fill(EMPTY);
        }
        self.shift = 64 - self.slots.len().trailing_zeros();
    }

    /// The number of `key`: that of its first appearance.
    #[inline]
    pub(crate) fn number(&mut self, key: u64) -> u32 {
        if self.keys.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = self.start(key);
        loop {
            let number = self.slots[at];
            if number == EMPTY {
                let number = self.keys.len() as u32;
                self.slots[at] = number;
                self.keys.push(key);
                return number;
            }
            if self.keys[number as usize] == key {
                return number;
            }
            at = (at + 1) & mask;
        }
    }

    /// The distinct keys, by number.
    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Where probing for `key` starts: the upper bits of a Fibonacci hash, because keys are often
    /// consecutive or multiples of a power of two.
    #[inline]
    fn start(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(16);
        self.slots = vec![EMPTY; slots];
        self.shift = 64 - slots.trailing_zeros();
        for number in 0..self.keys.len() {
            let mut at = self.start(self.keys[number]);
            while self.slots[at] != EMPTY {
                at = (at + 1) & (slots - 1);
            }
            self.slots[at] = number as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn numbers_are_those_of_first_appearance() {
        let mut distinct = Distinct::default();
        distinct.reset(0);
        let numbers: Vec<u32> = [7, 7, 0, u64::MAX, 0, 7].map(|key| distinct.number(key)).into();
        assert_eq!(numbers, [0, 0, 1, 2, 1, 0]);
        assert_eq!(distinct.keys(), [7, 0, u64::MAX]);
    }

    #[test]
    fn grows_and_is_reused() {
        let mut distinct = Distinct::default();
        for round in 0..3u64 {
            distinct.reset(4);
            let mut known: HashMap<u64, u32> = HashMap::new();
            for i in 0..10_000u64 {
                let key = (i * 977 % 3001) << 32 | round;
                let next = known.len() as u32;
                assert_eq!(distinct.number(key), *known.entry(key).or_insert(next));
            }
            assert_eq!(distinct.keys().len(), 3001);
        }
    }
}
