//! Comparisons, logic, and tests of single elements.

use bireme_ir::DType;

use super::super::broadcast::{Aligned, threads};
use super::super::{Lowering, Outcome, Var, host};
use super::{Operand, zip};

/// The end of the names of kernels that know truth values as bytes.
fn suffix(var: &Var) -> Outcome<&'static str> {
    match var.dtype {
        DType::Bool | DType::U8 => Ok("u8"),
        DType::F32 | DType::F64 | DType::I32 | DType::I64 => var.suffix(),
        _ => host(),
    }
}

pub(super) fn relation(l: &mut Lowering<'_>) -> Outcome {
    let (x, y, out) = (l.input("X")?.dense()?, l.input("Y")?.dense()?, l.output("Out")?);
    if suffix(&x)? != suffix(&y)? || out.dtype != DType::Bool {
        return host();
    }
    let aligned = Aligned::new(&x.dims, &y.dims, l.op.i64("axis")?)?;
    let mut operands =
        [Operand { at: x.at, dims: &aligned.x }, Operand { at: y.at, dims: &aligned.y }];
    let kernel = match l.op.op.kind.as_str() {
        "greater_than" => "less_than",
        "greater_equal" => "less_equal",
        other => other,
    };
    if kernel != l.op.op.kind {
        operands.reverse();
    }
    let name = format!("{kernel}_{}", suffix(&x)?);
    zip(l, name, &aligned.full, operands, out.at, x.dtype.size())
}

pub(super) fn logical_not(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    test(l, format!("logical_not_{}", suffix(&x)?), &x, &out);
    Ok(())
}

pub(super) fn finite(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let kernel = l.op.op.kind.trim_end_matches("_v2");
    match x.dtype {
        DType::F32 | DType::F64 | DType::BF16 | DType::F16 => {
            test(l, format!("{kernel}_{}", x.suffix()?), &x, &out);
        }
        // Every whole number is finite.
        DType::I32 | DType::I64 if kernel == "isfinite" => {
            let ones = u64::from_ne_bytes([1; 8]);
            let launch = l.over("fill_bytes", threads(out.numel(), 1)).var(&out);
            launch.size(out.numel()).value(ones).launch();
        }
        DType::I32 | DType::I64 => l.clear(out.at, out.bytes()),
        _ => return host(),
    }
    Ok(())
}

fn test(l: &mut Lowering<'_>, name: String, x: &Var, out: &Var) {
    let n = x.numel();
    l.over(name, n.div_ceil(2)).var(x).var(out).size(n).launch();
}
