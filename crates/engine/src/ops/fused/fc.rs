//! `fused_fc`: `Out = act(X * W + Bias)`, and its gradient in one go.
//!
//! Saves two passes over the activations in each direction. The gradient of the activation, the
//! bias gradient and the copy that the products need come from one pass.

use crate::gemm::{Matrix, Order, Product};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("fused_fc", kernel)
    // With `Packed`, `W` as `fused_pack_weights` leaves it.
    .inputs(&[Slot::one("X"), Slot::one("W"), Slot::one("Bias"), Slot::maybe("Packed")])
    .outputs(&[Slot::one("Out")])
    // The type of `Out`, where it is another one than that of `X`.
    .attrs(&[attr::int("x_num_col_dims", 1), attr::str("act", ""), attr::int("out_dtype", -1)])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::batch(&["X"]));

pub(super) const GRAD: OpDef = OpDef::new("fused_fc_grad", grad_kernel)
    .inputs(&[
        Slot::one("X"),
        Slot::one("W"),
        Slot::maybe("Bias"),
        Slot::maybe("Out"),
        Slot::one("Out@GRAD"),
        // `W` transposed, as `fused_pack_weights` leaves it.
        Slot::maybe("Packed"),
    ])
    // `Z@GRAD` is the gradient before the activation, for who computes that of the weight elsewhere.
    .outputs(&[
        Slot::maybe("X@GRAD"),
        Slot::maybe("W@GRAD"),
        Slot::maybe("Bias@GRAD"),
        Slot::maybe("Z@GRAD"),
    ])
    // The type of the gradients of weight and bias, where it is another one than theirs; and the activation that made
    // `X`, where the gradient of `X` is taken through it at once: `relu`, or none. `x_act_rows` is up to how many rows it
    // is, 0 for any number; up to `taken_rows` rows the gradient of `Out` has been taken through `act` by who made it.
    .attrs(&[
        attr::int("x_num_col_dims", 1),
        attr::str("act", ""),
        attr::int("param_grad_dtype", -1),
        attr::str("x_act", ""),
        attr::int("x_act_rows", 0),
        attr::int("taken_rows", 0),
    ])
    .infer(infer_grad)
    .split(SplitRule::Batch { rows: &["X", "Out", "Out@GRAD"], partial: &["W@GRAD", "Bias@GRAD"] });

pub(super) const WEIGHT_GRAD: OpDef = OpDef::new("fused_fc_weight_grad", weight_grad_kernel)
    .inputs(&[Slot::one("X"), Slot::one("W"), Slot::one("Z@GRAD")])
    .outputs(&[Slot::one("W@GRAD")])
    .attrs(&[attr::int("x_num_col_dims", 1), attr::int("param_grad_dtype", -1)])
    .infer(infer_weight_grad)
    .split(SplitRule::Fn(split_weight_grad));

/// Shares read rows that they have just written, but each makes a sum as large as the weight, and these must be added up;
/// a product of the whole batch has areas of the result as tasks, each of which reads its rows and columns from far away.
fn split_weight_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    /// How often rows and columns are packed, written and read in a product of the whole batch.
    const READS: usize = 4;
    let size = |slot: &str| usize::try_from(view.meta(slot)?.numel()?).ok();
    let far = READS * (size("X")? + size("Z@GRAD")?);
    let pays = size("W")? * view.shares <= far;
    let rule = SplitRule::Batch { rows: &["X", "Z@GRAD"], partial: &["W@GRAD"] };
    if pays { rule.apply(view) } else { None }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, w) = (cx.input("X")?, cx.input("W")?);
    let columns_from = cx.op().i64("x_num_col_dims")? as usize;
    if columns_from == 0 || columns_from >= x.rank() || w.rank() != 2 {
        return Err(Error::kernel(format!("cannot multiply {:?} by {:?}", x.dims, w.dims)));
    }
    let columns = &x.dims[columns_from..];
    let k = if columns.contains(&-1) { -1 } else { columns.iter().product() };
    same_dim(k, w.dims[0]).map_err(|_| {
        Error::kernel(format!("input {:?} has {k} columns, weight {:?}", x.dims, w.dims))
    })?;
    let out = x.with_dims([&x.dims[..columns_from], &w.dims[1..]].concat());
    let out = match cx.op().i64("out_dtype")? {
        ..0 => out,
        _ => out.with_dtype(cx.op().dtype("out_dtype")?),
    };
    cx.set("Out", out);
    Ok(())
}

fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    cx.like(&[("X@GRAD", "X"), ("Z@GRAD", "Out@GRAD")])?;
    infer_param_grads(cx, &[("W@GRAD", "W"), ("Bias@GRAD", "Bias")])
}

