//! `spread_rows`: rows that lie with several ranks, each once, in the order of the ranks that have them.
//! Ours: how GPUBox asks other cards for rows, see `transpiler/src/gpubox/ranks.rs`.
//!
//! A row of a rank is one number, [`global_row`]: those of rank 0 first. Out come `Wanted`, for each rank as
//! many row numbers as `Room` has elements, and for each number of `Rows` its place there. Row 0 of a rank is
//! nobody's: it fills what is left, and the first place of each rank, so that place 0 stands for padding.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("spread_rows", kernel)
    .inputs(&[Slot::many("Rows"), Slot::one("W"), Slot::one("Room")])
    .outputs(&[Slot::many("Places"), Slot::one("Wanted")])
    .attrs(&[attr::int("ranks", 1)])
    .shared(&["W"])
    .infer(infer);

/// Row `row` of rank `rank`, among those of ranks that have `rows` each.
pub fn global_row(rank: usize, row: u64, rows: usize) -> u64 {
    rank as u64 * rows as u64 + row
}

/// The rank that has the row of a key, of so many.
pub fn owner(key: u64, ranks: usize) -> usize {
    // Other bits than those by which an index finds its slots.
    let mixed = (key ^ (key >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    ((mixed >> 32) % ranks.max(1) as u64) as usize
}

fn ranks(op: &OpView<'_>) -> Result<usize> {
    let ranks = op.i64("ranks")?;
    usize::try_from(ranks)
        .ok()
        .filter(|ranks| *ranks > 0)
        .ok_or_else(|| Error::kernel(format!("`ranks` is {ranks}, but must be at least 1")))
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let room = cx.input("Room")?.dims.first().copied().unwrap_or(1);
    let ranks = ranks(cx.op())? as i64;
    let rows = cx.inputs("Rows");
    if let Some(other) = rows.iter().find(|rows| rows.dtype != DType::I64) {
        return Err(Error::kernel(format!("row numbers are int64, not {}", other.dtype)));
    }
    let places: Vec<Meta> = rows.into_iter().cloned().collect();
    cx.set_each("Places", places);
    cx.set("Wanted", Meta::new(DType::I32, [if room < 0 { -1 } else { ranks * room }]));
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (rows, table, room) = (op.inputs("Rows"), op.input("W")?, op.input("Room")?);
    let (mut places, mut wanted) = (op.outputs("Places"), op.output("Wanted")?);
    let ranks = ranks(op)?;
    let mut spread = Spreading::default();
    Ok(Box::new(move |run| {
        spread.each = run.tensor(table)?.rows() as u64;
        spread.room = run.tensor(room)?.rows();
        spread.rows.clear();
        for rows in &rows {
            spread.rows.extend(run.get::<i64>(*rows)?.iter().map(|row| *row as u64));
        }
        spread.rows.sort_unstable();
        spread.rows.dedup();
        let to = run.out(&mut wanted)?;
        to.resize(DType::I32, [ranks * spread.room]);
        spread.want(ranks, to.as_mut_slice()?)?;
        for (rows, out) in rows.iter().zip(&mut places) {
            let (from, to) = (run.tensor(*rows)?, run.out(out)?);
            to.resize(DType::I64, from.dims());
            to.set_lod(from.lod());
            let to = to.as_mut_slice::<i64>()?;
            for (row, to) in from.as_slice::<i64>()?.iter().zip(to) {
                *to = spread.place(*row as u64);
            }
        }
        Ok(())
    }))
}

/// The distinct rows of a batch; its memory is used again in every step.
#[derive(Default)]
struct Spreading {
    /// In rising order.
    rows: Vec<u64>,
    /// Where those of each rank begin among them.
    firsts: Vec<usize>,
    /// Rows that each rank has.
    each: u64,
    /// Places for rows of each rank.
    room: usize,
}

impl Spreading {
    /// Writes the numbers that each rank's rows have there.
    fn want(&mut self, ranks: usize, wanted: &mut [i32]) -> Result<()> {
        wanted.fill(0);
        self.firsts.clear();
        for (rank, wanted) in wanted.chunks_exact_mut(self.room.max(1)).enumerate().take(ranks) {
            let lowest = rank as u64 * self.each;
            // Row 0 is nobody's.
            let first = self.rows.partition_point(|row| *row <= lowest);
            let end = self.rows.partition_point(|row| *row < lowest + self.each);
            self.firsts.push(first);
            let own = &self.rows[first.min(end)..end];
            if own.len() >= self.room {
                return Err(Error::kernel(too_many_rows(own.len(), rank, self.room)));
            }
            for (row, to) in own.iter().zip(&mut wanted[1..]) {
                *to = i32::try_from(row - lowest)
                    .map_err(|_| Error::kernel(format!("row {row} has no number of 32 bits")))?;
            }
        }
        match self.rows.last() {
            Some(last) if *last >= ranks as u64 * self.each => {
                let each = self.each;
                Err(Error::kernel(format!(
                    "row {last} is of none of {ranks} ranks, of {each} rows"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Where a row will stand that the batch has.
    fn place(&self, row: u64) -> i64 {
        let rank = row.checked_div(self.each).unwrap_or(0) as usize;
        let (Ok(at), Some(first)) = (self.rows.binary_search(&row), self.firsts.get(rank)) else {
            return 0;
        };
        // Row 0 of a rank stands before the first that is somebody's.
        at.checked_sub(*first).map_or(0, |at| (rank * self.room + 1 + at) as i64)
    }
}

/// What is wrong with a batch that names more rows of one rank than there is room for.
pub(crate) fn too_many_rows(count: usize, rank: usize, room: usize) -> String {
    format!(
        "a batch has {count} distinct keys whose rows lie with rank {rank}, and this pass was begun with \
         room for {}: begin it with the batches that it trains, of the size that it trains them in",
        room.saturating_sub(1)
    )
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn op() -> Op {
        Op::new("spread_rows")
            .input("Rows", ["a", "b"])
            .input("W", ["w"])
            .input("Room", ["room"])
            .output("Places", ["x", "y"])
            .output("Wanted", ["wanted"])
            .attr("ranks", 2)
    }

    fn values(a: &[i64], b: &[i64], room: usize) -> HashMap<String, Value> {
        HashMap::from([
            ("a".to_owned(), Tensor::from_slice([a.len(), 1], a).unwrap().into()),
            ("b".to_owned(), Tensor::from_slice([b.len()], b).unwrap().into()),
            ("w".to_owned(), Tensor::from_slice([10, 1], &[0.0f32; 10]).unwrap().into()),
            ("room".to_owned(), Tensor::from_slice([room], &vec![0i32; room]).unwrap().into()),
        ])
    }

    #[test]
    fn each_row_is_asked_for_once_of_the_rank_that_has_it() {
        // Rows 3 and 7 of rank 0, 5 and 9 of rank 1; 0 is padding.
        let mut values = values(&[7, 15, 7, 0], &[3, 19, 15], 4);
        run_once(&op(), &mut values).unwrap();
        let wanted = values["wanted"].tensor().unwrap().as_slice::<i32>().unwrap();
        assert_eq!(wanted, [0, 3, 7, 0, 0, 5, 9, 0]);
        let places = |name: &str| values[name].tensor().unwrap().as_slice::<i64>().unwrap();
        assert_eq!(places("x"), [2, 5, 2, 0]);
        assert_eq!(places("y"), [1, 6, 5]);
        assert_eq!(&*values["x"].tensor().unwrap().dims(), [4, 1]);
    }

    #[test]
    fn a_batch_with_more_rows_than_there_is_room_for_is_refused() {
        let error = run_once(&op(), &mut values(&[11, 12, 13], &[1], 3)).unwrap_err().to_string();
        assert!(error.contains("3 distinct keys whose rows lie with rank 1"), "{error}");
        assert!(error.contains("room for 2"), "{error}");
        let error = run_once(&op(), &mut values(&[20], &[], 3)).unwrap_err().to_string();
        assert!(error.contains("row 20 is of none of 2 ranks"), "{error}");
    }
}
