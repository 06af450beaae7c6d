//! Rows that go. The rows behind them move into their places, so that those that are left stay without gaps.

use super::call::Call;
use super::error::Result;
use super::launch::Launch;
use super::plan::PIECE;
use super::{NO_ROW, NUMBER, Table, pieces};

impl Table {
    /// Removes the rows of keys, where they have any; says how many went. Numbers of rows that were asked for before
    /// are not right any more. Waits for the card.
    ///
    /// # Errors
    /// When the card fails, or has no memory for a second index; the table is then as it was.
    pub fn remove(&mut self, keys: &[u64]) -> Result<usize> {
        let rows = self.len()?;
        let on_card = self.put(bytemuck::cast_slice(keys))?;
        let found = self.stream.allocate(keys.len() * NUMBER)?;
        self.items(Call::Remove, "keys", on_card.whole(), super::KEY)?;
        self.rows(on_card.whole(), found.whole())?;
        let mut gone = vec![0u32; keys.len()];
        self.stream.download(bytemuck::cast_slice_mut(&mut gone), found.whole())?;
        gone.retain(|number| *number != NO_ROW);
        gone.sort_unstable();
        gone.dedup();
        if gone.is_empty() {
            return Ok(0);
        }
        let left = rows - gone.len();
        let (renumbered, moves) = compacted(rows, &gone);
        let numbers = self.put(bytemuck::cast_slice(&renumbered))?;
        let on_card = self.put(bytemuck::cast_slice(&moves))?;
        let counts = [left as u32, 0];
        let index = self.index.rebuilt(&self.stream, self.index.groups(), Some(&numbers))?;
        let columns = self.shape.pitch();
        let launch = Launch::new("table_move").value(self.blocks.raw()).value(on_card.address());
        let launch = launch.value(moves.len() as i64).value(pieces(columns));
        launch.over(&self.stream, moves.len() * columns / PIECE)?;
        self.stream.upload(self.counts.whole(), bytemuck::cast_slice(&counts))?;
        self.stream.synchronize()?;
        self.index = index;
        self.made_at_most = left;
        Ok(gone.len())
    }
}

/// The new number of each row when those of `gone`, which rise, are taken out, and which rows move for that: the last
/// ones to the places that are free before them.
fn compacted(rows: usize, gone: &[u32]) -> (Vec<u32>, Vec<[u32; 2]>) {
    let left = rows - gone.len();
    let mut renumbered: Vec<u32> = (0..rows as u32).collect();
    for number in gone {
        renumbered[*number as usize] = NO_ROW;
    }
    let free = gone.iter().copied().filter(|number| (*number as usize) < left);
    let behind = (left as u32..rows as u32).filter(|number| renumbered[*number as usize] != NO_ROW);
    let moves: Vec<[u32; 2]> = behind.zip(free).map(|(from, to)| [from, to]).collect();
    for [from, to] in &moves {
        renumbered[*from as usize] = *to;
    }
    (renumbered, moves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rows_fill_the_gaps() {
        let (renumbered, moves) = compacted(7, &[1, 2, 5]);
        assert_eq!(renumbered, [0, NO_ROW, NO_ROW, 3, 1, NO_ROW, 2]);
        assert_eq!(moves, [[4, 1], [6, 2]]);
        assert_eq!(compacted(2, &[0, 1]).1, [[0; 2]; 0]);
    }
}
