//! Hash tables on the card: 10 million rows at half of the slots of their index, a million keys a call.

use anyhow::{Result, ensure};
use bireme_cuda::driver::{Event, Memory, Timing};
use bireme_cuda::table::{Init, RowShape, Table};
use bireme_engine::random::Philox;
use bireme_engine::random::RowInit;

use super::{Figure, Run};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableWork {
    /// Rows of keys that are there.
    Find,
    /// Keys that are all new, from an empty table on.
    Insert,
    /// As [`TableWork::Find`], by the call that would make missing rows.
    FindOrInsert,
    /// The numbers of the rows alone.
    Rows,
}

/// Sets of keys that calls take turns with, so that caches do not have the rows.
const SETS: usize = 8;

impl Run {
    /// Thousand million keys a second; the ratio is to rows of 64 bytes that are read by number.
    pub(super) fn table(&mut self, work: TableWork, width: usize) -> Result<Figure> {
        let reads = self.row_reads()?;
        let shape = RowShape { width, states: 0 };
        let (rows, batch) = self.scale.of((10_000_000, 1 << 20), (1000, 256));
        // Into an empty table, twice: the first time loads the kernels.
        let mut table = Table::new(&self.stream, shape, rows)?;
        let made = self.fill(&mut table, rows)?;
        let speed = if work == TableWork::Insert {
            drop(table);
            table = Table::new(&self.stream, shape, rows)?;
            let again = self.fill(&mut table, rows)?;
            made.max(again)
        } else {
            self.calls(work, &mut table, rows, batch)?
        };
        let has = table.len()?;
        ensure!(has == rows, "the table has {has} rows instead of {rows}");
        Ok(Figure::new(speed, "G keys/s", Some(speed / reads)))
    }

    /// Makes all rows in ten calls; thousand million keys a second.
    fn fill(&self, table: &mut Table, rows: usize) -> Result<f64> {
        let keys: Vec<u64> = (0..rows as u64).map(key).collect();
        let keys = self.put(&keys)?;
        let batch = rows / 10;
        let out = self.stream.allocate(batch * table.shape().width * 4)?;
        let init = Init { weights: RowInit::Constant(0.01), ..Init::zeros() };
        let event = || Event::new(self.stream.card(), Timing::On);
        let (start, end) = (event()?, event()?);
        self.stream.synchronize()?;
        self.stream.record(&start)?;
        for at in 0..10 {
            if let Some(keys) = keys.span(at * batch * 8..(at + 1) * batch * 8) {
                table.find_or_insert(keys, &init, out.whole())?;
            }
        }
        self.stream.record(&end)?;
        end.synchronize()?;
        Ok(rows as f64 / f64::from(end.milliseconds_since(&start)?) / 1e6)
    }

    /// Calls with random keys that are there.
    fn calls(&self, work: TableWork, table: &mut Table, rows: usize, batch: usize) -> Result<f64> {
        let random = Philox::new(9, "keys");
        let drawn = (0..(SETS * batch) as u64).map(|i| key(random.u64(i) % rows as u64));
        let keys = self.put(&drawn.collect::<Vec<u64>>())?;
        let out = self.stream.allocate(batch * table.shape().width * 4)?;
        let numbers = self.stream.allocate(batch * 4)?;
        let init = Init::zeros();
        let mut next = 0;
        let seconds = self.time(|| {
            let set = keys.span(next * batch * 8..(next + 1) * batch * 8);
            next = (next + 1) % SETS;
            let Some(keys) = set else { return Ok(()) };
            Ok(match work {
                TableWork::Find | TableWork::Insert => table.find(keys, out.whole()),
                TableWork::FindOrInsert => table.find_or_insert(keys, &init, out.whole()),
                TableWork::Rows => table.rows(keys, numbers.whole()),
            }?)
        })?;
        Ok(batch as f64 / seconds / 1e9)
    }

    fn put(&self, keys: &[u64]) -> Result<Memory> {
        let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_ne_bytes()).collect();
        let memory = self.stream.allocate(bytes.len())?;
        self.stream.upload(memory.whole(), &bytes)?;
        Ok(memory)
    }
}

/// The key of a row: numbers without a pattern, no two the same.
fn key(row: u64) -> u64 {
    let mut z = row.wrapping_add(0x0123_4567).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z ^ (z >> 32)
}
