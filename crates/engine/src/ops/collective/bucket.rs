//! `c_bucket_start` and `c_bucket_wait`: the all-reduce of several tensors as one.
//!
//! The first copies them into one buffer and starts its reduction, which runs beside the ops that
//! follow; the second waits, and copies the results back, times `scale`. A wait without a ticket has
//! nothing to run beside: it reduces on the spot, large tensors where they lie.
//!
//! On a card the copies are ops of their own, `c_bucket_gather` and `c_bucket_spread` (`plan/flatten.rs`), so that one
//! tensor leaves the card and one comes back.

use super::{RING, reduction, ring};
use crate::ops::prelude::*;

pub(super) const START: OpDef = OpDef::new("c_bucket_start", start)
    .inputs(&[Slot::many("X")])
    .outputs(&[Slot::one("Ticket")])
    .attrs(&[RING, attr::str("reduce", "sum")])
    .infer(|cx| {
        one_type(cx)?;
        cx.set("Ticket", Meta::new(DType::I64, [1]));
        Ok(())
    })
    .ordered();

pub(super) const WAIT: OpDef = OpDef::new("c_bucket_wait", wait)
    .inputs(&[Slot::many("X"), Slot::maybe("Ticket")])
    .outputs(&[Slot::many("Out")])
    .attrs(&[RING, attr::str("reduce", "sum"), attr::float("scale", 1.0)])
    .infer(|cx| {
        one_type(cx)?;
        cx.like(&[("Out", "X")])
    })
    .inplace(&[("X", "Out")])
    .ordered();

pub(super) const GATHER: OpDef = OpDef::new("c_bucket_gather", |op| {
    let (xs, mut out) = (op.inputs("X"), op.output("Out")?);
    Ok(Box::new(move |run| {
        let tensors = xs.iter().map(|x| run.tensor(*x)).collect::<Result<Vec<_>>>()?;
        gather(&tensors, run.out(&mut out)?);
        Ok(())
    }))
})
.inputs(&[Slot::many("X")])
.outputs(&[Slot::one("Out")])
.infer(|cx| {
    one_type(cx)?;
    let sizes = cx.inputs("X").into_iter().map(|meta| match meta.is_static() {
        true => meta.dims.iter().product(),
        false => -1,
    });
    let sizes: Vec<i64> = sizes.collect();
    let count = if sizes.contains(&-1) { -1 } else { sizes.iter().sum() };
    let dtype = cx.inputs("X")[0].dtype;
    cx.set("Out", Meta::new(dtype, [count]));
    Ok(())
});

pub(super) const SPREAD: OpDef = OpDef::new("c_bucket_spread", spread_kernel)
    .inputs(&[Slot::one("X"), Slot::many("Like")])
    .outputs(&[Slot::many("Out")])
    .attrs(&[attr::float("scale", 1.0)])
    .like(&[("Out", "Like")])
    .inplace(&[("Like", "Out")]);

fn spread_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, scale) = (op.input("X")?, op.f64("scale")?);
    let mut pairs = op.in_outs("Like", "Out");
    Ok(Box::new(move |run| {
        pairs.iter_mut().try_for_each(|pair| run.carry_over(pair))?;
        spread(run.tensor(x)?, run, &mut pairs, |_| true)?;
        pairs.iter_mut().try_for_each(|pair| multiply(run.out(&mut pair.out)?, scale))
    }))
}

/// A tensor of this size is reduced where it lies: copying it there and back would cost more than
/// the turn of a reduction of its own.
const LARGE_BYTES: usize = 1 << 16;

fn one_type(cx: &mut Infer<'_>) -> Result<()> {
    let inputs = cx.inputs("X");
    match inputs.iter().all(|meta| meta.dtype == inputs[0].dtype) {
        true => Ok(()),
        false => Err(Error::kernel("a bucket holds tensors of one element type")),
    }
}

