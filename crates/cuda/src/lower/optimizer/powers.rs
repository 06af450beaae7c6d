//! The powers of decay rates, which an op raises for the next step. It keeps what they were for its update: raising them
//! waits for no gradient, and the step does not end with it.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::super::{Lowering, Outcome, host};
use crate::work::{Many, Ref};

/// Powers of one launch, as in `kernels/update.cu`.
const MANY: usize = 128;

/// A power and what it grows by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Power {
    pub(crate) from: Ref,
    pub(crate) to: Ref,
    /// Where its value before goes.
    pub(crate) before: Ref,
    pub(crate) base: f64,
    /// Elements; usually one.
    pub(crate) count: u32,
    pub(crate) is_double: bool,
}

/// How a power grows, as in `kernels/update.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Growth {
    base: f64,
    count: u32,
    is_double: u32,
}

/// Raises the powers in the slots of Adam and its kin; those without an output are left to another op. With
/// `keep` they stay as they are. Says where to find what they were, for those that are no longer.
pub(super) fn raise(cx: &mut Lowering<'_>, keep: bool) -> Outcome<[Ref; 2]> {
    let (mut powers, mut kept) = (Vec::new(), [Ref::NULL; 2]);
    for (at, (slot, base)) in [("Beta1Pow", "beta1"), ("Beta2Pow", "beta2")].iter().enumerate() {
        let (power, base) = (cx.input(slot)?.dense()?, cx.op.f64(base)?);
        let Some(out) = cx.maybe_output(&format!("{slot}Out")) else { continue };
        let (is_double, count) = (power.dtype == DType::F64, u32::try_from(power.numel()));
        match count {
            Ok(_) if keep => cx.carry_over(&power, &out),
            Ok(count) if is_double || power.dtype == DType::F32 => {
                let before = cx.scratch(power.bytes());
                kept[at] = before;
                powers.push(Power { from: power.at, to: out.at, before, base, count, is_double });
            }
            _ => return host(),
        }
    }
    raise_many(cx, &powers);
    Ok(kept)
}

/// Raises the powers of several parameters.
pub(crate) fn raise_many(cx: &mut Lowering<'_>, powers: &[Power]) {
    for powers in powers.chunks(MANY) {
        let mut growths = [Growth::zeroed(); MANY];
        for (growth, power) in growths.iter_mut().zip(powers) {
            let Power { base, count, is_double, .. } = *power;
            *growth = Growth { base, count, is_double: u32::from(is_double) };
        }
        let places = powers.iter().flat_map(|power| [power.from, power.to, power.before]);
        let blocks = [powers.len() as u32, 1, 1];
        if powers.len() <= 2 {
            let launch = cx.kernel("raise_powers", blocks, 32).refs(places, 6);
            let many = Many {
                name: "raise_many_powers".to_owned(),
                targets: powers.len(),
                room: 2,
                most: MANY,
                block_word: None,
            };
            launch.value([growths[0], growths[1]]).many(many).launch();
        } else {
            let launch = cx.kernel("raise_many_powers", blocks, 32).refs(places, 3 * MANY);
            launch.value(growths).launch();
        }
    }
}
