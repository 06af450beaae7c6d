//! Tiles of 14 rows and 32 columns in 512-bit vectors: 28 sums in registers, two vectors of `rhs`, one number of `lhs`.

#![expect(
    unsafe_code,
    reason = "vector instructions on pointers; the loops around keep them in bounds"
)]

use std::arch::x86_64::*;

use super::kernel::{Kernel, Lines, Multiply, Strip, Tile};

/// Floats in a vector.
pub(super) const LANES: usize = 16;
/// Most rows of a tile.
pub(super) const ROWS: usize = 14;
/// Rows that are reached from one pointer.
pub(super) const GROUP: usize = 5;

/// Products of `f32`, for every processor with AVX-512.
pub(super) static AVX512: Kernel = Kernel {
    name: "avx512",
    is_here: || is_x86_feature_detected!("avx512f"),
    terms: 1,
    words: 1,
    rows: ROWS,
    row_unit: 1,
    lanes: LANES,
    vectors: 2,
    block_terms: 384,
    block_columns: 256,
    block_tiles: 16,
    tile: |rows, vectors| TILES[rows - 1][vectors - 1],
    lhs_along: None,
    lhs_across: (Lines::Interleaved, copy),
    rhs_along: turn,
    rhs_across: copy,
    guard: None,
};

macro_rules! tiles {
    ($($rows:literal)*) => {
        [$([tile::<$rows, 1> as Multiply, tile::<$rows, 2>]),*]
    };
}

static TILES: [[Multiply; 2]; ROWS] = tiles!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);

/// The first `count` lanes.
pub(super) fn first(count: usize) -> __mmask16 {
    (u32::MAX >> (32 - count.clamp(1, LANES))) as __mmask16
}

/// # Safety
/// The processor has AVX-512, and the tile of `R` rows and at most `V` vectors of columns, the last of them not empty,
/// lies in memory as it says.
#[target_feature(enable = "avx512f")]
unsafe fn tile<const R: usize, const V: usize>(tile: &Tile) {
    let &Tile { words, lhs_row, lhs_step, rhs_step, out, out_row, columns, add, .. } = tile;
    let last = first(columns - (V - 1) * LANES);
    let mut sums = [[_mm512_setzero_ps(); V]; R];
    // SAFETY: the caller's promise; lanes beyond the last column are masked out.
    unsafe {
        if add {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (v, sum) in sums.iter_mut().enumerate() {
                    let mask = if v + 1 == V { last } else { u16::MAX };
                    *sum = _mm512_maskz_loadu_ps(mask, out.add(i * out_row + v * LANES));
                }
            }
        }
        // Three pointers and four distances reach all rows: there are not enough registers for a pointer a row.
        let mut lhs = [0, GROUP, 2 * GROUP].map(|row| tile.lhs.wrapping_add(row * lhs_row));
        let mut rhs = tile.rhs;
        for _ in 0..words {
            let mut right = [_mm512_setzero_ps(); V];
            for (v, right) in right.iter_mut().enumerate() {
                *right = _mm512_loadu_ps(rhs.add(v * LANES));
            }
            // In groups, for longer loops are not unrolled, and sums would leave their registers.
            for (lhs, sums) in lhs.iter().zip(sums.chunks_mut(GROUP)) {
                for (i, sums) in sums.iter_mut().enumerate() {
                    let left = _mm512_set1_ps(*lhs.add(i * lhs_row));
                    for (sum, right) in sums.iter_mut().zip(&right) {
                        *sum = _mm512_fmadd_ps(left, *right, *sum);
                    }
                }
            }
            lhs = lhs.map(|row| row.wrapping_add(lhs_step));
            rhs = rhs.add(rhs_step);
        }
        for (i, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let mask = if v + 1 == V { last } else { u16::MAX };
                _mm512_mask_storeu_ps(out.add(i * out_row + v * LANES), mask, *sum);
            }
        }
    }
}

