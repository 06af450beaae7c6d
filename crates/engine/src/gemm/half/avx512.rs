//! Tiles of 14 rows and 32 columns that multiply pairs of 16-bit factors, and the packing that rounds to them.

use std::arch::x86_64::*;

use crate::gemm::avx512::{GROUP, LANES, ROWS, first, transpose};
use crate::gemm::kernel::{Kernel, Lines, Multiply, Pack, Strip, Tile};

/// Products whose factors are rounded to `bfloat16`, for processors with AVX512-BF16.
pub(in crate::gemm) static AVX512_BF16: Kernel = Kernel {
    name: "avx512_bf16",
    is_here: can_pack,
    terms: 2,
    words: 1,
    rows: ROWS,
    row_unit: 1,
    lanes: LANES,
    vectors: 2,
    block_terms: 768,
    block_columns: 256,
    block_tiles: 16,
    tile: |rows, vectors| TILES[rows - 1][vectors - 1],
    lhs_along: Some((Lines::Whole, ROUND)),
    lhs_across: (Lines::Interleaved, PAIR),
    rhs_along: TURN,
    rhs_across: PAIR,
    guard: None,
};

/// Packs lines that lie along `k`, line by line.
pub(super) const ROUND: Pack = round;
/// Packs lines that lie across `k`, interleaved.
pub(super) const PAIR: Pack = pair;
/// Packs lines that lie along `k`, interleaved.
pub(super) const TURN: Pack = turn;
/// Packs lines that lie across `k`, line by line.
pub(super) const TURN_BACK: Pack = turn_back;

/// Whether this processor has the instructions that round and pack.
pub(super) fn can_pack() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512bf16")
}

macro_rules! tiles {
    ($($rows:literal)*) => {
        [$([tile::<$rows, 1> as Multiply, tile::<$rows, 2>]),*]
    };
}

static TILES: [[Multiply; 2]; ROWS] = tiles!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);

/// # Safety
/// The processor has AVX512-BF16, and the tile of `R` rows and at most `V` vectors of columns, the last of them not
/// empty, lies in memory as it says.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
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
                        *sum = _mm512_dpbf16_ps(*sum, factors(left), factors(*right));
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

/// Words as what they hold: two factors each.
#[inline]
#[target_feature(enable = "avx512f")]
fn factors(words: __m512) -> __m512bh {
    // SAFETY: both are 512 bits, and every pattern of bits is a value.
    unsafe { std::mem::transmute::<__m512, __m512bh>(words) }
}

/// The first `count` lanes, which may be none.
#[inline]
fn some(count: usize) -> __mmask16 {
    if count == 0 { 0 } else { first(count) }
}

/// Rounds 32 numbers to 16 words, in order: those of `low` come first.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn rounded(low: __m512, high: __m512) -> __m512 {
    let words = _mm512_cvtne2ps_pbh(high, low);
    // SAFETY: both are 512 bits, and every pattern of bits is a value.
    unsafe { std::mem::transmute::<__m512bh, __m512>(words) }
}

/// Rounds up to 32 numbers that follow each other in memory; those beyond `count` are zero.
///
/// # Safety
/// The processor has AVX512-BF16, and `count` numbers are there.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn rounded_at(from: *const f32, count: usize) -> __m512 {
    // SAFETY: the caller's promise; masked lanes are not read.
    unsafe {
        let low = _mm512_maskz_loadu_ps(some(count), from);
        let high =
            _mm512_maskz_loadu_ps(some(count.saturating_sub(LANES)), from.wrapping_add(LANES));
        rounded(low, high)
    }
}

/// The words of 16 lines from two rows of memory: the factors of `low` are the first of each pair.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn paired(low: __m512, high: __m512) -> __m512 {
    const ORDER: [u16; 32] = {
        let mut order = [0; 32];
        let mut at = 0;
        while at < 32 {
            order[at] = (at / 2 + at % 2 * LANES) as u16;
            at += 1;
        }
        order
    };
    // SAFETY: as many bits as a vector.
    let order = unsafe { _mm512_loadu_si512(ORDER.as_ptr().cast()) };
    let words = _mm512_castps_si512(rounded(low, high));
    _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, words))
}

