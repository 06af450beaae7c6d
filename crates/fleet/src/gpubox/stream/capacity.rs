//! How many rows each table of a stream has, so that all of them together keep to the memory they may
//! take.
//!
//! Tables grow as their keys come, until the memory is used up; then rows leave instead. Which sizes
//! come out depends on the data alone.

/// The fewest rows that variables are made for, where there is memory.
const FEWEST: usize = 1024;

/// A table, and what a batch needs of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Rows of its variables; 0 before there are any.
    pub(super) capacity: usize,
    /// Keys that have rows.
    pub(super) held: usize,
    /// Keys of the batch.
    pub(super) named: usize,
    /// Those of them that have no row.
    pub(super) new: usize,
    /// Bytes of a row.
    pub(super) bytes: usize,
}

impl Need {
    /// Rows that the batch needs by itself, with the one of padding.
    fn least(&self) -> usize {
        self.named + 1
    }

    /// Rows with which nobody has to leave.
    fn whole(&self) -> usize {
        self.held + self.new + 1
    }
}

/// How many rows each table has for this batch. Where a batch alone takes more than `budget` bytes: how
/// many it takes.
pub(super) fn capacities(
    needs: &[Need],
    budget: Option<usize>,
) -> std::result::Result<Vec<usize>, usize> {
    let Some(budget) = budget else {
        return Ok(needs.iter().map(|need| grown(need, usize::MAX)).collect());
    };
    let alone: usize = needs.iter().map(|need| need.least() * need.bytes).sum();
    if alone > budget {
        return Err(alone);
    }
    let mut left = budget.checked_sub(needs.iter().map(|need| need.capacity * need.bytes).sum());
    let mut sizes = Vec::with_capacity(needs.len());
    for need in needs {
        let size = grown(need, need.capacity + left.unwrap_or(0) / need.bytes);
        if size < need.least() {
            return Ok(shared_anew(needs, budget - alone));
        }
        left = left.map(|left| left - (size - need.capacity) * need.bytes);
        sizes.push(size);
    }
    Ok(sizes)
}

/// The rows of a table that may have `most`.
fn grown(need: &Need, most: usize) -> usize {
    if need.capacity >= need.whole() {
        return need.capacity;
    }
    let roomy = (need.capacity * 2).max(need.whole() + need.whole() / 4).max(FEWEST);
    let size = roomy.min(most);
    // New variables for a few rows more are not worth it: rather, rows leave.
    let is_worth_it = size >= need.capacity + need.capacity / 4;
    if is_worth_it || need.capacity < need.least() { size } else { need.capacity }
}

/// What every table needs, and of the rest a part by what it has.
fn shared_anew(needs: &[Need], spare: usize) -> Vec<usize> {
    let weight = |need: &Need| (need.whole() * need.bytes) as u128;
    let all: u128 = needs.iter().map(weight).sum();
    let part = |need: &Need| (spare as u128 * weight(need) / all.max(1)) as usize / need.bytes;
    // None is larger than what it has keys for.
    needs.iter().map(|need| (need.least() + part(need)).min(grown(need, usize::MAX))).collect()
}

#[cfg(test)]
mod tests {
    use bireme_engine::random::Philox;

    use super::*;

    fn need(capacity: usize, held: usize, named: usize, new: usize) -> Need {
        Need { capacity, held, named, new, bytes: 10 }
    }

    #[test]
    fn a_table_grows_until_the_memory_is_used_up() {
        let of = |need, budget| capacities(&[need], Some(budget)).unwrap();
        assert_eq!(capacities(&[need(0, 0, 8, 8)], None).unwrap(), [FEWEST]);
        assert_eq!(of(need(0, 0, 8, 8), 100), [10]);
        assert_eq!(of(need(10, 8, 4, 1), 100), [10]);
        // It is full: rows leave.
        assert_eq!(of(need(10, 9, 4, 1), 100), [10]);
        assert_eq!(of(need(1000, 999, 4, 1), 40_000), [2000]);
        // A little more memory is no reason for new variables.
        assert_eq!(of(need(1000, 999, 4, 1), 10_100), [1000]);
        assert_eq!(of(need(1000, 999, 1004, 1004), 10_100), [1010]);
    }

    #[test]
    fn a_batch_that_needs_more_than_there_is_says_how_much() {
        assert_eq!(capacities(&[need(0, 0, 8, 8), need(0, 0, 4, 4)], Some(139)), Err(140));
        assert_eq!(capacities(&[need(0, 0, 8, 8), need(0, 0, 4, 4)], Some(140)).unwrap(), [9, 5]);
    }

    #[test]
    fn tables_keep_to_their_memory_and_every_batch_has_room() {
        let random = Philox::new(4, "batches of several tables");
        let mut draw = 0;
        let mut next = |below: usize| {
            draw += 1;
            random.u64(draw) as usize % below
        };
        for _ in 0..30 {
            let budget = 2000 + next(20_000);
            let mut tables = [(0, 0); 3];
            for _ in 0..200 {
                let needs = [40, 8, 17].map(|bytes| (next(60), bytes));
                let needs: Vec<Need> = tables
                    .iter()
                    .zip(needs)
                    .map(|(&(capacity, held), (named, bytes))| {
                        let new = named - next(named.min(held) + 1);
                        Need { capacity, held, named, new, bytes }
                    })
                    .collect();
                let Ok(sizes) = capacities(&needs, Some(budget)) else {
                    let least = needs.iter().map(|need| need.least() * need.bytes).sum::<usize>();
                    assert!(least > budget);
                    continue;
                };
                let taken: usize =
                    sizes.iter().zip(&needs).map(|(size, need)| size * need.bytes).sum();
                assert!(taken <= budget, "{needs:?} {sizes:?}");
                for ((table, size), need) in tables.iter_mut().zip(sizes).zip(&needs) {
                    assert!(size >= need.least(), "{needs:?}");
                    *table = (size, (need.held + need.new).min(size - 1));
                }
            }
        }
    }

    #[test]
    fn tables_give_up_rows_that_another_needs() {
        let sizes = capacities(&[need(90, 80, 10, 0), need(10, 9, 15, 15)], Some(1000)).unwrap();
        assert!(
            sizes[0] >= 11 && sizes[1] >= 16 && (sizes[0] + sizes[1]) * 10 <= 1000,
            "{sizes:?}"
        );
        assert!(sizes[0] > sizes[1], "{sizes:?}");
    }
}
