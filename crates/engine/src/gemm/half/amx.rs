//! Tiles of 32 rows and 32 columns in the registers of AMX: four of sums, two of `lhs` and two of `rhs`, each of 16 rows
//! of 64 bytes.
//!
//! The loops are written for a [`Unit`], which is the processor's or, in tests, a model of it.

use std::arch::asm;
use std::sync::OnceLock;

use super::avx512;
use crate::gemm::kernel::{Guard, Kernel, Lines, Multiply, Tile};

/// Rows of a register, and words in one of its rows.
pub(super) const SIDE: usize = 16;

/// Products whose factors are rounded to `bfloat16`, for processors with AMX.
pub(in crate::gemm) static AMX_BF16: Kernel = KERNEL;

pub(super) const KERNEL: Kernel = Kernel {
    name: "amx_bf16",
    is_here,
    terms: 2,
    words: SIDE,
    rows: 2 * SIDE,
    row_unit: SIDE,
    lanes: SIDE,
    vectors: 2,
    block_terms: 512,
    block_columns: 256,
    block_tiles: 8,
    tile: pick::<Processor>,
    lhs_along: Some((Lines::Whole, avx512::ROUND)),
    lhs_across: (Lines::Whole, avx512::TURN_BACK),
    rhs_along: avx512::TURN,
    rhs_across: avx512::PAIR,
    guard: Some(Guard { enter: configure, leave: release }),
};

/// Eight registers of 16 rows of 16 words, by number.
pub(super) trait Unit: Default {
    /// Register `T` becomes zero.
    fn zero<const T: usize>(&mut self);
    /// Register `T` becomes 16 rows that lie `step` words apart.
    ///
    /// # Safety
    /// The rows are there.
    unsafe fn load<const T: usize>(&mut self, from: *const f32, step: usize);
    /// The rows of register `T` are written `step` words apart.
    ///
    /// # Safety
    /// There is room for the rows.
    unsafe fn store<const T: usize>(&mut self, to: *mut f32, step: usize);
    /// To the sum in row `i`, column `j` of `T` are added the products of the pairs in row `i` of `A` and those in
    /// column `j` of `B`.
    fn multiply<const T: usize, const A: usize, const B: usize>(&mut self);
}

/// The function for tiles of so many rows and vectors.
pub(super) fn pick<U: Unit>(rows: usize, vectors: usize) -> Multiply {
    match (rows.div_ceil(SIDE), vectors) {
        (1, 1) => tile::<U, 1, 1>,
        (1, _) => tile::<U, 1, 2>,
        (_, 1) => tile::<U, 2, 1>,
        (_, _) => tile::<U, 2, 2>,
    }
}

/// # Safety
/// The unit is ready, and the tile of at most `R` registers of rows and `V` of columns lies in memory as it says; rows
/// and columns beyond its own, up to whole registers, are there in `lhs` and `rhs`, whatever they hold.
unsafe fn tile<U: Unit, const R: usize, const V: usize>(tile: &Tile) {
    let &Tile { out, out_row, rows, columns, .. } = tile;
    if rows == R * SIDE && columns == V * SIDE {
        // SAFETY: the caller's promise; the result has whole registers.
        unsafe { sum::<U, R, V>(tile, out, out_row) };
        return;
    }
    // Registers are stored whole: those at an edge of the result, beside it.
    let mut whole = [0.0f32; 4 * SIDE * SIDE];
    let beside = |i: usize| i * V * SIDE;
    // SAFETY: the caller's promise; rows and columns of the tile lie in both.
    unsafe {
        if tile.add {
            for i in 0..rows {
                let from = out.add(i * out_row);
                whole.as_mut_ptr().add(beside(i)).copy_from_nonoverlapping(from, columns);
            }
        }
        sum::<U, R, V>(tile, whole.as_mut_ptr(), V * SIDE);
        for i in 0..rows {
            let from = whole.as_ptr().add(beside(i));
            out.add(i * out_row).copy_from_nonoverlapping(from, columns);
        }
    }
}

