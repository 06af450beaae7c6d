//! Cards of several ranks as the engine sees them: exchanges are work of the card, recorded like kernels.

use std::sync::Arc;
use std::time::Duration;

use bireme_engine::Result;
use bireme_engine::collective::Reduction;
use bireme_engine::device::{Address, Elements, Exchange};
use bireme_ir::DType;

use crate::bound::{Bound, failed};
use crate::device::Cuda;
use crate::driver::{Communicator, Exchanged, Reduce, Stream};
use crate::lanes::Access;
use crate::recorded::is_recording;

/// A place where no card has memory, for what keeps exchanges in order.
const ORDER: u64 = 1;

/// This rank's card among those of a group.
pub(crate) struct Joined {
    device: Arc<Cuda>,
    communicator: Arc<Communicator>,
    rank: usize,
    size: usize,
}

/// An exchange with its addresses.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) communicator: Arc<Communicator>,
    what: Exchanged,
    from: u64,
    to: u64,
    of: Elements,
}

impl Ask {
    /// Gives it to a stream.
    ///
    /// # Errors
    /// When the card takes no more work, or the group was given up.
    pub(crate) fn run(&self, stream: &Stream) -> crate::driver::Result<()> {
        let (kind, bytes) = (number(self.of.dtype).unwrap_or(0), self.of.dtype.size());
        let (from, to) = (self.from, self.to);
        self.communicator.run(stream, &self.what, (from, to), self.of.count, (kind, bytes))
    }

    /// The bytes of one rank that it is about.
    pub(crate) fn bytes(&self) -> usize {
        self.of.bytes()
    }
}

impl Joined {
    pub(crate) fn new(
        device: Arc<Cuda>,
        communicator: Communicator,
        rank: usize,
        size: usize,
    ) -> Joined {
        Joined { device, communicator: Arc::new(communicator), rank, size }
    }

    fn ask(&self, what: Exchanged, from: Address, to: Address, of: Elements) -> Result<()> {
        let all = self.size;
        let (read, written) = match what {
            Exchanged::AllReduce(_) | Exchanged::Broadcast(_) | Exchanged::Reduce(..) => (1, 1),
            Exchanged::Scatter(root) if root != self.rank => (0, 1),
            Exchanged::Scatter(_) => (all, 1),
            Exchanged::AllGather => (1, all),
            Exchanged::ReduceScatter(_) => (all, 1),
            Exchanged::AllToAll => (all, all),
            Exchanged::Send(_) => (1, 0),
            Exchanged::Receive(_) => (0, 1),
        };
        let access = |at: Address, parts: usize, writes| Access {
            start: at.0,
            bytes: (parts * of.bytes()) as u64,
            writes,
        };
        // All exchanges of a card keep their order, which is the same on all ranks: each writes one mark, also where
        // they are of several groups, which could wait for each other for ever otherwise.
        let accesses = vec![
            access(from, read, false),
            access(to, written, true),
            Access { start: ORDER, bytes: 1, writes: true },
        ];
        let communicator = Arc::clone(&self.communicator);
        let ask = Ask { communicator, what, from: from.0, to: to.0, of };
        self.device.submit("exchange", Bound::Exchange(ask), || accesses)?;
        match is_recording() {
            true => Ok(()),
            false => self.communicator.note(self.device.stream()).map_err(failed),
        }
    }
}

/// NCCL's number for a type of elements.
fn number(dtype: DType) -> Option<i32> {
    Some(match dtype {
        DType::I8 => 0,
        DType::U8 => 1,
        DType::I32 => 2,
        DType::I64 => 4,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
        _ => return None,
    })
}

fn reduce(how: Reduction) -> Reduce {
    match how {
        Reduction::Sum => Reduce::Sum,
        Reduction::Prod => Reduce::Prod,
        Reduction::Min => Reduce::Min,
        Reduction::Max => Reduce::Max,
    }
}

impl Exchange for Joined {
    fn takes(&self, dtype: DType) -> bool {
        number(dtype).is_some()
    }

    fn all_reduce(&self, from: Address, to: Address, of: Elements, how: Reduction) -> Result<()> {
        self.ask(Exchanged::AllReduce(reduce(how)), from, to, of)
    }

    fn average(&self, from: Address, to: Address, of: Elements) -> Result<()> {
        self.ask(Exchanged::AllReduce(Reduce::Mean), from, to, of)
    }

    fn reduce(
        &self,
        from: Address,
        to: Address,
        of: Elements,
        how: Reduction,
        root: usize,
    ) -> Result<()> {
        self.ask(Exchanged::Reduce(reduce(how), root), from, to, of)
    }

    fn scatter(&self, from: Address, to: Address, of: Elements, root: usize) -> Result<()> {
        self.ask(Exchanged::Scatter(root), from, to, of)
    }

    fn broadcast(&self, from: Address, to: Address, of: Elements, root: usize) -> Result<()> {
        self.ask(Exchanged::Broadcast(root), from, to, of)
    }

    fn all_gather(&self, from: Address, to: Address, of: Elements) -> Result<()> {
        self.ask(Exchanged::AllGather, from, to, of)
    }

    fn reduce_scatter(
        &self,
        from: Address,
        to: Address,
        of: Elements,
        how: Reduction,
    ) -> Result<()> {
        self.ask(Exchanged::ReduceScatter(reduce(how)), from, to, of)
    }

    fn all_to_all(&self, from: Address, to: Address, of: Elements) -> Result<()> {
        self.ask(Exchanged::AllToAll, from, to, of)
    }

    fn send(&self, from: Address, of: Elements, to: usize) -> Result<()> {
        self.ask(Exchanged::Send(to), from, from, of)
    }

    fn receive(&self, to: Address, of: Elements, from: usize) -> Result<()> {
        self.ask(Exchanged::Receive(from), to, to, of)
    }

    fn is_stuck(&self, limit: Duration) -> bool {
        self.communicator.is_stuck(limit)
    }

    fn problem(&self) -> Option<String> {
        self.communicator.problem()
    }

    fn abort(&self, why: &str) {
        self.communicator.abort(why);
    }
}
