//! Gradients of arithmetic. That of an operand that repeats is a sum over the axes along which it does.

use bireme_ir::DType;

use super::super::broadcast::{Aligned, threads};
use super::super::reduce::{Fold, fold};
use super::super::{Lowering, Outcome, Var, host};
use super::{Operand, zip, zip_grad};
use crate::work::Ref;

/// An operand of the forward op.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Side {
    X,
    Y,
}

/// The variables of a gradient.
pub(super) struct Vars {
    pub(super) x: Var,
    pub(super) y: Var,
    pub(super) d: Var,
    pub(super) aligned: Aligned,
}

impl Vars {
    /// The shape of an operand.
    fn dims(&self, side: Side) -> &[usize] {
        if side == Side::X { &self.aligned.x } else { &self.aligned.y }
    }

    /// The axes that the gradient of an operand is summed over, if there are any.
    fn repeated(&self, side: Side) -> Option<Vec<bool>> {
        let pairs = self.dims(side).iter().zip(&self.aligned.full);
        let repeated: Vec<bool> = pairs.map(|(dim, full)| *dim == 1 && *full != 1).collect();
        repeated.contains(&true).then_some(repeated)
    }
}

pub(super) fn lower(l: &mut Lowering<'_>) -> Outcome {
    let (x, y, d) = (l.input("X")?.dense()?, l.input("Y")?.dense()?, l.input("Out@GRAD")?.dense()?);
    let is_pow = l.op.op.kind == "elementwise_pow_grad";
    let is_known = match d.dtype {
        DType::F32 | DType::F64 => true,
        DType::BF16 | DType::F16 => !is_pow,
        _ => false,
    };
    let aligned = Aligned::new(&x.dims, &y.dims, l.op.i64("axis")?)?;
    if !is_known || x.dtype != d.dtype || y.dtype != d.dtype || !has_shape(&d, &aligned) {
        return host();
    }
    let vars = Vars { x, y, d, aligned };
    for (slot, side) in [("X@GRAD", Side::X), ("Y@GRAD", Side::Y)] {
        if let Some(out) = l.maybe_output(slot) {
            one(l, &vars, side, &out)?;
        }
    }
    Ok(())
}

pub(super) fn has_shape(d: &Var, aligned: &Aligned) -> bool {
    d.numel() == aligned.full.iter().product::<usize>()
}

/// The gradient of one operand.
fn one(l: &mut Lowering<'_>, vars: &Vars, side: Side, out: &Var) -> Outcome {
    let repeated = vars.repeated(side);
    let suffix = vars.d.suffix()?;
    match (l.op.op.kind.as_str(), side) {
        ("elementwise_add_grad", _) | ("elementwise_sub_grad", Side::X) => {
            linear(l, vars, repeated.as_deref(), 1.0, out)
        }
        ("elementwise_sub_grad", Side::Y) => linear(l, vars, repeated.as_deref(), -1.0, out),
        ("elementwise_mul_grad", _) => {
            let other = other(vars, side);
            match repeated {
                None => with_other(l, vars, other, format!("elementwise_mul_{suffix}"), out.at),
                Some(repeated) => {
                    let full = Operand { at: vars.d.at, dims: &vars.aligned.full };
                    fold(l, &Fold::dot(vars.d.dtype, [full, other], out.at)?, &repeated)
                }
            }
        }
        ("elementwise_div_grad", Side::X) => {
            let name = format!("elementwise_div_{suffix}");
            summed(l, vars, repeated, out, |l, to| with_other(l, vars, other(vars, side), name, to))
        }
        (kind, _) => {
            let name = format!("{kind}_{}_{suffix}", if side == Side::X { 'x' } else { 'y' });
            formula(l, vars, side, name, out)
        }
    }
}

fn other(vars: &Vars, side: Side) -> Operand<'_> {
    match side {
        Side::X => Operand { at: vars.y.at, dims: &vars.aligned.y },
        Side::Y => Operand { at: vars.x.at, dims: &vars.aligned.x },
    }
}

/// The gradient of one operand by a kernel that reads both, and sums if need be.
pub(super) fn formula(
    l: &mut Lowering<'_>,
    vars: &Vars,
    side: Side,
    name: String,
    out: &Var,
) -> Outcome {
    summed(l, vars, vars.repeated(side), out, |l, to| {
        zip_grad(l, name, &vars.aligned, [&vars.x, &vars.y, &vars.d], to)
    })
}

/// What comes back, times `factor`.
fn linear(
    l: &mut Lowering<'_>,
    vars: &Vars,
    repeated: Option<&[bool]>,
    factor: f64,
    out: &Var,
) -> Outcome {
    let d = &vars.d;
    match repeated {
        Some(repeated) => {
            let from = Operand { at: d.at, dims: &vars.aligned.full };
            fold(l, &Fold::sum(d.dtype, from, out.at, factor)?, repeated)?;
        }
        None if factor == 1.0 => l.copy(d.at, out.at, d.bytes()),
        None => {
            let name = format!("scale_{}", d.suffix()?);
            let launch = l.over(name, threads(d.numel(), d.dtype.size())).var(d).var(out);
            let launch = launch.size(d.numel()).at(Ref::NULL).value(factor);
            launch.value(0f64).value(0i32).launch();
        }
    }
    Ok(())
}

/// A forward kernel of what comes back and the other operand.
fn with_other(
    l: &mut Lowering<'_>,
    vars: &Vars,
    other: Operand<'_>,
    name: String,
    to: Ref,
) -> Outcome {
    let full = &vars.aligned.full;
    zip(l, name, full, [Operand { at: vars.d.at, dims: full }, other], to, vars.d.dtype.size())
}

/// Lets `write` write the gradient in the full shape, and sums it where the operand repeats.
fn summed<'a>(
    l: &mut Lowering<'a>,
    vars: &Vars,
    repeated: Option<Vec<bool>>,
    out: &Var,
    write: impl FnOnce(&mut Lowering<'a>, Ref) -> Outcome,
) -> Outcome {
    let Some(repeated) = repeated else { return write(l, out.at) };
    let whole = l.scratch(vars.d.bytes());
    write(l, whole)?;
    let from = Operand { at: whole, dims: &vars.aligned.full };
    fold(l, &Fold::sum(vars.d.dtype, from, out.at, 1.0)?, &repeated)
}
