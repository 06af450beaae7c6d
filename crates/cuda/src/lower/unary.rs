//! Functions of one element: `unary.cu` has their formulas.

use bireme_ir::DType;

use super::broadcast::threads;
use super::{Lower, Lowering, Outcome, Var, host};

/// What the gradient of a function reads.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    X,
    Out,
    /// Nothing: it is zero.
    Nothing,
}

/// A function: its op, what its gradient reads, whether there are kernels for 16-bit floats, and the
/// attributes that the formula calls `a`, `b` and `c`.
struct Function {
    op: &'static str,
    reads: Reads,
    is_for_halves: bool,
    attrs: &'static [&'static str],
}

const fn all(op: &'static str, reads: Reads, attrs: &'static [&'static str]) -> Function {
    Function { op, reads, is_for_halves: true, attrs }
}

const fn wide(op: &'static str, reads: Reads, attrs: &'static [&'static str]) -> Function {
    Function { op, reads, is_for_halves: false, attrs }
}

const FUNCTIONS: &[Function] = &[
    all("abs", Reads::X, &[]),
    all("exp", Reads::Out, &[]),
    all("gelu", Reads::X, &[]),
    all("hard_sigmoid", Reads::Out, &["slope", "offset"]),
    all("hard_swish", Reads::X, &["threshold", "scale", "offset"]),
    all("leaky_relu", Reads::X, &["alpha"]),
    all("log", Reads::X, &[]),
    all("relu", Reads::Out, &[]),
    all("relu6", Reads::Out, &["threshold"]),
    all("sigmoid", Reads::Out, &[]),
    all("silu", Reads::X, &[]),
    all("sqrt", Reads::Out, &[]),
    all("square", Reads::X, &[]),
    all("swish", Reads::X, &["beta"]),
    all("tanh", Reads::Out, &[]),
    wide("brelu", Reads::X, &["t_min", "t_max"]),
    wide("ceil", Reads::Nothing, &[]),
    wide("cos", Reads::X, &[]),
    wide("elu", Reads::X, &["alpha"]),
    wide("erf", Reads::X, &[]),
    wide("expm1", Reads::Out, &[]),
    wide("floor", Reads::Nothing, &[]),
    wide("log10", Reads::X, &[]),
    wide("log1p", Reads::X, &[]),
    wide("log2", Reads::X, &[]),
    wide("mish", Reads::X, &["threshold"]),
    wide("reciprocal", Reads::Out, &[]),
    wide("round", Reads::Nothing, &[]),
    wide("rsqrt", Reads::Out, &[]),
    wide("selu", Reads::Out, &["scale", "alpha"]),
    wide("sign", Reads::Nothing, &[]),
    wide("sin", Reads::X, &[]),
    wide("softplus", Reads::X, &["beta", "threshold"]),
    wide("softsign", Reads::X, &[]),
];

macro_rules! ops {
    ($($op:literal)*; $($step:literal)*) => {
        &[
            $(($op, value as Lower), (concat!($op, "_grad"), slope as Lower),)*
            // The gradient of these is another op.
            $(($step, value as Lower),)*
        ]
    };
}

/// The ops of this file.
pub(super) const OPS: &[(&str, Lower)] = ops! {
    "abs" "brelu" "ceil" "cos" "elu" "erf" "exp" "expm1" "floor" "gelu" "hard_sigmoid" "hard_swish" "leaky_relu"
    "log" "log10" "log1p" "log2" "mish" "reciprocal" "relu" "relu6" "round" "rsqrt" "selu" "sigmoid" "silu" "sin"
    "softplus" "softsign" "sqrt" "square" "swish" "tanh";
    "sign"
};

/// The function of this op, and the attributes of its formula.
fn function(l: &Lowering<'_>) -> Outcome<(&'static Function, [f64; 3])> {
    let op = l.op.op.kind.trim_end_matches("_grad");
    let Some(function) = FUNCTIONS.iter().find(|function| function.op == op) else {
        return host();
    };
    let mut attrs = [0.0; 3];
    for (value, name) in attrs.iter_mut().zip(function.attrs) {
        *value = l.op.f64(name)?;
    }
    if op == "silu" {
        attrs[0] = 1.0;
    }
    Ok((function, attrs))
}

/// What the kernels of this function are called.
fn kernel_of(l: &Lowering<'_>, function: &Function) -> Outcome<&'static str> {
    Ok(match function.op {
        "silu" => "swish",
        "gelu" if l.op.bool("approximate")? => "gelu_tanh",
        other => other,
    })
}

/// The end of the name of a kernel for elements of `var`, if the function has one.
fn float_suffix(function: &Function, var: &Var) -> Outcome<&'static str> {
    match var.dtype {
        DType::F32 | DType::F64 => var.suffix(),
        DType::BF16 | DType::F16 if function.is_for_halves => var.suffix(),
        _ => host(),
    }
}

fn value(l: &mut Lowering<'_>) -> Outcome {
    let (function, attrs) = function(l)?;
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    if x.dtype != out.dtype {
        return host();
    }
    if matches!(x.dtype, DType::I32 | DType::I64) && ["abs", "square"].contains(&function.op) {
        return map_whole(l, function.op, &x, &out, [0, 0], 0.0);
    }
    let name = format!("{}_{}", kernel_of(l, function)?, float_suffix(function, &x)?);
    map(l, name, &x, &out, attrs);
    Ok(())
}

fn slope(l: &mut Lowering<'_>) -> Outcome {
    let (function, attrs) = function(l)?;
    let (d, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let value = match function.reads {
        Reads::X => l.input("X")?.dense()?,
        Reads::Out => l.input("Out")?.dense()?,
        Reads::Nothing if d.dtype.is_float() => {
            l.clear(dx.at, dx.bytes());
            return Ok(());
        }
        Reads::Nothing => return host(),
    };
    if value.dtype != d.dtype || value.numel() != d.numel() || dx.dtype != d.dtype {
        return host();
    }
    let name = format!("{}_grad_{}", kernel_of(l, function)?, float_suffix(function, &d)?);
    map_grad(l, name, &value, &d, &dx, attrs);
    Ok(())
}

/// The kernel of a function.
pub(super) fn map(l: &mut Lowering<'_>, name: String, x: &Var, out: &Var, attrs: [f64; 3]) {
    let launch = l.over(name, threads(x.numel(), x.dtype.size())).var(x).var(out).size(x.numel());
    launch.value(attrs[0]).value(attrs[1]).value(attrs[2]).launch();
}

/// The kernel of a gradient, from the value that it reads.
pub(super) fn map_grad(
    l: &mut Lowering<'_>,
    name: String,
    value: &Var,
    d: &Var,
    dx: &Var,
    attrs: [f64; 3],
) {
    let (n, size) = (d.numel(), d.dtype.size());
    let launch = l.over(name, threads(n, size)).var(value).var(d).var(dx).size(n);
    launch.value(attrs[0]).value(attrs[1]).value(attrs[2]).launch();
}

/// The kernel of a function of whole numbers.
pub(super) fn map_whole(
    l: &mut Lowering<'_>,
    kernel: &str,
    x: &Var,
    out: &Var,
    [a, b]: [i64; 2],
    c: f64,
) -> Outcome {
    let name = format!("{kernel}_{}", x.suffix()?);
    let launch = l.over(name, threads(x.numel(), x.dtype.size())).var(x).var(out).size(x.numel());
    launch.value(a).value(b).value(c).launch();
    Ok(())
}