fn start(op: &OpView<'_>) -> Result<Kernel> {
    let (xs, mut ticket, ring, link) =
        (op.inputs("X"), op.output("Ticket")?, ring(op)?, op.link()?);
    let how = reduction(&op.string("reduce")?)?;
    Ok(Box::new(move |run| {
        let mut buffer = link.buffer().unwrap_or_else(|| Tensor::empty(DType::F32));
        let tensors = xs.iter().map(|x| run.tensor(*x)).collect::<Result<Vec<_>>>()?;
        gather(&tensors, &mut buffer);
        let bring = Box::new(move || Ok(buffer.into()));
        run.set::<i64>(&mut ticket)?[0] = link.start(ring, bring, how, run.step)?;
        Ok(())
    }))
}

fn wait(op: &OpView<'_>) -> Result<Kernel> {
    let mut pairs = op.in_outs("X", "Out");
    let (ticket, ring, link) = (op.maybe_input("Ticket"), ring(op)?, op.link()?);
    let (how, scale) = (reduction(&op.string("reduce")?)?, op.f64("scale")?);
    let mut small = Tensor::empty(DType::F32);
    Ok(Box::new(move |run| {
        if let Some(ticket) = ticket {
            let buffer = link.wait(run.first::<i64>(ticket)?)?.data;
            spread(&buffer, run, &mut pairs, |_| true)?;
            link.give_back(buffer);
        } else {
            let peers = link.settled();
            pairs.iter_mut().try_for_each(|pair| run.carry_over(pair))?;
            let is_small = |tensor: &Tensor| tensor.as_bytes().len() < LARGE_BYTES;
            for pair in &mut pairs {
                let out = run.out(&mut pair.out)?;
                if !is_small(out) {
                    peers.all_reduce(ring, out, how)?;
                }
            }
            let mut tensors = Vec::with_capacity(pairs.len());
            for pair in &mut pairs {
                tensors.push(&*run.out(&mut pair.out)?);
            }
            tensors.retain(|tensor| is_small(tensor));
            if !tensors.is_empty() {
                gather(&tensors, &mut small);
                peers.all_reduce(ring, &mut small, how)?;
                spread(&small, run, &mut pairs, is_small)?;
            }
        }
        pairs.iter_mut().try_for_each(|pair| multiply(run.out(&mut pair.out)?, scale))
    }))
}

/// Makes `buffer` the elements of all tensors in a row.
fn gather(tensors: &[&Tensor], buffer: &mut Tensor) {
    let count = tensors.iter().map(|tensor| tensor.numel()).sum();
    buffer.resize(tensors[0].dtype(), [count]);
    let mut rest = buffer.as_mut_bytes();
    for tensor in tensors {
        let (own, others) = rest.split_at_mut(tensor.as_bytes().len());
        own.copy_from_slice(tensor.as_bytes());
        rest = others;
    }
}

/// Copies the elements in a row back into the outputs that `has` says are there.
fn spread(
    buffer: &Tensor,
    run: &Run<'_>,
    pairs: &mut [InOut],
    has: impl Fn(&Tensor) -> bool,
) -> Result<()> {
    let mut rest = buffer.as_bytes();
    for pair in pairs {
        let out = run.out(&mut pair.out)?;
        if !has(out) {
            continue;
        }
        let target = out.as_mut_bytes();
        let (own, others) = rest.split_at_checked(target.len()).ok_or_else(|| {
            Error::kernel("a reduction came back with fewer elements than its tensors have")
        })?;
        target.copy_from_slice(own);
        rest = others;
    }
    Ok(())
}

fn multiply(tensor: &mut Tensor, scale: f64) -> Result<()> {
    if scale == 1.0 {
        return Ok(());
    }
    let dtype = tensor.dtype();
    dispatch!(dtype, T in [f32, f64] => {
        let values = tensor.as_mut_slice::<T>()?;
        let scale = scale as T;
        values.iter_mut().for_each(|value| *value *= scale);
        Ok(())
    }, else => Err(Error::kernel(format!("cannot scale {dtype} elements"))))
}
