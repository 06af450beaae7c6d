//! Arithmetic.

use bireme_ir::DType;

use super::super::broadcast::Aligned;
use super::super::{Lowering, Outcome, Var, host};
use super::{Operand, zip};

/// Whether op `kind` has a kernel for elements of `dtype`.
fn is_known(kind: &str, dtype: DType) -> bool {
    let is_rounding = ["elementwise_mod", "elementwise_floordiv"].contains(&kind);
    match dtype {
        DType::F32 | DType::F64 => true,
        DType::BF16 | DType::F16 => kind != "elementwise_pow" && !is_rounding,
        // A zero among whole divisors is an error that the host finds.
        DType::I32 | DType::I64 => kind != "elementwise_div" && !is_rounding,
        _ => false,
    }
}

pub(super) fn lower(l: &mut Lowering<'_>) -> Outcome {
    let (x, y, out) = (l.input("X")?, l.input("Y")?.dense()?, l.output("Out")?);
    let (kind, size) = (&l.op.op.kind, x.dtype.size());
    if x.dtype != y.dtype || x.dtype != out.dtype || !is_known(kind, x.dtype) {
        return host();
    }
    let name = format!("{kind}_{}", x.suffix()?);
    if x.selected.is_some() {
        return scale_rows(l, name, [&x, &y], &out);
    }
    let aligned = Aligned::new(&x.dims, &y.dims, l.op.i64("axis")?)?;
    let operands = [Operand { at: x.at, dims: &aligned.x }, Operand { at: y.at, dims: &aligned.y }];
    zip(l, name, &aligned.full, operands, out.at, size)
}

/// Rows of a gradient with one number, as clipping by a global norm needs.
fn scale_rows(l: &mut Lowering<'_>, name: String, [x, y]: [&Var; 2], out: &Var) -> Outcome {
    let (Some(from), Some(to)) = (x.selected, out.selected) else { return host() };
    if y.numel() != 1 {
        return host();
    }
    l.select("Out", from.count);
    l.copy(from.rows, to.rows, from.count * size_of::<i64>());
    let full = [from.count * x.width()];
    let operands = [Operand { at: x.at, dims: &full }, Operand { at: y.at, dims: &[1] }];
    zip(l, name, &full, operands, out.at, x.dtype.size())
}
