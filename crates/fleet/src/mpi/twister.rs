//! The random numbers of Python's `random` (MT19937), as far as one small draw needs them: Paddle
//! chooses the port of its servers by it, and so do jobs that are to find them.

const SIZE: usize = 624;
const SHIFT: usize = 397;

/// A generator in the state after `random.seed(number)`.
pub(super) struct Twister {
    state: [u32; SIZE],
    next: usize,
}

impl Twister {
    pub(super) fn new(seed: u32) -> Twister {
        let mut twister = Twister { state: [0; SIZE], next: SIZE };
        twister.fill(19_650_218);
        twister.mix(seed);
        twister
    }

    /// A number below `limit`, as `random.randrange` draws it: bits until they are small enough.
    pub(super) fn below(&mut self, limit: u16) -> u16 {
        let bits = u16::BITS - limit.leading_zeros();
        loop {
            let drawn = self.word() >> (u32::BITS - bits);
            match u16::try_from(drawn) {
                Ok(number) if number < limit => return number,
                _ => {}
            }
        }
    }

    fn fill(&mut self, seed: u32) {
        self.state[0] = seed;
        for at in 1..SIZE {
            let before = self.state[at - 1];
            let step = u32::try_from(at).expect("below 624");
            self.state[at] =
                1_812_433_253_u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(step);
        }
    }

    /// Seeding by an array with one element, which is what Python does with a small number.
    fn mix(&mut self, key: u32) {
        let mut at = 1;
        for _ in 0..SIZE {
            self.stir(at, 1_664_525, |mixed, _| mixed.wrapping_add(key));
            at = self.advance(at);
        }
        for _ in 0..SIZE - 1 {
            self.stir(at, 1_566_083_941, |mixed, at| mixed.wrapping_sub(at));
            at = self.advance(at);
        }
        self.state[0] = 0x8000_0000;
    }

    fn stir(&mut self, at: usize, factor: u32, change: impl Fn(u32, u32) -> u32) {
        let before = self.state[at - 1];
        let mixed = self.state[at] ^ (before ^ (before >> 30)).wrapping_mul(factor);
        self.state[at] = change(mixed, u32::try_from(at).expect("below 624"));
    }

    fn advance(&mut self, at: usize) -> usize {
        match at + 1 {
            SIZE => {
                self.state[0] = self.state[SIZE - 1];
                1
            }
            next => next,
        }
    }

    fn word(&mut self) -> u32 {
        if self.next == SIZE {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn twist(&mut self) {
        for at in 0..SIZE {
            let joined =
                (self.state[at] & 0x8000_0000) | (self.state[(at + 1) % SIZE] & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[at] = self.state[(at + SHIFT) % SIZE] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }
}