fn infer_weight_grad(cx: &mut Infer<'_>) -> Result<()> {
    infer_param_grads(cx, &[("W@GRAD", "W")])
}

pub(super) fn infer_param_grads(cx: &mut Infer<'_>, gradients: &[(&str, &str)]) -> Result<()> {
    cx.like(gradients)?;
    if cx.op().i64("param_grad_dtype")? < 0 {
        return Ok(());
    }
    let dtype = cx.op().dtype("param_grad_dtype")?;
    for (gradient, of) in gradients {
        if let Some(meta) = cx.maybe_input(of).map(|meta| meta.with_dtype(dtype)) {
            cx.set(gradient, meta);
        }
    }
    Ok(())
}

/// Activations that have a gradient in terms of their output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    None,
    Relu,
    Sigmoid,
    Tanh,
}

impl Act {
    fn of(op: &OpView<'_>) -> Result<Act> {
        match op.string("act")?.as_str() {
            "" => Ok(Act::None),
            "relu" => Ok(Act::Relu),
            "sigmoid" => Ok(Act::Sigmoid),
            "tanh" => Ok(Act::Tanh),
            other => Err(Error::kernel(format!("`{other}` is not a fused activation"))),
        }
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, w, bias, mut out) =
        (op.input("X")?, op.input("W")?, op.input("Bias")?, op.output("Out")?);
    let packed = op.maybe_input("Packed");
    let columns_from = op.i64("x_num_col_dims")? as usize;
    let act = Act::of(op)?;
    Ok(Box::new(move |run| {
        let ((m, k), n) = (run.dims(x)?.matrix(columns_from), run.dims(w)?[1]);
        let (bias, out) = (run.get::<f32>(bias)?, run.set::<f32>(&mut out)?);
        if bias.len() != n {
            return Err(Error::kernel(format!("{} biases for {n} columns", bias.len())));
        }
        let (x, half) = ((run.get(x)?, Order::Plain), run.rounds_factors);
        f32::multiply(match packed {
            Some(packed) => Product::packed([m, n, k], out, x, run.get(packed)?, half),
            None => Product::new([m, n, k], out, x, (run.get(w)?, Order::Plain)).half(half),
        });
        match act {
            Act::None => add_bias(out, bias, |z| z),
            Act::Relu => add_bias(out, bias, |z| z.max(0.0)),
            Act::Sigmoid => add_bias(out, bias, |z| 1.0 / (1.0 + Real::exp(-z))),
            Act::Tanh => add_bias(out, bias, Real::tanh),
        }
        Ok(())
    }))
}

pub(super) fn add_bias(out: &mut [f32], bias: &[f32], act: impl Fn(f32) -> f32) {
    vectorized(
        #[inline(always)]
        || {
            for row in out.chunks_exact_mut(bias.len().max(1)) {
                for (out, bias) in row.iter_mut().zip(bias) {
                    *out = act(*out + *bias);
                }
            }
        },
    );
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, w, dout) = (op.input("X")?, op.input("W")?, op.input("Out@GRAD")?);
    let out = op.maybe_input("Out");
    let (mut dx, mut dw) = (op.maybe_output("X@GRAD"), op.maybe_output("W@GRAD"));
    let (mut dbias, mut z) = (op.maybe_output("Bias@GRAD"), op.maybe_output("Z@GRAD"));
    let packed = op.maybe_input("Packed");
    let columns_from = op.i64("x_num_col_dims")? as usize;
    let (act, through) = (Act::of(op)?, Through::of(op)?);
    let mut scratch = Scratch::default();
    Ok(Box::new(move |run| {
        let ((m, k), n) = (run.dims(x)?.matrix(columns_from), run.dims(w)?[1]);
        let out = out.filter(|_| act != Act::None && !through.is_taken(m));
        let dout = run.get::<f32>(dout)?;
        scratch.bias.clear();
        scratch.bias.resize(n, 0.0);
        let dz: &[f32] = match out {
            Some(out) => {
                let dz = match &mut z {
                    Some(z) => run.set::<f32>(z)?,
                    None => {
                        scratch.dz.resize(dout.len(), 0.0);
                        &mut scratch.dz
                    }
                };
                through_activation(act, (run.get(out)?, dout), dz, &mut scratch.bias);
                dz
            }
            // It passes unchanged, and is not copied.
            None => {
                sum_rows(dout, &mut scratch.bias);
                dout
            }
        };
        if let Some(dbias) = &mut dbias {
            run.set::<f32>(dbias)?.copy_from_slice(&scratch.bias);
        }
        if let Some(dw) = &mut dw {
            let (x, dz) = ((run.get(x)?, Order::Transposed), (dz, Order::Plain));
            let product = Product::new([k, n, m], run.set(dw)?, x, dz);
            f32::multiply(product.half(run.rounds_factors));
        }
        if let Some(dx) = &mut dx {
            let (dx, x) = (run.set(dx)?, run.get::<f32>(x)?);
            let (dz, half) = ((dz, Order::Plain), run.rounds_factors);
            f32::multiply(match packed {
                Some(packed) => Product::packed([m, k, n], dx, dz, run.get(packed)?, half),
                None => {
                    Product::new([m, k, n], dx, dz, (run.get(w)?, Order::Transposed)).half(half)
                }
            });
            if through.takes(m) {
                mask(dx, x);
            }
        }
        Ok(())
    }))
}

