//! Loss scaling: what keeps small gradients of 16-bit floats from vanishing.

use crate::op::{InOut, OpDef, OpView};
use crate::{Error, Result};

mod check_finite_and_unscale;
mod update_loss_scaling;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[check_finite_and_unscale::DEF, update_loss_scaling::DEF];

/// The gradients in `X`, each with the one in `Out` that continues it.
fn gradients(op: &OpView<'_>) -> Result<Vec<InOut>> {
    let (inputs, outputs) = (op.op.inputs_of("X").len(), op.op.outputs_of("Out").len());
    if inputs != outputs {
        return Err(Error::kernel(format!("{inputs} of `X`, but {outputs} of `Out`")));
    }
    Ok(op.in_outs("X", "Out"))
}
