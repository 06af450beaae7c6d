//! The powers of Adam's decay rates at a step, computed as a trainer computes them: in single
//! precision, one product a step. A table trained in step with a local run then equals it bit for
//! bit.

use std::sync::{Mutex, PoisonError};

/// The powers of some decay rates, kept for the last step that was asked for.
#[derive(Default)]
pub(in super::super) struct Powers {
    last: Mutex<Last>,
}

#[derive(Clone, Copy, Default)]
struct Last {
    bases: [f32; 2],
    step: u64,
    powers: [f32; 2],
}

impl Powers {
    /// `bases` to the power of `step`, which counts from 1.
    pub(in super::super) fn at(&self, bases: [f64; 2], step: u64) -> [f64; 2] {
        let bases = bases.map(|base| base as f32);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.bases != bases || last.step > step || last.step == 0 {
            *last = Last { bases, step: 1, powers: bases };
        }
        while last.step < step {
            let next = [last.powers[0] * bases[0], last.powers[1] * bases[1]];
            if next == last.powers {
                // They have fallen as low as they get.
                last.step = step;
                break;
            }
            last.powers = next;
            last.step += 1;
        }
        last.powers.map(f64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_repeated_products() {
        let powers = Powers::default();
        let bases = [f64::from(0.9f32), f64::from(0.999f32)];
        let mut expected = [0.9f32, 0.999];
        for step in 1..200 {
            assert_eq!(powers.at(bases, step), expected.map(f64::from));
            expected = [expected[0] * 0.9, expected[1] * 0.999];
        }
        assert_eq!(powers.at(bases, 2), [0.9f32 * 0.9, 0.999 * 0.999].map(f64::from));
        assert_eq!(powers.at(bases, 0), bases, "no step counts as the first");
        assert!(powers.at(bases, u64::MAX)[1] < 1e-40);
    }
}
