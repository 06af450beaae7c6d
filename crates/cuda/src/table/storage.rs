//! The memory of a table: the index, which is made anew when it grows, and the rows, which stay where they are.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::error::Result;
use super::launch::Launch;
use super::plan::{RowShape, block_rows, index_bytes};
use crate::driver::{Memory, Stream};

/// As `Index` of `kernels/table.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct RawIndex {
    groups: u64,
    count: u64,
}

/// As `Blocks` of `kernels/table.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct RawBlocks {
    at: u64,
    shift: u32,
    pitch: u32,
}

/// Where keys are looked up.
pub(super) struct Index {
    memory: Memory,
    groups: usize,
}

impl Index {
    /// One without keys.
    pub(super) fn empty(stream: &Arc<Stream>, groups: usize) -> Result<Index> {
        let memory = stream.allocate(index_bytes(groups))?;
        // No keys and no numbers: both are marked by ones.
        stream.fill(memory.whole(), 0xff)?;
        Ok(Index { memory, groups })
    }

    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    pub(super) fn bytes(&self) -> usize {
        self.memory.len()
    }

    pub(super) fn raw(&self) -> RawIndex {
        RawIndex { groups: self.memory.address(), count: self.groups as u64 }
    }

    /// One of another size with the same keys. `renumbered` has the new number of each row, none for those that go.
    pub(super) fn rebuilt(
        &self,
        stream: &Arc<Stream>,
        groups: usize,
        renumbered: Option<&Memory>,
    ) -> Result<Index> {
        let fresh = Index::empty(stream, groups)?;
        let numbers = renumbered.map_or(0, Memory::address);
        Launch::new("table_index")
            .value(self.raw())
            .value(fresh.raw())
            .value(numbers)
            .over(stream, self.groups + 1)?;
        Ok(fresh)
    }
}

/// The rows.
pub(super) struct Blocks {
    /// What was allocated at once: one or several blocks.
    pieces: Vec<Memory>,
    /// Where each block begins.
    addresses: Vec<u64>,
    /// The same on the card.
    list: Memory,
    shift: u32,
    pitch: usize,
}

impl Blocks {
    /// Room for so many rows at least.
    pub(super) fn new(stream: &Arc<Stream>, shape: RowShape, rows: usize) -> Result<Blocks> {
        let shift = block_rows(rows).trailing_zeros();
        let list = stream.allocate(0)?;
        let pitch = shape.pitch();
        let mut blocks = Blocks { pieces: Vec::new(), addresses: Vec::new(), list, shift, pitch };
        blocks.grow(stream, rows.max(1))?;
        Ok(blocks)
    }

    /// Rows that there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.addresses.len() << self.shift
    }

    pub(super) fn bytes(&self) -> usize {
        self.capacity() * self.row_bytes()
    }

    pub(super) fn raw(&self) -> RawBlocks {
        RawBlocks { at: self.list.address(), shift: self.shift, pitch: self.pitch as u32 }
    }

    fn row_bytes(&self) -> usize {
        self.pitch * size_of::<f32>()
    }

    /// Makes room for so many rows in all; those that are there stay where they are.
    pub(super) fn grow(&mut self, stream: &Arc<Stream>, rows: usize) -> Result<()> {
        let more = rows.div_ceil(1 << self.shift).saturating_sub(self.addresses.len());
        if more == 0 {
            return Ok(());
        }
        let block = self.row_bytes() << self.shift;
        let memory = stream.allocate(more * block)?;
        let mut addresses = self.addresses.clone();
        addresses.extend((0..more).map(|at| memory.address() + (at * block) as u64));
        if addresses.len() * size_of::<u64>() > self.list.len() {
            let room = addresses.len().next_power_of_two() * size_of::<u64>();
            self.list = stream.allocate(room)?;
        }
        let bytes: &[u8] = bytemuck::cast_slice(&addresses);
        if let Some(list) = self.list.span(0..bytes.len()) {
            stream.upload(list, bytes)?;
        }
        self.addresses = addresses;
        self.pieces.push(memory);
        Ok(())
    }
}
