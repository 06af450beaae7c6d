//! Losses of one prediction and one label, element by element, with their gradients.

use bireme_ir::DType;

use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::Ref;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("bce_loss", bce_loss),
    ("bce_loss_grad", bce_loss_grad),
    ("huber_loss", huber_loss),
    ("huber_loss_grad", huber_loss_grad),
    ("kldiv_loss", kldiv_loss),
    ("kldiv_loss_grad", kldiv_loss_grad),
    ("log_loss", log_loss),
    ("log_loss_grad", log_loss_grad),
    ("sigmoid_cross_entropy_with_logits", sigmoid_loss),
    ("sigmoid_cross_entropy_with_logits_grad", sigmoid_loss_grad),
    ("smooth_l1_loss", smooth_l1_loss),
    ("smooth_l1_loss_grad", smooth_l1_loss_grad),
];

/// The variables in these input slots, all of one shape and one of the wide float types.
fn alike<const N: usize>(l: &Lowering<'_>, slots: [&str; N]) -> Outcome<[Var; N]> {
    let mut vars = Vec::new();
    for slot in slots {
        vars.push(l.input(slot)?.dense()?);
    }
    let fits = |var: &Var| var.dtype == vars[0].dtype && var.numel() == vars[0].numel();
    if !vars.iter().all(fits) || !matches!(vars[0].dtype, DType::F32 | DType::F64) {
        return host();
    }
    vars.try_into().or_else(|_| host())
}

/// The variable in an input slot that may be empty, if it is like `like`.
fn maybe_alike(l: &Lowering<'_>, slot: &str, like: &Var) -> Outcome<Option<Var>> {
    let Some(var) = l.maybe_input(slot) else { return Ok(None) };
    let var = var.dense()?;
    if var.dtype == like.dtype && var.numel() == like.numel() { Ok(Some(var)) } else { host() }
}

fn log_loss(l: &mut Lowering<'_>) -> Outcome {
    let ([x, label], out) = (alike(l, ["Predicted", "Labels"])?, l.output("Loss")?);
    let (n, epsilon) = (x.numel(), l.op.f64("epsilon")?);
    let launch = l.over(format!("log_loss_{}", x.suffix()?), n).var(&x).var(&label).var(&out);
    launch.size(n).value(epsilon).launch();
    Ok(())
}

fn log_loss_grad(l: &mut Lowering<'_>) -> Outcome {
    let [x, label, d] = alike(l, ["Predicted", "Labels", "Loss@GRAD"])?;
    let (dx, n, epsilon) = (l.output("Predicted@GRAD")?, x.numel(), l.op.f64("epsilon")?);
    let launch = l.over(format!("log_loss_grad_{}", x.suffix()?), n).var(&x).var(&label).var(&d);
    launch.var(&dx).size(n).value(epsilon).launch();
    Ok(())
}

fn bce_loss(l: &mut Lowering<'_>) -> Outcome {
    let ([x, label], out) = (alike(l, ["X", "Label"])?, l.output("Out")?);
    let launch = l.over(format!("bce_loss_{}", x.suffix()?), x.numel()).var(&x).var(&label);
    launch.var(&out).size(x.numel()).complaint().launch();
    Ok(())
}

fn bce_loss_grad(l: &mut Lowering<'_>) -> Outcome {
    let ([x, label, d], dx) = (alike(l, ["X", "Label", "Out@GRAD"])?, l.output("X@GRAD")?);
    let launch = l.over(format!("bce_loss_grad_{}", x.suffix()?), x.numel()).var(&x).var(&label);
    launch.var(&d).var(&dx).size(x.numel()).launch();
    Ok(())
}

/// What an element counts in a loss that is summed up; none when there is one loss for each.
fn kldiv_weight(l: &Lowering<'_>, x: &Var) -> Outcome<Option<f64>> {
    let rows = x.dims.first().copied().unwrap_or(1);
    Ok(match l.op.string("reduction")?.as_str() {
        "none" => None,
        "sum" => Some(1.0),
        "mean" => Some(1.0 / x.numel().max(1) as f64),
        "batchmean" => Some(1.0 / rows.max(1) as f64),
        _ => return host(),
    })
}

fn kldiv_loss(l: &mut Lowering<'_>) -> Outcome {
    let ([x, target], out) = (alike(l, ["X", "Target"])?, l.output("Loss")?);
    let (n, suffix) = (x.numel(), x.suffix()?);
    let Some(weight) = kldiv_weight(l, &x)? else {
        let launch = l.over(format!("kldiv_loss_{suffix}"), n).var(&x).var(&target).var(&out);
        launch.size(n).launch();
        return Ok(());
    };
    // Each block leaves one number, and one block adds them up; of nothing the sum is 0.
    let blocks = n.div_ceil(256 * 4).clamp(1, 512);
    let partials = l.scratch(blocks * x.dtype.size());
    let launch = l.kernel(format!("kldiv_sum_{suffix}"), [blocks as u32, 1, 1], 256).var(&x);
    launch.var(&target).at(partials).size(n).launch();
    let launch = l.kernel(format!("finish_sum_{suffix}"), [1, 1, 1], 256).at(partials).var(&out);
    launch.size(blocks).value(weight).launch();
    Ok(())
}

