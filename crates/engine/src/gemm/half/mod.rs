//! Products of factors that are rounded to `bfloat16` while they are packed, and summed up in `f32`: about twice as
//! fast with AVX512-BF16, more with AMX. Operands and results are `f32` in memory.

#![expect(
    unsafe_code,
    reason = "vector and tile instructions on pointers; the loops around keep them in bounds"
)]

mod amx;
mod avx512;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub(super) use amx::AMX_BF16;
pub(super) use avx512::AVX512_BF16;
