//! The powers of decay rates, which an op raises for the next step after it has used them.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::super::{Lowering, Outcome, host};
use crate::work::Ref;

/// How a power grows, as in `kernels/update.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Growth {
    base: f64,
    count: u32,
    is_double: u32,
}

/// Raises the powers in the slots of Adam and its kin; those without an output are left to another op. With `keep`
/// they stay as they are.
pub(super) fn raise(cx: &mut Lowering<'_>, keep: bool) -> Outcome {
    let (mut places, mut growths) = (Vec::new(), Vec::new());
    for (slot, base) in [("Beta1Pow", "beta1"), ("Beta2Pow", "beta2")] {
        let (power, base) = (cx.input(slot)?.dense()?, cx.op.f64(base)?);
        let Some(out) = cx.maybe_output(&format!("{slot}Out")) else { continue };
        if !matches!(power.dtype, DType::F32 | DType::F64) {
            return host();
        }
        let Ok(count) = u32::try_from(power.numel()) else { return host() };
        if keep {
            cx.carry_over(&power, &out);
            continue;
        }
        places.extend([power.at, out.at]);
        growths.push(Growth { base, count, is_double: u32::from(power.dtype == DType::F64) });
    }
    let blocks = growths.len() as u32;
    growths.resize(2, Growth::zeroed());
    cx.kernel("raise_powers", [blocks, 1, 1], 32)
        .refs(places.into_iter().chain([Ref::NULL; 4]).take(4), 4)
        .value([growths[0], growths[1]])
        .launch();
    Ok(())
}
