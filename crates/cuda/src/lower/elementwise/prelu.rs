//! `prelu`: one learnt slope for all elements, per channel, or per element of a row.

use bireme_ir::DType;

use super::super::broadcast::Aligned;
use super::super::{Lowering, Outcome, Var, host};
use super::gradient::{Side, Vars, formula, has_shape};
use super::{Operand, zip};

/// `X`, and `Alpha` laid along it.
fn align(l: &Lowering<'_>, x: &Var, alpha: &Var) -> Outcome<Aligned> {
    let rank = x.dims.len();
    let mut dims = vec![1; rank];
    match l.op.string("mode")?.as_str() {
        "all" => {}
        "channel" if rank >= 2 => {
            let axis = if l.op.string("data_format")? == "NHWC" { rank - 1 } else { 1 };
            dims[axis] = x.dims[axis];
        }
        "element" => dims[1.min(rank)..].copy_from_slice(&x.dims[1.min(rank)..]),
        _ => return host(),
    }
    let is_known = matches!(x.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16);
    if !is_known || alpha.dtype != x.dtype || alpha.numel() != dims.iter().product::<usize>() {
        return host();
    }
    Ok(Aligned { x: x.dims.clone(), y: dims, full: x.dims.clone() })
}

pub(super) fn lower(l: &mut Lowering<'_>) -> Outcome {
    let (x, alpha, out) = (l.input("X")?.dense()?, l.input("Alpha")?.dense()?, l.output("Out")?);
    let aligned = align(l, &x, &alpha)?;
    let operands =
        [Operand { at: x.at, dims: &aligned.x }, Operand { at: alpha.at, dims: &aligned.y }];
    let name = format!("prelu_{}", x.suffix()?);
    zip(l, name, &aligned.full, operands, out.at, x.dtype.size())
}

pub(super) fn lower_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, y) = (l.input("X")?.dense()?, l.input("Alpha")?.dense()?);
    let d = l.input("Out@GRAD")?.dense()?;
    let aligned = align(l, &x, &y)?;
    if d.dtype != x.dtype || !has_shape(&d, &aligned) {
        return host();
    }
    let (suffix, vars) = (d.suffix()?, Vars { x, y, d, aligned });
    for (slot, side, name) in [("X@GRAD", Side::X, "x"), ("Alpha@GRAD", Side::Y, "y")] {
        if let Some(out) = l.maybe_output(slot) {
            formula(l, &vars, side, format!("prelu_grad_{name}_{suffix}"), &out)?;
        }
    }
    Ok(())
}
