//! `lstm_unit`: one step of a long short-term memory, whose products are made before.

use bireme_ir::DType;

use crate::lower::{Lowering, Outcome, Var, host};

/// The variables in these input slots, of one of the wide float types; declines an empty state.
fn reads<const N: usize>(l: &Lowering<'_>, slots: [&str; N]) -> Outcome<[Var; N]> {
    let mut vars = Vec::new();
    for slot in slots {
        vars.push(l.input(slot)?.dense()?);
    }
    let is_wide = matches!(vars[0].dtype, DType::F32 | DType::F64);
    let is_small = vars.iter().all(|var| i32::try_from(var.numel()).is_ok());
    if !is_wide || !is_small || vars.iter().any(|var| var.dtype != vars[0].dtype) {
        return host();
    }
    vars.try_into().or_else(|_| host())
}

pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    let [x, last] = reads(l, ["X", "C_prev"])?;
    let (cell, state, bias) = (l.output("C")?, l.output("H")?, l.op.f64("forget_bias")?);
    let n = last.numel();
    let launch = l.over(format!("lstm_unit_{}", x.suffix()?), n).var(&x).var(&last).var(&cell);
    launch.var(&state).size(n).size(last.width()).value(bias).launch();
    Ok(())
}

pub(super) fn backward(l: &mut Lowering<'_>) -> Outcome {
    let [x, last, cell, dcell, dstate] = reads(l, ["X", "C_prev", "C", "C@GRAD", "H@GRAD"])?;
    let (dx, dlast) = (l.maybe_output("X@GRAD"), l.maybe_output("C_prev@GRAD"));
    let (n, bias) = (last.numel(), l.op.f64("forget_bias")?);
    if [&cell, &dcell, &dstate].iter().any(|var| var.numel() != n) {
        return host();
    }
    let launch = l.over(format!("lstm_unit_grad_{}", x.suffix()?), n).var(&x).var(&last);
    let launch = launch.var(&cell).var(&dcell).var(&dstate).maybe(dx.as_ref());
    launch.maybe(dlast.as_ref()).size(n).size(last.width()).value(bias).launch();
    Ok(())
}
