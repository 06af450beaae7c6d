//! Which way a call goes: nowhere where there is one rank, through shared memory where all ranks
//! are on one host, otherwise over sockets.

use crate::group::Turn;
use crate::{Element, Reduce, Result};

impl Turn<'_> {
    pub(crate) fn all_reduce<T: Element>(&self, data: &mut [T], op: Reduce) -> Result<()> {
        match self.local() {
            _ if self.size() == 1 => Ok(()),
            Some(local) => local.all_reduce(self, data, op),
            None => self.wire_all_reduce(data, op),
        }
    }

    pub(crate) fn reduce<T: Element>(&self, data: &mut [T], op: Reduce, root: usize) -> Result<()> {
        match self.local() {
            _ if self.size() == 1 => Ok(()),
            Some(local) => local.reduce(self, data, op, root),
            None => self.wire_reduce(data, op, root),
        }
    }

    pub(crate) fn reduce_scatter<T: Element>(
        &self,
        data: &[T],
        out: &mut [T],
        op: Reduce,
    ) -> Result<()> {
        match self.local() {
            _ if self.size() == 1 => {
                out.copy_from_slice(data);
                Ok(())
            }
            Some(local) => local.reduce_scatter(self, data, out, op),
            None => self.wire_reduce_scatter(data, out, op),
        }
    }

    pub(crate) fn broadcast(&self, data: &mut [u8], root: usize) -> Result<()> {
        match self.local() {
            _ if self.size() == 1 => Ok(()),
            Some(local) => local.broadcast(self, data, root),
            None => self.wire_broadcast(data, root),
        }
    }

    pub(crate) fn all_gather(&self, part: &[u8], out: &mut [u8]) -> Result<()> {
        match self.local() {
            Some(local) => local.all_gather(self, part, out),
            None => self.wire_all_gather(part, out),
        }
    }

    pub(crate) fn all_gather_varied(&self, part: &[u8]) -> Result<Vec<Vec<u8>>> {
        let parts = vec![part; self.size()];
        self.all_to_all_varied(&parts)
    }

    pub(crate) fn scatter(&self, parts: &[u8], out: &mut [u8], root: usize) -> Result<()> {
        match self.local() {
            Some(local) => local.scatter(self, parts, out, root),
            None => self.wire_scatter(parts, out, root),
        }
    }

    pub(crate) fn all_to_all(&self, parts: &[u8], out: &mut [u8]) -> Result<()> {
        match self.local() {
            Some(local) => local.all_to_all(self, parts, out),
            None => self.wire_all_to_all(parts, out),
        }
    }

    pub(crate) fn all_to_all_varied(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        match self.local() {
            Some(local) => local.all_to_all_varied(self, parts),
            None => self.wire_all_to_all_varied(parts),
        }
    }

    pub(crate) fn barrier(&self) -> Result<()> {
        match self.local() {
            Some(local) => local.barrier(self),
            None => self.wire_barrier(),
        }
    }
}
