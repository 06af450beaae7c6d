//! The gradient of the input of an `fc` taken through the activation that made this input: in one product of our own
//! (`kernels/fc_slopes.cu`), or by the library's and a pass behind it.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::columns::Chunks;
use super::multiply::{dense, float, multiply, plain, turned};
use crate::lower::{Lowering, Outcome, Var, host};
use crate::work::Ref;

/// Sides of the tile of a block, and its threads, as in the kernel.
pub(super) const TILE: usize = 64;
pub(super) const THREADS: u32 = 128;
/// Elements that are loaded at once.
const PACK: usize = 8;
/// What kernels call the only activation that ours knows.
const RELU: i32 = 1;

/// As in `kernels/tiles.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct Slopes {
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) terms: u32,
}

/// Adds `dx = dz * wᵀ`, times the slope of the activation that made `x`, which kernels call `x_act`. `sizes` are those of
/// the product of `fc`, `[m, n, k]`.
pub(super) fn input_grad(
    l: &mut Lowering<'_>,
    [x, w, dx]: [&Var; 3],
    dz: Ref,
    [m, n, k]: [usize; 3],
    x_act: i32,
) -> Outcome {
    if x.pitch != k || dx.pitch != k || dx.dtype != x.dtype {
        return host();
    }
    let is_half = matches!(x.dtype, DType::BF16 | DType::F16);
    if is_half && x_act == RELU && n.is_multiple_of(PACK) && k.is_multiple_of(PACK) {
        let of = Slopes { rows: m as u32, columns: k as u32, terms: n as u32 };
        let blocks = [k.div_ceil(TILE) as u32, m.div_ceil(TILE) as u32, 1];
        let launch = l.kernel(format!("fc_slopes_{}", x.suffix()?), blocks, THREADS);
        launch.at(dz).var(w).var(x).var(dx).value(of).launch();
        return Ok(());
    }
    multiply(l, dense(float(x.dtype)?, [m, k, n], plain(dz), turned(w.at), dx.at))?;
    let pack = if k.is_multiple_of(4) { 4 } else { 1 };
    let chunks = Chunks::of(m, k, pack);
    let launch = l.kernel(format!("fc_mask_{pack}_{}", x.suffix()?), chunks.blocks, 256);
    let launch = launch.var(x).var(dx).var(dx).at(Ref::NULL).size(m).size(k);
    launch.size(chunks.rows).value(x_act).launch();
    Ok(())
}