fn kldiv_loss_grad(l: &mut Lowering<'_>) -> Outcome {
    let ([target], dx) = (alike(l, ["Target"])?, l.output("X@GRAD")?);
    let d = l.input("Loss@GRAD")?.dense()?;
    let (n, weight) = (dx.numel(), kldiv_weight(l, &target)?);
    let wanted = if weight.is_some() { 1 } else { n };
    if d.dtype != target.dtype || d.numel() != wanted || target.numel() != n {
        return host();
    }
    let launch = l.over(format!("kldiv_loss_grad_{}", dx.suffix()?), n).var(&target).var(&d);
    let launch = launch.var(&dx).size(n).value(i32::from(weight.is_some()));
    launch.value(weight.unwrap_or(1.0)).launch();
    Ok(())
}

/// Counts the labels that a normalised loss is divided by; null when it is not.
fn count_labels(l: &mut Lowering<'_>, label: &Var, ignore: i32) -> Outcome<Ref> {
    if !l.op.bool("normalize")? {
        return Ok(Ref::NULL);
    }
    let count = l.scratch(8);
    l.clear(count, 8);
    let launch = l.over(format!("count_labels_{}", label.suffix()?), label.numel()).var(label);
    launch.at(count).size(label.numel()).value(ignore).launch();
    Ok(count)
}

fn sigmoid_loss(l: &mut Lowering<'_>) -> Outcome {
    let ([x, label], out) = (alike(l, ["X", "Label"])?, l.output("Out")?);
    let weights = maybe_alike(l, "pos_weight", &x)?;
    let (n, ignore) = (x.numel(), l.op.i64("ignore_index")? as i32);
    let count = count_labels(l, &label, ignore)?;
    let launch = l.over(format!("sigmoid_loss_{}", x.suffix()?), n).var(&x).var(&label);
    launch.maybe(weights.as_ref()).at(count).var(&out).size(n).value(ignore).launch();
    Ok(())
}

fn sigmoid_loss_grad(l: &mut Lowering<'_>) -> Outcome {
    let ([x, label, d], dx) = (alike(l, ["X", "Label", "Out@GRAD"])?, l.output("X@GRAD")?);
    let weights = maybe_alike(l, "pos_weight", &x)?;
    let (n, ignore) = (x.numel(), l.op.i64("ignore_index")? as i32);
    let count = count_labels(l, &label, ignore)?;
    let launch = l.over(format!("sigmoid_loss_grad_{}", x.suffix()?), n).var(&x).var(&label);
    let launch = launch.maybe(weights.as_ref()).at(count).var(&d).var(&dx);
    launch.size(n).value(ignore).launch();
    Ok(())
}

fn huber_loss(l: &mut Lowering<'_>) -> Outcome {
    let [x, y] = alike(l, ["X", "Y"])?;
    let (out, residual, delta) = (l.output("Out")?, l.output("Residual")?, l.op.f64("delta")?);
    let launch = l.over(format!("huber_loss_{}", x.suffix()?), x.numel()).var(&x).var(&y);
    launch.var(&residual).var(&out).size(x.numel()).value(delta).launch();
    Ok(())
}

fn huber_loss_grad(l: &mut Lowering<'_>) -> Outcome {
    let ([residual, d], delta) = (alike(l, ["Residual", "Out@GRAD"])?, l.op.f64("delta")?);
    let (dx, dy) = (l.maybe_output("X@GRAD"), l.maybe_output("Y@GRAD"));
    let n = d.numel();
    let launch = l.over(format!("huber_loss_grad_{}", d.suffix()?), n).var(&residual).var(&d);
    launch.maybe(dx.as_ref()).maybe(dy.as_ref()).size(n).value(delta).launch();
    Ok(())
}

fn smooth_l1_loss(l: &mut Lowering<'_>) -> Outcome {
    let [x, y] = alike(l, ["X", "Y"])?;
    let inside = maybe_alike(l, "InsideWeight", &x)?;
    let outside = maybe_alike(l, "OutsideWeight", &x)?;
    let (diff, out, sigma) = (l.output("Diff")?, l.output("Out")?, l.op.f64("sigma")?);
    let (rows, blocks) = (out.numel(), out.numel().div_ceil(8).min(1 << 16) as u32);
    let width = x.numel() / rows.max(1);
    let launch = l.kernel(format!("smooth_l1_loss_{}", x.suffix()?), [blocks, 1, 1], 256);
    let launch = launch.var(&x).var(&y).maybe(inside.as_ref()).maybe(outside.as_ref());
    launch.var(&diff).var(&out).size(rows).size(width).value(sigma.powi(2)).launch();
    Ok(())
}

fn smooth_l1_loss_grad(l: &mut Lowering<'_>) -> Outcome {
    let [diff] = alike(l, ["Diff"])?;
    let d = l.input("Out@GRAD")?.dense()?;
    let inside = maybe_alike(l, "InsideWeight", &diff)?;
    let outside = maybe_alike(l, "OutsideWeight", &diff)?;
    let (dx, dy) = (l.maybe_output("X@GRAD"), l.maybe_output("Y@GRAD"));
    let (n, sigma) = (diff.numel(), l.op.f64("sigma")?);
    let width = n / d.numel().max(1);
    if d.dtype != diff.dtype || width * d.numel() != n || u32::try_from(n).is_err() {
        return host();
    }
    let launch = l.over(format!("smooth_l1_loss_grad_{}", d.suffix()?), n).var(&diff).var(&d);
    let launch = launch.maybe(inside.as_ref()).maybe(outside.as_ref()).maybe(dx.as_ref());
    launch.maybe(dy.as_ref()).size(n).size(width).value(sigma.powi(2)).launch();
    Ok(())
}
