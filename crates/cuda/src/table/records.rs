//! Whole rows in and out, in the order of their keys: what checkpoints are made of.

use super::call::Call;
use super::error::Result;
use super::launch::Launch;
use super::{Init, KEY, NUMBER, Table, argument};
use crate::driver::Memory;

impl Table {
    /// Shows all rows, `chunk` at a time, in rising order of their keys: the keys, and their whole records one after
    /// another. Waits for the card.
    ///
    /// # Errors
    /// When the card fails or has no memory for a chunk, or when `look` fails.
    pub fn export<E: From<super::Error>>(
        &self,
        chunk: usize,
        mut look: impl FnMut(&[u64], &[f32]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let rows = self.sorted_rows()?;
        let columns = self.shape.columns();
        let mut records = Vec::new();
        for rows in rows.chunks(chunk.max(1)) {
            let (keys, numbers): (Vec<u64>, Vec<u32>) = rows.iter().copied().unzip();
            records.resize(keys.len() * columns, 0.0f32);
            self.read(&numbers, &mut records)?;
            look(&keys, &records)?;
        }
        Ok(())
    }

    /// Makes or overwrites rows: their keys, none of which may occur twice, and their whole records one after another.
    /// Waits for the card.
    ///
    /// # Errors
    /// When the sizes do not fit, a key occurs twice, or there is no memory for new rows.
    pub fn import(&mut self, keys: &[u64], records: &[f32]) -> Result<()> {
        let columns = self.shape.columns();
        if records.len() != keys.len() * columns {
            let (floats, wants) = (records.len(), keys.len() * columns);
            let problem = format!("{floats} floats for records that have {wants}");
            return Err(argument(Call::Import, problem));
        }
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(argument(Call::Import, format!("key {} occurs twice", pair[0])));
        }
        let on_card = self.put(bytemuck::cast_slice(keys))?;
        let values = self.put(bytemuck::cast_slice(records))?;
        let numbers = self.stream.allocate(keys.len() * NUMBER)?;
        self.rows_or_insert(on_card.whole(), &Init::zeros(), numbers.whole())?;
        self.scatter(numbers.whole(), values.whole())?;
        self.len().map(|_| ())
    }

    /// All keys, in rising order.
    pub(crate) fn sorted_keys(&self) -> Result<Vec<u64>> {
        let mut keys = self.keys_by_row()?;
        keys.sort_unstable();
        Ok(keys)
    }

    /// All keys with the numbers of their rows, in rising order.
    pub(super) fn sorted_rows(&self) -> Result<Vec<(u64, u32)>> {
        let mut rows: Vec<(u64, u32)> = self.keys_by_row()?.into_iter().zip(0..).collect();
        rows.sort_unstable();
        Ok(rows)
    }

    /// The key of each row.
    fn keys_by_row(&self) -> Result<Vec<u64>> {
        let mut keys = vec![0u64; self.len()?];
        let on_card = self.stream.allocate(keys.len() * KEY)?;
        let launch = Launch::new("table_keys").value(self.index.raw()).value(on_card.address());
        launch.over(&self.stream, self.index.groups() + 1)?;
        self.stream.download(bytemuck::cast_slice_mut(&mut keys), on_card.whole())?;
        Ok(keys)
    }

    /// Whole records by the numbers of their rows.
    fn read(&self, numbers: &[u32], records: &mut [f32]) -> Result<()> {
        let columns = self.shape.columns();
        let on_card = self.put(bytemuck::cast_slice(numbers))?;
        let out = self.stream.allocate(size_of_val(records))?;
        let (numbers, count) = (on_card.whole(), numbers.len());
        self.gather_rows(Call::Gather, 0, numbers, count, columns, Some(out.whole()))?;
        self.stream.download(bytemuck::cast_slice_mut(records), out.whole())?;
        Ok(())
    }

    /// A copy of bytes of the host.
    pub(super) fn put(&self, bytes: &[u8]) -> Result<Memory> {
        let memory = self.stream.allocate(bytes.len())?;
        self.stream.upload(memory.whole(), bytes)?;
        Ok(memory)
    }
}
