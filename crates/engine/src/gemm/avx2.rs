//! Tiles of 6 rows and 16 columns in 256-bit vectors: 12 sums in registers, two vectors of `rhs`, one number of `lhs`.

#![expect(
    unsafe_code,
    reason = "vector instructions on pointers; the loops around keep them in bounds"
)]

use std::arch::x86_64::*;

use super::kernel::{Kernel, Lines, Multiply, Strip, Tile};

/// Floats in a vector.
const LANES: usize = 8;
/// Most rows of a tile.
const ROWS: usize = 6;

/// Products of `f32`, for every processor with AVX2 and FMA.
pub(super) static AVX2: Kernel = Kernel {
    name: "avx2",
    is_here: || is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
    terms: 1,
    words: 1,
    rows: ROWS,
    row_unit: 1,
    lanes: LANES,
    vectors: 2,
    block_terms: 256,
    block_columns: 128,
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

static TILES: [[Multiply; 2]; ROWS] = tiles!(1 2 3 4 5 6);

/// The first `count` lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn first(count: usize) -> __m256i {
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_cmpgt_epi32(_mm256_set1_epi32(count.min(LANES) as i32), lanes)
}

/// # Safety
/// The processor has AVX2 and FMA, and the tile of `R` rows and at most `V` vectors of columns, the last of them not
/// empty, lies in memory as it says.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const R: usize, const V: usize>(tile: &Tile) {
    let &Tile { words, lhs_row, lhs_step, rhs_step, out, out_row, columns, add, .. } = tile;
    let last = first(columns - (V - 1) * LANES);
    let mut sums = [[_mm256_setzero_ps(); V]; R];
    // SAFETY: the caller's promise; lanes beyond the last column are masked out.
    unsafe {
        let load = |v: usize, from: *const f32| match v + 1 == V {
            true => _mm256_maskload_ps(from, last),
            false => _mm256_loadu_ps(from),
        };
        if add {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = load(v, out.add(i * out_row + v * LANES));
                }
            }
        }
        let mut lhs = [0, 3].map(|row| tile.lhs.wrapping_add(row * lhs_row));
        let mut rhs = tile.rhs;
        for _ in 0..words {
            let mut right = [_mm256_setzero_ps(); V];
            for (v, right) in right.iter_mut().enumerate() {
                *right = _mm256_loadu_ps(rhs.add(v * LANES));
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let left = _mm256_set1_ps(*lhs[i / 3].add(i % 3 * lhs_row));
                for (sum, right) in sums.iter_mut().zip(&right) {
                    *sum = _mm256_fmadd_ps(left, *right, *sum);
                }
            }
            lhs = lhs.map(|row| row.wrapping_add(lhs_step));
            rhs = rhs.add(rhs_step);
        }
        for (i, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let out = out.add(i * out_row + v * LANES);
                match v + 1 == V {
                    true => _mm256_maskstore_ps(out, last, *sum),
                    false => _mm256_storeu_ps(out, *sum),
                }
            }
        }
    }
}

/// Packs lines that lie across `k`: rows of memory are copied.
///
/// # Safety
/// The processor has AVX2, and the strip lies in memory as it says.
#[target_feature(enable = "avx2")]
unsafe fn copy(strip: &Strip) {
    let &Strip { from, from_step, lines, words, to, to_step, .. } = strip;
    for at in (0..lines).step_by(LANES) {
        let mask = first(lines - at);
        for p in 0..words {
            // SAFETY: the caller's promise; lanes beyond the last line are not read.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add((p + words) * from_step + at).cast());
                let line = _mm256_maskload_ps(from.add(p * from_step + at), mask);
                _mm256_storeu_ps(to.add(p * to_step + at), line);
            }
        }
    }
}

/// Packs lines that lie along `k`, by squares of 8 lines and 8 words that are transposed.
///
/// # Safety
/// As for [`copy`].
#[target_feature(enable = "avx2")]
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
#[target_feature(enable = "avx2")]
unsafe fn turn_square(
    from: *const f32,
    from_step: usize,
    to: *mut f32,
    to_step: usize,
    high: usize,
    wide: usize,
) {
    let mask = first(wide);
    let mut square = [_mm256_setzero_ps(); LANES];
    // SAFETY: the caller's promise.
    unsafe {
        for (i, row) in square.iter_mut().enumerate().take(high) {
            *row = _mm256_maskload_ps(from.add(i * from_step), mask);
        }
        transpose(&mut square);
        for (i, row) in square.iter().enumerate().take(wide) {
            _mm256_storeu_ps(to.add(i * to_step), *row);
        }
    }
}

/// Exchanges rows and columns.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(square: &mut [__m256; LANES]) {
    let mut quads = [_mm256_setzero_ps(); LANES];
    for i in 0..2 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|row| square[4 * i + row]);
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (high_ab, high_cd) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        quads[4 * i] = _mm256_shuffle_ps::<0x44>(ab, cd);
        quads[4 * i + 1] = _mm256_shuffle_ps::<0xee>(ab, cd);
        quads[4 * i + 2] = _mm256_shuffle_ps::<0x44>(high_ab, high_cd);
        quads[4 * i + 3] = _mm256_shuffle_ps::<0xee>(high_ab, high_cd);
    }
    for j in 0..4 {
        square[j] = _mm256_permute2f128_ps::<0x20>(quads[j], quads[4 + j]);
        square[4 + j] = _mm256_permute2f128_ps::<0x31>(quads[j], quads[4 + j]);
    }
}
