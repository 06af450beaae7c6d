//! A model of the tile unit in plain Rust, and packing without vectors: what AMX does can be tested anywhere.

use half::bf16;

use super::amx::{self, KERNEL, SIDE, Unit};
use super::avx512;
use crate::gemm::kernel::{Kernel, Lines, Strip};

/// AMX by the model, packed without vectors.
pub(super) static MODEL: Kernel = Kernel {
    name: "amx_bf16 by its model",
    is_here: || true,
    tile: amx::pick::<Model>,
    lhs_along: Some((Lines::Whole, whole_from_along)),
    lhs_across: (Lines::Whole, whole_from_across),
    rhs_along: interleaved_from_along,
    rhs_across: interleaved_from_across,
    guard: None,
    ..KERNEL
};

/// AMX by the model, packed as for the processor.
pub(super) static PACKED: Kernel = Kernel {
    name: "amx_bf16 by its model, with its own packing",
    is_here: avx512::can_pack,
    tile: amx::pick::<Model>,
    guard: None,
    ..KERNEL
};

/// Eight registers.
struct Model {
    registers: [[[u32; SIDE]; SIDE]; 8],
}

impl Default for Model {
    /// What registers hold before is anything.
    fn default() -> Model {
        Model { registers: [[[f32::NAN.to_bits(); SIDE]; SIDE]; 8] }
    }
}

fn pair(word: u32) -> [f32; 2] {
    [bf16::from_bits(word as u16).to_f32(), bf16::from_bits((word >> 16) as u16).to_f32()]
}

impl Unit for Model {
    fn zero<const T: usize>(&mut self) {
        self.registers[T] = [[0; SIDE]; SIDE];
    }

    unsafe fn load<const T: usize>(&mut self, from: *const f32, step: usize) {
        for (i, row) in self.registers[T].iter_mut().enumerate() {
            for (j, word) in row.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *word = unsafe { from.add(i * step + j).read().to_bits() };
            }
        }
    }

    unsafe fn store<const T: usize>(&mut self, to: *mut f32, step: usize) {
        for (i, row) in self.registers[T].iter().enumerate() {
            for (j, word) in row.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { to.add(i * step + j).write(f32::from_bits(*word)) };
            }
        }
    }

    fn multiply<const T: usize, const A: usize, const B: usize>(&mut self) {
        for i in 0..SIDE {
            for p in 0..SIDE {
                for j in 0..SIDE {
                    let (a, b) = (pair(self.registers[A][i][p]), pair(self.registers[B][p][j]));
                    let sum = f32::from_bits(self.registers[T][i][j]) + a[0] * b[0] + a[1] * b[1];
                    self.registers[T][i][j] = sum.to_bits();
                }
            }
        }
    }
}

/// Word `word` of line `line`, whose terms are at `at(line, term)`.
unsafe fn word(strip: &Strip, line: usize, word: usize, at: impl Fn(usize, usize) -> usize) -> f32 {
    let factor = |term: usize| {
        // SAFETY: the caller's promise: terms of lines are there.
        let number =
            if term < strip.terms { unsafe { *strip.from.add(at(line, term)) } } else { 0.0 };
        u32::from(bf16::from_f32(number).to_bits())
    };
    f32::from_bits(factor(2 * word) | factor(2 * word + 1) << 16)
}

unsafe fn pack(
    strip: &Strip,
    from: impl Fn(usize, usize) -> usize + Copy,
    to: impl Fn(usize, usize) -> usize,
) {
    for line in 0..strip.lines {
        for at in 0..strip.words {
            // SAFETY: the caller's promise.
            unsafe { strip.to.add(to(line, at)).write(word(strip, line, at, from)) };
        }
    }
}

unsafe fn whole_from_along(strip: &Strip) {
    let (from, to) = (strip.from_step, strip.to_step);
    // SAFETY: the caller's promise.
    unsafe { pack(strip, |line, term| line * from + term, |line, word| line * to + word) };
}

unsafe fn whole_from_across(strip: &Strip) {
    let (from, to) = (strip.from_step, strip.to_step);
    // SAFETY: the caller's promise.
    unsafe { pack(strip, |line, term| term * from + line, |line, word| line * to + word) };
}

unsafe fn interleaved_from_along(strip: &Strip) {
    let (from, to) = (strip.from_step, strip.to_step);
    // SAFETY: the caller's promise.
    unsafe { pack(strip, |line, term| line * from + term, |line, word| word * to + line) };
}

unsafe fn interleaved_from_across(strip: &Strip) {
    let (from, to) = (strip.from_step, strip.to_step);
    // SAFETY: the caller's promise.
    unsafe { pack(strip, |line, term| term * from + line, |line, word| word * to + line) };
}
