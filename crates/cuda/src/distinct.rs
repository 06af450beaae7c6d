//! Distinct keys, found in a card's memory: a hash table of keys whose rows hold nothing.
//!
//! It has a stream of its own, so that it waits for no step, and no step for it.

use std::sync::Arc;

use bireme_engine::Result;
use bireme_engine::device::KeySet;

use crate::bound::failed;
use crate::driver::{Card, Memory, Stream};
use crate::table::{Init, RowShape, Table};

/// The smallest rows that there are.
const ROW: RowShape = RowShape { width: 4, states: 0 };

/// Keys that are copied to the card at a time.
const AT_ONCE: usize = 1 << 20;

/// The keys that were met.
pub(crate) struct Distinct {
    table: Table,
    stream: Arc<Stream>,
    /// For keys, and for the numbers of their rows, which nobody reads.
    keys: Memory,
    numbers: Memory,
}

impl Distinct {
    /// No keys, with room for so many; it grows beyond.
    pub(crate) fn new(card: &Arc<Card>, expected: usize) -> Result<Distinct> {
        let stream = Stream::new(card).map_err(failed)?;
        let table = Table::new(&stream, ROW, expected.max(1))?;
        let keys = stream.allocate(AT_ONCE * size_of::<u64>()).map_err(failed)?;
        let numbers = stream.allocate(AT_ONCE * size_of::<u32>()).map_err(failed)?;
        Ok(Distinct { table, stream, keys, numbers })
    }
}

impl KeySet for Distinct {
    fn add(&mut self, keys: &[u64]) -> Result<()> {
        for keys in keys.chunks(AT_ONCE) {
            let numbers = self.numbers.span(0..keys.len() * size_of::<u32>());
            let (Some(to), Some(numbers)) = (self.keys.span(0..size_of_val(keys)), numbers) else {
                continue;
            };
            self.stream.upload(to, bytemuck::cast_slice(keys)).map_err(failed)?;
            self.table.rows_or_insert(to, &Init::zeros(), numbers)?;
        }
        Ok(())
    }

    fn sorted(self: Box<Self>) -> Result<Vec<u64>> {
        Ok(self.table.sorted_keys()?)
    }
}