/// Between which layers a gradient is taken through a relu by who makes it, instead of by who reads it.
#[derive(Clone, Copy)]
pub(super) struct Through {
    /// Up to how many rows the gradient of `X` is, if at all; 0 for any number.
    x_rows: Option<usize>,
    /// Up to how many rows the gradient of `Out` has been.
    taken_rows: usize,
}

impl Through {
    pub(super) fn of(op: &OpView<'_>) -> Result<Through> {
        let rows = |attr| Ok::<_, Error>(usize::try_from(op.i64(attr)?).unwrap_or(0));
        let x_rows = rows("x_act_rows")?;
        let x_rows = (op.string("x_act")? == "relu").then_some(x_rows);
        Ok(Through { x_rows, taken_rows: rows("taken_rows")? })
    }

    pub(super) fn takes(self, rows: usize) -> bool {
        self.x_rows.is_some_and(|most| most == 0 || rows <= most)
    }

    fn is_taken(self, rows: usize) -> bool {
        rows <= self.taken_rows
    }
}

/// Memory kept from step to step.
#[derive(Default)]
struct Scratch {
    /// The gradient before the activation.
    dz: Vec<f32>,
    /// Its sum over the rows.
    bias: Vec<f32>,
}

/// Fills the gradient before an activation, and that of the bias.
fn through_activation(act: Act, (out, dout): (&[f32], &[f32]), dz: &mut [f32], bias: &mut [f32]) {
    match act {
        Act::None | Act::Relu => {
            derive(out, dout, dz, bias, |y, g| if y > 0.0 { g } else { 0.0 });
        }
        Act::Sigmoid => derive(out, dout, dz, bias, |y, g| g * y * (1.0 - y)),
        Act::Tanh => derive(out, dout, dz, bias, |y, g| g * (1.0 - y * y)),
    }
}

fn weight_grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dz, mut dw) = (op.input("X")?, op.input("Z@GRAD")?, op.output("W@GRAD")?);
    let columns_from = op.i64("x_num_col_dims")? as usize;
    Ok(Box::new(move |run| {
        let (m, k) = run.dims(x)?.matrix(columns_from);
        let (_, n) = run.dims(dz)?.matrix(columns_from);
        let (x, dz) = ((run.get(x)?, Order::Transposed), (run.get(dz)?, Order::Plain));
        let product = Product::new([k, n, m], run.set(&mut dw)?, x, dz);
        f32::multiply(product.half(run.rounds_factors));
        Ok(())
    }))
}

/// Takes a gradient through the relu whose outputs are `x`.
pub(super) fn mask(dx: &mut [f32], x: &[f32]) {
    vectorized(
        #[inline(always)]
        || {
            for (dx, x) in dx.iter_mut().zip(x) {
                *dx = if *x > 0.0 { *dx } else { 0.0 };
            }
        },
    );
}

pub(super) fn sum_rows(dout: &[f32], bias: &mut [f32]) {
    vectorized(
        #[inline(always)]
        || {
            for row in dout.chunks_exact(bias.len().max(1)) {
                for (bias, dout) in bias.iter_mut().zip(row) {
                    *bias += *dout;
                }
            }
        },
    );
}

fn derive(
    out: &[f32],
    dout: &[f32],
    dz: &mut [f32],
    bias: &mut [f32],
    slope: impl Fn(f32, f32) -> f32,
) {
    let n = bias.len().max(1);
    vectorized(
        #[inline(always)]
        || {
            let rows = out.chunks_exact(n).zip(dout.chunks_exact(n)).zip(dz.chunks_exact_mut(n));
            for ((out, dout), dz) in rows {
                for (((bias, out), dout), dz) in bias.iter_mut().zip(out).zip(dout).zip(dz) {
                    *dz = slope(*out, *dout);
                    *bias += *dz;
                }
            }
        },
    );
}
