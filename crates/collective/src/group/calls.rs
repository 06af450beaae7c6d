//! The calls of a group: checks of arguments, then the algorithm.

use std::sync::PoisonError;

use super::{Group, Turn};
use crate::call::{Call, Kind};
use crate::{Element, Error, Reduce, Result};

impl Group {
    /// Reduces the data of all ranks; all get the result, with the same bits on every rank and in
    /// every run with as many ranks.
    pub fn all_reduce<T: Element>(&self, data: &mut [T], op: Reduce) -> Result<()> {
        let call = Call::reducing::<T>(Kind::AllReduce, op, data.len(), 0);
        self.run(call, |turn| turn.all_reduce(data, op))
    }

    /// Reduces the data of all ranks; `root` gets the result, the data of others stay as they are.
    pub fn reduce<T: Element>(&self, data: &mut [T], op: Reduce, root: usize) -> Result<()> {
        self.check_root("reduce", root)?;
        let call = Call::reducing::<T>(Kind::Reduce, op, data.len(), root);
        self.run(call, |turn| turn.reduce(data, op, root))
    }

    /// Reduces the data of all ranks, which has a part for each; every rank gets its part.
    pub fn reduce_scatter<T: Element>(&self, data: &[T], out: &mut [T], op: Reduce) -> Result<()> {
        self.check_parts("reduce_scatter", "data", data.len(), "out", out.len())?;
        let call = Call::reducing::<T>(Kind::ReduceScatter, op, data.len(), 0);
        self.run(call, |turn| turn.reduce_scatter(data, out, op))
    }

    /// Gives the data of `root` to all ranks.
    pub fn broadcast(&self, data: &mut [u8], root: usize) -> Result<()> {
        self.check_root("broadcast", root)?;
        self.run(Call::new(Kind::Broadcast, data.len(), root), |turn| turn.broadcast(data, root))
    }

    /// Gives the part of each rank to all, in the order of the ranks; all parts have one size.
    pub fn all_gather(&self, part: &[u8], out: &mut [u8]) -> Result<()> {
        self.check_parts("all_gather", "out", out.len(), "part", part.len())?;
        self.run(Call::new(Kind::AllGather, part.len(), 0), |turn| turn.all_gather(part, out))
    }

    /// Gives the part of each rank to all; parts may have any size.
    pub fn all_gather_varied(&self, part: &[u8]) -> Result<Vec<Vec<u8>>> {
        let call = Call::new(Kind::AllGatherVaried, part.len(), 0);
        self.run(call, |turn| turn.all_gather_varied(part))
    }

    /// Gives each rank its part of what `root` has; others pass none.
    pub fn scatter(&self, parts: Option<&[u8]>, out: &mut [u8], root: usize) -> Result<()> {
        self.check_root("scatter", root)?;
        let parts = match parts {
            Some(parts) if self.rank() == root => {
                self.check_parts("scatter", "parts", parts.len(), "out", out.len())?;
                parts
            }
            None if self.rank() == root => {
                return Err(bad("scatter", "the root must give the parts".into()));
            }
            _ => &[],
        };
        self.run(Call::new(Kind::Scatter, out.len(), root), |turn| turn.scatter(parts, out, root))
    }

    /// Sends the n-th part to rank n and gets one from each, in the order of the ranks; all parts
    /// have one size.
    pub fn all_to_all(&self, parts: &[u8], out: &mut [u8]) -> Result<()> {
        if parts.len() != out.len() || !parts.len().is_multiple_of(self.size()) {
            let problem = format!(
                "`parts` has {} bytes and `out` {}: both need as many, a multiple of the {} ranks",
                parts.len(),
                out.len(),
                self.size()
            );
            return Err(bad("all_to_all", problem));
        }
        self.run(Call::new(Kind::AllToAll, parts.len(), 0), |turn| turn.all_to_all(parts, out))
    }

    /// Sends the n-th part to rank n and gets one from each; parts may have any size.
    pub fn all_to_all_varied(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        if parts.len() != self.size() {
            let problem = format!("{} parts for {} ranks", parts.len(), self.size());
            return Err(bad("all_to_all_varied", problem));
        }
        let call = Call::new(Kind::AllToAllVaried, 0, 0);
        self.run(call, |turn| turn.all_to_all_varied(parts))
    }

    /// Sends data to one rank, which must receive it; returns when it is on its way.
    pub fn send(&self, to: usize, data: &[u8]) -> Result<()> {
        self.check_other("send", to)?;
        let mut sent = self.shared.sent[to].lock().unwrap_or_else(PoisonError::into_inner);
        self.point_to_point(data.len(), &mut sent, |turn| turn.send_to(to, data))
    }

    /// Receives what one rank sends, of which the size is known.
    pub fn receive(&self, from: usize, data: &mut [u8]) -> Result<()> {
        self.check_other("receive", from)?;
        let mut received =
            self.shared.received[from].lock().unwrap_or_else(PoisonError::into_inner);
        self.point_to_point(data.len(), &mut received, |turn| turn.receive_from(from, data))
    }

    /// Returns when all ranks have called it.
    pub fn barrier(&self) -> Result<()> {
        self.run(Call::new(Kind::Barrier, 0, 0), |turn| turn.barrier())
    }

    fn point_to_point(
        &self,
        length: usize,
        count: &mut u64,
        work: impl FnOnce(&Turn<'_>) -> Result<()>,
    ) -> Result<()> {
        if let Some(failure) = self.shared.core.inbox.failure() {
            return Err(failure);
        }
        *count += 1;
        let turn = Turn::between(&self.shared, Call::new(Kind::Send, length, 0), *count);
        work(&turn).map_err(|error| self.shared.fail(error))
    }

    fn check_root(&self, call: &'static str, root: usize) -> Result<()> {
        if root < self.size() {
            return Ok(());
        }
        Err(bad(call, format!("there is no rank {root} in a group of {}", self.size())))
    }

    fn check_other(&self, call: &'static str, rank: usize) -> Result<()> {
        self.check_root(call, rank)?;
        if rank != self.rank() {
            return Ok(());
        }
        Err(bad(call, format!("rank {rank} is this process: copy the data instead")))
    }

    fn check_parts(
        &self,
        call: &'static str,
        whole_name: &str,
        whole: usize,
        part_name: &str,
        part: usize,
    ) -> Result<()> {
        if part.checked_mul(self.size()) == Some(whole) {
            return Ok(());
        }
        let problem = format!(
            "`{whole_name}` has {whole} elements and `{part_name}` {part}: {} ranks need {} times \
             as many",
            self.size(),
            self.size()
        );
        Err(bad(call, problem))
    }
}

fn bad(call: &'static str, problem: String) -> Error {
    Error::Argument { call, problem }
}
