//! Ops that ask other ranks as work for a card: where ranks exchange from card to card, such an op is a kernel like any
//! other, and part of what is recorded.

use std::sync::Arc;

use bireme_ir::VarKind;

use super::Reduction;
use crate::device::{Address, DeviceCall, DeviceKernel, DeviceMeta, Elements, Exchange, Operand};
use crate::op::OpView;
use crate::ops::collective::{rank, reduction, ring};
use crate::{Error, Result};

/// What an op asks of the other cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Nothing yet: the op that waits does all of it, for what is recorded runs beside the rest anyway.
    Nothing,
    AllReduce(Reduction),
    Broadcast(usize),
    AllGather,
    ReduceScatter,
    AllToAll,
    Send(usize),
    Receive(usize),
}

struct OnCard {
    exchange: Arc<dyn Exchange>,
    call: Call,
    of: Elements,
}

/// The kernel of an op that asks other ranks, if the cards of its ring exchange among themselves and can do what it
/// asks.
///
/// # Errors
/// When the op refuses its attributes.
pub(crate) fn kernel(
    op: &OpView<'_>,
    inputs: &[DeviceMeta],
    outputs: &[DeviceMeta],
) -> Result<Option<Arc<dyn DeviceKernel>>> {
    let Some(call) = call_of(op)? else { return Ok(None) };
    let (link, ring) = (op.link()?, ring(op)?);
    let peers = link.peers();
    let Some(exchange) = peers.on_card(ring) else { return Ok(None) };
    let Some(whole) = inputs.first().or(outputs.first()) else { return Ok(None) };
    let is_dense = |meta: &DeviceMeta| meta.meta.kind == VarKind::LodTensor && meta.pitch.is_none();
    if !inputs.iter().chain(outputs).all(is_dense) || !exchange.takes(whole.meta.dtype) {
        return Ok(None);
    }
    // What it would refuse on the host, it refuses here.
    drop(op.kernel()?);
    let size = peers.size(ring)?;
    let dims = whole.meta.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0));
    let count = dims.product::<usize>();
    let count = match call {
        Call::ReduceScatter | Call::AllToAll if !count.is_multiple_of(size) => {
            return Err(Error::kernel(format!(
                "{count} elements are no part for each of {size} ranks"
            )));
        }
        Call::ReduceScatter | Call::AllToAll => count / size,
        _ => count,
    };
    let of = Elements { dtype: whole.meta.dtype, count };
    Ok(Some(Arc::new(OnCard { exchange, call, of })))
}

fn call_of(op: &OpView<'_>) -> Result<Option<Call>> {
    Ok(Some(match op.def.name {
        // A bucket of several tensors, or one that is scaled, was made one of one tensor before.
        "c_bucket_start" if op.inputs("X").len() == 1 => Call::Nothing,
        "c_bucket_wait" if op.inputs("X").len() == 1 && op.f64("scale")? == 1.0 => {
            Call::AllReduce(reduction(&op.string("reduce")?)?)
        }
        "c_allreduce_sum" => Call::AllReduce(Reduction::Sum),
        "c_allreduce_prod" => Call::AllReduce(Reduction::Prod),
        "c_allreduce_min" => Call::AllReduce(Reduction::Min),
        "c_allreduce_max" => Call::AllReduce(Reduction::Max),
        "c_broadcast" => Call::Broadcast(rank(op, "root")?),
        "c_allgather" => Call::AllGather,
        "c_reducescatter" => Call::ReduceScatter,
        "alltoall" => Call::AllToAll,
        "send_v2" => Call::Send(rank(op, "peer")?),
        "recv_v2" => Call::Receive(rank(op, "peer")?),
        _ => return Ok(None),
    }))
}

impl DeviceKernel for OnCard {
    fn scratch(&self) -> usize {
        0
    }

    fn counts_steps(&self) -> bool {
        false
    }

    fn launch(&self, call: &DeviceCall<'_>) -> Result<()> {
        let (from, to) = (first(call.inputs), first(call.outputs));
        let (exchange, of) = (&self.exchange, self.of);
        if of.count == 0 {
            return Ok(());
        }
        match self.call {
            Call::Nothing => Ok(()),
            Call::AllReduce(how) => exchange.all_reduce(from, to, of, how),
            Call::Broadcast(root) => exchange.broadcast(from, to, of, root),
            Call::AllGather => exchange.all_gather(from, to, of),
            Call::ReduceScatter => exchange.reduce_scatter(from, to, of, Reduction::Sum),
            Call::AllToAll => exchange.all_to_all(from, to, of),
            Call::Send(peer) => exchange.send(from, of, peer),
            Call::Receive(peer) => exchange.receive(to, of, peer),
        }
    }
}

fn first(operands: &[Operand]) -> Address {
    match operands.first() {
        Some(Operand::Dense(at)) => *at,
        _ => Address::NULL,
    }
}
