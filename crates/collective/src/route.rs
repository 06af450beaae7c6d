//! Which way a call goes: nowhere where there is one rank, through shared memory where all ranks
//! are on one host, otherwise over sockets. Where some hosts have several ranks, the calls that
//! pay go through memory on each host and over sockets between the first ranks of the hosts.

use crate::group::Turn;
use crate::shared::{Hosts, Sharing};
use crate::{Element, Reduce, Result};

impl Turn<'_> {
    pub(crate) fn all_reduce<T: Element>(&self, data: &mut [T], op: Reduce) -> Result<()> {
        match self.sharing() {
            _ if self.size() == 1 => Ok(()),
            Sharing::Nothing => self.wire_all_reduce(data, op),
            Sharing::All(local) => local.all_reduce(self, data, op),
            Sharing::Hosts(hosts) => {
                hosts.gather(self, data, op)?;
                hosts.lead(self, |leaders| leaders.wire_all_reduce(data, op))?;
                hosts.spread(self, bytemuck::cast_slice_mut(data), 0)
            }
        }
    }

    pub(crate) fn reduce<T: Element>(&self, data: &mut [T], op: Reduce, root: usize) -> Result<()> {
        match self.sharing() {
            _ if self.size() == 1 => Ok(()),
            Sharing::Nothing => self.wire_reduce(data, op, root),
            Sharing::All(local) => local.reduce(self, data, op, root),
            Sharing::Hosts(hosts) => {
                let mut copy = data.to_vec();
                let (host, _) = hosts.places[root];
                hosts.gather(self, &mut copy, op)?;
                hosts.lead(self, |leaders| leaders.wire_reduce(&mut copy, op, host))?;
                if hosts.host == host {
                    hosts.spread(self, bytemuck::cast_slice_mut(&mut copy), 0)?;
                }
                if self.rank() == root {
                    data.copy_from_slice(&copy);
                }
                Ok(())
            }
        }
    }

    pub(crate) fn reduce_scatter<T: Element>(
        &self,
        data: &[T],
        out: &mut [T],
        op: Reduce,
    ) -> Result<()> {
        match self.sharing() {
            _ if self.size() == 1 => {
                out.copy_from_slice(data);
                Ok(())
            }
            Sharing::All(local) => local.reduce_scatter(self, data, out, op),
            _ => self.wire_reduce_scatter(data, out, op),
        }
    }

    pub(crate) fn broadcast(&self, data: &mut [u8], root: usize) -> Result<()> {
        match self.sharing() {
            _ if self.size() == 1 => Ok(()),
            Sharing::Nothing => self.wire_broadcast(data, root),
            Sharing::All(local) => local.broadcast(self, data, root),
            Sharing::Hosts(hosts) => {
                let (host, place) = hosts.places[root];
                if hosts.host == host {
                    hosts.spread(self, data, place)?;
                }
                hosts.lead(self, |leaders| leaders.wire_broadcast(data, host))?;
                if hosts.host == host { Ok(()) } else { hosts.spread(self, data, 0) }
            }
        }
    }

    pub(crate) fn all_gather(&self, part: &[u8], out: &mut [u8]) -> Result<()> {
        match self.sharing() {
            Sharing::All(local) => local.all_gather(self, part, out),
            _ => self.wire_all_gather(part, out),
        }
    }

    pub(crate) fn all_gather_varied(&self, part: &[u8]) -> Result<Vec<Vec<u8>>> {
        let parts = vec![part; self.size()];
        self.all_to_all_varied(&parts)
    }

    pub(crate) fn scatter(&self, parts: &[u8], out: &mut [u8], root: usize) -> Result<()> {
        match self.sharing() {
            Sharing::All(local) => local.scatter(self, parts, out, root),
            _ => self.wire_scatter(parts, out, root),
        }
    }

    pub(crate) fn all_to_all(&self, parts: &[u8], out: &mut [u8]) -> Result<()> {
        match self.sharing() {
            Sharing::All(local) => local.all_to_all(self, parts, out),
            _ => self.wire_all_to_all(parts, out),
        }
    }

    pub(crate) fn all_to_all_varied(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        match self.sharing() {
            Sharing::All(local) => local.all_to_all_varied(self, parts),
            _ => self.wire_all_to_all_varied(parts),
        }
    }

    pub(crate) fn barrier(&self) -> Result<()> {
        match self.sharing() {
            Sharing::Nothing => self.wire_barrier(),
            Sharing::All(local) => local.barrier(self),
            Sharing::Hosts(hosts) => {
                hosts.spread(self, &mut [], 0)?;
                hosts.lead(self, |leaders| leaders.wire_barrier())?;
                hosts.spread(self, &mut [], 0)
            }
        }
    }
}

impl Hosts {
    /// Reduces the data of this host's ranks; the first has the result, the others garbage.
    fn gather<T: Element>(&self, turn: &Turn<'_>, data: &mut [T], op: Reduce) -> Result<()> {
        match &self.local {
            Some(local) => local.gather_at(&turn.among(&self.here, self.place), data, op, 0),
            None => Ok(()),
        }
    }

    /// Runs a step among the first ranks of the hosts.
    fn lead(&self, turn: &Turn<'_>, work: impl FnOnce(&Turn<'_>) -> Result<()>) -> Result<()> {
        if self.place > 0 {
            return Ok(());
        }
        work(&turn.among(&self.leaders, self.host))
    }

    /// Gives the data of one of this host's ranks to all of them.
    fn spread(&self, turn: &Turn<'_>, data: &mut [u8], from: usize) -> Result<()> {
        match &self.local {
            Some(local) => local.broadcast(&turn.among(&self.here, self.place), data, from),
            None => Ok(()),
        }
    }
}
