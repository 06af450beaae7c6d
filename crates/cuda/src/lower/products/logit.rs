//! `fused_logit`: the last two layers of a click model. In small batches each direction is one kernel (`kernels/logit.cu`)
//! and what its gradients of weights need beside it; otherwise the layers are lowered one after the other.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::fc::{Act, Grad, Layer, up_to};
use super::slopes::{Slopes, THREADS, TILE};
use crate::lower::{Lowering, Outcome, Var, host};
use crate::work::Ref;

/// Columns of the lower layer at most, and elements that are loaded at once, as in the kernels.
const MOST_COLUMNS: usize = 64;
const PACK: usize = 8;

/// As in `kernels/logit.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Logit {
    rows: u32,
    columns: u32,
    terms: u32,
}

/// The sizes of the lower layer's product, `[m, n, k]`.
fn sizes(x: &Var, w: &Var, head: &Var) -> Outcome<[usize; 3]> {
    match (&x.dims[..], &w.dims[..], &head.dims[..]) {
        ([m, k], [rows, n], [columns, 1]) if rows == k && columns == n && *k > 0 => {
            Ok([*m, *n, *k])
        }
        _ => host(),
    }
}

/// Whether kernels do both layers at once.
fn is_at_once(l: &Lowering<'_>, x: &Var, [m, n, k]: [usize; 3]) -> Outcome<bool> {
    let is_half = matches!(x.dtype, DType::BF16 | DType::F16);
    let fits = n > 0 && n <= MOST_COLUMNS && n.is_multiple_of(PACK) && k.is_multiple_of(PACK);
    Ok(is_half && fits && x.pitch == k && m <= up_to(l, "at_once_rows")?)
}

/// `Hidden = relu(X * W + Bias)`, `Out = Hidden * HeadW + HeadBias`
pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    let (x, w, bias) = (l.input("X")?.dense()?, l.input("W")?.dense()?, l.input("Bias")?.dense()?);
    let (head, head_bias) = (l.input("HeadW")?.dense()?, l.input("HeadBias")?.dense()?);
    let (hidden, out) = (l.output("Hidden")?, l.output("Out")?);
    let [m, n, k] = sizes(&x, &w, &head)?;
    let is_alike = [&w, &bias, &head, &head_bias].iter().all(|var| var.dtype == x.dtype);
    if !is_alike || bias.numel() != n || head_bias.numel() != 1 {
        return host();
    }
    if out.dtype != DType::F32 || !is_at_once(l, &x, [m, n, k])? {
        Layer { x, w, bias, out: hidden.clone(), act: Act::Relu, sizes: [m, n, k] }.lower(l)?;
        let (x, w, bias) = (hidden, head, head_bias);
        return Layer { x, w, bias, out, act: Act::None, sizes: [m, 1, n] }.lower(l);
    }
    let by = Logit { rows: m as u32, columns: n as u32, terms: k as u32 };
    let blocks = [m.div_ceil(TILE) as u32, 1, 1];
    let launch = l.kernel(format!("logit_{}", x.suffix()?), blocks, THREADS).var(&x).var(&w);
    let launch = launch.var(&bias).var(&head).var(&head_bias).var(&hidden).var(&out);
    launch.value(by).launch();
    Ok(())
}

/// The gradients that are asked for.
pub(super) fn backward(l: &mut Lowering<'_>) -> Outcome {
    let (x, w) = (l.input("X")?.dense()?, l.input("W")?.dense()?);
    let (hidden, head) = (l.input("Hidden")?.dense()?, l.input("HeadW")?.dense()?);
    let dout = l.input("Out@GRAD")?.dense()?;
    let [m, n, k] = sizes(&x, &w, &head)?;
    if hidden.dims != [m, n] || [&w, &hidden, &head].iter().any(|var| var.dtype != x.dtype) {
        return host();
    }
    let dx = l.maybe_output("X@GRAD");
    let x_act = Act::of_input(l, m)?;
    let dz = Var { at: l.scratch(m * n * x.dtype.size()), pitch: n, ..hidden.clone() };
    let is_at_once = is_at_once(l, &x, [m, n, k])?
        && dout.dtype == DType::F32
        && x_act != Act::Sigmoid
        && x_act != Act::Tanh
        && dx.as_ref().is_some_and(|dx| dx.pitch == k && dx.dtype == x.dtype);
    if let Some(dx) = dx.as_ref().filter(|_| is_at_once) {
        let of = Slopes { rows: m as u32, columns: k as u32, terms: n as u32 };
        let blocks = [k.div_ceil(TILE) as u32, m.div_ceil(TILE) as u32, 1];
        let launch = l.kernel(format!("logit_slopes_{}", x.suffix()?), blocks, THREADS);
        let launch = launch.var(&dout).var(&hidden).var(&head).var(&w);
        let launch = launch.at(if x_act == Act::Relu { x.at } else { Ref::NULL });
        launch.at(dz.at).var(dx).value(of).launch();
    }
    let mut above = Grad {
        x: hidden,
        w: head,
        out: None,
        dout,
        dx: Some(dz.clone()),
        dw: l.maybe_output("HeadW@GRAD"),
        dbias: l.maybe_output("HeadBias@GRAD"),
        act: Act::None,
        x_act: Act::Relu,
    };
    let (dw, dbias) = (l.maybe_output("W@GRAD"), l.maybe_output("Bias@GRAD"));
    let mut below = Grad { x, w, out: None, dout: dz, dx, dw, dbias, act: Act::None, x_act };
    if is_at_once {
        (above.dx, below.dx) = (None, None);
    }
    above.lower(l, [m, 1, n])?;
    below.lower(l, [m, n, k])
}