/// The words `word` of up to 16 lines that lie across `k`.
///
/// # Safety
/// The processor has AVX512-BF16, and the strip lies in memory as it says.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn paired_at(strip: &Strip, line: usize, word: usize) -> __m512 {
    let &Strip { from, from_step, lines, terms, .. } = strip;
    let mask = some(lines - line);
    let row = |term: usize| {
        let mask = if term < terms { mask } else { 0 };
        // SAFETY: the caller's promise; masked lanes are not read.
        unsafe { _mm512_maskz_loadu_ps(mask, from.wrapping_add(term * from_step + line)) }
    };
    paired(row(2 * word), row(2 * word + 1))
}

/// # Safety
/// The processor has AVX512-BF16, and the strip lies in memory as it says.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn round(strip: &Strip) {
    let &Strip { from, from_step, lines, terms, words, to, to_step } = strip;
    for line in 0..lines {
        for word in (0..words).step_by(LANES) {
            // SAFETY: the caller's promise; words beyond the last are not written.
            unsafe {
                let from = from.wrapping_add(line * from_step + 2 * word);
                let row = rounded_at(from, terms.saturating_sub(2 * word));
                _mm512_mask_storeu_ps(to.add(line * to_step + word), some(words - word), row);
            }
        }
    }
}

/// # Safety
/// As for [`round`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pair(strip: &Strip) {
    let &Strip { from, from_step, lines, words, to, to_step, .. } = strip;
    for line in (0..lines).step_by(LANES) {
        for word in 0..words {
            // Rows of memory lie far apart: the next strips' are asked for.
            let next = from.wrapping_add(2 * (word + words) * from_step + line);
            // SAFETY: the caller's promise; asking for memory reads nothing.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(next.cast());
                _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(from_step).cast());
                _mm512_storeu_ps(to.add(word * to_step + line), paired_at(strip, line, word));
            }
        }
    }
}

/// # Safety
/// As for [`round`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn turn(strip: &Strip) {
    let &Strip { from, from_step, lines, terms, words, to, to_step } = strip;
    for line in (0..lines).step_by(LANES) {
        for word in (0..words).step_by(LANES) {
            let mut square = [_mm512_setzero_ps(); LANES];
            // SAFETY: the caller's promise; words beyond the last are not written.
            unsafe {
                for (i, row) in square.iter_mut().enumerate() {
                    // A line too many is none.
                    let count = if line + i < lines { terms.saturating_sub(2 * word) } else { 0 };
                    let from = from.wrapping_add((line + i) * from_step + 2 * word);
                    *row = rounded_at(from, count);
                }
                transpose(&mut square);
                for (i, row) in square.iter().enumerate() {
                    if word + i < words {
                        _mm512_storeu_ps(to.add((word + i) * to_step + line), *row);
                    }
                }
            }
        }
    }
}

/// # Safety
/// As for [`round`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn turn_back(strip: &Strip) {
    let &Strip { lines, words, to, to_step, .. } = strip;
    for line in (0..lines).step_by(LANES) {
        for word in (0..words).step_by(LANES) {
            let mut square = [_mm512_setzero_ps(); LANES];
            // SAFETY: the caller's promise; words and lines beyond the last are not written.
            unsafe {
                for (i, row) in square.iter_mut().enumerate() {
                    *row = paired_at(strip, line, word + i);
                }
                transpose(&mut square);
                for (i, row) in square.iter().enumerate() {
                    if line + i < lines {
                        let to = to.add((line + i) * to_step + word);
                        _mm512_mask_storeu_ps(to, some(words - word), *row);
                    }
                }
            }
        }
    }
}
