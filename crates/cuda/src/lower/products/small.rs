//! Products of small matrices (`kernels/small.cu`).

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use crate::lower::lowering::suffix;
use crate::lower::{Lowering, Outcome, Var};
use crate::work::{Epilogue, Float, Product, Ref};

/// How a product is cut into blocks, as in the kernels.
struct Tile {
    name: &'static str,
    rows: usize,
    columns: usize,
}

const DEEP: Tile = Tile { name: "deep", rows: 4, columns: 16 };
const MIDDLE: Tile = Tile { name: "middle", rows: 4, columns: 16 };
const FLAT: Tile = Tile { name: "flat", rows: 8, columns: 32 };
const THREADS: u32 = 512;

/// Rows, terms of each sum, and multiplications in all, up to which the library for large matrices is slower.
const MAX_ROWS: usize = 256;
const MAX_TERMS: usize = 1024;
const MAX_MULTIPLICATIONS: usize = 1 << 23;
/// Elements from which on there are enough tiles without sharing the terms among threads.
const MANY_ELEMENTS: usize = 1 << 15;

impl Tile {
    fn of(elements: usize, terms: usize) -> Tile {
        match terms {
            _ if elements >= MANY_ELEMENTS => FLAT,
            0..=128 => MIDDLE,
            _ => DEEP,
        }
    }

    fn blocks(&self, rows: usize, columns: usize) -> [u32; 2] {
        [columns.div_ceil(self.columns) as u32, rows.div_ceil(self.rows) as u32]
    }
}

/// Whether a product of this size is small.
pub(super) fn is_small([m, n, k]: [usize; 3]) -> bool {
    m <= MAX_ROWS && k <= MAX_TERMS && m * n * k <= MAX_MULTIPLICATIONS
}

/// As in `kernels/small.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Small {
    sizes: [u32; 3],
    pitches: [u32; 3],
    alpha: f32,
    act: i32,
}

/// Adds a small product to the work, with the activation that kernels call `act`; says no when it is not small, or more
/// than a product of two matrices.
pub(super) fn multiply(l: &mut Lowering<'_>, product: &Product, act: i32) -> Outcome<bool> {
    let Product { a, b, out, bias, m, n, k, pitches, .. } = *product;
    let elements = match product.inputs {
        Float::F32 => DType::F32,
        Float::Bf16 => DType::BF16,
        Float::F16 => DType::F16,
        Float::F64 => return Ok(false),
    };
    let is_plain = product.batch == 1 && product.beta == 0.0 && product.inputs == product.output;
    if !is_plain || !is_small([m, n, k]) {
        return Ok(false);
    }
    let letter = |is_turned: bool| if is_turned { 't' } else { 'n' };
    let turns = [letter(product.transpose_a), letter(product.transpose_b)];
    let (tile, suffix) = (Tile::of(m * n, k), suffix(elements)?);
    let name = format!("small_product_{}_{}{}_{suffix}", tile.name, turns[0], turns[1]);
    let [beside, below] = tile.blocks(m, n);
    let bias = if product.epilogue == Epilogue::None { Ref::NULL } else { bias };
    let small = Small {
        sizes: [m, n, k].map(|size| size as u32),
        pitches: pitches.map(|pitch| pitch as u32),
        alpha: product.alpha,
        act,
    };
    let launch = l.kernel(name, [beside, below, 1], THREADS);
    launch.at(a).at(b).at(bias).at(out).value(small).launch();
    Ok(true)
}

/// The variables of the gradient of `fc`.
pub(super) struct FcGrad<'a> {
    pub(super) x: &'a Var,
    pub(super) w: &'a Var,
    pub(super) out: Option<&'a Var>,
    pub(super) dout: &'a Var,
    pub(super) dx: Option<&'a Var>,
    pub(super) dw: Option<&'a Var>,
    pub(super) dbias: Option<&'a Var>,
}

/// As in `kernels/small.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SmallGrad {
    rows: u32,
    k: u32,
    n: u32,
    x_pitch: u32,
    dx_pitch: u32,
    dx_blocks: u32,
    act: i32,
    x_act: i32,
}

/// Adds the whole gradient of a small `fc` to the work; `sizes` are those of its product, `[m, n, k]`, and `acts` its
/// activation and the one that made `X`.
pub(super) fn fc_grad(
    l: &mut Lowering<'_>,
    grad: &FcGrad<'_>,
    [m, n, k]: [usize; 3],
    [act, x_act]: [i32; 2],
) -> Outcome {
    let tile = if n <= 128 { MIDDLE } else { DEEP };
    let count = |[beside, below]: [u32; 2]| beside * below;
    let dx_blocks = grad.dx.map_or(0, |_| count(tile.blocks(m, k)));
    let wants_weights = grad.dw.is_some() || grad.dbias.is_some();
    let dw_blocks = if wants_weights { count(FLAT.blocks(k + 1, n)) } else { 0 };
    let by = SmallGrad {
        rows: m as u32,
        k: k as u32,
        n: n as u32,
        x_pitch: grad.x.pitch as u32,
        dx_pitch: grad.dx.map_or(0, |dx| dx.pitch as u32),
        dx_blocks,
        act,
        x_act,
    };
    let name = format!("small_fc_grad_{}_{}", tile.name, grad.x.suffix()?);
    let launch = l.kernel(name, [dx_blocks + dw_blocks, 1, 1], THREADS);
    let launch = launch.var(grad.x).var(grad.w).maybe(grad.out).var(grad.dout);
    launch.maybe(grad.dx).maybe(grad.dw).maybe(grad.dbias).value(by).launch();
    Ok(())
}
