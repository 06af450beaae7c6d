//! `fused_logit`: the last two layers of a click model, of which the second has one column:
//! `Hidden = relu(X * W + Bias)` and `Out = Hidden * HeadW + HeadBias`; and its gradient.
//!
//! Each layer is little work, so that on a card the launches between them cost most of it.

use super::fc::{Through, add_bias, infer_param_grads, mask, sum_rows};
use crate::gemm::{Matrix, Order, Product};
use crate::ops::prelude::*;
use bireme_ir::grad_name;

pub(super) const DEF: OpDef = OpDef::new("fused_logit", kernel)
    .inputs(&[
        Slot::one("X"),
        Slot::one("W"),
        Slot::one("Bias"),
        Slot::one("HeadW"),
        Slot::one("HeadBias"),
    ])
    .outputs(&[Slot::one("Hidden"), Slot::one("Out")])
    // The type of `Out`, where it is another one than that of `X`; and up to how many rows a card does better with all at
    // once than with one layer after the other.
    .attrs(&[attr::int("out_dtype", -1), attr::int("at_once_rows", 0)])
    .infer(infer)
    .split(SplitRule::batch(&["X"]));

pub(super) const GRAD: OpDef = OpDef::new("fused_logit_grad", grad_kernel)
    .inputs(&[
        Slot::one("X"),
        Slot::one("W"),
        Slot::one("Bias"),
        Slot::one("Hidden"),
        Slot::one("HeadW"),
        Slot::one("HeadBias"),
        Slot::one("Out@GRAD"),
    ])
    .outputs(&[
        Slot::maybe("X@GRAD"),
        Slot::maybe("W@GRAD"),
        Slot::maybe("Bias@GRAD"),
        Slot::maybe("HeadW@GRAD"),
        Slot::maybe("HeadBias@GRAD"),
    ])
    // As those of `fused_fc_grad`, and `at_once_rows` as above.
    .attrs(&[
        attr::int("param_grad_dtype", -1),
        attr::str("x_act", ""),
        attr::int("x_act_rows", 0),
        attr::int("taken_rows", 0),
        attr::int("at_once_rows", 0),
    ])
    .infer(infer_grad)
    .split(SplitRule::Batch {
        rows: &["X", "Hidden", "Out@GRAD"],
        partial: &["W@GRAD", "Bias@GRAD", "HeadW@GRAD", "HeadBias@GRAD"],
    });

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, w, head) = (cx.input("X")?, cx.input("W")?, cx.input("HeadW")?);
    let fits = x.rank() == 2
        && w.rank() == 2
        && head.rank() == 2
        && same_dim(x.dims[1], w.dims[0]).is_ok()
        && same_dim(w.dims[1], head.dims[0]).is_ok();
    if !fits || head.dims[1] != 1 {
        let (x, w, head) = (&x.dims, &w.dims, &head.dims);
        let problem = format!("cannot multiply {x:?} by {w:?} and that by {head:?}");
        return Err(Error::kernel(problem));
    }
    let hidden = x.with_dims(vec![x.dims[0], w.dims[1]]);
    let out = x.with_dims(vec![x.dims[0], 1]);
    let out = match cx.op().i64("out_dtype")? {
        ..0 => out,
        _ => out.with_dtype(cx.op().dtype("out_dtype")?),
    };
    cx.set("Hidden", hidden);
    cx.set("Out", out);
    Ok(())
}

fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    cx.like(&[("X@GRAD", "X")])?;
    let params = ["W", "Bias", "HeadW", "HeadBias"];
    let grads = params.map(grad_name);
    let pairs: Vec<(&str, &str)> = grads.iter().map(String::as_str).zip(params).collect();
    infer_param_grads(cx, &pairs)
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, w, bias) = (op.input("X")?, op.input("W")?, op.input("Bias")?);
    let (head, head_bias) = (op.input("HeadW")?, op.input("HeadBias")?);
    let (mut hidden, mut out) = (op.output("Hidden")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let ((m, k), n) = (run.dims(x)?.matrix(1), run.dims(w)?[1]);
        let (bias, hidden) = (run.get::<f32>(bias)?, run.set::<f32>(&mut hidden)?);
        let (head, head_bias) = (run.get::<f32>(head)?, run.first::<f32>(head_bias)?);
        if bias.len() != n || head.len() != n {
            let problem =
                format!("{} biases and {} weights for {n} columns", bias.len(), head.len());
            return Err(Error::kernel(problem));
        }
        let (x, w) = ((run.get(x)?, Order::Plain), (run.get(w)?, Order::Plain));
        f32::multiply(Product::new([m, n, k], hidden, x, w).half(run.rounds_factors));
        add_bias(hidden, bias, |z| z.max(0.0));
        let out = run.set::<f32>(&mut out)?;
        for (out, hidden) in out.iter_mut().zip(hidden.chunks_exact(n.max(1))) {
            *out = head_bias + hidden.iter().zip(head).map(|(x, w)| x * w).sum::<f32>();
        }
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, w, hidden) = (op.input("X")?, op.input("W")?, op.input("Hidden")?);
    let (head, dout) = (op.input("HeadW")?, op.input("Out@GRAD")?);
    let (mut dx, mut dw) = (op.maybe_output("X@GRAD"), op.maybe_output("W@GRAD"));
    let mut dbias = op.maybe_output("Bias@GRAD");
    let (mut dhead, mut dhead_bias) =
        (op.maybe_output("HeadW@GRAD"), op.maybe_output("HeadBias@GRAD"));
    let through = Through::of(op)?;
    // The gradient of what the relu is given, kept from step to step.
    let mut dz = Vec::new();
    Ok(Box::new(move |run| {
        let ((m, k), n) = (run.dims(x)?.matrix(1), run.dims(w)?[1]);
        let (hidden, head) = (run.get::<f32>(hidden)?, run.get::<f32>(head)?);
        let dout = run.get::<f32>(dout)?;
        dz.clear();
        for (hidden, d) in hidden.chunks_exact(n.max(1)).zip(dout) {
            let slopes = hidden.iter().zip(head);
            dz.extend(slopes.map(|(hidden, w)| if *hidden > 0.0 { d * w } else { 0.0 }));
        }
        let half = run.rounds_factors;
        if let Some(dhead) = &mut dhead {
            let (hidden, dout) = ((hidden, Order::Transposed), (dout, Order::Plain));
            f32::multiply(Product::new([n, 1, m], run.set(dhead)?, hidden, dout).half(half));
        }
        if let Some(dhead_bias) = &mut dhead_bias {
            run.set::<f32>(dhead_bias)?[0] = dout.iter().sum();
        }
        if let Some(dbias) = &mut dbias {
            let dbias = run.set::<f32>(dbias)?;
            dbias.fill(0.0);
            sum_rows(&dz, dbias);
        }
        if let Some(dw) = &mut dw {
            let (x, dz) = ((run.get(x)?, Order::Transposed), (&dz[..], Order::Plain));
            f32::multiply(Product::new([k, n, m], run.set(dw)?, x, dz).half(half));
        }
        if let Some(dx) = &mut dx {
            let (dx, x) = (run.set(dx)?, run.get::<f32>(x)?);
            let (dz, w) = ((&dz[..], Order::Plain), (run.get(w)?, Order::Transposed));
            f32::multiply(Product::new([m, k, n], dx, dz, w).half(half));
            if through.takes(m) {
                mask(dx, x);
            }
        }
        Ok(())
    }))
}
