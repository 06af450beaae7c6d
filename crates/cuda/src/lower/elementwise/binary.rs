//! Arithmetic.

use bireme_ir::DType;

use super::super::broadcast::{Aligned, Broadcast};
use super::super::{Lowering, Outcome, Var, host};
use super::{Operand, zip};

/// Whether op `kind` has a kernel for elements of `dtype`.
fn is_known(kind: &str, dtype: DType) -> bool {
    match dtype {
        DType::F32 | DType::F64 | DType::I32 | DType::I64 => true,
        DType::BF16 | DType::F16 => {
            !["elementwise_pow", "elementwise_mod", "elementwise_floordiv"].contains(&kind)
        }
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
    let divides = ["elementwise_div", "elementwise_mod", "elementwise_floordiv"];
    let is_whole_division = !x.dtype.is_float() && divides.contains(&kind.as_str());
    if x.selected.is_some() {
        return if is_whole_division { host() } else { scale_rows(l, name, [&x, &y], &out) };
    }
    let aligned = Aligned::new(&x.dims, &y.dims, l.op.i64("axis")?)?;
    if is_whole_division {
        return divide_wholes(l, name, &aligned, [&x, &y], &out);
    }
    let operands = [Operand { at: x.at, dims: &aligned.x }, Operand { at: y.at, dims: &aligned.y }];
    zip(l, name, &aligned.full, operands, out.at, size)
}

/// A quotient of whole numbers, or what it leaves: the kernel complains of a divisor that is zero.
fn divide_wholes(
    l: &mut Lowering<'_>,
    name: String,
    aligned: &Aligned,
    [x, y]: [&Var; 2],
    out: &Var,
) -> Outcome {
    let (n, size) = (out.numel(), x.dtype.size());
    let shape = Broadcast::new(&aligned.full, [&aligned.x, &aligned.y], size)?;
    let launch = l.over(name, shape.threads(n, size).max(y.numel().min(1))).var(x).var(y).var(out);
    launch.size(n).value(shape).size(y.numel()).complaint().launch();
    Ok(())
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
