//! Which server gets which slice: Paddle's dispatchers, made the same in every process.

use crate::SplitMethod;

/// Gives servers to slices, one after the other.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    method: SplitMethod,
    servers: usize,
    /// Of round robin; runs on from one variable to the next.
    next: usize,
}

impl Dispatcher {
    pub(crate) fn new(method: SplitMethod, servers: usize) -> Dispatcher {
        Dispatcher { method, servers, next: 0 }
    }

    /// The server of the next slice, which is called `name`.
    pub(crate) fn dispatch(&mut self, name: &str) -> usize {
        match self.method {
            SplitMethod::RoundRobin => {
                let server = self.next;
                self.next = (self.next + 1) % self.servers;
                server
            }
            SplitMethod::HashName => (hash_name(name) % self.servers as u64) as usize,
        }
    }
}

/// The hash that [`SplitMethod::HashName`] places names by: FNV-1a, 64 bits, of the UTF-8 bytes.
/// Paddle takes Python's `hash`, which differs from process to process.
pub fn hash_name(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Shuffles `items` as `numpy.random.seed(seed); numpy.random.shuffle(items)` does, so that
/// placements are the ones that Paddle gives.
pub(crate) fn shuffle<T>(items: &mut [T], seed: u32) {
    let mut random = MersenneTwister::new(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, random.at_most(last as u32) as usize);
    }
}

/// MT19937 with NumPy's seeding by one number.
struct MersenneTwister {
    state: [u32; 624],
    next: usize,
}

impl MersenneTwister {
    fn new(seed: u32) -> MersenneTwister {
        let mut state = [seed; 624];
        for index in 1..state.len() {
            let before = state[index - 1];
            let mixed = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30));
            state[index] = mixed.wrapping_add(index as u32);
        }
        MersenneTwister { state, next: 624 }
    }

    fn refill(&mut self) {
        for index in 0..624 {
            let after = self.state[(index + 1) % 624];
            let mixed = (self.state[index] & 0x8000_0000) | (after & 0x7fff_ffff);
            let odd = if mixed & 1 == 0 { 0 } else { 0x9908_b0df };
            self.state[index] = self.state[(index + 397) % 624] ^ (mixed >> 1) ^ odd;
        }
        self.next = 0;
    }

    fn next(&mut self) -> u32 {
        if self.next == self.state.len() {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A number from 0 to `max`: NumPy masks, and draws again when that is too much.
    fn at_most(&mut self, max: u32) -> u32 {
        let mask = max.checked_next_power_of_two().map_or(u32::MAX, |power| power - 1) | max;
        loop {
            let word = self.next() & mask;
            if word <= max {
                return word;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.random.seed(s); numpy.random.permutation(10)`.
    #[test]
    fn shuffles_like_numpy() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..10).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(shuffled(0), [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]);
        assert_eq!(shuffled(42), [8, 1, 5, 0, 7, 2, 9, 4, 3, 6]);
    }

    /// Vectors of the FNV authors.
    #[test]
    fn hash_is_fnv_1a() {
        assert_eq!(hash_name(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash_name("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash_name("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn round_robin_runs_on() {
        let mut dispatcher = Dispatcher::new(SplitMethod::RoundRobin, 2);
        let servers: Vec<usize> = (0..3).map(|_| dispatcher.dispatch("w")).collect();
        assert_eq!(servers, [0, 1, 0]);
        let mut dispatcher = Dispatcher::new(SplitMethod::HashName, 7);
        assert_eq!(dispatcher.dispatch("a"), dispatcher.dispatch("a"));
    }
}
