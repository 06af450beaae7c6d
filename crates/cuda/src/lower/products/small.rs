//! Products of small matrices (`kernels/small.cu`).

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use crate::lower::lowering::suffix;
use crate::lower::{Lowering, Outcome, Var};
use crate::work::{Epilogue, Float, Product, Ref};

/// The tile of a block, and its threads, as in the kernels.
const TILE: [usize; 2] = [8, 32];
const THREADS: u32 = 512;

/// Rows, and multiplications in all, up to which the library for large matrices is slower.
const MAX_ROWS: usize = 256;
const MAX_MULTIPLICATIONS: usize = 1 << 23;

/// Whether a product of this size is small.
pub(super) fn is_small(rows: usize, columns: usize, count: usize) -> bool {
    rows <= MAX_ROWS && rows * columns * count <= MAX_MULTIPLICATIONS
}

/// As in `kernels/small.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Small {
    sizes: [i64; 3],
    pitches: [i64; 3],
    alpha: f64,
    act: i32,
    unused: i32,
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
    if !is_plain || !is_small(m.min(n), m.max(n), k) {
        return Ok(false);
    }
    let letter = |is_turned: bool| if is_turned { 't' } else { 'n' };
    let turns = [letter(product.transpose_a), letter(product.transpose_b)];
    let name = format!("small_product_{}{}_{}", turns[0], turns[1], suffix(elements)?);
    let blocks = [n.div_ceil(TILE[1]) as u32, m.div_ceil(TILE[0]) as u32, 1];
    let bias = if product.epilogue == Epilogue::None { Ref::NULL } else { bias };
    let small = Small {
        sizes: [m, n, k].map(|size| size as i64),
        pitches: pitches.map(|pitch| pitch as i64),
        alpha: f64::from(product.alpha),
        act,
        unused: 0,
    };
    l.kernel(name, blocks, THREADS).at(a).at(b).at(bias).at(out).value(small).launch();
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
    rows: i64,
    k: i64,
    n: i64,
    x_pitch: i64,
    dx_pitch: i64,
    dx_blocks: u32,
    act: i32,
}

/// Adds the whole gradient of a small `fc` to the work; `sizes` are those of its product, `[m, n, k]`.
pub(super) fn fc_grad(
    l: &mut Lowering<'_>,
    grad: &FcGrad<'_>,
    [m, n, k]: [usize; 3],
    act: i32,
) -> Outcome {
    let tiles =
        |rows: usize, columns: usize| (rows.div_ceil(TILE[0]) * columns.div_ceil(TILE[1])) as u32;
    let dx_blocks = if grad.dx.is_some() { tiles(m, k) } else { 0 };
    let wants_weights = grad.dw.is_some() || grad.dbias.is_some();
    let dw_blocks = if wants_weights { tiles(k + 1, n) } else { 0 };
    let by = SmallGrad {
        rows: m as i64,
        k: k as i64,
        n: n as i64,
        x_pitch: grad.x.pitch as i64,
        dx_pitch: grad.dx.map_or(0, |dx| dx.pitch as i64),
        dx_blocks,
        act,
    };
    let name = format!("small_fc_grad_{}", grad.x.suffix()?);
    let launch = l.kernel(name, [dx_blocks + dw_blocks, 1, 1], THREADS);
    let launch = launch.var(grad.x).var(grad.w).maybe(grad.out).var(grad.dout);
    launch.maybe(grad.dx).maybe(grad.dw).maybe(grad.dbias).value(by).launch();
    Ok(())
}
