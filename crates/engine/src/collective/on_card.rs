//! Ops that ask other ranks as work for a card: where ranks exchange from card to card, such an op is a kernel like any
//! other, and part of what is recorded.

use std::sync::Arc;

use bireme_ir::{Op, VarKind};

use super::{Reduction, rows_on_card};
use crate::device::{
    Address, Device, DeviceCall, DeviceKernel, DeviceMeta, Elements, Exchange, Operand,
};
use crate::op::OpView;
use crate::ops::collective::{rank, reduction, ring};
use crate::{Error, Result};

/// What an op asks of the other cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Nothing yet: the op that waits does all of it, for what is recorded runs beside the rest anyway.
    Nothing,
    AllReduce(Reduction),
    Reduce(Reduction, usize),
    Scatter(usize),
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
    /// Makes the output what the input is, where the others' part does not.
    keeps: Option<Arc<dyn DeviceKernel>>,
}

/// The kernel of an op that asks other ranks, if the cards of its ring exchange among themselves and can do what it
/// asks.
///
/// # Errors
/// When the op refuses its attributes.
pub(crate) fn kernel(
    op: &OpView<'_>,
    device: &dyn Device,
    inputs: &[DeviceMeta],
    outputs: &mut [DeviceMeta],
) -> Result<Option<Arc<dyn DeviceKernel>>> {
    if let Some(kernel) = rows_on_card::kernel(op, device, inputs, outputs)? {
        return Ok(Some(kernel));
    }
    let Some(call) = call_of(op)? else { return Ok(None) };
    let (link, ring) = (op.link()?, ring(op)?);
    let peers = link.peers();
    let Some(exchange) = peers.on_card(ring) else { return Ok(None) };
    let Some(whole) = inputs.first().or(outputs.first()) else { return Ok(None) };
    let is_dense = |meta: &DeviceMeta| meta.meta.kind == VarKind::LodTensor && meta.pitch.is_none();
    if !inputs.iter().chain(&*outputs).all(is_dense) || !exchange.takes(whole.meta.dtype) {
        return Ok(None);
    }
    // What it would refuse on the host, it refuses here.
    drop(op.kernel()?);
    let size = peers.size(ring)?;
    let dims = whole.meta.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0));
    let count = dims.product::<usize>();
    let count = match call {
        Call::ReduceScatter | Call::AllToAll | Call::Scatter(_) if !count.is_multiple_of(size) => {
            return Err(Error::kernel(format!(
                "{count} elements are no part for each of {size} ranks"
            )));
        }
        Call::ReduceScatter | Call::AllToAll | Call::Scatter(_) => count / size,
        _ => count,
    };
    if let Call::Reduce(_, root) | Call::Scatter(root) | Call::Broadcast(root) = call
        && root >= size
    {
        return Err(Error::kernel(format!("there is no rank {root} among {size}")));
    }
    let keeps = match call {
        Call::Reduce(_, root) if root != peers.rank(ring)? => match copy(device, whole)? {
            Some(copy) => Some(copy),
            None => return Ok(None),
        },
        _ => None,
    };
    let of = Elements { dtype: whole.meta.dtype, count };
    Ok(Some(Arc::new(OnCard { exchange, call, of, keeps })))
}

/// The kernel that copies a variable.
fn copy(device: &dyn Device, meta: &DeviceMeta) -> Result<Option<Arc<dyn DeviceKernel>>> {
    let op = Op::new("assign").input("X", ["x"]).output("Out", ["out"]);
    let (from, mut to) = ([meta.clone()], [meta.clone()]);
    device.kernel(&OpView::new(&op)?, &from, &mut to)
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
        "c_reduce_sum" => Call::Reduce(Reduction::Sum, rank(op, "root_id")?),
        "c_reduce_prod" => Call::Reduce(Reduction::Prod, rank(op, "root_id")?),
        "c_reduce_min" => Call::Reduce(Reduction::Min, rank(op, "root_id")?),
        "c_reduce_max" => Call::Reduce(Reduction::Max, rank(op, "root_id")?),
        "c_scatter" => Call::Scatter(rank(op, "root")?),
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
        self.keeps.as_ref().map_or(0, |kernel| kernel.scratch())
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
        if let Some(kernel) = self.keeps.as_ref().filter(|_| from != to) {
            kernel.launch(call)?;
        }
        match self.call {
            Call::Nothing => Ok(()),
            Call::Reduce(how, root) => exchange.reduce(from, to, of, how, root),
            Call::Scatter(root) => exchange.scatter(from, to, of, root),
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
