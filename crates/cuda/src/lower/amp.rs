//! Loss scaling: gradients divided by the factor of their loss, and the factor changed, all without the host.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::broadcast::threads;
use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::Ref;

/// The ops of this file.
pub(super) const OPS: &[(&str, Lower)] =
    &[("check_finite_and_unscale", unscale), ("update_loss_scaling", update)];

/// When a factor changes, as in `kernels/amp.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Policy {
    raise_after: i32,
    lower_after: i32,
    raise_by: f32,
    lower_by: f32,
    stops: i32,
}

/// The gradients and where they go, with how many elements each has; rows are passed on as they are.
fn gradients(l: &mut Lowering<'_>) -> Outcome<Vec<(Var, Var, usize)>> {
    let xs = l.inputs("X");
    for (which, x) in xs.iter().enumerate() {
        if let Some(selected) = x.selected {
            l.select_one("Out", which, selected.count);
        }
    }
    let outs = l.outputs("Out");
    if xs.len() != outs.len() {
        return host();
    }
    let mut found = Vec::new();
    for (x, out) in xs.into_iter().zip(outs) {
        let is_known = matches!(x.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16);
        if !is_known || x.dtype != out.dtype {
            return host();
        }
        let count = match (x.selected, out.selected) {
            (None, None) => x.numel(),
            (Some(from), Some(to)) => {
                l.copy(from.rows, to.rows, from.count * size_of::<i64>());
                from.count * x.width()
            }
            _ => return host(),
        };
        found.push((x, out, count));
    }
    Ok(found)
}

/// A tensor of one element of this type.
fn single(var: Var, dtype: DType) -> Outcome<Ref> {
    let var = var.dense()?;
    if var.dtype == dtype && var.numel() == 1 { Ok(var.at) } else { host() }
}

fn unscale(l: &mut Lowering<'_>) -> Outcome {
    let (scale, found) = (single(l.input("Scale")?, DType::F32)?, l.output("FoundInfinite")?);
    l.clear(found.at, found.bytes());
    for (x, out, count) in gradients(l)? {
        let name = format!("unscale_{}", x.suffix()?);
        let launch = l.over(name, threads(count, x.dtype.size())).var(&x).var(&out);
        launch.size(count).at(scale).var(&found).launch();
    }
    Ok(())
}

fn update(l: &mut Lowering<'_>) -> Outcome {
    let found = single(l.input("FoundInfinite")?, DType::Bool)?;
    let scale = single(l.input("PrevLossScaling")?, DType::F32)?;
    let good = single(l.input("InGoodSteps")?, DType::I32)?;
    let bad = single(l.input("InBadSteps")?, DType::I32)?;
    let stop = match l.maybe_input("StopUpdate") {
        Some(stop) => single(stop, DType::Bool)?,
        None => Ref::NULL,
    };
    for (x, out, count) in gradients(l)? {
        l.copy(x.at, out.at, count * x.dtype.size());
        let bytes = count * out.dtype.size();
        l.over("clear_if", threads(bytes, 1)).at(found).var(&out).size(bytes).launch();
    }
    let op = l.op;
    let policy = Policy {
        raise_after: op.i64("incr_every_n_steps")? as i32,
        lower_after: op.i64("decr_every_n_nan_or_inf")? as i32,
        raise_by: op.f32("incr_ratio")?,
        lower_by: op.f32("decr_ratio")?,
        stops: i32::from(op.bool("stop_update")?),
    };
    let after = [l.output("LossScaling")?, l.output("OutGoodSteps")?, l.output("OutBadSteps")?];
    let launch = l.kernel("update_loss_scaling", [1, 1, 1], 32).at(found).at(stop);
    let launch = launch.at(scale).at(good).at(bad);
    let launch = launch.var(&after[0]).var(&after[1]).var(&after[2]);
    launch.value(policy).launch();
    Ok(())
}