/// Packs lines that lie across `k`: rows of memory are copied.
///
/// # Safety
/// The processor has AVX-512, and the strip lies in memory as it says.
#[target_feature(enable = "avx512f")]
unsafe fn copy(strip: &Strip) {
    let &Strip { from, from_step, lines, words, to, to_step, .. } = strip;
    for at in (0..lines).step_by(LANES) {
        let mask = first(lines - at);
        for p in 0..words {
            // SAFETY: the caller's promise; lanes beyond the last line are not read.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add((p + words) * from_step + at).cast());
                let line = _mm512_maskz_loadu_ps(mask, from.add(p * from_step + at));
                _mm512_storeu_ps(to.add(p * to_step + at), line);
            }
        }
    }
}

/// Packs lines that lie along `k`, by squares of 16 lines and 16 words that are transposed.
///
/// # Safety
/// As for [`copy`].
#[target_feature(enable = "avx512f")]
unsafe fn turn(strip: &Strip) {
    let &Strip { from, from_step, lines, words, to, to_step, .. } = strip;
    for at in (0..lines).step_by(LANES) {
        for p in (0..words).step_by(LANES) {
            let (high, wide) = ((lines - at).min(LANES), (words - p).min(LANES));
            // SAFETY: the caller's promise.
            unsafe {
                let (from, to) = (from.add(at * from_step + p), to.add(p * to_step + at));
                // Counts that are known keep the square in registers.
                if high == LANES && wide == LANES {
                    turn_square(from, from_step, to, to_step, LANES, LANES);
                } else {
                    turn_square(from, from_step, to, to_step, high, wide);
                }
            }
        }
    }
}

/// Transposes `high` rows of `wide` numbers; the rest of the square is neither read nor, below, written.
///
/// # Safety
/// As for [`copy`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn turn_square(
    from: *const f32,
    from_step: usize,
    to: *mut f32,
    to_step: usize,
    high: usize,
    wide: usize,
) {
    let mask = first(wide);
    let mut square = [_mm512_setzero_ps(); LANES];
    // SAFETY: the caller's promise.
    unsafe {
        for (i, row) in square.iter_mut().enumerate().take(high) {
            *row = _mm512_maskz_loadu_ps(mask, from.add(i * from_step));
        }
        transpose(&mut square);
        for (i, row) in square.iter().enumerate().take(wide) {
            _mm512_storeu_ps(to.add(i * to_step), *row);
        }
    }
}

/// Exchanges rows and columns.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose(square: &mut [__m512; LANES]) {
    let mut pairs = [_mm512_setzero_ps(); LANES];
    for i in 0..8 {
        pairs[2 * i] = _mm512_unpacklo_ps(square[2 * i], square[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_ps(square[2 * i], square[2 * i + 1]);
    }
    // Quads of rows `4 i ..`: the result's row `j` of each 128-bit part is at `4 i + j`.
    let mut quads = [_mm512_setzero_ps(); LANES];
    for i in 0..4 {
        for j in 0..2 {
            let low = _mm512_castps_pd(pairs[4 * i + j]);
            let high = _mm512_castps_pd(pairs[4 * i + j + 2]);
            quads[4 * i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            quads[4 * i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    for j in 0..4 {
        let even_upper = _mm512_shuffle_f32x4::<0x88>(quads[j], quads[4 + j]);
        let odd_upper = _mm512_shuffle_f32x4::<0xdd>(quads[j], quads[4 + j]);
        let even_lower = _mm512_shuffle_f32x4::<0x88>(quads[8 + j], quads[12 + j]);
        let odd_lower = _mm512_shuffle_f32x4::<0xdd>(quads[8 + j], quads[12 + j]);
        square[j] = _mm512_shuffle_f32x4::<0x88>(even_upper, even_lower);
        square[8 + j] = _mm512_shuffle_f32x4::<0xdd>(even_upper, even_lower);
        square[4 + j] = _mm512_shuffle_f32x4::<0x88>(odd_upper, odd_lower);
        square[12 + j] = _mm512_shuffle_f32x4::<0xdd>(odd_upper, odd_lower);
    }
}