/// Sums up into the `R` times `V` registers that begin at `out`.
///
/// # Safety
/// As for [`tile`], and `out` has room for whole registers.
unsafe fn sum<U: Unit, const R: usize, const V: usize>(tile: &Tile, out: *mut f32, out_row: usize) {
    let &Tile { words, lhs, lhs_row, rhs, rhs_step, add, .. } = tile;
    let (below, beside) = (SIDE * out_row, SIDE);
    let mut unit = U::default();
    // SAFETY: the caller's promise; words are whole registers.
    unsafe {
        if add {
            unit.load::<0>(out, out_row);
            if V > 1 {
                unit.load::<1>(out.add(beside), out_row);
            }
            if R > 1 {
                unit.load::<2>(out.add(below), out_row);
            }
            if R > 1 && V > 1 {
                unit.load::<3>(out.add(below + beside), out_row);
            }
        } else {
            unit.zero::<0>();
            unit.zero::<1>();
            unit.zero::<2>();
            unit.zero::<3>();
        }
        for word in (0..words).step_by(SIDE) {
            let (lhs, rhs) = (lhs.add(word), rhs.add(word * rhs_step));
            unit.load::<6>(rhs, rhs_step);
            unit.load::<4>(lhs, lhs_row);
            unit.multiply::<0, 4, 6>();
            if V > 1 {
                unit.load::<7>(rhs.add(SIDE), rhs_step);
                unit.multiply::<1, 4, 7>();
            }
            if R > 1 {
                unit.load::<5>(lhs.add(SIDE * lhs_row), lhs_row);
                unit.multiply::<2, 5, 6>();
            }
            if R > 1 && V > 1 {
                unit.multiply::<3, 5, 7>();
            }
        }
        unit.store::<0>(out, out_row);
        if V > 1 {
            unit.store::<1>(out.add(beside), out_row);
        }
        if R > 1 {
            unit.store::<2>(out.add(below), out_row);
        }
        if R > 1 && V > 1 {
            unit.store::<3>(out.add(below + beside), out_row);
        }
    }
}

/// The processor's own registers, once they are configured. Only this file uses them: no compiler does by itself.
#[derive(Default)]
struct Processor;

impl Unit for Processor {
    #[inline(always)]
    fn zero<const T: usize>(&mut self) {
        // SAFETY: a tile runs where AMX is there and configured; nothing but the register changes.
        unsafe { asm!("tilezero tmm{t}", t = const T, options(nostack, nomem, preserves_flags)) };
    }

    #[inline(always)]
    unsafe fn load<const T: usize>(&mut self, from: *const f32, step: usize) {
        // SAFETY: as above, and the caller's promise.
        unsafe {
            asm!(
                "tileloadd tmm{t}, [{from} + {step} * 1]",
                t = const T,
                from = in(reg) from,
                step = in(reg) step * size_of::<f32>(),
                options(nostack, readonly, preserves_flags)
            );
        }
    }

    #[inline(always)]
    unsafe fn store<const T: usize>(&mut self, to: *mut f32, step: usize) {
        // SAFETY: as above, and the caller's promise.
        unsafe {
            asm!(
                "tilestored [{to} + {step} * 1], tmm{t}",
                t = const T,
                to = in(reg) to,
                step = in(reg) step * size_of::<f32>(),
                options(nostack, preserves_flags)
            );
        }
    }

    #[inline(always)]
    fn multiply<const T: usize, const A: usize, const B: usize>(&mut self) {
        // SAFETY: as above; nothing but the register of sums changes.
        unsafe {
            asm!(
                "tdpbf16ps tmm{t}, tmm{a}, tmm{b}",
                t = const T,
                a = const A,
                b = const B,
                options(nostack, nomem, preserves_flags)
            );
        }
    }
}

/// What `ldtilecfg` reads: the sizes of the registers.
#[repr(C, align(64))]
struct Sizes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Eight registers of 16 rows of 64 bytes.
static SIZES: Sizes = Sizes {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Makes the registers of this thread ready.
fn configure() {
    // SAFETY: kernels are entered only where AMX is there and permitted; the sizes are those of palette 1.
    unsafe {
        asm!("ldtilecfg [{sizes}]", sizes = in(reg) &SIZES, options(nostack, readonly, preserves_flags))
    };
}

/// Gives them back: the system need not keep them when it takes the processor from this thread.
fn release() {
    // SAFETY: as in `configure`.
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
}

/// Whether this processor has AMX for 16-bit floats, and the system lets this process use it.
fn is_here() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| avx512::can_pack() && has_amx() && is_permitted())
}

fn has_amx() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    // Processors with AVX-512 have this leaf.
    let features = std::arch::x86_64::__cpuid_count(7, 0).edx;
    features & (BF16 | TILE) == BF16 | TILE
}

/// Asks Linux for the use of the registers, which it keeps for a process only when it was asked.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: usize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XTILEDATA: usize = 18;
    let answer: isize;
    // SAFETY: the call changes nothing but what this process may use; the registers that calls destroy are named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    answer == 0
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}
